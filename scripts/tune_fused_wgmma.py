#!/usr/bin/env python3
"""Measures alternatives to the entries of kernels/sm90/fused_wgmma_table.h on this machine's GPU and names the best.

    scripts/tune_fused_wgmma.py BUILD_DIR [--head-dim 128] [--n 512..16k] [--dtype bf16] [--dry-run]

For each alternative the kernel is compiled again with a table that holds it (an overlay in front of the include path;
the sources stay as they are), `flashbench sweep` runs it beside cudnn, every median is divided by cudnn's of the same
run, and the geometric mean over the cells is printed. Alternatives that break a hardware limit do not compile, and that
is said. The build directory is left with the table of the sources again.
"""

import argparse
import json
import math
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TABLE = Path("kernels/sm90/fused_wgmma_table.h")

# head_dim, warpgroups, block, stages, q_buffers, producer registers, consumer registers, overlap
ALTERNATIVES = {
    64: ["64, 4, 64, 4, 2, 32, 112, false", "64, 4, 64, 4, 2, 32, 112, true",
         "64, 3, 64, 4, 2, 32, 160, true", "64, 3, 128, 2, 2, 32, 160, false",
         "64, 3, 128, 2, 2, 32, 160, true", "64, 2, 128, 3, 2, 40, 232, true"],
    96: ["96, 3, 64, 4, 2, 32, 160, true", "96, 3, 80, 3, 2, 32, 160, true",
         "96, 3, 96, 2, 2, 32, 160, true", "96, 2, 128, 2, 2, 40, 232, true"],
    128: ["128, 3, 64, 4, 2, 32, 160, true", "128, 3, 80, 3, 2, 32, 160, true",
          "128, 3, 64, 4, 1, 32, 160, true", "128, 2, 128, 2, 2, 40, 232, true",
          "128, 2, 64, 4, 2, 40, 232, true"],
    192: ["192, 2, 64, 3, 1, 40, 232, true", "192, 2, 80, 2, 1, 40, 232, true",
          "192, 2, 96, 2, 1, 40, 232, true"],
    256: ["256, 2, 64, 2, 1, 40, 232, true", "256, 2, 80, 2, 1, 40, 232, true",
          "256, 2, 64, 2, 1, 40, 232, false"],
}


def table_with(entry):
    """The text of the table with `entry` in the place of the one of its head dimension."""
    text = (ROOT / TABLE).read_text()
    head_dim = entry.split(",")[0]
    new, count = re.subn(r"\{" + head_dim + r", [^}]*\}", "{" + entry + "}", text)
    if count != 1:
        sys.exit(f"{TABLE} has {count} entries for head dimension {head_dim}, expected one")
    return new


def build(build_dir, overlay):
    """Compiles the kernel against the overlay (None: the sources' own table); returns an error or None."""
    for stale in build_dir.rglob("fused_wgmma.cu.o"):
        stale.unlink()
    environment = dict(os.environ)
    if overlay is not None:
        environment["NVCC_PREPEND_FLAGS"] = f"-I{overlay} " + environment.get("NVCC_PREPEND_FLAGS", "")
    run = subprocess.run(["cmake", "--build", str(build_dir), "--target", "flashbench"],
                         env=environment, capture_output=True, text=True)
    if run.returncode == 0:
        return None
    reasons = re.findall(r"static assertion failed with \"([^\"]*)\"|error: (.*)", run.stdout + run.stderr)
    return next((a or b for a, b in reasons), "the build failed")


def ratios(run):
    """cudnn's median over fused-wgmma's, by problem."""
    times = {}
    for cell in run["cells"]:
        if cell["status"] == "ok" and cell["time"]:
            key = json.dumps(cell["problem"], sort_keys=True)
            times.setdefault(key, {})[cell["implementation"]] = cell["time"]["median_s"]
    return [t["cudnn"] / t["fused-wgmma"] for t in times.values() if len(t) == 2]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build_dir", type=Path)
    parser.add_argument("--head-dim", type=int, choices=sorted(ALTERNATIVES), action="append")
    parser.add_argument("--n", default="512..16k")
    parser.add_argument("--dtype", default="bf16", choices=["f16", "bf16"])
    parser.add_argument("--dry-run", action="store_true", help="build the alternatives, measure nothing")
    options = parser.parse_args()
    work = options.build_dir / "tune"
    binaries = []
    try:
        for head_dim in options.head_dim or sorted(ALTERNATIVES):
            for i, entry in enumerate(ALTERNATIVES[head_dim]):
                overlay = (work / f"{head_dim}-{i}").resolve()
                (overlay / TABLE).parent.mkdir(parents=True, exist_ok=True)
                (overlay / TABLE).write_text(table_with(entry))
                error = build(options.build_dir, overlay)
                if error:
                    print(f"{{{entry}}}: not built: {error}", flush=True)
                    continue
                shutil.copy2(options.build_dir / "flashbench", overlay / "flashbench")
                binaries.append((head_dim, entry, overlay))
    finally:
        build(options.build_dir, None)
    best = {}
    for head_dim, entry, overlay in [] if options.dry_run else binaries:
        output = overlay / "run.json"
        subprocess.run([str(overlay / "flashbench"), "sweep", "--device", "cuda", "--impl", "fused-wgmma,cudnn",
                        "--head-dim", str(head_dim), "--n", options.n, "--tokens", "16384", "--hidden", "2048",
                        "--mask", "none,causal", "--dtype", options.dtype, "--counters", "off", "--no-references",
                        "--curves", "off", "--output", str(output)],
                       stdout=subprocess.DEVNULL, check=True)
        cells = ratios(json.loads(output.read_text()))
        if not cells:
            print(f"{{{entry}}}: no cell in which both ran", flush=True)
            continue
        mean = math.exp(sum(map(math.log, cells)) / len(cells))
        print(f"{{{entry}}}: {mean:.3f} x cudnn over {len(cells)} cells, worst {min(cells):.3f}", flush=True)
        best[head_dim] = max(best.get(head_dim, (0, "")), (mean, entry))
    for head_dim, (mean, entry) in sorted(best.items()):
        print(f"best at {head_dim}: {{{entry}}} ({mean:.3f})")


if __name__ == "__main__":
    main()
