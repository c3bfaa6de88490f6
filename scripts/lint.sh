#!/usr/bin/env bash
# lint.sh [--fix] [format] [tidy] [BUILD_DIR]   both by default; BUILD_DIR (default build/) holds compile_commands.json
#
# format: clang-format over every C++ and CUDA source. tidy: clang-tidy over what the host compiler compiles.
# --fix rewrites the layout; tidy's findings are for people. Exit code 1 where something is found.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fix=false
parts=()
build=build
for argument in "$@"; do
  case $argument in
    --fix) fix=true ;;
    format | tidy) parts+=("$argument") ;;
    *) build=$argument ;;
  esac
done
[ ${#parts[@]} -gt 0 ] || parts=(format tidy)

tool() {
  local path=.venv/bin/$1
  [ -x "$path" ] || { echo "lint: $path is missing; scripts/test installs it" >&2; exit 3; }
  echo "$path"
}

format() {
  local mode=(--dry-run --Werror)
  if $fix; then mode=(-i); fi
  git ls-files -z --cached --others --exclude-standard -- '*.cpp' '*.h' '*.cu' '*.cuh' |
    while IFS= read -r -d '' file; do if [ -f "$file" ]; then printf '%s\0' "$file"; fi; done |
    xargs -0 -n 20 -P "$(nproc)" "$(tool clang-format)" "${mode[@]}"
}

tidy() {
  # The longest files first, so that none is left alone at the end. clang does not know every warning that GCC is told of.
  python3 - "$build/compile_commands.json" <<'PYTHON' |
import json, os, re, sys
root = os.getcwd()
files = {entry["file"] for entry in json.load(open(sys.argv[1]))}
ours = [f for f in files if re.match(re.escape(root) + r"/(src|reference|kernels|cli|tests)/.*\.cpp$", f)]
ours = [f for f in ours if os.path.exists(f)]
print("\n".join(sorted(ours, key=lambda f: -os.path.getsize(f))))
PYTHON
    xargs -d '\n' -n 1 -P "$(nproc)" "$(tool clang-tidy)" -p "$build" --quiet --extra-arg=-Wno-unknown-warning-option --extra-arg=-Wno-deprecated-declarations \
      2> >(grep -v 'warnings generated\|^$' >&2)
}

status=0
for part in "${parts[@]}"; do
  "$part" || status=1
done
exit $status
