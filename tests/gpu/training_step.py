"""The training steps of specs/ for autograd.py: which file computes what, and how its kernels are run, on a GPU through
the C interface or on the interpreter through the command. Tensors are torch's, in a pool by the names of the specs."""

import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import torch

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tools")]
STORAGE = {"bf16": torch.bfloat16, "f32": torch.float32, "e4m3": torch.uint8, "e8m0": torch.uint8, "i32": torch.int32}
NUMPY = {torch.bfloat16: "<u2", torch.float32: "<f4", torch.uint8: "|u1", torch.int32: "<i4"}


def inclusive_min(x, limit):
    """min(x, limit) that passes the gradient at the limit, as the language does; torch.clamp changed its mind on that."""
    return torch.where(x > limit, torch.full_like(x, limit), x)


def clamped_glu(gate, up, alpha=1.702, limit=7.0):
    g, u = inclusive_min(gate, limit), -inclusive_min(-inclusive_min(up, limit), limit)
    return g * torch.sigmoid(alpha * g) * (u + 1)


def tanh_squared_glu(gate, up, c=10.0):
    return torch.relu(c * torch.tanh(gate / c)).square() * (c * torch.tanh(up / c))


class Family:
    """A file of specs/, with its activation as a torch user writes it: on any dtype, differentiated by autograd."""

    def __init__(self, file, function, *, gated=True, interleaved=False, biased=False, prob=True, dense=False, gain=1.0,
                 rest=None):
        self.file, self.function, self.gated, self.interleaved = file, function, gated, interleaved
        self.biased, self.prob, self.dense, self.gain, self.rest = biased, prob, dense, gain, rest or file

    def activation(self, h):
        if not self.gated:
            return self.function(h)
        return self.function(*((h[..., ::2], h[..., 1::2]) if self.interleaved else h.chunk(2, -1)))

    def order(self):
        """(file, kernel) of a training step, in its order."""
        kernels = ["fc1", "fc2", "fc2_dgrad", *(["fc2_bias_bwd"] if self.biased else []), "fc1_dgrad", "fc2_wgrad", "fc1_wgrad"]
        return [(self.file if kernel in kernels_of(self.file) else self.rest, kernel) for kernel in kernels]


FAMILIES = {family.file: family for family in [
    Family("swiglu_mlp", lambda gate, up: torch.nn.functional.silu(gate) * up),
    Family("gpt_oss_mlp", clamped_glu, interleaved=True, biased=True, gain=3.0),  # 2 % of h are beyond the limit
    Family("geglu_mlp", lambda gate, up: torch.nn.functional.gelu(gate, approximate="tanh") * up),
    Family("squared_relu_mlp", lambda h: torch.relu(h).square(), gated=False),
    Family("dense_mlp", lambda gate, up: torch.nn.functional.silu(gate) * up, prob=False, dense=True),
    Family("tanh_squared_glu", tanh_squared_glu, prob=False, gain=6.0, rest="swiglu_mlp"),
]}


DERIVED = {}  # files that are not in specs/


def spec_path(file):
    return DERIVED.get(file) or ROOT / f"specs/{file}.epi"


def spec_text(file):
    return spec_path(file).read_text()


def derive(build, family, folder):
    """(file, kernel) of a step with the backward pass that `epifuse grad` prints; it may bring forward kernels that store
    more."""
    path, name = pathlib.Path(folder) / f"{family.file}_backward.epi", family.file + "_backward"
    subprocess.run([build / "tools/epifuse", "grad", spec_path(family.file), "--chain", "fc1,fc2", "-o", path], check=True,
                   capture_output=True)
    DERIVED[name] = path
    kernels = kernels_of(name)
    forward = [(name if kernel in kernels else family.file, kernel) for kernel in ("fc1", "fc2")]
    return forward + [(name, kernel) for kernel in kernels if kernel not in ("fc1", "fc2")]


def kernels_of(file):
    return re.findall(r"(?m)^kernel (\w+)", spec_text(file))


def kernel_text(file, kernel):
    return re.search(r"(?ms)^kernel " + kernel + r" \{.*?^\}", spec_text(file)).group()


def names_of(file, kernel, statement):
    """The names that a kernel's `dim`s or `in`s have."""
    lines = re.findall(r"(?m)^  " + statement + r" +([^:#\n]*)", kernel_text(file, kernel))
    return re.findall(r"[A-Za-z]\w*", " ".join(lines))


def dims_of(file, kernel, sizes):
    """The numbers of a kernel's `dim`s, as a command line has them."""
    return ",".join(f"{name}={sizes[name]}" for name in names_of(file, kernel, "dim"))


def accumulated(file, kernel):
    return re.findall(r"(?m)^  out +(\w+) .*\+=", kernel_text(file, kernel))


def evaluate(extent, sizes):
    """An extent as the library prints it, over the names in `sizes`."""
    words = {"ceil_div": lambda a, b: -(-a // b), "round_up": lambda a, b: -(-a // b) * b,
             "exact_div": lambda a, b: a // b, "min": min, "max": max}
    return eval(extent, {"__builtins__": {}}, {**words, **sizes})


def poison(tensor):
    tensor.reshape(-1).view(torch.uint8).fill_(0xFF)


class GpuKernels:
    """Kernels bound to tensors of a pool; launch() enqueues on torch's current stream."""

    device = "cuda"

    def __init__(self, build, folder):
        os.environ.setdefault("EPIFUSE_LIBRARY", str(build / "jit/libepifuse.so"))
        import epifuse_c
        self.command, self.cache = build / "tools/epifuse", os.path.join(folder, "cache")
        self.engine, self.loaded = epifuse_c.Engine(self.cache), {}

    def load(self, file, kernel, sizes, schedule=None):
        dims = {name: sizes[name] for name in names_of(file, kernel, "dim")}
        key = (file, kernel, tuple(dims.items()), schedule)
        if key not in self.loaded:
            self.loaded[key] = self.engine.load(spec_path(file), kernel=kernel, dims=dims, schedule=schedule)
        return self.loaded[key]

    def load_all(self, wanted):
        """Compiles into the engine's cache, in a process each: NVRTC's threads wait for each other. A failure is told when
        the kernel is used."""
        def compile_one(file, kernel, sizes, schedule=None):
            subprocess.run([self.command, "compile", spec_path(file), "--kernel", kernel,
                            "--dims", dims_of(file, kernel, sizes), *(["--schedule", schedule] if schedule else [])],
                           capture_output=True, check=False, env={**os.environ, "EPIFUSE_CACHE_DIR": self.cache})
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            list(pool.map(lambda one: compile_one(*one), wanted))

    def schedules(self, file, kernel, sizes):
        """Every plan that is tried unasked, of the family that comes first: the general launches behind a memory pass add
        in an order of their own."""
        done = subprocess.run([self.command, "explain", spec_path(file), "--kernel", kernel,
                               "--dims", dims_of(file, kernel, sizes), "--json"], capture_output=True, text=True, check=False,
                              env={**os.environ, "EPIFUSE_CACHE_DIR": self.cache})
        if done.returncode != 0:
            raise RuntimeError(f"{file} {kernel}: {done.stdout}{done.stderr}")
        plans = [row["plan"] for row in json.loads(done.stdout)["kernels"][0]["plan"]["plans"]]
        return [plan for plan in plans if plan != "pointwise" or len(plans) == 1]

    def prepare(self, file, kernel, pool, sizes, schedule=None):
        loaded, tensors = self.load(file, kernel, sizes, schedule), {}
        for name, info in loaded.buffers.items():
            if info["role"] == "output" and name not in pool:
                shape = [evaluate(extent, sizes) for extent in info["extents"]]
                pool[name] = torch.empty(shape, device="cuda", dtype=STORAGE[info["storage"]])
                if name in accumulated(file, kernel):
                    pool[name].zero_()
                else:
                    poison(pool[name])
            tensors[name] = pool[name]
        needed = loaded.workspace_bytes(tensors)
        workspace = torch.zeros(needed, device="cuda", dtype=torch.uint8) if needed else None
        call = loaded.bind(tensors, workspace=workspace)
        return lambda: call.launch(torch.cuda.current_stream().cuda_stream)


class InterpreterKernels:
    """The same on the interpreter, by files: it shows that the checks are right, and needs no GPU."""

    device = "cpu"

    def __init__(self, build, folder):
        self.command = str(build / "tools/epifuse")

    def load_all(self, wanted):
        pass

    def schedules(self, file, kernel, sizes):
        return []

    def prepare(self, file, kernel, pool, sizes, schedule=None):
        return lambda: self.run(file, kernel, pool, sizes)

    def run(self, file, kernel, pool, sizes):
        import npy_files
        with tempfile.TemporaryDirectory() as folder:
            inputs, results = os.path.join(folder, "in"), os.path.join(folder, "out")
            os.mkdir(inputs)
            for name in [*names_of(file, kernel, "in"), "M.ends", *accumulated(file, kernel)]:
                if name in pool and (name != "M.ends" or "group M" in kernel_text(file, kernel)):
                    data = bytes(pool[name].contiguous().reshape(-1).view(torch.uint8).tolist())
                    npy_files.write(f"{inputs}/{name}.npy", NUMPY[pool[name].dtype], tuple(pool[name].shape), data)
            dims = ",".join(f"{name}={sizes[name]}" for name in [*names_of(file, kernel, "dim"), *names_of(file, kernel, "dyn")])
            done = subprocess.run([self.command, "run", str(spec_path(file)), "--kernel", kernel, "--device", "cpu",
                                   "--dims", dims, "--inputs", inputs, "-o", results], capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise RuntimeError(f"{file} {kernel}: {done.stderr}")
            for path in sorted(os.listdir(results)):
                shape, values = npy_files.read(os.path.join(results, path))
                dtype = torch.bfloat16 if values.typecode == "H" else {v: k for k, v in NUMPY.items()}[
                    {"f": "<f4", "B": "|u1", "i": "<i4"}[values.typecode]]
                made = (torch.frombuffer(values, dtype=dtype).clone() if len(values) else torch.empty(0, dtype=dtype)).reshape(shape)
                held = pool.setdefault(path[: -len(".npy")], made)
                held.copy_(made)
