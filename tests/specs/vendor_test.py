"""specs/cudnn and specs/recipes on the interpreter: every kernel is planned and runs; the kernels of the vendor's list
compute the mathematics of their headers, written out here in doubles; copies of a tensor agree with each other.

For the mathematics every type of a spec is made f32, so that nothing but f32's rounding lies between the two.
"""

import glob
import math
import os
import random
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "cli"))
import support  # noqa: E402
from support import npy_files  # noqa: E402

FILES = sorted(glob.glob(os.path.join(support.ROOT, "specs", "cudnn", "*.epi")) +
               glob.glob(os.path.join(support.ROOT, "specs", "recipes", "*.epi")))
COUNTS = [5, 0, 33]
SIZES = {"E": len(COUNTS), "K": 16, "H": 16, "N": 32, "I": 32, "L": 2, "S": 5, "T": 7, "M": sum(COUNTS)}
OWNER = [e for e, count in enumerate(COUNTS) for _ in range(count)]


def kernels_of(path):
    with open(path, encoding="utf-8") as file:
        return dict(re.findall(r"(?ms)^kernel (\w+) \{(.*?)^\}", file.read()))


def declared(body, word):
    names = [names for names in re.findall(rf"(?m)^  {word} +([^#\n]*)", body)]
    return [name.split("=")[0].strip() for line in names for name in line.split(",")]


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def silu(x):
    return x * sigmoid(x)


class Swiglu:
    value = staticmethod(lambda g, u: silu(g) * u)
    by_gate = staticmethod(lambda g, u: u * sigmoid(g) * (1 + g * (1 - sigmoid(g))))
    by_up = staticmethod(lambda g, u: silu(g))


class Clamped:
    """The vendor's "geglu"."""

    @staticmethod
    def parts(g, u):
        g_, u_ = min(g, 7), max(-7, min(u, 7))
        return g_, u_, sigmoid(1.702 * g_)

    @staticmethod
    def value(g, u):
        g_, u_, s = Clamped.parts(g, u)
        return (u_ + 1) * g_ * s

    @staticmethod
    def by_gate(g, u):
        g_, u_, s = Clamped.parts(g, u)
        return (u_ + 1) * s * (1 + 1.702 * g_ * (1 - s)) if g <= 7 else 0

    @staticmethod
    def by_up(g, u):
        g_, _, s = Clamped.parts(g, u)
        return g_ * s if -7 <= u <= 7 else 0


class Relu2:
    value = staticmethod(lambda x: max(0.0, x) ** 2)
    slope = staticmethod(lambda x: 2 * max(0.0, x))


def rows_of(values, width):
    return [values[i : i + width] for i in range(0, len(values), width)]


def product(rows, weights, owner, width):
    """sum_k rows[m][k] weights[owner[m]][n][k]; a weight is `width` rows, one behind the other."""
    depth = len(rows[0])
    return [[sum(x * weights[((e * width) + n) * depth + k] for k, x in enumerate(row)) for n in range(width)]
            for row, e in zip(rows, owner)]


def places(i, swapped=False):
    """Where gate and up of column i lie when blocks of 32 alternate."""
    first = i // 32 * 64 + i % 32
    return (first + 32, first) if swapped else (first, first + 32)


def largest(rows, owner, groups):
    return [max((abs(v) for row, e in zip(rows, owner) if e == group for v in row), default=0) for group in range(groups)]


def column_sums(rows, owner, groups):
    return [sum(row[n] for row, e in zip(rows, owner) if e == group) for group in range(groups) for n in range(len(rows[0]))]


def flat(rows):
    return [value for row in rows for value in row]


class VendorTest(support.CliTest):
    def dims(self, body):
        return ",".join(f"{name}={SIZES[name]}" for name in declared(body, "dim") + declared(body, "dyn"))

    def run_kernel(self, path, kernel, *arguments):
        body = kernels_of(path)[kernel]
        counts = ["--counts", ",".join(map(str, COUNTS))] if "group M" in body else []
        return self.json("run", path, "--kernel", kernel, "--device", "cpu", "--dims", self.dims(body), *counts, *arguments)

    def test_every_kernel_is_planned_with_its_default_sizes(self):
        document = self.json("check", *FILES)
        self.assertEqual(document["diagnostics"], [])
        kernels = [kernel for file in document["files"] for kernel in file["kernels"]]
        self.assertGreaterEqual(len(kernels), 60)
        for kernel in kernels:
            self.assertTrue(kernel["bound"] and kernel["compiles"], kernel)

    def test_every_kernel_runs(self):
        for path in FILES:
            for kernel in kernels_of(path):
                with self.subTest(file=path, kernel=kernel):
                    for output in self.run_kernel(path, kernel)["outputs"]:
                        self.assertEqual((output["nans"], output["infinities"]), (0, 0), output["name"])

    def computed(self, name, kernel, generator):
        """Outputs of a kernel with all types f32, and the inputs it had, as lists by name."""
        path = os.path.join(support.ROOT, "specs", "cudnn", name + ".epi")
        body = kernels_of(path)[kernel]
        with open(path, encoding="utf-8") as file:
            text = re.sub(r"cast\(((?:[^()]|\([^()]*\))*), bf16\)", r"(\1)", re.sub(r"\bbf16\[", "f32[", file.read()))
        exact = self.write(f"{name}_{kernel}.epi", text)
        inputs, folder = {}, self.path(f"{name}_{kernel}_in")
        os.makedirs(folder)
        for tensor, shape, second in re.findall(r"(?m)^  in +(\w+) *: \w+\[([^\]]*)\](?:\[([^\]]*)\])?", body):
            extents = []
            for size in filter(None, ", ".join(filter(None, (shape, second))).split(", ")):
                times, _, dim = size.rpartition("*")
                extents.append(int(times or 1) * SIZES[dim])
            inputs[tensor] = [generator.gauss(0, 1) for _ in range(math.prod(extents))]
            npy_files.write(os.path.join(folder, tensor + ".npy"), "<f4", extents, inputs[tensor])
            inputs[tensor] = list(npy_files.read(os.path.join(folder, tensor + ".npy"))[1])
        out = self.path(f"{name}_{kernel}_out")
        self.run_kernel(exact, kernel, "--inputs", folder, "-o", out)
        return inputs, {file[:-4]: list(npy_files.read(os.path.join(out, file))[1]) for file in os.listdir(out)}

    def compare(self, outputs, expected):
        for name, want in expected.items():
            got = outputs[name]
            self.assertEqual(len(got), len(want), name)
            size = math.sqrt(sum(v * v for v in want) / max(1, len(want)))
            for a, b in zip(got, want):
                self.assertLess(abs(a - b), 2e-5 * (size + abs(b)) + 1e-30, (name, a, b))

    def check(self, name, kernel, reference):
        with self.subTest(file=name, kernel=kernel):
            inputs, outputs = self.computed(name, kernel, random.Random(name + kernel))
            self.compare(outputs, reference(inputs))

    def test_quant(self):
        def quant(with_bias):
            def reference(t):
                acc = product(rows_of(t["a"], 16), t["b"], OWNER, 32)
                d = [[t["alpha"][e] * v + t["prob"][m] * t["bias"][e * 32 + n] if with_bias else t["alpha"][e] * v * t["prob"][m]
                      for n, v in enumerate(row)] for m, (row, e) in enumerate(zip(acc, OWNER))]
                return {"d": flat(d), "damax": largest(d, OWNER, 3)}

            return reference

        self.check("quant", "quant", quant(False))
        self.check("quant", "quant_discrete", quant(False))
        self.check("quant", "quant_bias", quant(True))

    def test_glu(self):
        def glu(unit, with_bias=True):
            def reference(t):
                acc = product(rows_of(t["a"], 16), t["b"], OWNER, 64)
                c = [[t["alpha"][e] * v + (t["bias"][e * 64 + j] if with_bias else 0) for j, v in enumerate(row)]
                     for row, e in zip(acc, OWNER)]
                d = [[unit.value(*(row[j] for j in places(i))) * t["prob"][m] for i in range(32)] for m, row in enumerate(c)]
                return {"c": flat(c), "d": flat(d), "damax": largest(d, OWNER, 3)}

            return reference

        self.check("glu", "swiglu", glu(Swiglu))
        self.check("glu", "geglu", glu(Clamped))
        self.check("legacy_swiglu", "swiglu", glu(Swiglu, with_bias=False))
        self.check("discrete_swiglu", "swiglu", glu(Swiglu))

    def test_dglu(self):
        def dglu(unit, alpha_power=1, beta=False, dbias=True, damax=True):
            def reference(t):
                acc = product(rows_of(t["dy"], 16), t["w2t"], OWNER, 32)
                d, dprob = [[0] * 64 for _ in OWNER], [0] * len(OWNER)
                for m, e in enumerate(OWNER):
                    for i in range(32):
                        a = acc[m][i] * (t["alpha"][e] ** alpha_power if alpha_power else 1)
                        g, u = (t["c"][m * 64 + j] * (t["beta"][e] if beta else 1) for j in places(i))
                        d[m][places(i)[0]] = a * t["prob"][m] * unit.by_gate(g, u)
                        d[m][places(i)[1]] = a * t["prob"][m] * unit.by_up(g, u)
                        dprob[m] += a * unit.value(g, u)
                expected = {"d": flat(d), "dprob": dprob}
                if dbias:
                    expected["dbias"] = column_sums(d, OWNER, 3)
                if damax and dbias:
                    expected["agate"], expected["aup"] = (largest([row[half : half + 32] for row in d], OWNER, 3) for half in (0, 32))
                elif damax:
                    expected["damax"] = largest(d, OWNER, 3)
                return expected

            return reference

        self.check("dglu", "dswiglu", dglu(Swiglu, beta=True))
        self.check("legacy_swiglu", "dswiglu", dglu(Swiglu, dbias=False))
        self.check("discrete_swiglu", "dswiglu", dglu(Swiglu, damax=False))

    def test_srelu(self):
        def srelu(with_bias):
            def reference(t):
                acc = product(rows_of(t["a"], 16), t["b"], OWNER, 32)
                c = [[t["alpha"][e] * v + (t["prob"][m] * t["bias"][e * 32 + i] if with_bias else 0) for i, v in enumerate(row)]
                     for m, (row, e) in enumerate(zip(acc, OWNER))]
                d = [[Relu2.value(v) * (1 if with_bias else t["prob"][m]) for v in row] for m, row in enumerate(c)]
                return {"c": flat(c), "d": flat(d), "damax": largest(d, OWNER, 3)}

            return reference

        self.check("srelu", "srelu", srelu(False))
        self.check("srelu", "srelu_bias", srelu(True))

    def test_dsrelu_in_both_meanings(self):
        def dsrelu(swapped):
            def reference(t):
                acc = product(rows_of(t["a" if swapped else "dy"], 16), t["b" if swapped else "w2t"], OWNER, 32)
                c = rows_of(t["c"], 32)
                d = []
                for m, e in enumerate(OWNER):
                    pairs = [(t["alpha"][e] * a, b) for a, b in zip(acc[m], c[m])]  # gradient, pre-activation
                    pairs = [(b, a) for a, b in pairs] if swapped else pairs
                    d.append([t["prob"][m] * g * Relu2.slope(x) for g, x in pairs])
                return {"d": flat(d), "dbias": column_sums(d, OWNER, 3), "damax": largest(d, OWNER, 3)}

            return reference

        self.check("dsrelu", "dsrelu", dsrelu(False))
        self.check("dsrelu", "dsrelu_v123", dsrelu(True))

    def test_glu_hadamard_in_both_meanings(self):
        def turned(vector, signs=0):
            return [sum((-x if signs >> r & 1 else x) * (-1) ** bin(r & j).count("1") for r, x in enumerate(vector))
                    for j in range(16)]

        def act(t):
            acc = product(rows_of(t["a"], 16), t["b"], OWNER, 64)
            c = [[t["alpha"][e] * v + t["bias"][e * 64 + j] for j, v in enumerate(row)] for row, e in zip(acc, OWNER)]
            return [[Swiglu.value(*(row[j] for j in places(i))) * t["prob"][m] for i in range(32)] for m, row in enumerate(c)]

        def v123(t):
            d = [turned(row[:16]) + turned(row[16:]) for row in act(t)]
            return {"d": flat(d), "damax": largest(d, OWNER, 3)}

        def newer(t):
            rows = act(t)
            rotmax = []
            for e in range(3):
                mine = [row for row, owner in zip(rows, OWNER) if owner == e]
                blocks = [mine[q : q + 16] for q in range(0, len(mine), 16)]
                # Of a short last block the tokens that exist are rotated, and count.
                rotmax.append(max((abs(v) / 4 for block in blocks for i in range(32)
                                   for v in turned([row[i] for row in block], 0xD7E8)[: len(block)]), default=0))
            return {"d": flat(rows), "damax": largest(rows, OWNER, 3), "rotmax": rotmax}

        self.check("glu_hadamard", "glu_hadamard_v123", v123)
        self.check("glu_hadamard", "glu_hadamard", newer)

    def test_wgrad(self):
        def reference(t):
            w = [0.0] * (3 * 32 * 16)
            for m, e in enumerate(OWNER):
                for n in range(32):
                    for k in range(16):
                        w[(e * 32 + n) * 16 + k] += t["dy"][m * 32 + n] * t["x"][m * 16 + k]
            return {"w": w}

        self.check("wgrad", "wgrad", reference)

    def test_dense(self):
        owner = [0] * 5 + [1] * 5  # L matrices of S rows

        def amax(t):
            c = product(rows_of(t["a"], 16), t["b"], owner, 32)
            return {"c": flat(c), "camax": [max(map(abs, flat(c)))]}

        def swiglu(t):
            h = product(rows_of(t["a"], 16), t["b"], owner, 64)
            c = [[Swiglu.value(*(row[j] for j in places(i, swapped=True))) for i in range(32)] for row in h]
            return {"ab12": flat(h), "c": flat(c), "camax": [max(map(abs, flat(c)))]}

        def srelu(t):
            c = product(rows_of(t["a"], 16), t["b"], owner, 32)
            d = [[Relu2.value(v) * p for v in row] for row, p in zip(c, t["prob"])]
            return {"c": flat(c), "d": flat(d), "damax": [max(map(abs, flat(d)))]}

        def dsrelu(t):
            g = product(rows_of(t["a"], 16), t["b"], owner, 32)
            d = [[p * v * Relu2.slope(x) for v, x in zip(row, pre)] for row, pre, p in zip(g, rows_of(t["c"], 32), t["prob"])]
            return {"d": flat(d), "damax": [max(map(abs, flat(d)))]}

        self.check("gemm_amax", "gemm_amax", amax)
        self.check("gemm_swiglu", "gemm_swiglu", swiglu)
        self.check("gemm_srelu", "gemm_srelu", srelu)
        self.check("gemm_srelu", "gemm_dsrelu", dsrelu)

    def digests(self, path, kernel):
        return {output["name"]: output["digest"] for output in self.run_kernel(path, kernel)["outputs"]}

    def bytes_of(self, folder, name):
        shape, values = npy_files.read(self.path(folder, name + ".npy"))
        return shape, list(values)

    def test_blocks_of_tokens_are_the_same_transposed_or_not(self):
        path = os.path.join(support.ROOT, "specs", "cudnn", "quant.epi")
        digests = self.digests(path, "quant_mxfp8")
        self.assertEqual(digests["ycol.scale"], digests["yt.scale"])
        self.assertNotEqual(digests["ycol.scale"], digests["y.scale"])
        self.run_kernel(path, "quant_mxfp8", "-o", self.path("quant"))
        (rows, columns), straight = self.bytes_of("quant", "ycol")
        (_, pitch), turned = self.bytes_of("quant", "yt")
        self.assertEqual(pitch, rows)
        ends = self.bytes_of("quant", "ends")[1]
        self.assertEqual(ends, [128, 128, 256])
        for p in range(ends[-1]):
            for n in range(columns):
                self.assertEqual(straight[p * columns + n], turned[n * pitch + p])

    def test_square_blocks_are_the_same_in_both_orientations(self):
        for file in ("fp8_blocks", "mx"):
            path = os.path.join(support.ROOT, "specs", "recipes", file + ".epi")
            folder = self.path(file)
            self.run_kernel(path, "quantise_weight", "-o", folder)
            for suffix in ("", ".scale"):
                (groups, n, k), q = self.bytes_of(file, "q" + suffix)
                _, qt = self.bytes_of(file, "qt" + suffix)
                for e in range(groups):
                    for i in range(n):
                        for j in range(k):
                            self.assertEqual(q[(e * n + i) * k + j], qt[(e * k + j) * n + i])


if __name__ == "__main__":
    support.main()
