#!/usr/bin/env python3
"""Draws each kernel of a bench document against its roof (needs matplotlib).

    tools/plot.py BENCH.json [-o roof.png] [--full-clock]

Along: operations for each byte that must cross the memory bus. Up: TFLOP/s. The roof is what the tensor cores do at
the clock that was measured, and what the bus lets through left of the ridge; a kernel without products has no
operations and is drawn in a second panel, by GB/s. A line joins a kernel's unfused form with its fused one.
"""
import argparse
import json
import pathlib
import sys


def read_bench(path):
    """A document of bench with what is drawn of it; ends the program, with a sentence, where it is something else."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if document.get("ok", True) is not True:
            sys.exit(f"{path}: this run of bench failed")
        title = (document["gpu"]["name"], document["version"], document["commit"])
        points = {state: points_of(document, state) for state in ("hot", "full_clock")}
    except OSError as error:
        sys.exit(f"{path}: {error.strerror}")
    except ValueError:
        sys.exit(f"{path}: it is no JSON")
    except (AttributeError, KeyError, TypeError, IndexError):
        sys.exit(f"{path}: bench has not written this")
    return title, points


def points_of(document, state):
    """For each kernel: its name, operations, bytes, floor in ms, and ms by form."""
    points = []
    for kernel in document["kernels"]:
        times = {form["form"]: form[state]["median_ms"] for form in kernel.get("forms", []) if form[state]}
        if "fused" not in times:
            continue
        rows = sum(kernel["counts"]) if kernel["counts"] else None
        name = kernel["kernel"] + "".join(f" {dim}={size}" for dim, size in kernel["dims"].items())
        points.append({"name": name + (f" {rows} rows" if rows else ""), "flop": kernel["flop"],
                       "bytes": kernel["read_bytes"] + kernel["written_bytes"], "floor": kernel["floor"][state],
                       "ms": times})
    return points


def tensor_rate(point):
    """Operations in a second that the tensor cores reach at the clock of the measurement."""
    return point["flop"] / point["floor"]["tensor_ms"] * 1e3


def memory_rate(point):
    return point["bytes"] / point["floor"]["memory_ms"] * 1e3


def draw_products(axes, points, colours):
    """The roof is one line for each clock that was measured; they lie close together."""
    intensities = [point["flop"] / point["bytes"] for point in points]
    left, right = min(intensities) / 3, max(intensities) * 3
    for point in points:
        ridge = tensor_rate(point) / memory_rate(point)
        places = sorted({min(left, ridge / 3), ridge, max(right, ridge * 3)})
        axes.plot(places, [min(place * memory_rate(point), tensor_rate(point)) / 1e12 for place in places],
                  color="0.75", linewidth=1, zorder=1)
    for point, intensity, colour in zip(points, intensities, colours):
        speeds = {form: point["flop"] / ms / 1e9 for form, ms in point["ms"].items()}
        share = point["floor"]["ms"] / point["ms"]["fused"]
        axes.plot([intensity] * len(speeds), list(speeds.values()), color=colour, linewidth=1, zorder=2)
        axes.scatter([intensity], [speeds["fused"]], color=colour, zorder=3,
                     label=f"{point['name']}: {speeds['fused']:.0f} TFLOP/s, {100 * share:.0f} %")
        if "unfused" in speeds:
            axes.scatter([intensity], [speeds["unfused"]], facecolors="none", edgecolors=colour, zorder=3)
    axes.set(xscale="log", yscale="log", xlabel="FLOP for each byte", ylabel="TFLOP/s")
    axes.legend(fontsize=7, loc="lower right")


def draw_passes(axes, points, colours):
    for at, (point, colour) in enumerate(zip(points, colours)):
        speeds = {form: point["bytes"] / ms / 1e6 for form, ms in point["ms"].items()}
        axes.barh(at, speeds["fused"], color=colour)
        if "unfused" in speeds:
            axes.plot([speeds["unfused"]] * 2, [at - 0.4, at + 0.4], color="black", linewidth=1)
        axes.plot([memory_rate(point) / 1e9] * 2, [at - 0.4, at + 0.4], color="0.5", linewidth=1)
    axes.set_yticks(range(len(points)), [point["name"] for point in points], fontsize=7)
    axes.set_xlabel("GB/s (grey: the roof, black: unfused)")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bench", type=pathlib.Path)
    parser.add_argument("-o", dest="output", type=pathlib.Path, default=pathlib.Path("roof.png"))
    parser.add_argument("--full-clock", action="store_true", help="times at full clock instead of hot ones")
    options = parser.parse_args()
    (card, version, commit), by_state = read_bench(options.bench)
    points = by_state["full_clock" if options.full_clock else "hot"]
    if not points:
        sys.exit(f"{options.bench}: it has no times")
    try:
        import matplotlib
    except ImportError:
        sys.exit("plot.py draws with matplotlib, which is not installed (pip install matplotlib)")
    matplotlib.use("agg")
    from matplotlib import pyplot

    panels = [(draw, chosen) for draw, chosen in ((draw_products, [p for p in points if p["flop"] > 0]),
                                                  (draw_passes, [p for p in points if p["flop"] == 0])) if chosen]
    figure, all_axes = pyplot.subplots(len(panels), 1, figsize=(9, 5 * len(panels)), squeeze=False)
    for (draw, chosen), axes in zip(panels, all_axes[:, 0]):
        colours = [pyplot.get_cmap("tab20")(i % 20) for i in range(len(chosen))]
        draw(axes, chosen, colours)
    figure.suptitle(f"{card}, {'full clock' if options.full_clock else 'hot'}; Epifuse {version} ({commit[:12]})",
                    fontsize=9)
    figure.tight_layout()
    figure.savefig(options.output, dpi=150)
    print(options.output)


if __name__ == "__main__":
    try:
        main()
    except (ArithmeticError, LookupError, OSError, RecursionError, TypeError, ValueError) as error:
        # A document whose numbers are none, or a picture that cannot be written.
        sys.exit(f"plot.py: this cannot be drawn: {type(error).__name__}: {error}")
