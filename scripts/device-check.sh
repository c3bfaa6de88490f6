#!/usr/bin/env bash
# device-check.sh [--build DIR] [--only PART[,PART...]] [--sweeps NAME[,NAME...]] [--logs DIR]
# Does on a machine with a GPU what a machine without one cannot, and records it under results/<device>/.
# Parts, in this order:
#   tests     the tests that need a device
#   sanitize  compute-sanitizer over a small sweep of every kernel
#   verify    flashbench verify, the whole suite
#   sweeps    the runs that README.md quotes (the list below)
# --build: a folder that holds flashbench and tests/flashbench_gpu_tests already (default: build, brought up to date).
# --logs: a folder that keeps everything that was printed. What has passed there, on the same kind of device and for the same
#   sources, counts: parts can be run one by one.
# A run's file is replaced once the run has passed, and verified.json, which says for which sources the tests, the
# sanitizer and the suite have passed, once those three have. Exit code 1 where anything failed.
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root" || exit 3

build='' only=tests,sanitize,verify,sweeps chosen='' logs=''
while [ $# -gt 0 ]; do
  case $1 in
    --build | --only | --sweeps | --logs)
      [ $# -ge 2 ] || { echo "device-check.sh: $1 needs a value" >&2 && exit 2; }
      case $1 in --build) build=$2 ;; --only) only=$2 ;; --sweeps) chosen=$2 ;; --logs) logs=$2 ;; esac
      shift 2
      ;;
    *) echo "device-check.sh: unknown argument '$1' (accepted: --build DIR, --only PARTS, --sweeps NAMES, --logs DIR)" >&2 && exit 2 ;;
  esac
done

# name | time limit in seconds | arguments of flashbench sweep
sweeps() {
  cat <<'LIST'
fused|150|--device cuda --tokens 16384 --hidden 2048 --head-dim 64,128,256 --n 512..16k --mask none,causal --impl fused-wgmma,cudnn,fused-mma --counters off --time-limit 0.2
sweep|240|--device cuda --mask none,causal --time-limit 0.25
counters|150|--device cuda --head-dim 64,128,256 --n 1k..32k --mask none,causal --impl naive,fused-wgmma,fused-mma --counters on --time-limit 0.05
sweep-dims|90|--device cuda --head-dim 64,256 --n 512..32k --mask none,causal --time-limit 0.1 --impl naive,fused
sweep-f32|150|--device cuda --dtype f32 --n 512..16k --counters off --time-limit 0.1 --impl naive,fused
sweep-f16|90|--device cuda --dtype f16 --n 512..32k --mask none,causal --time-limit 0.1 --impl naive,fused
sweep-1m|90|--device cuda --n 1M --heads 1 --impl fused-wgmma,fused-mma --samples 3 --counters off
fused-f16|90|--device cuda --tokens 16384 --hidden 2048 --head-dim 64,128,256 --n 4k,16k --dtype f16 --mask none,causal --impl fused-wgmma,cudnn,fused-mma --counters off --time-limit 0.2
fused-sustained|200|--device cuda --load sustained --tokens 16384 --hidden 2048 --head-dim 64,128,256 --n 512..16k --mask none,causal --impl fused-wgmma,cudnn --counters off --time-limit 0.1
fused-sustained-f16|90|--device cuda --load sustained --tokens 16384 --hidden 2048 --head-dim 64,128,256 --n 4k,16k --dtype f16 --mask none,causal --impl fused-wgmma,cudnn --counters off --time-limit 0.1
approximate|90|--device cuda --n 1k..16k --impl naive,fused,sliding-window,linear,block-topk,lowrank --time-limit 0.1
repeat-a|60|--device cuda --head-dim 64,128,256 --n 4k..16k --mask none,causal --counters off --time-limit 0.2 --impl naive,fused
repeat-b|60|--device cuda --head-dim 64,128,256 --n 4k..16k --mask none,causal --counters off --time-limit 0.2 --impl naive,fused
LIST
}

wants() { case ",$only," in *",$1,"*) return 0 ;; esac; return 1; }
for part in ${only//,/ }; do
  case $part in
    tests | sanitize | verify | sweeps) ;;
    *) echo "device-check.sh: unknown part '$part' (accepted: tests, sanitize, verify, sweeps)" >&2 && exit 2 ;;
  esac
done
for name in ${chosen//,/ }; do
  sweeps | grep -q "^$name|" || { echo "device-check.sh: unknown sweep '$name' (accepted: $(sweeps | cut -d'|' -f1 | xargs))" >&2 && exit 2; }
done

gpu=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -1)
[ -n "$gpu" ] || { echo "device-check.sh: no NVIDIA GPU answers on this machine" >&2 && exit 3; }
device=$(echo "$gpu" | tr '[:upper:]' '[:lower:]' | sed -E 's/^(nvidia|tesla|geforce) +//; s/[^a-z0-9]+/-/g')
out=results/$device
if [ -n "$logs" ]; then
  work=$logs
  mkdir -p "$work"
else
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
fi
mkdir -p "$out"

if [ -z "$build" ]; then
  build=build
  # Sourced in a shell of its own: it sets options of its own.
  (. scripts/setup.sh && build release build all) || exit 3
fi
program=$build/flashbench
gpu_tests=$build/tests/flashbench_gpu_tests
sources=$(find kernels src reference -type f | LC_ALL=C sort | xargs sha256sum | sha256sum | cut -c1-64)

failed=()
note() { printf '%s\n' "$*" >>"$work/facts"; } # KEY=VALUE lines for verified.json
# part NAME COMMAND...: runs it, keeps its output, says how it ended.
part() {
  local name=$1 start=$SECONDS code=0
  shift
  "$@" >"$work/$name.log" 2>&1 || code=$?
  if [ $code -eq 0 ]; then
    echo "$gpu $sources" >"$work/$name.passed"
  else
    failed+=("$name")
    rm -f "$work/$name.passed"
    tail -n 30 "$work/$name.log"
  fi
  echo "$name: exit code $code after $((SECONDS - start)) s"
  return $code
}

if wants tests; then
  part tests timeout 240 "$gpu_tests" --gtest_brief=1
  note "tests.passed=$(sed -nE 's/^\[  PASSED  \] ([0-9]+) tests?\.$/\1/p' "$work/tests.log" | tail -1)"
  note "tests.skipped=$(sed -nE 's/^\[  SKIPPED \] ([0-9]+) tests?, .*/\1/p' "$work/tests.log" | tail -1)"
fi

# What initcheck may not name, as in a report's lines.
our_kernels='fused_|softmax_|sliding_window_|block_topk_|choice_kernel|mean_rows_|state_kernel|prefix_kernel|output_kernel'

# A tool of compute-sanitizer over a small sweep, its report in a file. The tool takes device memory of its own, which the
# sweep reports as a cell's failure (exit code 3): that one failure is excused, any other, a wrong output (1) and what the
# tool finds (9) are not. initcheck is judged by the implementations' own kernels: it also reports what only the harness reads.
sanitize() {
  local code=0 report=$work/$1.report table=$work/$1.table
  timeout 150 compute-sanitizer --tool "$1" --error-exitcode 9 --print-limit 20000 --log-file "$report" \
    "$program" sweep --device cuda --n 65,200 --head-dim 64,128,256 --heads 2 --kv-heads 1 --dtype bf16 \
    --mask none,causal --impl fused-wgmma,fused-mma,fused-simt,sliding-window,linear,block-topk,lowrank --samples 1 \
    --counters off --no-references --curves off >"$table" 2>&1 || code=$?
  cat "$table"
  grep SUMMARY "$report"
  # The kernels that the report names, the most often named first.
  grep -oE ' at .*' "$report" | grep -oE '[a-z_]+(<[^>]*>+)?\(' | sort | uniq -c | sort -rn | head -8
  case $code in
    0) return 0 ;;
    3) grep -q 'FAILED: ' "$table" && ! grep 'FAILED: ' "$table" | grep -v 'of device memory behind the harness$' ;;
    9) [ "$1" = initcheck ] && ! grep -E " at .*($our_kernels)" "$report" ;;
    *) return "$code" ;;
  esac
}

if wants sanitize; then
  for tool in memcheck racecheck synccheck initcheck; do
    part "sanitize-$tool" sanitize "$tool"
    note "sanitizer.$tool=$(grep -oE 'SUMMARY: [0-9]+' "$work/sanitize-$tool.log" | grep -oE '[0-9]+$' | head -1)"
    tail -n 9 "$work/sanitize-$tool.log"
  done
fi

# verify.json is kept whole. A library's failure is on record there and fails nothing here; an approximation must be
# called not exact somewhere.
verify() {
  local code=0
  timeout 300 "$program" verify --device cuda --json "$work/verify.json" || code=$?
  [ $code -le 1 ] && python3 - "$work/verify.json" <<'PY'
import json, sys

run = json.load(open(sys.argv[1]))
kinds = {item["name"]: item["kind"] for item in run["implementations"]}
outcomes = [(case["name"], outcome["implementation"], outcome["status"]) for case in run["cases"] for outcome in case["outcomes"]]
complaints = []
for case, name, status in outcomes:
    bad = {"library": (), "approximate": ("failed", "not_run")}.get(kinds[name], ("wrong", "failed", "not_run"))
    if status in bad:
        complaints.append(f"{name} is not right on {case}: {status}")
for name, kind in kinds.items():
    if kind == "approximate" and not any(named == name and status == "wrong" for _, named, status in outcomes):
        complaints.append(f"{name}, an approximation, is nowhere called not exact")
print("\n".join(complaints))
sys.exit(bool(complaints))
PY
}

if wants verify; then
  part verify verify
  note "verify.summary=$(grep -E '^[0-9]+ cases x' "$work/verify.log" | tail -1)"
fi

missing=()
for name in tests sanitize-memcheck sanitize-racecheck sanitize-synccheck sanitize-initcheck verify; do
  [ "$(cat "$work/$name.passed" 2>/dev/null)" = "$gpu $sources" ] || missing+=("$name")
done
if wants tests || wants sanitize || wants verify; then
  if [ ${#missing[@]} -eq 0 ]; then
    cp "$work/verify.json" "$out/verify.json"
    python3 - "$work/facts" "$out/verified.json" "$gpu" "$sources" <<'PY'
import json, subprocess, sys
from datetime import datetime, timezone

facts, target, gpu, sources = sys.argv[1:]
record = {"device": gpu, "sources_sha256": sources,
          "driver": subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"],
                                   capture_output=True, text=True).stdout.split()[0],
          "checked_utc": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")}
for line in open(facts):
    key, _, value = line.rstrip("\n").partition("=")
    group, _, name = key.partition(".")
    record.setdefault(group, {})[name] = int(value) if value.isdigit() else value or 0
with open(target, "w") as file:
    json.dump(record, file, indent=2)
    file.write("\n")
PY
    echo "verified: $out/verified.json"
  else
    echo "not verified, these have not passed: ${missing[*]}"
  fi
fi

if wants sweeps; then
  while IFS='|' read -r name limit arguments; do
    case ",${chosen:-$name}," in *",$name,"*) ;; *) continue ;; esac
    # shellcheck disable=SC2086 # a list of words
    if part "$name" timeout "$limit" "$program" sweep $arguments --curves off -o "$work/$name.json"; then
      cp "$work/$name.json" "$out/$name.json"
    fi
    tail -n 1 "$work/$name.log"
  done < <(sweeps)
fi

if [ ${#failed[@]} -gt 0 ]; then
  echo "failed: ${failed[*]}"
  exit 1
fi
echo "all passed on $gpu: $only"
