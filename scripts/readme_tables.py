#!/usr/bin/env python3
"""readme_tables.py [--check]: fills README.md's tables from results/.

A table stands between `<!-- table NAME -->` and `<!-- end -->`; NAME is a function below. --check changes nothing and
exits 1 where README.md is not what the results say, so that no figure in it is typed by hand.
"""

import json
import re
import sys
from pathlib import Path
from statistics import geometric_mean

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
RESULTS = ROOT / "results" / "h200"
CPU_RESULTS = ROOT / "results" / "cpu"
PUBLISHED = ROOT / "results" / "published"
MISSING = "*No run of this is in results/h200/ yet.*"


def load(name, folder=RESULTS):
    path = folder / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def scaled(value, units, base):
    power = 0
    while power + 1 < len(units) and value >= base ** (power + 1) * 0.9995:
        power += 1
    return f"{three(value / base**power)} {units[power]}"


def three(value):
    """Three significant digits, without an exponent."""
    text = f"{value:#.3g}"
    if "e" in text:
        text = f"{float(text):.0f}"
    return text.rstrip(".")


def seconds(value):
    return scaled(value * 1e6, ["µs", "ms", "s"], 1000)


def size(value):
    return scaled(value, ["B", "KiB", "MiB", "GiB", "TiB"], 1024)


def length(n):
    for unit, suffix in ((1 << 20, "M"), (1 << 10, "k")):
        if n >= unit and n % unit == 0:
            return f"{n // unit}{suffix}"
    return str(n)


def table(header, rows):
    """A Markdown table, its first column to the left and the others to the right."""
    lines = ["| " + " | ".join(header) + " |", "|" + "|".join(["---"] + ["---:"] * (len(header) - 1)) + "|"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def where(run):
    tool, device = run["tool"], run["device"]
    driver = f", driver {device['driver']}" if device["driver"] else ""
    return (f"{device['name']}{driver}, {run['started_utc'][:10]}, commit {tool['commit'][:7]}, "
            f"{run['settings']['load']} load, {run['settings']['cache']} cache.")  # fmt: skip


def problems(run, **wanted):
    """The cells of each problem that is as wanted, by kind: the run's `naive` and its `fused`, and by name."""
    found = {}
    for cell in run["cells"]:
        problem = cell["problem"]
        if all(problem[key] == value for key, value in wanted.items()):
            cells = found.setdefault(json.dumps(problem, sort_keys=True), {"problem": problem})
            cells.setdefault(cell["kind"], cell)
            cells[cell["implementation"]] = cell
    return list(found.values())


def time_of(cell):
    if cell is None:
        return ""
    if cell["status"] == "out_of_memory":
        return f"does not fit ({size(cell['memory']['needed_bytes'])})"
    return seconds(cell["time"]["median_s"]) if cell["time"] else cell["status"]


def traffic(cell):
    """(bytes, "" or "~"): counted, or modelled and marked as such, or None."""
    for source, mark in (("measured", ""), ("model", "~")):
        if cell and cell["hbm"][source]:
            return cell["hbm"][source]["read_bytes"] + cell["hbm"][source]["write_bytes"], mark
    return None, ""


def traffic_of(cell):
    value, mark = traffic(cell)
    return "" if value is None else mark + size(value)


def speedup_of(cell):
    ratio = cell and cell["derived"]["speedup_over_naive"]
    return f"{three(ratio['ratio'])}×" if ratio else ""


def rate_of(cell):
    return f"{cell['derived']['tflops']:.0f}" if cell and cell["derived"]["tflops"] else ""


def exact_of(*cells):
    verdicts = {cell["exactness"]["verdict"].replace("_", " ") for cell in cells if cell and cell["exactness"]}
    return ", ".join(sorted(verdicts))


def sweep():
    run = load("sweep")
    if not run:
        return MISSING
    rows = []
    for cells in problems(run, dtype="bf16", head_dim=128, mask="none"):
        naive, fused = cells.get("naive"), cells.get("fused")
        if fused is None:
            continue
        rows.append([length(cells["problem"]["n_kv"]), time_of(naive), time_of(fused), speedup_of(fused),
                     traffic_of(naive), traffic_of(fused), size(naive["memory"]["peak_bytes"]) if naive else "",
                     size(fused["memory"]["peak_bytes"]), exact_of(naive, fused)])  # fmt: skip
    header = ["N", "naive", "fused", "speed-up", "HBM bytes, naive", "fused", "peak memory, naive", "fused", "verdict"]
    names = sorted({cell["implementation"] for cell in run["cells"] if cell["kind"] == "fused"})
    return table(header, rows) + (f"\n\nB = 1, 16 heads, d = 128, bf16, no mask; fused is {', '.join(names)}. "
                                  f"`~` is modelled, the rest counted. {where(run)}")  # fmt: skip


def dims():
    rows = []
    for name in ("sweep", "sweep-dims", "sweep-f16", "sweep-f32"):
        run = load(name)
        for cells in problems(run, n_kv=16384) if run else []:
            problem, naive, fused = cells["problem"], cells.get("naive"), cells.get("fused")
            if fused is None or naive is None:
                continue
            (naive_bytes, naive_mark), (fused_bytes, fused_mark) = traffic(naive), traffic(fused)
            less = ""
            if naive_bytes and fused_bytes:
                less = f"{naive_mark or fused_mark}1/{three(naive_bytes / fused_bytes)}"
            rows.append([f"{problem['dtype']}, d={problem['head_dim']}, {'causal' if problem['mask'] == 'causal' else 'no mask'}",
                         time_of(naive), time_of(fused), speedup_of(fused), less,
                         naive["derived"]["bound_by"] or "", fused["derived"]["bound_by"] or ""])  # fmt: skip
    if not rows:
        return MISSING
    return table(["N = 16k, 16 heads", "naive", "fused", "speed-up", "bytes of fused", "naive bound by", "fused bound by"], rows)


def long():
    run = load("sweep-1m")
    if not run:
        return MISSING
    rows = [[cell["implementation"], time_of(cell), rate_of(cell), traffic_of(cell), size(cell["memory"]["peak_bytes"]),
             exact_of(cell)] for cell in run["cells"]]  # fmt: skip
    return table(["N = 1M, one head, d = 128, bf16", "time", "TFLOP/s", "HBM bytes", "peak memory", "verdict"], rows)


def steps():
    """Where the bytes go: naive step by step, and fused, at N = 16k and d = 128."""
    run = load("counters")
    if not run:
        return MISSING
    rows = []
    for cells in problems(run, dtype="bf16", head_dim=128, mask="none", n_kv=16384):
        for cell in (cells.get("naive"), cells.get("fused")):
            if cell is None:
                continue
            modelled = {step["name"]: step for step in (cell["hbm"]["model"] or {}).get("steps", [])}
            counted = {step["name"]: step for step in (cell["hbm"]["measured"] or {}).get("steps", [])}
            for step in cell["steps"]:
                name, bound = step["name"], step["bound"] or {}
                both = []
                for source in (modelled, counted):
                    has = source.get(name)
                    both.append(f"{has['read_bytes'] / 1e9:.3f} + {has['write_bytes'] / 1e9:.3f}" if has else "")
                bandwidth = bound.get("hbm_bytes_per_s")
                share = bound.get("hbm_fraction")
                rows.append([f"{cell['implementation']}: {name}", seconds(step["median_s"]) if step["median_s"] else "", *both,
                             f"{bandwidth / 1e12:.2f} ({share:.0%})" if bandwidth and share else "",
                             f"{bound['matrix_flops_per_s'] / 1e12:.0f} ({bound['matrix_fraction']:.0%})"
                             if bound.get("matrix_flops_per_s") and bound.get("matrix_fraction") else "",
                             bound.get("bound_by") or ""])  # fmt: skip
    header = ["step", "time", "model, GB read + written", "counted", "TB/s (of the reference)", "TFLOP/s (of cuBLAS)", "bound by"]
    return table(header, rows) + f"\n\nB = 1, 16 heads, N = 16384, d = 128, bf16, no mask. {where(run)}"


def counted():
    """Model against counters over lengths and head dims, and the factor between the two kinds."""
    run = load("counters")
    if not run:
        return MISSING
    rows = []
    for cells in problems(run, dtype="bf16", mask="none"):
        naive, fused = cells.get("naive"), cells.get("fused")
        if not naive or not fused:
            continue
        (naive_bytes, naive_mark), (fused_bytes, fused_mark) = traffic(naive), traffic(fused)
        if naive_mark or fused_mark or not naive_bytes or not fused_bytes:
            continue
        operations = [tensor_operations(cell) for cell in (naive, fused)]
        agree = f"{operations[1] / operations[0]:.4f}" if all(operations) else ""
        rows.append([f"d={cells['problem']['head_dim']}, N={length(cells['problem']['n_kv'])}",
                     size(naive_bytes), f"{naive['hbm']['measured']['over_model']:.2f}" if naive["hbm"]["measured"]["over_model"] else "",
                     size(fused_bytes), f"{fused['hbm']['measured']['over_model']:.2f}" if fused["hbm"]["measured"]["over_model"] else "",
                     three(naive_bytes / fused_bytes), agree])  # fmt: skip
    header = ["bf16, 16 heads", "naive, counted", "over model", "fused, counted", "over model", "naive / fused", "tensor operations, fused / naive"]
    return table(header, rows)


def tensor_operations(cell):
    """Executed on tensor cores, all types together, by the counters; or None."""
    whole = (cell["counters"] or {}).get("whole") or {}
    found = [whole[key] for key in whole if key.startswith("tensor_") and key.endswith("_ops") and whole[key] is not None]
    return sum(found) or None


def times_faster(cells, name, than):
    """The ratio of two implementations' medians; of one interleaved run."""
    return cells[than]["time"]["median_s"] / cells[name]["time"]["median_s"]


def grid(run):
    """(title, {n: cells by implementation}) of each mask and head dim of a run."""
    for mask in ("none", "causal"):
        for head_dim in sorted({cell["problem"]["head_dim"] for cell in run["cells"]}):
            cells = {found["problem"]["n_kv"]: found for found in problems(run, head_dim=head_dim, mask=mask)}
            yield f"d={head_dim}, {'causal' if mask == 'causal' else 'no mask'}", cells


def lengths_of(cells):
    return sorted({cell["problem"]["n_kv"] for cell in cells})


def columns(cells):
    """A header's names for the lengths of these cells."""
    return [f"N={length(n)}" for n in lengths_of(cells)]


def marked(ratio):
    return f"**{ratio:.2f}**" if ratio < 1 else f"{ratio:.2f}"


def means_of(ratios):
    """Geometric means of ratios by title, over all and by head dim, and the least."""
    by_dim = {}
    for title, found in ratios.items():
        by_dim.setdefault(title.split(",")[0], []).extend(found)
    every = [ratio for found in by_dim.values() for ratio in found]
    means = ", ".join(f"{dim} {geometric_mean(found):.3f}" for dim, found in by_dim.items())
    return f"{geometric_mean(every):.3f} ({means}); least {min(every):.3f}"


def peers():
    """Every cell of fused-wgmma beside cudnn; the ratio is cudnn's time over ours."""
    run = load("fused")
    if not run:
        return MISSING
    rows, ratios = [], {}
    for title, cells in grid(run):
        for name in ("fused-wgmma", "cudnn"):
            rows.append([f"{title}: {name}"] + [rate_of(found.get(name)) for found in cells.values()])
        ratios[title] = [times_faster(found, "fused-wgmma", "cudnn") for found in cells.values()]
        rows.append([f"{title}: ratio"] + [marked(ratio) for ratio in ratios[title]])
    return table(["TFLOP/s"] + columns(run["cells"]), rows) + (f"\n\nGeometric mean of the ratios: {means_of(ratios)}. "
                                  f"B·N = 16384 tokens, H·d = 2048, bf16. {where(run)}")  # fmt: skip


def peers_elsewhere():
    """The same ratio in the other windows and dtype."""
    parts = []
    for name in ("fused-sustained", "fused-f16", "fused-sustained-f16"):
        run = load(name)
        if not run:
            parts.append(f"*No run of this is in results/h200/{name}.json yet.*")
            continue
        ratios = {title: [times_faster(found, "fused-wgmma", "cudnn") for found in cells.values()] for title, cells in grid(run)}
        header = [f"{run['cells'][0]['problem']['dtype']}, {run['settings']['load']}"] + columns(run["cells"])
        rows = [[title] + [marked(ratio) for ratio in found] for title, found in ratios.items()]
        parts.append(table(header, rows) + f"\n\nGeometric mean: {means_of(ratios)}. {where(run)}")
    return "\n\n".join(parts)


def older_gpus():
    """fused-mma over cudnn, and that over FlashAttention-2's published share of cudnn."""
    run, published = load("fused"), load("flash-attention-2", PUBLISHED)
    if not run or not any(cell["implementation"] == "fused-mma" for cell in run["cells"]):
        return MISSING
    share = {(c["head_dim"], c["mask"], c["n"]): c["flash_attention_2"] / c["cudnn"] for c in published["cells"]}
    rows, over = [], {}
    for title, cells in grid(run):
        ratios = [times_faster(found, "fused-mma", "cudnn") for found in cells.values()]
        over[title] = [ratio / share[found["problem"]["head_dim"], found["problem"]["mask"], n]
                       for ratio, (n, found) in zip(ratios, cells.items())]  # fmt: skip
        rows.append([f"{title}: fused-mma / cudnn"] + [f"{ratio:.2f}" for ratio in ratios])
        rows.append([f"{title}: over FlashAttention-2's"] + [marked(ratio) for ratio in over[title]])
    return table(["same run"] + columns(run["cells"]), rows) + f"\n\nGeometric mean over FlashAttention-2: {means_of(over)}. {published['source']}"


def over_model():
    """Counted bytes over modelled ones, of every implementation, mask and head dim."""
    run = load("counters")
    rows = {}
    for cell in run["cells"] if run else []:
        problem, measured = cell["problem"], cell["hbm"]["measured"]
        if measured and measured["over_model"]:
            mask = "causal" if problem["mask"] == "causal" else "no mask"
            rows.setdefault((cell["implementation"], mask, problem["head_dim"]), {})[problem["n_kv"]] = f"{measured['over_model']:.2f}"
    lengths = sorted({n for found in rows.values() for n in found})
    return table(["counted / model"] + [f"N={length(n)}" for n in lengths],
                 [[f"{name}, {mask}, d={dim}"] + [found.get(n, "") for n in lengths] for (name, mask, dim), found in sorted(rows.items())]
                 ) if rows else MISSING  # fmt: skip


def skipped():
    """How much of the square of scores each implementation executes under a causal mask."""
    run = load("counters")
    cells = [c for c in run["cells"] if c["problem"]["mask"] == "causal" and c["derived"].get("executed")] if run else []
    if not cells:
        return MISSING
    lengths = lengths_of(cells)
    shares = {}
    for cell in cells:
        row = f"{cell['implementation']}, d={cell['problem']['head_dim']}"
        shares.setdefault(row, {})[cell["problem"]["n_kv"]] = cell["derived"]["executed"]["over_unmasked"]
    least = {n: (n + 1) / (2 * n) for n in lengths}
    rows = [[row] + [f"{found[n]:.1%}" if n in found else "" for n in lengths] for row, found in shares.items()]
    rows.append(["least possible"] + [f"{least[n]:.1%}" for n in lengths])
    return table(["causal, share of the square"] + columns(cells), rows)


def repeated():
    """Two sweeps in a row: how far the medians of the same cells lie apart."""
    runs = [load("repeat-a"), load("repeat-b")]
    if not all(runs):
        return MISSING
    medians = [{(json.dumps(c["problem"], sort_keys=True), c["implementation"]): c["time"]["median_s"]
                for c in run["cells"] if c["status"] == "ok"} for run in runs]  # fmt: skip
    long_enough = [key for key in medians[0] if key in medians[1] and medians[0][key] >= 200e-6]
    apart = sorted(abs(medians[1][key] / medians[0][key] - 1) for key in long_enough)
    within = sum(difference <= 0.01 for difference in apart) / len(apart)
    header = ["cells of 200 µs and more", "within 1 %", "median difference", "95th percentile", "largest"]
    return table(header, [[str(len(apart)), f"{within:.1%}", f"{apart[len(apart) // 2]:.2%}",
                           f"{apart[int(0.95 * (len(apart) - 1))]:.2%}", f"{apart[-1]:.2%}"]]) + f"\n\n{where(runs[1])}"  # fmt: skip


def figure(value, reason=None):
    """Three significant digits; what is not finite by its name."""
    return {"infinite": "∞", "NaN": "NaN"}.get(reason, "") if value is None else f"{value:.3g}"


def spread(found):
    """A self-test's least, median and largest figure."""
    return " / ".join(figure(found[key], found.get(f"{key}_reason")) for key in ("least", "median", "largest")) if found else ""


def spread_of(values):
    """The same of a list."""
    ascending = sorted(values)
    return " / ".join(figure(value) for value in (ascending[0], ascending[len(ascending) // 2], ascending[-1])) if values else ""


JUDGED = ["cases that call it not exact", "bound_ratio", "row_noise / limit"]


def right_rows():
    """What the verdict says of right implementations: the CPU's in the self-test, the H200's in its verification."""
    self_test, verification = load("self-test", CPU_RESULTS), load("verify")
    rows = [[f"{row['name']}, CPU", called_wrong(row), spread(row["bound_ratio"]), spread(row["row_noise_over_limit"])]
            for row in (self_test["right"] if self_test else [])]  # fmt: skip
    for item in verification["implementations"] if verification else []:
        if item["kind"] not in ("naive", "fused"):
            continue
        outcomes = [outcome for case in verification["cases"] for outcome in case["outcomes"]
                    if outcome["implementation"] == item["name"] and outcome["status"] in ("ok", "wrong")]  # fmt: skip
        judged = [outcome["exactness"] for outcome in outcomes]
        noises = [found["row_noise"] / found["row_noise_limit"] for found in judged if found["row_noise"] is not None]
        wrong = sum(outcome["status"] == "wrong" for outcome in outcomes)
        rows.append([f"{item['name']}, H200", f"{wrong} of {len(outcomes)}",
                     spread_of([found["bound_ratio"] for found in judged]), spread_of(noises)])  # fmt: skip
    return rows


def called_wrong(row):
    return f"{row['called_wrong']} of {sum(outcome in ('ok', 'wrong') for outcome in row['outcomes'])}"


def right():
    rows = right_rows()
    return table(["right", *JUDGED], rows) + "\n\nLeast / median / largest over the cases." if rows else MISSING


def mutants():
    run = load("self-test", CPU_RESULTS)
    if not run:
        return MISSING
    rows = []
    for row in run["mutants"]:
        killer = run["cases"][row["outcomes"].index("wrong")] if "wrong" in row["outcomes"] else "none"
        rows.append([f"{row['name']}: {row['description']}", called_wrong(row), spread(row["bound_ratio"]),
                     spread(row["row_noise_over_limit"]), killer])  # fmt: skip
    killed = sum(row["called_wrong"] > 0 for row in run["mutants"])
    return table(["wrong on purpose", *JUDGED, "the first of them"], rows) + (
        f"\n\n{killed} of {len(rows)} killed. Least / median / largest over the cases; ∞: NaN, infinity, an element never written, or "
        f"anything but 0 in a row without keys. {len(run['cases'])} cases, seed {run['seed']}, commit {run['tool']['commit'][:7]}.")


def controls():
    """Approximations beside exact attention: error against speed."""
    rows, notes = [], []
    for folder, lengths in ((RESULTS, (4096, 16384)), (CPU_RESULTS, (4096,))):
        run = load("approximate", folder)
        if not run:
            notes.append(f"*No run of this is in results/{folder.name}/approximate.json yet.*")
            continue
        for n in lengths:
            for cell in run["cells"]:
                if cell["problem"]["n_kv"] != n or cell["problem"]["mask"] != "none":
                    continue
                exactness = cell["exactness"] or {}
                rows.append([f"{run['device']['kind']}, N={length(n)}: {cell['implementation']}", time_of(cell), speedup_of(cell),
                             traffic_of(cell), size(cell["memory"]["workspace_bytes"]), exact_of(cell),
                             figure(exactness.get("bound_ratio"), exactness.get("bound_ratio_reason")),
                             figure(exactness.get("rel_frobenius"))])  # fmt: skip
        problem = run["cells"][0]["problem"]
        notes.append(f"{run['device']['kind']}: {problem['heads']} heads, d = {problem['head_dim']}, {problem['dtype']}, no mask. {where(run)}")
    header = ["", "time", "speed-up", "HBM bytes", "workspace", "verdict", "bound_ratio", "relative error"]
    return "\n\n".join(([table(header, rows)] if rows else []) + notes)


def checks():
    record = load("verified")
    if not record:
        return MISSING
    rows = [["tests that need a device", f"{record['tests'].get('passed', 0)} passed, {record['tests'].get('skipped', 0)} skipped"]]
    rows += [[f"compute-sanitizer {tool}", f"{errors} errors" if isinstance(errors, int) else str(errors)]
             for tool, errors in record.get("sanitizer", {}).items()]  # fmt: skip
    if summary := record.get("verify", {}).get("summary"):
        rows.append(["flashbench verify", summary])
    return table([f"{record['device']}, driver {record['driver']}, {record['checked_utc'][:10]}", "outcome"], rows)


def pictures(names):
    found = [f"![{title}](results/h200/{name}.svg)" for name, title in names if (RESULTS / f"{name}.svg").exists()]
    return "\n".join(found) or MISSING


def curves():
    return pictures([("sweep-memory", "Peak memory"), ("sweep-time", "Time"), ("sweep-ratio", "Speed-up over naive")])


def traffic_curves():
    return pictures([("counters-hbm", "HBM traffic"), ("counters-roofline", "Roofline")])


def ncu():
    """What Nsight Compute printed for one step."""
    path = RESULTS / "ncu-softmax.txt"
    return f"```\n{path.read_text().strip()}\n```" if path.exists() else MISSING


TABLES = {f.__name__: f for f in (sweep, curves, dims, long, steps, counted, over_model, skipped, traffic_curves, repeated, peers,
                                peers_elsewhere, older_gpus, right, mutants, controls, checks, ncu)}  # fmt: skip


def main():
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit(__doc__)

    old = README.read_text()
    block = re.compile(r"(<!-- table (\w+) -->\n)(?:(?!<!-- ).)*(<!-- end -->)", re.DOTALL)
    new = block.sub(lambda match: f"{match[1]}{TABLES[match[2]]()}\n{match[3]}", old)
    if (marked := len(block.findall(old))) != old.count("<!-- table "):
        sys.exit(f"README.md: a table has no end ({marked} have one)")
    if sys.argv[1:] == ["--check"]:
        if new != old:
            sys.exit("README.md is not what results/ says: run scripts/readme_tables.py")
        print("README.md quotes what results/ says")
    elif new != old:
        README.write_text(new)
        print("README.md: filled")


if __name__ == "__main__":
    main()
