"""The training steps in specs/*_mlp.epi and their kin, on the interpreter: every kernel is without mistakes and runs;
kernels that differ in what they store agree; and a whole forward and backward has the gradients of the forward.

The gradients are compared with central differences of a forward written out below in doubles, along random directions.
For that every type of a spec is made f32, so that nothing but f32's rounding lies between the two; with the types as
written, the results must then be those within one rounding.
"""

import math
import operator
import os
import random
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "cli"))
import support  # noqa: E402
import make_inputs  # noqa: E402
from support import npy_files  # noqa: E402

FILES = ["swiglu_mlp", "gpt_oss_mlp", "geglu_mlp", "squared_relu_mlp", "dense_mlp", "tanh_squared_glu", "separate_gate_up"]
COUNTS = [5, 0, 3]
EXPERTS, ROWS, H, I = len(COUNTS), sum(COUNTS), 16, 32
LIMIT = 0.75  # of the clamped GLU: small, so that both clamps are met


def dot(a, b):
    return sum(map(operator.mul, a, b))


def norm(values):
    return math.sqrt(sum(value * value for value in values))


def bf16(value):
    return make_inputs.bf16_value(make_inputs.bf16_bits(value))


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def clamped_glu(gate, up):
    g = min(gate, LIMIT)
    return g * sigmoid(1.702 * g) * (max(-LIMIT, min(up, LIMIT)) + 1)


def geglu(gate, up):
    return 0.5 * gate * (1 + math.tanh(math.sqrt(2 / math.pi) * (gate + 0.044715 * gate**3))) * up


class Family:
    """How the forward of a file is computed: its function of gate and up, or of h where up is missing."""

    def __init__(self, file, function, *, gated=True, interleaved=False, biased=False, prob=True, dense=False, rest=None):
        self.file, self.function, self.gated, self.interleaved = file, function, gated, interleaved
        self.biased, self.prob, self.dense, self.rest = biased, prob, dense, rest or file
        self.width = 2 * I if gated else I

    def expert(self, row):
        return 0 if self.dense else next(e for e in range(EXPERTS) if row < sum(COUNTS[: e + 1]))

    def loss(self, t):
        """sum of dy y over all rows, y = (act w2^T + b2) prob; a probability that is on act alone gives the same."""
        total = 0.0
        for m in range(ROWS):
            e, x = self.expert(m), t["x"][m * H : m * H + H]
            h = []
            for j in range(self.width):
                w = (e * self.width + j) * H
                h.append(dot(x, t["w1"][w : w + H]))
            if self.biased:
                h = [value + t["b1"][e * self.width + j] for j, value in enumerate(h)]
            if not self.gated:
                act = [self.function(value) for value in h]
            else:
                gate, up = (h[::2], h[1::2]) if self.interleaved else (h[:I], h[I:])
                act = list(map(self.function, gate, up))
            row = 0.0
            for n in range(H):
                w = (e * H + n) * I
                y = dot(act, t["w2"][w : w + I]) + (t["b2"][e * H + n] if self.biased else 0)
                row += t["dy"][m * H + n] * y
            total += row * (t["prob"][m] if self.prob else 1)
        return total


FAMILIES = [
    Family("swiglu_mlp", lambda gate, up: gate * sigmoid(gate) * up),
    Family("gpt_oss_mlp", clamped_glu, interleaved=True, biased=True),
    Family("geglu_mlp", geglu),
    Family("squared_relu_mlp", lambda h: max(0.0, h) ** 2, gated=False),
    Family("dense_mlp", lambda gate, up: gate * sigmoid(gate) * up, prob=False, dense=True),
    Family("tanh_squared_glu", lambda gate, up: max(0.0, 10 * math.tanh(gate / 10)) ** 2 * 10 * math.tanh(up / 10), prob=False,
           rest="swiglu_mlp"),
]


class CookbookTest(support.CliTest):
    def setUp(self):
        super().setUp()
        self.exact = {}
        for name in FILES:
            with open(self.spec(name), encoding="utf-8") as file:
                self.exact[name] = self.write(name + "_f32.epi", re.sub(r"\b(bf16|mxfp8)\b", "f32", file.read()))

    def kernels(self, name):
        return self.kernels_of(self.spec(name))

    @staticmethod
    def kernels_of(path):
        with open(path, encoding="utf-8") as file:
            return re.findall(r"(?m)^kernel (\w+)", file.read())

    def run_kernel(self, spec, kernel, *arguments):
        """The JSON of a run on small sizes; each kernel is told the dims that it has."""
        with open(spec, encoding="utf-8") as file:
            body = re.search(r"kernel " + kernel + r" \{.*?\n\}", file.read(), re.DOTALL).group()
        dims = [f"{name}={size}" for name, size in (("E", EXPERTS), ("H", H), ("I", I), ("S", ROWS))
                if re.search(r"(?m)^  (dim|dyn) .*\b" + name + r"\b", body)]
        counts = ["--counts", ",".join(map(str, COUNTS))] if "group M" in body else []
        limit = ["--param", f"limit={LIMIT}"] if "param limit" in body else []
        return self.json("run", spec, "--kernel", kernel, "--device", "cpu", "--dims", ",".join(dims), *counts, *limit,
                         *arguments)

    def test_every_kernel_is_without_mistakes_and_has_all_its_sizes(self):
        document = self.json("check", *map(self.spec, FILES))
        for name, file in zip(FILES, document["files"]):
            self.assertEqual([kernel["name"] for kernel in file["kernels"]], self.kernels(name))
            self.assertGreaterEqual(len(file["kernels"]), 2)
            for kernel in file["kernels"]:
                self.assertTrue(kernel["bound"], (name, kernel))

    def test_every_kernel_runs(self):
        for name in FILES:
            for kernel in self.kernels(name):
                with self.subTest(file=name, kernel=kernel):
                    for output in self.run_kernel(self.spec(name), kernel)["outputs"]:
                        self.assertEqual((output["nans"], output["infinities"]), (0, 0), output["name"])

    def test_kernels_that_store_in_other_types_compute_the_same(self):
        pairs = 0
        for name in FILES:
            kernels = self.kernels(name)
            for kernel in kernels:
                base, _, variant = kernel.rpartition("_")
                if variant not in ("mxfp8", "f32", "bf16"):
                    continue
                with self.subTest(file=name, kernel=kernel):
                    pairs += 1
                    self.assertIn(base, kernels)
                    plain, other = (self.run_kernel(self.exact[name], k, "-o", "out_" + k) for k in (base, kernel))
                    for output in plain["outputs"]:
                        same = next(o for o in other["outputs"] if o["name"] == output["name"])
                        self.assertEqual(output["digest"], same["digest"], output["name"])
                    self.check_transposes("out_" + kernel)
        self.assertEqual(pairs, 14)

    def check_transposes(self, folder):
        for path in os.listdir(self.path(folder)):
            if not path.endswith("_t.npy"):
                continue
            (columns, rows), turned = npy_files.read(self.path(folder, path))
            _, straight = npy_files.read(self.path(folder, path[:-6] + ".npy"))
            # Behind its first token a group of an aligned dimension runs on to a multiple of 128.
            places = range(ROWS) if rows == ROWS else [*range(5), *range(128, 131)]
            for m, place in enumerate(places):
                for i in range(columns):
                    self.assertEqual(turned[i * rows + place], straight[m * columns + i])

    def test_a_buffer_for_each_expert_changes_nothing(self):
        for kernel in ("fc1", "fc2_dgrad", "fc1_wgrad", "fc2_wgrad"):
            packed = self.run_kernel(self.spec("swiglu_mlp"), kernel)
            apart = self.run_kernel(self.spec("separate_gate_up"), kernel + "_per_expert")
            self.assertEqual(packed["outputs"], apart["outputs"])

    def order(self, family, specs):
        """(spec, kernel) of the training step as the files have it."""
        names = ["fc1", "fc2", "fc2_dgrad", *(["fc2_bias_bwd"] if family.biased else []), "fc1_dgrad", "fc2_wgrad", "fc1_wgrad"]
        return [(specs[family.file if name in self.kernels(family.file) else family.rest], name) for name in names]

    def derived_order(self, family):
        """The same with the backward pass that `epifuse grad` prints, which may bring forward kernels that store more."""
        forward, backward = self.exact[family.file], self.path(family.file + "_backward.epi")
        self.run_epifuse("grad", forward, "--chain", "fc1,fc2", "-o", backward)
        derived = self.kernels_of(backward)
        first = [(backward if name in derived else forward, name) for name in ("fc1", "fc2")]
        return first + [(backward, name) for name in derived if name not in ("fc1", "fc2")]

    def step(self, family, tensors, order):
        """All kernels of a training step, outputs feeding inputs by name; the gradients, by name."""
        folder = self.path("step")
        os.makedirs(folder, exist_ok=True)
        for file in os.listdir(folder):
            os.remove(os.path.join(folder, file))
        groups = 1 if family.dense else EXPERTS
        shapes = {"x": (ROWS, H), "w1": (groups, family.width, H), "b1": (groups, family.width), "w2": (groups, H, I),
                  "b2": (groups, H), "prob": (ROWS,), "dy": (ROWS, H)}
        for name, shape in shapes.items():
            npy_files.write(os.path.join(folder, name + ".npy"), "<f4", shape[1:] if family.dense and name[0] in "wb" else shape,
                            tensors[name])
        for spec, kernel in order:
            document = self.run_kernel(spec, kernel, "--inputs", folder, "-o", folder)
            for row in document["inputs"]:
                self.assertTrue(row["from"] or row["name"] == "M.ends", f"{kernel} was not given {row['name']}")
        names = {"x": "dx", "w1": "dw1", "w2": "dw2"}
        names.update({"prob": "dprob"} if family.prob else {})
        names.update({"b1": "db1", "b2": "db2"} if family.biased else {})
        read = lambda name: npy_files.read(os.path.join(folder, name + ".npy"))[1]  # noqa: E731
        return {name: list(self.decode(read(gradient))) for name, gradient in names.items()}

    @staticmethod
    def decode(values):
        return map(make_inputs.bf16_value, values) if values.typecode == "H" else values

    @staticmethod
    def made(family, seed):
        """Inputs that bf16 holds exactly, the probabilities too."""
        generator = random.Random(seed)
        draw = lambda n, size: [bf16(generator.gauss(0, size)) for _ in range(n)]  # noqa: E731
        groups = 1 if family.dense else EXPERTS
        return {"x": draw(ROWS * H, 1), "w1": draw(groups * family.width * H, 1 / math.sqrt(H)), "dy": draw(ROWS * H, 1),
                "b1": draw(groups * family.width, 0.5), "w2": draw(groups * H * I, 1 / math.sqrt(I)), "b2": draw(groups * H, 0.5),
                "prob": [abs(value) for value in draw(ROWS, 0.5)]}

    def test_gradients_of_a_step_are_those_of_its_forward(self):
        for family in FAMILIES:
            tensors = self.made(family, family.file)
            self.check_gradients(family, tensors, self.step(family, tensors, self.order(family, self.exact)))

    def test_gradients_of_a_derived_backward_pass_are_those_of_its_forward(self):
        for family in FAMILIES:
            tensors = self.made(family, family.file + " derived")
            self.check_gradients(family, tensors, self.step(family, tensors, self.derived_order(family)))

    def check_gradients(self, family, tensors, gradients):
        generator = random.Random(1)
        for name, gradient in gradients.items():
            with self.subTest(family=family.file, gradient=name):
                self.assertEqual(len(gradient), len(tensors[name]))
                for _ in range(4):
                    direction = [generator.choice((-1.0, 1.0)) for _ in gradient]
                    step = 1e-5
                    at = [self.loss_along(family, tensors, name, direction, length) for length in (step, -step)]
                    slope = (at[0] - at[1]) / (2 * step)
                    got = dot(gradient, direction)
                    self.assertLess(abs(got - slope), 1e-5 * norm(gradient), (got, slope))

    @staticmethod
    def loss_along(family, tensors, name, direction, length):
        moved = [value + length * d for value, d in zip(tensors[name], direction)]
        return family.loss({**tensors, name: moved})

    def test_as_written_a_step_differs_by_the_rounding_of_what_it_stores(self):
        written = {name: self.spec(name) for name in FILES}
        for family in FAMILIES:
            tensors = self.made(family, family.file)
            exact, rounded = (self.step(family, tensors, self.order(family, specs)) for specs in (self.exact, written))
            for name, gradient in rounded.items():
                with self.subTest(family=family.file, gradient=name):
                    error = norm(map(operator.sub, gradient, exact[name])) / norm(exact[name])
                    # Each of pre, act, dh, dx is rounded to bf16: 2^-9 at most, 2^-9 / sqrt(3) on average.
                    self.assertLess(error, 3 * 2.0**-8)
                    if name != "b2":  # sums of dy prob, of which nothing was rounded before
                        self.assertGreater(error, 0)

    def test_gate_and_up_apart_are_gate_and_up_together(self):
        family = FAMILIES[0]
        tensors = self.made(family, "apart")
        together = self.step(family, tensors, self.order(family, self.exact))
        folder = self.path("step")
        w1 = tensors["w1"]
        halves = {"w_gate": [], "w_up": []}
        for e in range(EXPERTS):
            halves["w_gate"] += w1[2 * e * I * H : (2 * e + 1) * I * H]
            halves["w_up"] += w1[(2 * e + 1) * I * H : (2 * e + 2) * I * H]
        for name, values in halves.items():
            npy_files.write(os.path.join(folder, name + ".npy"), "<f4", (EXPERTS, I, H), values)
        for kernel in ("fc1", "fc2_dgrad", "fc1_dgrad", "fc1_wgrad"):
            self.run_kernel(self.exact["separate_gate_up"], kernel, "--inputs", folder, "-o", folder)
        read = lambda name: list(npy_files.read(os.path.join(folder, name + ".npy"))[1])  # noqa: E731
        dw_gate, dw_up, dw1 = read("dw_gate"), read("dw_up"), []
        for e in range(EXPERTS):
            dw1 += dw_gate[e * I * H : (e + 1) * I * H] + dw_up[e * I * H : (e + 1) * I * H]
        for name, values in (("w1", dw1), ("x", read("dx")), ("prob", read("dprob"))):
            self.assertLess(norm(map(operator.sub, values, together[name])), 1e-6 * norm(together[name]), name)


if __name__ == "__main__":
    support.main()
