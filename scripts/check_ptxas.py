#!/usr/bin/env python3
"""check_ptxas.py BUILD_DIR: fails where ptxas spilled registers in a kernel that must not spill.

Reads the reports that cmake/keep_ptxas_report.sh left beside the objects, and prints a line for each kernel file.
"""

import re
import subprocess
import sys
from pathlib import Path

# Kernels whose inner loops live in registers: a spill there costs more than any tuning gains.
MUST_NOT_SPILL = [
    "kernels/sm80/fused_mma.cu",
    "kernels/sm80/sliding_window.cu",
    "kernels/sm80/block_topk.cu",
    "kernels/sm90/fused_wgmma.cu",
]

ENTRY = re.compile(r"Compiling entry function '(\S+)' for '(\S+)'")
FUNCTION = re.compile(r"Function properties for (\S+)")
SPILL = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
REGISTERS = re.compile(r"Used (\d+) registers")


def demangle(name):
    try:
        return subprocess.run(["c++filt", name], capture_output=True, text=True).stdout.strip() or name
    except FileNotFoundError:
        return name


def check(source, report):
    """Prints what the report says of one source; returns whether it is free of spills."""
    kernels, registers, spilled, architecture, function = 0, 0, [], "", ""
    for line in report.read_text().splitlines():
        if match := ENTRY.search(line):
            kernels += 1
            architecture = match[2]
        elif match := FUNCTION.search(line):
            function = match[1]
        elif match := SPILL.search(line):
            if int(match[2]) or int(match[3]):
                spilled.append(f"  {demangle(function)} for {architecture}: {match[2]} bytes stored, {match[3]} loaded")
        elif match := REGISTERS.search(line):
            registers = max(registers, int(match[1]))
    if kernels == 0:
        print(f"{source}: only PTX in this build, nothing to check")
        return True
    print(f"{source}: {kernels} kernels, at most {registers} registers, {len(spilled)} spill")
    print("\n".join(spilled), end="\n" if spilled else "")
    return not spilled


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    root, build, good = Path(__file__).resolve().parent.parent, Path(sys.argv[1]), True
    for source in MUST_NOT_SPILL:
        reports = list(build.glob(f"CMakeFiles/*/{source}.o.ptxas"))
        if not (root / source).exists():
            print(f"{source}: no such kernel")
            good = False
        elif not reports:
            print(f"{source}: no report of ptxas in {build}")
            good = False
        else:
            good = all([check(source, report) for report in reports]) and good
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
