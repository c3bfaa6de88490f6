#!/bin/sh
# keep_ptxas_report.sh COMPILER ARGS...: runs the compiler and moves what ptxas -v says from its stderr to OBJECT.ptxas,
# where OBJECT follows -o.
object=
previous=
for argument in "$@"; do
  if [ "$previous" = -o ]; then object=$argument; fi
  previous=$argument
done
case $object in
  *.o) ;;
  *) exec "$@" ;;
esac

messages=$object.messages
"$@" 2>"$messages"
status=$?
is_report='^ptxas info|^    [0-9]+ bytes stack frame|^$'
grep -E "$is_report" "$messages" >"$object.ptxas"
grep -vE "$is_report" "$messages" >&2
rm -f "$messages"
exit $status
