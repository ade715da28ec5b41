#!/usr/bin/env python3
"""Times Epifuse's kernels beside PyTorch's in one process, through the C interface.

    tools/bench_peers.py [--build build/release] [-o bench.json] [--rows forward,ragged,formats,backward,wgrad] [--shapes all]

Hot: the compared kernels alone run for 3 s, then in rounds without pause, each in another order, so that none always has the
same kernel before it; SM clock and power are sampled meanwhile and printed, and figures count when the median clock is
below 1500 MHz. Full clock: single launches with a pause of 20 ms before each; those figures carry no target. Random data.
TFLOP/s count the GEMM alone.

forward: x[M, K] . w[E, N, K]
grouped         torch._grouped_mm, bf16
chain           the same, then one torch.compile'd pass: SwiGLU, prob, MXFP8 both ways
plain           specs/grouped_gemm.epi, under the planner's schedule and each of the others
fused           specs/moe_fc1_swiglu.epi without the saved pre-activation: SwiGLU, prob, MXFP8 both ways
fused_pre       the same with it
swiglu          specs/grouped_gemm_swiglu.epi: SwiGLU, bf16 out

ragged: grouped, plain and fused of the forward, with equal groups and with log-normal ones (sigma 0.5)

formats: the forward GEMM with SwiGLU and prob, nothing saved, quantised both ways (specs/moe_fc1_swiglu.epi, specs/recipes)
grouped, plain  as above
mxfp8 rows, mxfp8 blocked_128x4, mxfp4, fp8_1x128, nvfp4 (rotated and stochastic along tokens)

backward: dy[M, H] . w2[E, H, I], FC2's data gradient
grouped         torch._grouped_mm, bf16
chain           the same, then one torch.compile'd pass: dSwiGLU, dprob, MXFP8 both ways
plain           specs/grouped_gemm.epi with the weight transposed in memory, under the planner's schedule and the others
plain as it is  the same GEMM on w2 as it is
backward        fc2_dgrad_mxfp8 of specs/swiglu_mlp.epi: dSwiGLU, dprob, MXFP8 both ways
backward bf16   fc2_dgrad: dSwiGLU, dprob, bf16 out

wgrad: dh[M, 2 I]^T . x[M, H], FC1's weight gradient
grouped         torch._grouped_mm over the ragged tokens, bf16 out
wgrad +=        fc1_wgrad of specs/swiglu_mlp.epi: added to f32
wgrad =         fc1_wgrad_bf16: bf16 out
"""
import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import threading
import time

import torch

ROOT = pathlib.Path(__file__).resolve().parent.parent
SHAPES = {  # name: (experts, tokens per expert, K, N); N counts gate and up
    "8x4096x8192x4096": (8, 4096, 8192, 4096),
    "8x4096x7168x4096": (8, 4096, 7168, 4096),
    "8x4096x2048x7168": (8, 4096, 2048, 7168),
    "32x1024x7168x4096": (32, 1024, 7168, 4096),
    "16x2048x2880x5760": (16, 2048, 2880, 5760),
    "16x2048x2880x2880": (16, 2048, 2880, 2880),
    "128x128x2880x5760": (128, 128, 2880, 5760),
}
# Where nothing else is asked for: one of each depth.
USUAL = "8x4096x7168x4096,16x2048x2880x5760,8x4096x2048x7168"
SCHEDULES = ["pingpong 128x128", "pingpong 128x192", "cooperative 128x256"]
STORAGE = {"bf16": torch.bfloat16, "f32": torch.float32, "e4m3": torch.uint8, "e8m0": torch.uint8, "i32": torch.int32,
           "e2m1": torch.uint8, "i64": torch.int64}


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
    """Rows to compare, on one set of tensors: functions to time, and the schedules that our kernels have. `work` is the
    floating-point operations of the GEMM, the same for all rows."""

    def __init__(self, engine, sizes, tokens, work):
        self.engine, self.sizes, self.work = engine, {**sizes, "M": sizes["E"] * tokens}, work
        ends = torch.arange(1, sizes["E"] + 1, device="cuda", dtype=torch.int32) * tokens
        self.tensors, self.pool, self.functions, self.schedules = {"M.ends": ends}, {}, {}, {}

    def random(self, name, *extents, size=1.0):
        shape = [evaluate(extent, self.sizes) for extent in extents]
        self.tensors[name] = torch.randn(shape, device="cuda", dtype=torch.bfloat16) * size
        return self.tensors[name]

    def ours(self, row, dims, path=None, text=None, kernel=None, left_out=(), schedule=None):
        loaded = self.engine.load(path and ROOT / path, text=text, kernel=kernel, dims={name: self.sizes[name] for name in dims},
                                  left_out=left_out, schedule=schedule)
        tensors = {}
        for name, info in loaded.buffers.items():
            if name in self.tensors:
                tensors[name] = self.tensors[name]
                continue
            shape = tuple(evaluate(extent, self.sizes) for extent in info["extents"])
            if info["storage"] == "e2m1":  # two in a byte
                shape = (*shape[:-1], shape[-1] // 2)
            key = (name, shape, info["storage"])
            if key not in self.pool:
                self.pool[key] = torch.zeros(shape, device="cuda", dtype=STORAGE[info["storage"]])
            tensors[name] = self.pool[key]
        needed = loaded.workspace_bytes(tensors)
        call = loaded.bind(tensors, workspace=torch.zeros(needed, device="cuda", dtype=torch.uint8) if needed else None)
        stream = torch.cuda.current_stream().cuda_stream
        self.functions[row] = lambda: call.launch(stream)
        self.schedules[row] = loaded.info["schedule"]

    def plain(self, suffix=""):
        """The fastest plain GEMM x[M, K] . w[E, N, K] is among these."""
        for schedule in (None, *SCHEDULES):
            row = "plain " + schedule if schedule else "plain"
            self.ours(row + suffix, "EKN", "specs/grouped_gemm.epi", schedule=schedule)


def forward_tensors(engine, shape):
    """A bench with x, w and prob of the forward GEMM; x; and the weight as torch wants it."""
    experts, tokens, depth, columns = shape
    sizes = {"E": experts, "K": depth, "N": columns, "I": columns // 2}
    bench = Bench(engine, sizes, tokens, 2 * experts * tokens * depth * columns)
    x, w = bench.random("x", "M", "K"), bench.random("w", "E", "N", "K", size=depth ** -0.5)
    bench.tensors["w1"], bench.tensors["prob"] = w, torch.rand(bench.sizes["M"], device="cuda")
    return bench, x, w.transpose(1, 2)


def log_normal_ends(experts, tokens, sigma=0.5):
    """Ends of groups whose sizes are log-normal, the same at every call."""
    sizes = torch.exp(sigma * torch.randn(experts, generator=torch.Generator().manual_seed(1)).double())
    ends = torch.round(sizes.cumsum(0) * (tokens / sizes.sum())).int()
    return ends.cuda()


def forward(engine, shape):
    bench, x, weight = forward_tensors(engine, shape)
    prob, ends, compiled = bench.tensors["prob"], bench.tensors["M.ends"], torch.compile(swiglu_mxfp8, dynamic=False)
    bench.functions["grouped"] = lambda: torch._grouped_mm(x, weight, offs=ends)
    bench.functions["chain"] = lambda: compiled(torch._grouped_mm(x, weight, offs=ends), prob)
    bench.plain()
    bench.ours("fused", "EKI", "specs/moe_fc1_swiglu.epi", left_out=("pre",))
    bench.ours("fused_pre", "EKI", "specs/moe_fc1_swiglu.epi")
    bench.ours("swiglu", "EKI", "specs/grouped_gemm_swiglu.epi")
    return bench


def ragged(engine, shape):
    bench, x, weight = forward_tensors(engine, shape)
    even, ends = bench.tensors["M.ends"], log_normal_ends(shape[0], bench.sizes["M"])
    for name, offs in (("", even), (" ragged", ends)):
        bench.tensors["M.ends"] = offs
        bench.functions["grouped" + name] = lambda offs=offs: torch._grouped_mm(x, weight, offs=offs)
        bench.plain(name)
        bench.ours("fused" + name, "EKI", "specs/moe_fc1_swiglu.epi", left_out=("pre",))
    return bench


def mxfp8(values, dim):
    """Codes and E8M0 scales of f32 [rows, columns] in blocks of 32 along `dim`, whose size is a multiple of 32."""
    blocks = values.unflatten(dim, (-1, 32))
    exponent = torch.ceil(torch.log2(blocks.abs().amax(dim + 1, keepdim=True) / 448)).clamp(-127, 127)
    codes = (blocks * torch.exp2(-exponent)).to(torch.float8_e4m3fn).flatten(dim, dim + 1)
    return codes, (exponent.squeeze(dim + 1) + 127).to(torch.uint8)


def swiglu_mxfp8(h, prob):
    """What moe_fc1_swiglu does behind its GEMM without the saved pre-activation, as one function for torch.compile."""
    gate, up = h.float().chunk(2, 1)
    act = torch.nn.functional.silu(gate) * up * prob[:, None]
    codes, scales = mxfp8(act, 1)
    codes_t, scales_t = mxfp8(act, 0)
    return codes, scales, codes_t.t().contiguous(), scales_t.t().contiguous()


def dswiglu_mxfp8(da, pre, prob):
    """What fc2_dgrad_mxfp8 does behind its GEMM, as one function for torch.compile."""
    gate, up = pre.float().chunk(2, 1)
    da, s = da.float(), torch.sigmoid(gate)
    dprob = (da * gate * s * up).sum(1)
    seed = da * prob[:, None]
    dh = torch.cat([seed * up * s * (1 + gate * (1 - s)), seed * gate * s], 1)
    codes, scales = mxfp8(dh, 1)
    codes_t, scales_t = mxfp8(dh, 0)
    return codes, scales, codes_t.t().contiguous(), scales_t.t().contiguous(), dprob


def of_layer(shape):
    """Experts, tokens for each, hidden size, expert width of the layer whose FC1 has this shape."""
    experts, tokens, depth, columns = shape
    return experts, tokens, depth, columns // 2


AS_IT_IS = """kernel grouped_gemm_as_it_is {
  dim   E, K, N
  group M by E
  in  x : bf16[M, K]
  in  w2 : bf16[E, K, N]
  out y : bf16[M, N] = gemm(x, w2)
}
"""


def backward(engine, shape):
    experts, tokens, hidden, width = of_layer(shape)
    sizes = {"E": experts, "H": hidden, "I": width, "K": hidden, "N": width}
    bench = Bench(engine, sizes, tokens, 2 * experts * tokens * hidden * width)
    dy, w2 = bench.random("dy", "M", "H"), bench.random("w2", "E", "H", "I", size=hidden ** -0.5)
    pre = bench.random("pre", "M", "2 * I")
    prob = bench.tensors["prob"] = torch.rand(bench.sizes["M"], device="cuda")
    bench.tensors["x"], bench.tensors["w"] = dy, w2.transpose(1, 2).contiguous()
    ends, compiled = bench.tensors["M.ends"], torch.compile(dswiglu_mxfp8, dynamic=False)
    bench.functions["grouped"] = lambda: torch._grouped_mm(dy, w2, offs=ends)
    bench.functions["chain"] = lambda: compiled(torch._grouped_mm(dy, w2, offs=ends), pre, prob)
    bench.plain()
    bench.ours("plain as it is", "EKN", text=AS_IT_IS)
    bench.ours("backward", "EHI", "specs/swiglu_mlp.epi", kernel="fc2_dgrad_mxfp8")
    bench.ours("backward bf16", "EHI", "specs/swiglu_mlp.epi", kernel="fc2_dgrad")
    return bench


def formats(engine, shape):
    bench, x, weight = forward_tensors(engine, shape)
    ends = bench.tensors["M.ends"]
    bench.functions["grouped"] = lambda: torch._grouped_mm(x, weight, offs=ends)
    bench.ours("plain", "EKN", "specs/grouped_gemm.epi")
    bench.ours("mxfp8 rows", "EKI", "specs/moe_fc1_swiglu.epi", left_out=("pre",))
    bench.ours("mxfp8 blocked_128x4", "EKI", "specs/recipes/mx.epi", kernel="fc1", left_out=("pre",))
    bench.ours("mxfp4", "EKI", "specs/recipes/mx.epi", kernel="fc1_mxfp4", left_out=("pre",))
    bench.ours("fp8_1x128", "EKI", "specs/recipes/fp8_blocks.epi", kernel="fc1", left_out=("pre",))
    bench.ours("nvfp4", "EKI", "specs/recipes/nvfp4.epi", kernel="fc1")
    return bench


def wgrad(engine, shape):
    experts, tokens, hidden, width = of_layer(shape)
    bench = Bench(engine, {"E": experts, "H": hidden, "I": width}, tokens, 4 * experts * tokens * hidden * width)
    dh, x = bench.random("dh", "M", "2 * I"), bench.random("x", "M", "H")
    ends = bench.tensors["M.ends"]
    bench.functions["grouped"] = lambda: torch._grouped_mm(dh.t(), x, offs=ends)
    bench.ours("wgrad +=", "EHI", "specs/swiglu_mlp.epi", kernel="fc1_wgrad")
    bench.ours("wgrad =", "EHI", "specs/swiglu_mlp.epi", kernel="fc1_wgrad_bf16")
    return bench


ROWS = {"forward": forward, "ragged": ragged, "formats": formats, "backward": backward, "wgrad": wgrad}


def hot(functions, seconds=3.0, rounds=16):
    deadline = time.time() + seconds
    while time.time() < deadline:
        for function in functions.values():
            function()
        torch.cuda.synchronize()
    clock = Clock()
    clock.start()
    events = {name: [] for name in functions}
    order, shuffled = list(functions), random.Random(1)
    for index in range(rounds):
        shuffled.shuffle(order)
        for name in order:
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
            torch.cuda._sleep(400000)  # while it runs, the host gets ahead: its own time is not to be counted
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            function()
            end.record()
            end.synchronize()
            times[name].append(begin.elapsed_time(end))
    return {name: statistics.median(values) for name, values in times.items()}


def measure(title, bench):
    for function in bench.functions.values():  # torch.compile works at the first call
        function()
    torch.cuda.synchronize()
    hot_ms, state = hot(bench.functions)
    full_ms = full_clock(bench.functions)
    plain = min((ms for row, ms in hot_ms.items() if row.startswith("plain")), default=None)
    print(f"{title}: median SM clock {state['sm_clock_mhz']} MHz, {state['watts']} W"
          f"{'' if state['sm_clock_mhz'] < 1500 else '; NOT HOT, these figures do not count'}")
    for row, ms in hot_ms.items():
        more = f"  time / fastest plain {ms / plain:.3f}" if plain else ""
        more += f"  chain / this {hot_ms['chain'] / ms:.3f}" if "chain" in hot_ms else ""
        print(f"  {row:26s} {ms:7.3f} ms {bench.work / ms / 1e9:5.0f} TFLOP/s  throughput / grouped {hot_ms['grouped'] / ms:.3f}"
              f"{more}  | full clock {full_ms[row]:7.3f} ms  {bench.schedules.get(row, '')}", flush=True)
    return {"hot_ms": hot_ms, "full_clock_ms": full_ms, "state": state, "schedules": bench.schedules}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=ROOT / "build/release", type=pathlib.Path)
    parser.add_argument("-o", "--output")
    parser.add_argument("--rows", default="forward,formats,backward,wgrad")
    parser.add_argument("--shapes", default=USUAL, help="names of shapes, or all")
    options = parser.parse_args()
    os.environ.setdefault("EPIFUSE_LIBRARY", str(options.build.resolve() / "jit/libepifuse.so"))
    sys.path.insert(0, str(ROOT / "python"))
    import epifuse_c
    engine = epifuse_c.Engine()
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    report = {"gpu": subprocess.run(query, capture_output=True, text=True).stdout.strip(), "torch": torch.__version__}
    torch.manual_seed(0)
    for rows in options.rows.split(","):
        make = ROWS[rows]
        # The forward's rows are where they were before there were others.
        results = report.setdefault("shapes" if rows == "forward" else rows, {})
        for name in SHAPES if options.shapes == "all" else options.shapes.split(","):
            bench = make(engine, SHAPES[name])
            results[name] = {"shape": SHAPES[name], **measure(f"{rows} {name}", bench)}
            del bench
            torch.cuda.empty_cache()
    if options.output:
        with open(options.output, "w") as file:
            json.dump(report, file, indent=1)


if __name__ == "__main__":
    main()
