#!/usr/bin/python3
"""Draws a run of `flashbench sweep -o run.json` as SVG and PNG.

    plot.py run.json [-o FOLDER]

writes FOLDER/RUN-memory, -time, -hbm, -ratio and -roofline (.svg and .png; FOLDER is the run's own by default). A
plot for which the run holds no figures is left out, and said. Needs matplotlib: apt-get install python3-matplotlib
"""

import argparse
import json
import math
import sys
from collections import defaultdict
from pathlib import Path

try:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator
except ImportError:
    sys.exit("plot.py: matplotlib is missing: apt-get install python3-matplotlib (and run it with /usr/bin/python3)")

# Materialised in reds, fused in blues and greens, other people's in greys; black is for the machine's limits.
PALETTE = {
    "naive": ["#c8553d", "#e09f3e"],
    "fused": ["#1d6fb8", "#2a9d8f", "#7b4fb5", "#4ba3d6", "#8ab17d"],
    "library": ["#6b6b6b", "#a3a3a3"],
    "approximate": ["#b56576", "#d8a7b1"],
}
MARKERS = {"naive": "s", "fused": "o", "library": "^", "approximate": "D"}
COLUMNS = 3

STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 9.5,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#888888",
    "axes.labelcolor": "#333333",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.8,
    "xtick.color": "#555555",
    "ytick.color": "#555555",
    "lines.linewidth": 1.8,
    "lines.markersize": 5,
    "figure.facecolor": "white",
    "svg.hashsalt": "flashbench",  # the same run gives the same bytes
}


def count_text(n):
    """1536 -> "1536", 4096 -> "4k", 1048576 -> "1M": the suffixes of the command line."""
    for unit, suffix in ((1 << 20, "M"), (1 << 10, "k")):
        if n >= unit and n % unit == 0:
            return f"{n // unit:g}{suffix}"
    return f"{n:g}"


def scaled(value, units, base):
    power = 0
    while power + 1 < len(units) and value >= base ** (power + 1) * 0.9995:
        power += 1
    return f"{value / base**power:.3g} {units[power]}"


def bytes_text(value):
    return scaled(value, ["B", "KiB", "MiB", "GiB", "TiB"], 1024)


def seconds_text(value):
    return scaled(value * 1e9, ["ns", "µs", "ms", "s"], 1000)


class Cells:
    """The cells of a run, by group (what stays the same in a panel) and implementation, in order of length."""

    def __init__(self, run):
        self.device = run["device"]
        self.references = ((run.get("references") or {}).get("rates")) or {}
        self.groups = defaultdict(lambda: defaultdict(list))
        tokens = {cell["problem"]["batch"] * cell["problem"]["n_q"] for cell in run["cells"]}
        self.constant_tokens = len(tokens) == 1 and len({c["problem"]["batch"] for c in run["cells"]}) > 1
        for cell in run["cells"]:
            self.groups[self.key(cell["problem"])][cell["implementation"]].append(cell)
        for implementations in self.groups.values():
            for cells in implementations.values():
                cells.sort(key=lambda cell: cell["problem"]["n_kv"])
        self.kinds = {cell["implementation"]: cell["kind"] for cell in run["cells"]}
        self.style = {}
        used = defaultdict(int)
        for name, kind in self.kinds.items():
            palette = PALETTE.get(kind, PALETTE["library"])
            self.style[name] = (palette[used[kind] % len(palette)], MARKERS.get(kind, "o"))
            used[kind] += 1

    def key(self, problem):
        batch = None if self.constant_tokens else problem["batch"]
        return (problem["dtype"], problem["mask"], problem["head_dim"], problem["heads"], problem["kv_heads"], batch)

    def titles(self):
        """A title for each group: what tells it from the others. And what all have in common."""
        names = []
        for dtype, mask, head_dim, heads, kv_heads, batch in self.groups:
            heads_text = f"{heads} heads" if heads == kv_heads else f"{heads} heads over {kv_heads}"
            heads_text = heads_text.replace("1 heads", "1 head") if heads == 1 else heads_text
            batch_text = "constant tokens" if batch is None else f"batch {batch}"
            mask_text = "causal" if mask == "causal" else "no mask"
            names.append([dtype, f"d={head_dim}", mask_text, heads_text, batch_text])
        columns = list(zip(*names))
        common = [column[0] for column in columns if len(set(column)) == 1]
        apart = [i for i, column in enumerate(columns) if len(set(column)) > 1]
        return [", ".join(name[i] for i in apart) for name in names], ", ".join(common)


def length_axis(axes, lengths):
    axes.set_xscale("log", base=2)
    shown = sorted(lengths)
    while len(shown) > 8:
        shown = shown[::-1][::2][::-1]
    axes.xaxis.set_major_locator(FixedLocator(shown))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: count_text(round(value))))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlim(min(lengths) / 1.25, max(lengths) * 1.25)


def value_axis(axes, text, base):
    axes.set_yscale("log", base=base)
    low, high = axes.get_ylim()
    decades = math.log(high / low, base)
    step = max(1, math.ceil(decades / 7))
    axes.yaxis.set_major_locator(LogLocator(base=base**step if base == 2 else base, numticks=50))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: text(value)))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_minor_locator(NullLocator())


def finish_lengths(figure, cells, base, text):
    """Axes of a plot against the length: all panels alike."""
    for panel in figure.panels:
        if base:
            value_axis(panel, text, base)
        length_axis(panel, lengths_of(cells))
    for panel in figure.panels[-len(figure.rows[0]) :]:
        panel.set_xlabel("sequence length N")


def ok(cells, figure):
    """(N, figure) of the cells that have one."""
    points = [(cell["problem"]["n_kv"], figure(cell)) for cell in cells]
    return [(n, value) for n, value in points if value is not None]


def median(cell):
    return cell["time"]["median_s"] if cell["status"] == "ok" and cell["time"] else None


def growth(points):
    """The exponent of the last points, where there are enough of them, or None."""
    points = [(math.log(n), math.log(value)) for n, value in points[-4:] if value > 0]
    if len(points) < 3:
        return None
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else None


class Figure:
    """Panels, one a group, with one legend and one title."""

    def __init__(self, cells, title, subtitle, y_label):
        self.cells = cells
        self.names, common = cells.titles()
        count = len(self.names)
        columns = min(COLUMNS, count)
        rows = -(-count // columns)
        width, height = (7.6, 4.9) if count == 1 else (4.1 * columns, 3.3 * rows + 1.1)
        self.figure, grid = plt.subplots(rows, columns, figsize=(width, height), sharex=True, sharey=True, squeeze=False)
        self.panels = list(grid.flat)[:count]
        for unused in list(grid.flat)[count:]:
            unused.set_visible(False)
        for panel, name in zip(self.panels, self.names):
            panel.set_title(name)
        for row in grid:
            row[0].set_ylabel(y_label)
        self.title, self.subtitles = title, [f"{cells.device['name']}, {common}", subtitle]
        self.rows = grid
        self.handles = {}
        self.drawn = False

    def groups(self):
        return zip(self.panels, self.cells.groups.values())

    def line(self, panel, name, points, label=None, **options):
        if not points:
            return
        color, marker = self.cells.style[name]
        settings = {"color": color, "marker": marker, "markeredgecolor": "white", "markeredgewidth": 0.6, **options}
        if self.cells.kinds[name] == "library":
            settings.setdefault("linestyle", (0, (4, 2)))
        (handle,) = panel.plot(*zip(*points), **settings)
        self.handles.setdefault(label or name, handle)
        self.drawn = True

    def finish(self, path):
        width, height = self.figure.get_size_inches()
        longest = max(len(label.translate({ord(c): None for c in "${}^"})) for label in self.handles)
        columns = max(1, int(width / (0.65 + 0.075 * longest)))  # inches
        legend_height = 0.12 + 0.22 * -(-len(self.handles) // columns)
        self.figure.text(0.012, 1 - 0.12 / height, self.title, fontsize=13, fontweight="bold", color="#222222", va="top")
        for i, line in enumerate(self.subtitles):
            self.figure.text(0.012, 1 - (0.38 + 0.19 * i) / height, line, fontsize=9.5, color="#666666", va="top")
        legend = self.figure.legend(
            self.handles.values(), self.handles.keys(), loc="lower left", bbox_to_anchor=(0.005, 0.0),
            ncol=min(columns, len(self.handles)), frameon=False, fontsize=9, handlelength=1.8, columnspacing=1.6)  # fmt: skip
        legend.set_in_layout(False)
        self.figure.tight_layout(rect=(0, legend_height / height, 1, 1 - 0.8 / height))
        for suffix in ("svg", "png"):
            metadata = {"Date": None} if suffix == "svg" else None
            self.figure.savefig(f"{path}.{suffix}", dpi=160, metadata=metadata)
        plt.close(self.figure)


def lengths_of(cells):
    return sorted({cell["problem"]["n_kv"] for group in cells.groups.values() for row in group.values() for cell in row})


def draw_memory(cells):
    figure = Figure(cells, "Peak memory", "Operands and workspace; crosses: what would not fit", "bytes")
    top = 0
    for panel, group in figure.groups():
        for name, row in group.items():
            fits = ok(row, lambda cell: cell["memory"]["peak_bytes"] if cell["status"] in ("ok", "wrong") else None)
            beyond = ok(row, lambda cell: cell["memory"]["peak_bytes"] if cell["status"] == "out_of_memory" else None)
            figure.line(panel, name, fits)
            color = cells.style[name][0]
            if beyond:
                panel.plot(*zip(*(fits[-1:] + beyond)), color=color, linestyle=":", linewidth=1.2)
                panel.plot(*zip(*beyond), color=color, linestyle="", marker="x", markersize=7, markeredgewidth=1.8)
            top = max([top] + [value for _, value in fits + beyond])
        capacity = cells.device["memory_bytes"]
        if capacity and top > capacity / 64:
            panel.axhline(capacity, color="#222222", linewidth=1, linestyle="--")
            panel.text(0.02, capacity * 1.12, f"the device has {bytes_text(capacity)}", fontsize=8, color="#222222",
                       transform=panel.get_yaxis_transform())  # fmt: skip
    finish_lengths(figure, cells, 2, bytes_text)
    return figure


def draw_time(cells):
    figure = Figure(cells, "Time", "Medians and the range of the samples. Crosses: where it would be, but does not fit", "")
    for panel, group in figure.groups():
        for name, row in group.items():
            points = ok(row, median)
            color = cells.style[name][0]
            exponent = growth(points)
            single = len(figure.panels) == 1 and exponent is not None
            figure.line(panel, name, points, label=f"{name}: $N^{{{exponent:.2f}}}$" if single else None)
            spread = [(c["problem"]["n_kv"], c["time"]["min_s"], c["time"]["max_s"]) for c in row if median(c) is not None]
            if spread:
                panel.fill_between(*zip(*spread), color=color, alpha=0.18, linewidth=0)
            beyond = [cell["problem"]["n_kv"] for cell in row if cell["status"] == "out_of_memory"]
            if beyond and points:
                # Where it would be if it went on as it did.
                (n, last), power = points[-1], exponent or 2
                guess = [(m, last * (m / n) ** power) for m in beyond]
                panel.plot(*zip(*([points[-1]] + guess)), color=color, linestyle=":", linewidth=1.2)
                panel.plot(*zip(*guess), color=color, linestyle="", marker="x", markersize=7, markeredgewidth=1.8)
    finish_lengths(figure, cells, 10, seconds_text)
    return figure


def total(traffic):
    return traffic["read_bytes"] + traffic["write_bytes"] if traffic else None


def draw_hbm(cells):
    figure = Figure(cells, "HBM traffic", "Lines: the model. Markers: counted by the device", "bytes read and written")
    for panel, group in figure.groups():
        for name, row in group.items():
            modelled = ok(row, lambda cell: total(cell["hbm"]["model"]))
            measured = ok(row, lambda cell: total(cell["hbm"]["measured"]))
            figure.line(panel, name, modelled, marker="")
            figure.line(panel, name, measured, label=None if modelled else name, linestyle="", markersize=6.5,
                        markerfacecolor="white", markeredgecolor=cells.style[name][0], markeredgewidth=1.6)  # fmt: skip
        floor = sorted({(c["problem"]["n_kv"], c["memory"]["operand_bytes"]) for row in group.values() for c in row})
        (handle,) = panel.plot(*zip(*floor), color="#222222", linestyle="--", linewidth=1)
        figure.handles["Q, K, V and O once"] = handle
    finish_lengths(figure, cells, 2, bytes_text)
    return figure


def draw_ratio(cells):
    figure = Figure(cells, "Speed-up over naive", "Ratios of paired samples, with 95 % intervals", "times faster")
    for panel, group in figure.groups():
        for name, row in group.items():
            rated = [cell for cell in row if cell["derived"]["speedup_over_naive"] and cell["kind"] != "naive"]
            points = [(cell["problem"]["n_kv"], cell["derived"]["speedup_over_naive"]) for cell in rated]
            figure.line(panel, name, [(n, ratio["ratio"]) for n, ratio in points])
            if points:
                panel.vlines([n for n, _ in points], [r["low"] for _, r in points], [r["high"] for _, r in points],
                             color=cells.style[name][0], linewidth=1.2)  # fmt: skip
        panel.axhline(1, color="#222222", linewidth=1, linestyle="--")
    for panel in figure.panels:
        panel.set_ylim(bottom=0)
        panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}×"))
    finish_lengths(figure, cells, None, None)
    return figure


def step_points(row):
    """{step: [(operations a byte, TFLOP/s)]} of the steps that multiply, where an implementation has several."""
    found = defaultdict(list)
    for cell in row:
        for step in cell["steps"] if len(cell["steps"]) > 1 else []:
            bound = step["bound"] or {}
            if bound.get("intensity") and bound.get("matrix_flops_per_s"):
                found[step["name"]].append((bound["intensity"], bound["matrix_flops_per_s"] / 1e12))
    return found


def draw_roofline(cells):
    bandwidth = max((cells.references[k]["rate"] for k in ("copy", "read") if k in cells.references), default=None)
    figure = Figure(cells, "Roofline", "Roofs: what this device reached in the same run on one thing only", "TFLOP/s")
    xs = []
    for panel, ((dtype, *_), group) in zip(figure.panels, cells.groups.items()):
        # Products in f32 run on the FMA units; a CPU knows only its library's rate.
        rate = next((cells.references[k]["rate"] for k in {"f32": ["fma_f32"]}.get(dtype, []) + [f"matrix_{dtype}"]
                     if k in cells.references), None)  # fmt: skip
        labelled = set()
        for name, row in group.items():
            points = []
            for cell in row:
                traffic = total(cell["hbm"]["measured"]) or total(cell["hbm"]["model"])
                if cell["derived"]["tflops"] and traffic:
                    points.append((cell["derived"]["flops"] / traffic, cell["derived"]["tflops"], cell["problem"]["n_kv"]))
            figure.line(panel, name, [point[:2] for point in points], linewidth=0.9)
            for marker, (step, of_step) in zip("v^<>", step_points(row).items()):
                figure.line(panel, name, of_step, label=f"{name}: {step}", linestyle="", marker=marker, markersize=4,
                            markerfacecolor="white", markeredgecolor=cells.style[name][0])  # fmt: skip
                xs += [x for x, _ in of_step]
            xs += [point[0] for point in points]
            if cells.kinds[name] in labelled or not points:
                continue
            labelled.add(cells.kinds[name] if cells.kinds[name] == "naive" else "fused")
            labelled.add("library")
            for x, y, n in points[:1] + points[1:][-1:]:
                panel.annotate(count_text(n), (x, y), xytext=(5, -9), textcoords="offset points", fontsize=7.5,
                               color=cells.style[name][0])  # fmt: skip
        panel.roofs = (rate, bandwidth)
    if not xs:
        return figure
    low, high = min(xs) / 4, max(xs) * 2
    for panel in figure.panels:
        rate, bandwidth = panel.roofs
        slope = (lambda x: x * bandwidth / 1e12) if bandwidth else None
        if rate:
            knee = rate / bandwidth if bandwidth else low
            panel.plot([max(knee, low), max(high, knee)], [rate / 1e12] * 2, color="#222222", linewidth=1.3)
            panel.annotate(f"matrix products {rate / 1e12:.0f} TFLOP/s", (max(low, knee), rate / 1e12),
                           xytext=(0, 4), textcoords="offset points", fontsize=8, color="#222222")  # fmt: skip
        if slope:
            end = rate / bandwidth if rate else high
            if end > low:
                panel.plot([low, end], [slope(low), slope(end)], color="#222222", linewidth=1.3)
                middle = math.sqrt(low * end)
                panel.annotate(f"{bandwidth / 1e12:.2f} TB/s", (middle, slope(middle)), xytext=(-5, 5), ha="right",
                               textcoords="offset points", fontsize=8, color="#222222")  # fmt: skip
        panel.set_xscale("log")
        panel.set_yscale("log")
        for axis, (least, most) in ((panel.xaxis, panel.get_xlim()), (panel.yaxis, panel.get_ylim())):
            axis.set_major_locator(LogLocator(subs=(1,) if most / least > 100 else (1, 2, 5)))
            axis.set_minor_locator(NullLocator())
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    for panel in figure.panels[-len(figure.rows[0]) :]:
        panel.set_xlabel("algorithmic operations per HBM byte")
    return figure


PLOTS = {
    "memory": draw_memory,
    "time": draw_time,
    "hbm": draw_hbm,
    "ratio": draw_ratio,
    "roofline": draw_roofline,
}


def main():
    parser = argparse.ArgumentParser(description="Draws a run of flashbench sweep as SVG and PNG.")
    parser.add_argument("run", type=Path, help="what flashbench sweep -o wrote")
    parser.add_argument("-o", "--output", type=Path, help="folder of the plots (default: the run's)")
    parser.add_argument("--only", help="names, with commas between them: " + ", ".join(PLOTS))
    arguments = parser.parse_args()
    try:
        run = json.loads(arguments.run.read_text())
    except (OSError, ValueError) as error:
        sys.exit(f"plot.py: {arguments.run}: {error}")
    if not run.get("cells"):
        sys.exit(f"plot.py: {arguments.run} holds no cells")
    wanted = arguments.only.split(",") if arguments.only else list(PLOTS)
    if unknown := set(wanted) - set(PLOTS):
        sys.exit(f"plot.py: no plot {', '.join(sorted(unknown))}; there are: {', '.join(PLOTS)}")
    folder = arguments.output or arguments.run.parent
    folder.mkdir(parents=True, exist_ok=True)
    plt.rcParams.update(STYLE)
    cells = Cells(run)
    for name in wanted:
        figure = PLOTS[name](cells)
        if not figure.drawn:
            plt.close(figure.figure)
            print(f"{name}: the run holds no figures for it")
            continue
        path = folder / f"{arguments.run.stem}-{name}"
        figure.finish(path)
        print(f"{path}.svg {path}.png")


if __name__ == "__main__":
    main()
