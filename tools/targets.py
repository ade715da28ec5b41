#!/usr/bin/env python3
"""What Epifuse is to reach on an H200, and what was measured: the whole table by one command, ours and PyTorch's in turns on
the same hot card.

    tools/targets.py [--build build/release] [-o targets.json]      # measures, which takes about 5 minutes, and prints
    tools/targets.py --from docs/measurements/speed_h200.json       # prints what was measured before

A line for each target: the figures of the shapes, then what must be reached and, in parentheses, what would be better still;
several where shapes differ, in their order. ! is behind a figure that misses, + behind one that is better still, - stands
where a shape has no such target. Exits 0 whatever is missed.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
ALL, LEAST_TOKENS, NAME = "seven shapes", 1024, 45


class Target:
    """`limits` gives (must, better still) for a shape, or nothing; `figure` the figure of a shape's rows."""

    def __init__(self, name, part, limits, figure, at_most=False):
        self.name, self.part, self.limits, self.figure, self.at_most = name, part, limits, figure, at_most
        self.percent = "%" in name

    def mark(self, value, limits):
        must, better = limits
        if self.at_most:
            value, must, better = -value, -must, -better
        return "+" if value >= better else " " if value >= must else "!"


def always(must, better):
    return lambda shape: (must, better)


def deep(shape):
    return shape[2] >= 7168


def plain(ms):
    """Our fastest plain product among those that were timed."""
    return min(value for row, value in ms.items() if row.startswith("plain"))


def of_backward(shape):
    return (1.09, 1.05) if deep(shape) else (1.30, 1.18) if shape[2] == 2048 else (1.22, 1.13)


def of_backward_and_torch(shape):
    return (1.05, 1.0) if deep(shape) else (1.12, 1.0) if shape[2] == 2048 else (1.03, 1.0)


def of_backward_chain(shape):
    if shape[1] == 128:
        return 2.8, 3.2
    return ((1.6, 1.75) if shape[0] == 8 else (2.3, 2.6)) if deep(shape) else (4, 5)


def of_uneven(shape):
    return None if shape[1] == 128 else (8, 5) if shape[0] == 32 else (5, 3)


def added_bytes(shape):
    """What f32 sums of an FC1's weight gradient are, there and back."""
    experts, _, depth, columns = shape
    return 2 * 4 * experts * depth * columns


def targets(copy):
    """copy: bytes that a copy moves in a millisecond."""
    result = [
        Target("plain product, throughput ÷ torch", "shapes", always(1.05, 1.10), lambda s, ms: ms["grouped"] / plain(ms)),
        Target("fc1, nothing saved, time ÷ plain", "shapes", always(1.03, 1.0), lambda s, ms: ms["fused"] / plain(ms), True),
        Target("… pre-activation saved", "shapes", always(1.06, 1.03), lambda s, ms: ms["fused_pre"] / plain(ms), True),
        Target("fc1, throughput ÷ torch's bare product", "shapes", always(1.04, 1.09), lambda s, ms: ms["grouped"] / ms["fused"]),
        Target("fc1 against torch's chain", "shapes", lambda s: (1.12, 1.2) if deep(s) else (1.5, 1.8),
               lambda s, ms: ms["chain"] / ms["fused"]),
        Target("backward, time ÷ plain", "backward", of_backward, lambda s, ms: ms["backward"] / plain(ms), True),
        Target("backward, time ÷ torch's bare product", "backward", of_backward_and_torch,
               lambda s, ms: ms["backward"] / ms["grouped"], True),
        Target("backward against torch's chain", "backward", of_backward_chain, lambda s, ms: ms["chain"] / ms["backward"]),
        Target("log-normal groups, % of time lost", "ragged", of_uneven,
               lambda s, ms: 100 * (ms["fused ragged"] / ms["fused"] - 1), True),
        Target("… 128 × 128: throughput ÷ torch", "ragged", lambda s: (1.35, 1.5) if s[1] == 128 else None,
               lambda s, ms: ms["grouped ragged"] / ms["fused ragged"]),
        Target("weight gradient in bf16, throughput ÷ torch", "wgrad", always(1.0, 1.08), lambda s, ms: ms["grouped"] / ms["wgrad ="]),
        Target("… added to f32, ÷ torch's bf16", "wgrad", lambda s: (1.0, 1.05) if s[1] >= LEAST_TOKENS else None,
               lambda s, ms: ms["grouped"] / ms["wgrad +="]),
    ]
    if copy:
        result.append(Target("… % of copy bandwidth", "wgrad", lambda s: (80, 90) if s[1] < LEAST_TOKENS else None,
                             lambda s, ms: 100 * added_bytes(s) / ms["wgrad +="] / copy))
    return result


def print_shapes(document):
    shapes = document[ALL]["shapes"]
    print(f"{document[ALL]['gpu']}; hot, SM clocks of {clocks(document[ALL])} MHz. Experts × tokens of each; K x N:")
    for words in zip(*((f"{entry['shape'][0]}×{entry['shape'][1]}", f"{entry['shape'][2]}x{entry['shape'][3]}") for entry in shapes.values())):
        print(f"{'':{NAME}s}" + " ".join(f"{word:>9s}" for word in words))
    for target in targets(document.get("copy", {}).get("bytes_per_ms")):
        rows, figures, asked = document[ALL][target.part], [], []
        for name, entry in shapes.items():
            limits = target.limits(entry["shape"])
            if limits is None or name not in rows:
                figures.append(f"{'-':>8s} ")
                continue
            value = target.figure(entry["shape"], rows[name]["hot_ms"])
            figures.append(f"{value:8.{1 if target.percent else 3}f}{target.mark(value, limits)}")
            text = f"{limits[0]:g} ({limits[1]:g})"
            if text not in asked:
                asked.append(text)
        print(f"{target.name:{NAME}s}{' '.join(figures)}   {'≤' if target.at_most else '≥'} {', '.join(asked)}")


def clocks(rows):
    found = [entry["state"]["sm_clock_mhz"] for part in ("shapes", "ragged", "backward", "wgrad") for entry in rows.get(part, {}).values()]
    return f"{min(found):.0f} to {max(found):.0f}"


def print_line(name, value, must, better, unit):
    mark = "+" if value <= better else " " if value <= must else "!"
    print(f"{name:{NAME}s}{value:8.3f}{mark} {unit:2s}   ≤ {must:g} ({better:g})")


def print_others(document):
    start = document.get("start_now")
    if start:
        print_line("cold start, plain product", statistics.median_high(start["grouped_gemm"]["cold"]["ms"]) / 1000, 0.65, 0.4, "s")
        print_line("… fc1", statistics.median_high(start["moe_fc1_swiglu"]["cold"]["ms"]) / 1000, 1.1, 0.8, "s")
        for name in start:
            print_line(f"warm start, {name}", statistics.median_high(start[name]["warm"]["ms"]), 2, 0.5, "ms")
    if "host" in document:
        host = document["host"]["kernels"][0]["host"]
        alone = host["driver_calls_alone"]["median_us"]
        print_line("host: launch beyond the driver's own time", host["launch"]["median_us"] - alone, 0.3, 0.1, "µs")
        print_line("… bound to new pointers", host["rebind_and_launch"]["median_us"] - alone, 1.0, 0.6, "µs")


def read(path):
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        sys.exit(f"{path}: {error.strerror}")
    except ValueError:
        sys.exit(f"{path}: it is no JSON")
    if not isinstance(document, dict) or not isinstance(document.get(ALL), dict):
        sys.exit(f"{path}: it has no figures of {ALL}")
    return document


def told(command):
    """The JSON that a command writes to the file that its last word names."""
    subprocess.run([str(word) for word in command], check=True, stdout=sys.stderr)
    return json.loads(pathlib.Path(command[-1]).read_text(encoding="utf-8"))


def copy_bandwidth():
    import torch
    source = torch.empty(1 << 32, device="cuda", dtype=torch.uint8)
    target = torch.empty_like(source)
    times = []
    for _ in range(8):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        target.copy_(source)
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    return {"bytes_per_ms": 2 * source.numel() / statistics.median_high(times)}


def measure(build):
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "figures.json")
        document = {ALL: told([sys.executable, ROOT / "tools/bench_peers.py", "--build", build, "--rows", "forward,ragged,backward,wgrad",
                               "--shapes", "all", "-o", file]),
                    "start_now": told([sys.executable, ROOT / "tools/gpu_check", "--build", build, "--only", "start", "-o", file])["start"]}
    host = subprocess.run([str(build / "tools/epifuse"), "bench", "--host", "specs/grouped_gemm.epi", "--json"], check=True,
                          capture_output=True, text=True, cwd=ROOT)
    return {**document, "host": json.loads(host.stdout), "copy": copy_bandwidth()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=ROOT / "build/release", type=pathlib.Path)
    parser.add_argument("--from", dest="file", type=pathlib.Path)
    parser.add_argument("-o", "--output", type=pathlib.Path)
    options = parser.parse_args()
    document = read(options.file) if options.file else measure(options.build.resolve())
    if options.output:
        options.output.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print_shapes(document)
    print_others(document)


if __name__ == "__main__":
    main()
