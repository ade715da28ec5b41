#!/usr/bin/env python3
"""Times Epifuse's kernels beside PyTorch's in one process, through the C interface.

    tools/bench_peers.py [--build build/release] [-o bench.json] [--shapes NAME,...]

Hot: the compared kernels alone run for 3 s, then in turn (A B C .. C B A) without pause; SM clock and power are sampled
meanwhile and printed, and figures count when the median clock is below 1500 MHz. Full clock: single launches with a pause
of 20 ms before each; those figures carry no target. Random data. TFLOP/s count the GEMM alone.

grouped         torch._grouped_mm, bf16
plain           specs/grouped_gemm.epi, under the planner's schedule and each of the others
fused           specs/moe_fc1_swiglu.epi without the saved pre-activation: SwiGLU, prob, MXFP8 both ways
fused_pre       the same with it
swiglu          specs/grouped_gemm_swiglu.epi: SwiGLU, bf16 out
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import threading
import time

import torch

ROOT = pathlib.Path(__file__).resolve().parent.parent
SHAPES = {  # name: (experts, tokens per expert, K, N); N counts gate and up
    "8x4096x7168x4096": (8, 4096, 7168, 4096),
    "16x2048x2880x5760": (16, 2048, 2880, 5760),
    "8x4096x2048x7168": (8, 4096, 2048, 7168),
}
SCHEDULES = ["pingpong 128x128", "pingpong 128x192", "cooperative 128x256"]
STORAGE = {"bf16": torch.bfloat16, "f32": torch.float32, "e4m3": torch.uint8, "e8m0": torch.uint8, "i32": torch.int32}


class Clock(threading.Thread):
    """Samples SM clock and power until stopped."""

    def __init__(self):
        super().__init__(daemon=True)
        self.samples, self.running = [], True

    def run(self):
        import pynvml
        pynvml.nvmlInit()
        device = pynvml.nvmlDeviceGetHandleByIndex(0)
        while self.running:
            self.samples.append((pynvml.nvmlDeviceGetClockInfo(device, pynvml.NVML_CLOCK_SM),
                                 pynvml.nvmlDeviceGetPowerUsage(device) / 1000))
            time.sleep(0.02)

    def stop(self):
        self.running = False
        self.join()
        clocks, watts = zip(*self.samples)
        return {"sm_clock_mhz": statistics.median(clocks), "watts": round(statistics.median(watts), 1), "samples": len(clocks)}


def evaluate(extent, sizes):
    """An extent as the library prints it, over the names in `sizes`."""
    words = {"ceil_div": lambda a, b: -(-a // b), "round_up": lambda a, b: -(-a // b) * b,
             "exact_div": lambda a, b: a // b, "min": min, "max": max}
    return eval(extent, {"__builtins__": {}}, {**words, **sizes})


class Bench:
    def __init__(self, engine, shape):
        experts, tokens, depth, columns = shape
        self.engine, self.work = engine, 2 * experts * tokens * depth * columns
        rows = experts * tokens
        self.sizes = {"E": experts, "K": depth, "N": columns, "I": columns // 2, "M": rows}
        self.x = torch.randn(rows, depth, device="cuda", dtype=torch.bfloat16)
        self.w = torch.randn(experts, columns, depth, device="cuda", dtype=torch.bfloat16) / depth ** 0.5
        self.prob = torch.rand(rows, device="cuda")
        self.ends = torch.arange(1, experts + 1, device="cuda", dtype=torch.int32) * tokens
        self.pool = {}

    def torch_grouped(self):
        weight = self.w.transpose(1, 2)
        return lambda: torch._grouped_mm(self.x, weight, offs=self.ends)

    def kernel(self, spec, left_out=(), schedule=None):
        names = {"grouped_gemm": "EKN"}.get(spec, "EKI")
        kernel = self.engine.load(ROOT / f"specs/{spec}.epi", dims={name: self.sizes[name] for name in names},
                                  left_out=left_out, schedule=schedule)
        tensors = {}
        for name, info in kernel.buffers.items():
            given = {"x": self.x, "w": self.w, "prob": self.prob, "M.ends": self.ends}.get(name)
            if given is None:
                shape = tuple(evaluate(extent, self.sizes) for extent in info["extents"])
                key = (name, shape, info["storage"])
                given = self.pool.setdefault(key, torch.empty(shape, device="cuda", dtype=STORAGE[info["storage"]]))
            tensors[name] = given
        call = kernel.bind(tensors)
        stream = torch.cuda.current_stream().cuda_stream
        return (lambda: call.launch(stream)), kernel.info


def hot(functions, seconds=3.0, rounds=16):
    deadline = time.time() + seconds
    while time.time() < deadline:
        for function in functions.values():
            function()
        torch.cuda.synchronize()
    clock = Clock()
    clock.start()
    events = {name: [] for name in functions}
    order = list(functions)
    for index in range(rounds):
        for name in order if index % 2 == 0 else reversed(order):
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            functions[name]()
            functions[name]()
            end.record()
            events[name].append((begin, end))
        if index % 4 == 3:
            torch.cuda.synchronize()
    torch.cuda.synchronize()
    state = clock.stop()
    return {name: statistics.median(a.elapsed_time(b) / 2 for a, b in pairs) for name, pairs in events.items()}, state


def full_clock(functions, rounds=7):
    times = {name: [] for name in functions}
    for _ in range(rounds):
        for name, function in functions.items():
            torch.cuda.synchronize()
            time.sleep(0.02)
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            function()
            end.record()
            end.synchronize()
            times[name].append(begin.elapsed_time(end))
    return {name: statistics.median(values) for name, values in times.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=ROOT / "build/release", type=pathlib.Path)
    parser.add_argument("-o", "--output")
    parser.add_argument("--shapes", default=",".join(SHAPES))
    options = parser.parse_args()
    os.environ.setdefault("EPIFUSE_LIBRARY", str(options.build.resolve() / "jit/libepifuse.so"))
    sys.path.insert(0, str(ROOT / "python"))
    import epifuse_c
    engine = epifuse_c.Engine()
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    report = {"gpu": subprocess.run(query, capture_output=True, text=True).stdout.strip(), "torch": torch.__version__, "shapes": {}}
    torch.manual_seed(0)
    for name in options.shapes.split(","):
        bench = Bench(engine, SHAPES[name])
        functions, schedules = {"grouped": bench.torch_grouped()}, {}
        rows = [("plain", "grouped_gemm", (), None)]
        rows += [("plain " + schedule, "grouped_gemm", (), schedule) for schedule in SCHEDULES]
        rows += [("fused", "moe_fc1_swiglu", ("pre",), None), ("fused_pre", "moe_fc1_swiglu", (), None),
                 ("swiglu", "grouped_gemm_swiglu", (), None)]
        for row, spec, left_out, schedule in rows:
            functions[row], info = bench.kernel(spec, left_out, schedule)
            schedules[row] = info["schedule"]
        hot_ms, state = hot(functions)
        full_ms = full_clock(functions)
        fastest = min(ms for row, ms in hot_ms.items() if row.startswith("plain"))
        print(f"{name}: median SM clock {state['sm_clock_mhz']} MHz, {state['watts']} W"
              f"{'' if state['sm_clock_mhz'] < 1500 else '; NOT HOT, these figures do not count'}")
        for row, ms in hot_ms.items():
            print(f"  {row:26s} {ms:7.3f} ms {bench.work / ms / 1e9:5.0f} TFLOP/s  throughput / grouped "
                  f"{hot_ms['grouped'] / ms:.3f}  time / fastest plain {ms / fastest:.3f}  | full clock {full_ms[row]:7.3f} ms"
                  f"  {schedules.get(row, '')}", flush=True)
        report["shapes"][name] = {"E,m,K,N": SHAPES[name], "hot_ms": hot_ms, "full_clock_ms": full_ms, "state": state,
                                  "schedules": schedules}
        del bench, functions
        torch.cuda.empty_cache()
    if options.output:
        with open(options.output, "w") as file:
            json.dump(report, file, indent=1)


if __name__ == "__main__":
    main()
