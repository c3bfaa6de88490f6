#!/usr/bin/env bash
# profile.sh [--step NAME] [--build DIR] ARGS...: `flashbench profile ARGS...` under Nsight Compute; a line a kernel.
# --step: only the launches inside that NVTX step (naive: QK, softmax, PV; the others: attention).
# --build: the folder that holds flashbench (default: build, brought up to date).
# For everything ncu knows, take the command lines that `flashbench profile` prints.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

step='' build=''
while [ $# -gt 0 ]; do
  case $1 in
    --step | --build)
      [ $# -ge 2 ] || { echo "profile.sh: $1 needs a value" >&2 && exit 2; }
      if [ "$1" = --step ]; then step=$2; else build=$2; fi
      shift 2
      ;;
    *) break ;;
  esac
done
command -v ncu >/dev/null || { echo "profile.sh: ncu is not on the PATH (it comes with the CUDA toolkit)" >&2 && exit 3; }
if [ -z "$build" ]; then
  build=$root/build
  # Sourced in a shell of its own: it sets options of its own.
  (. "$root/scripts/setup.sh" && need_build && build release build flashbench) || exit 3
fi

filter=()
if [ -n "$step" ]; then filter=(--nvtx --nvtx-include "flashbench@$step]"); fi
metrics=gpu__time_duration.sum,dram__bytes_read.sum,dram__bytes_write.sum,dram__throughput.avg.pct_of_peak_sustained_elapsed

report=$(mktemp)
trap 'rm -f "$report"' EXIT
ncu "${filter[@]}" --profile-from-start off --metrics "$metrics" --csv --print-units base --log-file "$report" \
  "$build/flashbench" profile "$@" >&2

echo "\$ ncu ${filter[*]} --profile-from-start off ... flashbench profile $*"
python3 - "$report" <<'PYTHON'
import csv, sys

lines = [line for line in open(sys.argv[1]) if line.startswith('"')]
launches = {}
for row in csv.DictReader(lines):
    launch = launches.setdefault(row["ID"], {"kernel": row["Kernel Name"].split("(")[0].split("<")[0].split("::")[-1]})
    launch[row["Metric Name"]] = float(row["Metric Value"].replace(",", ""))
if not launches:
    sys.exit("profile.sh: ncu saw no launch:\n" + open(sys.argv[1]).read())
print(f"{'kernel':<40} {'time':>10} {'read':>11} {'written':>11} {'DRAM':>7}")
for launch in launches.values():
    print(f"{launch['kernel'][:40]:<40} {launch['gpu__time_duration.sum'] / 1e6:>7.3f} ms"
          f" {launch['dram__bytes_read.sum'] / 1e9:>8.3f} GB {launch['dram__bytes_write.sum'] / 1e9:>8.3f} GB"
          f" {launch['dram__throughput.avg.pct_of_peak_sustained_elapsed']:>5.1f} %")
PYTHON
