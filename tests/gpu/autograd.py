#!/usr/bin/env python3
"""The backward kernels of specs/ against PyTorch's autograd in float64, on a GPU. One JSON line a check; exit code 1 when
one is wrong, 77 without PyTorch or a GPU.

    tests/gpu/autograd.py [--build build/release] [--device gpu|cpu] [--only kernels,wgrad,step,chain,graph,repeat]

kernels   each kernel on its own, over ragged groups, from the inputs as they are stored
wgrad     groups of 0, 5, 0, 130 and 4096 tokens into poisoned and into used buffers
step      a whole forward and backward, all kernels ours: how far each gradient is from that of the unrounded network,
          beside how far PyTorch's bf16 autograd is, and what the rounding of the saved tensors alone explains
chain     the step with the backward kernels that `epifuse grad --chain fc1,fc2` prints
graph     the step in one CUDA graph, replayed with other group sizes: the bits of the eager run
repeat    sums over tiles: the same bits in 20 runs and under every schedule

Errors are relative norms, per expert. A bf16 or MXFP8 result is compared with the reference rounded or quantised, so that
only results beside a tie differ; sums may cancel, so theirs are relative to the root of the sum of their terms' squares. --device cpu
runs the interpreter on small sizes instead, where a check needs no GPU.
"""
import argparse
import json
import pathlib
import sys
import tempfile

try:
    import torch
except ImportError:
    print("SKIP: PyTorch is not installed")
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import training_step as steps  # noqa: E402
from step_reference import Problem, autograd, dequantised, quantised, stored_reference  # noqa: E402

LIMITS = {torch.bfloat16: 1e-3, torch.float32: 1e-5}
MXFP8_LIMIT = 1e-2  # one value in a row that falls on the other side of a tie; a wrong scale of one block is more


class Report:
    def __init__(self):
        self.failed = 0

    def line(self, check, ok, **facts):
        self.failed += not ok
        rounded = {key: float(f"{value:.3g}") if isinstance(value, float) else value for key, value in facts.items()}
        print(json.dumps({"check": check, "ok": bool(ok), **rounded}), flush=True)

    def compare(self, check, problem, name, got, want, limit, squares=None):
        """got and want in float64; one line with the worst expert and its worst element."""
        worst = None
        base = squares if squares is not None else want.square()
        parts = zip(problem.per_expert(name, got), problem.per_expert(name, want), problem.per_expert(name, base))
        for (expert, a), (_, b), (_, norm) in parts:
            if a.numel() == 0:
                continue
            away, size = (a - b).square().sum().sqrt().item(), norm.sum().sqrt().item()
            # not (x <= y) and not x > y: a NaN is the worst error there is
            error = away / size if size else 0.0 if away == 0 else float("inf")
            if worst is None or not error <= worst[0]:
                worst = (error, expert, a, b)
        if worst is None:
            return self.line(check, True, error=0.0, limit=limit)
        error, expert, a, b = worst
        place = torch.argmax(torch.nan_to_num((a - b).abs(), nan=float("inf"))).item()
        at = [int(i) for i in torch.unravel_index(torch.tensor(place), a.shape)]
        return self.line(check, error <= limit, error=error, limit=limit, expert=expert, at=at, got=a.reshape(-1)[place].item(),
                         want=b.reshape(-1)[place].item())


def compare_outputs(report, label, problem, pool, expected, squares, before=None):
    for name, want in expected.items():
        if name not in pool:
            continue
        got, limit = pool[name], LIMITS.get(pool[name].dtype)
        if limit is None:
            for copy in (name, name + "_t"):
                report.compare(f"{label} {copy}", problem, copy, dequantised(problem, pool, copy),
                               quantised(problem, want, copy != name), MXFP8_LIMIT)
            continue
        want = want + before[name].double() if before and name in before else want
        want = want.to(got.dtype).double() if got.dtype == torch.bfloat16 else want
        report.compare(f"{label} {name}", problem, name, got.double(), want, limit, squares.get(name))


def run_alone(run, problem, file, kernel, held=()):
    """One kernel on inputs of its own; the tensors after it. `held`: what outputs held before."""
    pool = {**problem.pool, **problem.alone, **dict(held)}
    for name in ("pre", "act", "dh", "dyp"):
        if name not in steps.names_of(file, kernel, "in"):
            pool.pop(name)
    run.prepare(file, kernel, pool, problem.sizes)()
    return pool


def check_kernels(run, report, sizes):
    for family in steps.FAMILIES.values():
        for title, counts in sizes.counts(family).items():
            problem = Problem(family, counts, sizes.hidden, sizes.width, run.device)
            for file, kernel in sizes.alone(family):
                if title == "many groups" and (file, kernel) not in sizes.many:
                    continue
                held = {"dprob": torch.ones(sum(counts), device=run.device)} if kernel == "fc2_bias_bwd" else {}
                before = {name: tensor.clone() for name, tensor in held.items()}
                pool = run_alone(run, problem, file, kernel, held)
                expected, squares = stored_reference(problem, {**problem.pool, **problem.alone}, kernel)
                compare_outputs(report, f"{family.file} {kernel}, {title}:", problem, pool, expected, squares, before)
    check_separate(run, report, sizes)


def check_separate(run, report, sizes):
    """Gate and up as two tensors."""
    family, file = steps.FAMILIES["swiglu_mlp"], "separate_gate_up"
    for title, counts in list(sizes.counts(family).items())[:2]:
        problem = Problem(family, counts, sizes.hidden, sizes.width, run.device, seed=1)
        halves = {}
        for whole, names in {"w1": ("w_gate", "w_up"), "pre": ("gate", "up"), "dh": ("dgate", "dup")}.items():
            source = {**problem.pool, **problem.alone}[whole]
            halves.update(zip(names, (half.contiguous() for half in source.chunk(2, 1))))
        for kernel, outputs in {"fc1": ("pre", "act"), "fc2_dgrad": ("dh", "dprob"), "fc1_dgrad": ("dx",), "fc1_wgrad": ("dw1",)}.items():
            inputs = steps.names_of(file, kernel, "in")
            pool = {name: tensor for name, tensor in {**problem.pool, **halves}.items() if name in [*inputs, "M.ends"]}
            run.prepare(file, kernel, pool, problem.sizes)()
            expected, squares = stored_reference(problem, {**problem.pool, **problem.alone}, kernel)
            for whole, names in {"pre": ("gate", "up"), "dh": ("dgate", "dup"), "dw1": ("dw_gate", "dw_up")}.items():
                if whole in outputs:
                    pool[whole] = torch.cat([pool[name] for name in names], 1)
            compare_outputs(report, f"{file} {kernel}, {title}:", problem, pool, {name: expected[name] for name in outputs}, squares)


def check_wgrad(run, report, sizes):
    problem = Problem(steps.FAMILIES["swiglu_mlp"], sizes.wgrad, sizes.hidden, sizes.width, run.device, seed=2)
    for kernel, name in (("fc1_wgrad", "dw1"), ("fc2_wgrad", "dw2")):
        expected, _ = stored_reference(problem, {**problem.pool, **problem.alone}, kernel)
        used = torch.randn(expected[name].shape, device=run.device)
        pool = run_alone(run, problem, "swiglu_mlp", kernel, {name: used.clone()})
        compare_outputs(report, f"swiglu_mlp {kernel} += :", problem, pool, expected, {}, {name: used})
        empty = [e for e, count in enumerate(sizes.wgrad) if count == 0]
        report.line(f"swiglu_mlp {kernel} += leaves empty groups alone", torch.equal(pool[name][empty], used[empty]))
        pool = run_alone(run, problem, "swiglu_mlp", kernel + "_bf16")  # its output was poisoned
        compare_outputs(report, f"swiglu_mlp {kernel}_bf16 = :", problem, pool, expected, {})
        report.line(f"swiglu_mlp {kernel}_bf16 = writes zeros for empty groups", not pool[name][empty].any())


class Step:
    """The kernels of a training step bound to one pool, in their order."""

    def __init__(self, run, problem, kernels=None):
        self.problem, self.pool, self.calls = problem, dict(problem.pool), []
        self.kernels = kernels or problem.family.order()
        for file, kernel in self.kernels:
            self.calls.append(run.prepare(file, kernel, self.pool, problem.sizes))
        self.sums = {name for name in self.pool if name.startswith("dw")}  # they add to what they hold

    def outputs(self):
        return {name: tensor for name, tensor in self.pool.items() if name not in self.problem.pool}

    def reset(self):
        for name, tensor in self.outputs().items():
            tensor.zero_() if name in self.sums else steps.poison(tensor)

    def run(self):
        for call in self.calls:
            call()

    def bytes(self):
        return {name: tensor.reshape(-1).view(torch.uint8).clone() for name, tensor in self.outputs().items()}


def errors(problem, name, want, got):
    """Relative norms per expert; where there is nothing, nothing may be stored."""
    for (_, b), (_, a) in zip(problem.per_expert(name, want), problem.per_expert(name, got.double())):
        size, away = b.square().sum().sqrt().item(), (a - b).square().sum().sqrt().item()
        yield away / size if size else 0.0 if away == 0 else float("inf")


def check_against_network(report, label, problem, pool, explained):
    """How far each gradient is from that of the network in float64. It may be as far as PyTorch's in bf16, or as the
    rounding of saved tensors explains."""
    own = autograd(problem, torch.bfloat16)
    for name, want in autograd(problem, torch.float64).items():
        columns = {"ours": pool[name], "torch_bf16": own[name], "saved": explained[name].to(pool[name].dtype)}
        columns = {key: [float(f"{error:.3g}") for error in errors(problem, name, want, got)] for key, got in columns.items()}
        ok = all(ours <= 1.1 * max(theirs, saved) for ours, theirs, saved in zip(*columns.values()))
        report.line(f"{label} {name} against the unrounded network, per expert", ok, **columns)


def check_step(run, report, sizes):
    for family in steps.FAMILIES.values():
        problem = Problem(family, sizes.step(family), sizes.hidden, sizes.width, run.device, seed=3)
        step = Step(run, problem)
        step.run()
        explained, squares = {}, {}
        for _, kernel in step.kernels:
            more, of_sums = stored_reference(problem, step.pool, kernel)
            if kernel == "fc2_bias_bwd":  # dprob is the sum of both kernels'
                more["dprob"], of_sums["dprob"] = more["dprob"] + explained["dprob"], of_sums["dprob"] + squares["dprob"]
            explained.update(more)
            squares.update(of_sums)
        label = f"{family.file} step:"
        compare_outputs(report, f"{label} from the saved tensors,", problem, step.pool, explained, squares)
        check_against_network(report, label, problem, step.pool, explained)


def check_chain(run, report, sizes):
    for family in steps.FAMILIES.values():
        problem = Problem(family, sizes.step(family), sizes.hidden, sizes.width, run.device, seed=3)
        written, derived = Step(run, problem), Step(run, problem, sizes.derived[family.file])
        written.run()
        derived.run()
        # What rounding explains was shown for the kernels of the file; the derived ones may store other tensors, no worse.
        check_against_network(report, f"{family.file} from grad --chain:", problem, derived.pool, written.pool)


def check_graph(run, report, sizes):
    for file in ("swiglu_mlp", "gpt_oss_mlp"):
        family = steps.FAMILIES[file]
        counts = sizes.step(family)
        problem = Problem(family, counts, sizes.hidden, sizes.width, run.device, seed=4)
        step = Step(run, problem)
        step.run()  # nothing is loaded for the first time during the capture
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step.run()
        for other in (counts, counts[::-1], [0] * (len(counts) - 1) + [sum(counts)], [1] * len(counts), [0] * len(counts)):
            problem.pool["M.ends"].copy_(torch.tensor(other, device=run.device).cumsum(0))
            step.reset()
            step.run()
            eager = step.bytes()
            step.reset()
            graph.replay()
            torch.cuda.synchronize()
            replayed = step.bytes()
            differ = [name for name in eager if not torch.equal(eager[name], replayed[name])]
            report.line(f"{file} graph, counts {other}", not differ, differ=differ)


def check_repeat(run, report, sizes):
    for file, kernel, names in (("swiglu_mlp", "fc2_dgrad", ["dprob"]), ("gpt_oss_mlp", "fc2_dgrad", ["dprob", "db1"]),
                                ("gpt_oss_mlp", "fc2_dgrad_mxfp8", ["dprob", "db1"]), ("gpt_oss_mlp", "fc2_bias_bwd", ["dprob", "db2"])):
        family = steps.FAMILIES[file]
        problem = Problem(family, sizes.step(family), sizes.hidden, sizes.width, run.device, seed=5)

        def outputs(schedule=None, repeats=1):
            pool = {**problem.pool, "pre": problem.alone["pre"]}
            if kernel == "fc2_bias_bwd":
                pool["dprob"] = torch.zeros(sum(problem.counts), device=run.device)
            launch = run.prepare(file, kernel, pool, problem.sizes, schedule)
            for _ in range(repeats):
                for name in names:
                    if name in pool:
                        pool[name].zero_()
                launch()
                yield {name: pool[name].reshape(-1).view(torch.uint8).clone() for name in names}

        first, *rest = outputs(repeats=20)
        differ = [name for name in names if not all(torch.equal(first[name], one[name]) for one in rest)]
        report.line(f"{file} {kernel} 20 runs", not differ, differ=differ)
        schedules = run.schedules(file, kernel, problem.sizes)
        for schedule in schedules:
            (one,) = outputs(schedule)
            differ = [name for name in names if not torch.equal(first[name], one[name])]
            report.line(f"{file} {kernel} under {schedule}", not differ, differ=differ)
        if kernel != "fc2_bias_bwd" and run.device == "cuda":
            report.line(f"{file} {kernel} has other schedules", len(schedules) >= 2, schedules=schedules)


class Sizes:
    many = [("swiglu_mlp", "fc2_dgrad_mxfp8"), ("gpt_oss_mlp", "fc2_dgrad"), ("gpt_oss_mlp", "fc2_bias_bwd"), ("swiglu_mlp", "fc1_wgrad")]

    def __init__(self, small):
        self.hidden, self.width = (32, 32) if small else (704, 416)
        self.wgrad = [0, 5, 0, 13, 40] if small else [0, 5, 0, 130, 4096]
        self.ragged = [0, 1, 31, 33, 2, 3, 0, 7] if small else [0, 1, 31, 33, 127, 129, 64, 255]
        self.one = [0, 0, 0, 40, 0, 0, 0, 0] if small else [0, 0, 0, 1000, 0, 0, 0, 0]
        self.derived = {}  # file: the kernels of a step with a derived backward pass

    def counts(self, family):
        if family.dense:
            return {f"{rows} rows": [rows] for rows in (1, self.one[3], 0)}
        return {"ragged": self.ragged, "all in one": self.one, "many groups": [(7 * e) % 23 for e in range(64)]}

    def step(self, family):
        return [sum(self.ragged)] if family.dense else [2 * count for count in self.ragged]

    def alone(self, family):
        """Every backward kernel of a family's own file, and its forward ones in the types that the step does not have. One
        with a weight of another shape is left to cookbook_test.cpp."""
        others = ("fc1", "fc2", "fc1_contraction_first")
        return [(family.file, kernel) for kernel in steps.kernels_of(family.file) if kernel not in others]

    def wanted(self, run, parts):
        """(file, kernel, sizes, schedule) of all that will be run."""
        def of(counts):
            return {"E": len(counts), "H": self.hidden, "I": self.width}
        found = []
        for family in steps.FAMILIES.values():
            found += [(*one, of(self.ragged)) for one in {*family.order(), *self.alone(family)}]
        found += [(*one, of(self.ragged)) for order in self.derived.values() for one in order]
        found += [("separate_gate_up", kernel, of(self.ragged)) for kernel in ("fc1", "fc2_dgrad", "fc1_dgrad", "fc1_wgrad")]
        found += [(*one, of(range(64))) for one in self.many]
        if "wgrad" in parts:
            found += [("swiglu_mlp", kernel, of(self.wgrad)) for kernel in ("fc1_wgrad", "fc1_wgrad_bf16", "fc2_wgrad", "fc2_wgrad_bf16")]
        if "repeat" in parts:
            for one in (("swiglu_mlp", "fc2_dgrad"), ("gpt_oss_mlp", "fc2_dgrad"), ("gpt_oss_mlp", "fc2_dgrad_mxfp8")):
                found += [(*one, of(self.ragged), schedule) for schedule in run.schedules(*one, of(self.ragged))]
        return found


PARTS = {"kernels": check_kernels, "wgrad": check_wgrad, "step": check_step, "chain": check_chain, "graph": check_graph, "repeat": check_repeat}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=steps.ROOT / "build/release", type=pathlib.Path)
    parser.add_argument("--device", choices=("gpu", "cpu"), default="gpu")
    parser.add_argument("--only", default=",".join(PARTS))
    options = parser.parse_args()
    if options.device == "gpu" and not torch.cuda.is_available():
        print("SKIP: PyTorch sees no GPU")
        return 77
    small = options.device == "cpu"
    parts, sizes, report = options.only.split(","), Sizes(small), Report()
    with tempfile.TemporaryDirectory() as folder:
        run = (steps.InterpreterKernels if small else steps.GpuKernels)(options.build.resolve(), folder)
        if "chain" in parts:
            sizes.derived = {file: steps.derive(options.build.resolve(), family, folder) for file, family in steps.FAMILIES.items()}
        run.load_all(sizes.wanted(run, parts))
        for part in parts:
            if part != "graph" or not small:
                PARTS[part](run, report, sizes)
    print(f"{report.failed} checks failed" if report.failed else "all checks passed")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
