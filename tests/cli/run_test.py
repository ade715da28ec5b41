"""run on the interpreter: inputs from files and made ones, sizes and dimensions that follow from them, and verify
without a GPU."""

import array
import os
import struct
import zipfile

import support
from support import npy_files


def bf16(values):
    """Bits of numbers that bf16 holds exactly."""
    return [struct.unpack("<I", struct.pack("<f", value))[0] >> 16 for value in values]


class RunTest(support.CliTest):
    def run_cpu(self, *arguments, **keywords):
        return self.json("run", *arguments, "--device", "cpu", **keywords)

    def test_a_schedule_means_the_same_without_a_gpu(self):
        plain = self.run_cpu(self.spec(), "--counts", "1,2", "--dims", "E=2,N=128,K=128")
        options = [self.spec(), "--counts", "1,2", "--dims", "E=2,N=128,K=128", "--schedule"]
        chosen = self.run_cpu(*options, "cooperative 128x256")
        self.assertEqual(chosen["outputs"], plain["outputs"])
        self.refuses(1, "run", *options, "pingpong 7x9", "--device", "cpu", says="no plan 'pingpong 7x9'")
        self.assertEqual(self.run_cpu(*options, "pingpong 7x9", code=1)["error"]["kind"], "user")

    def inputs(self, folder="in", counts=(1, 2), n=8, k=8, dtype="<u2"):
        """Files for SMALL: column 0 of x is row + 1, of w the row's number, so that y[m, n] = (m + 1) * n."""
        groups, rows = len(counts), sum(counts)
        x = [float(m + 1) if c == 0 else 0.0 for m in range(rows) for c in range(k)]
        w = [float(r % n) if c == 0 else 0.0 for r in range(groups * n) for c in range(k)]
        encode = bf16 if dtype == "<u2" else list
        self.write(folder + "/.keep", "")
        npy_files.write(self.path(folder, "x.npy"), dtype, (rows, k), encode(x))
        npy_files.write(self.path(folder, "w.npy"), dtype, (groups, n, k), encode(w))
        npy_files.write(self.path(folder, "b.npy"), "<u2", (groups, n), [0] * (groups * n))
        ends = [sum(counts[: g + 1]) for g in range(groups)]
        npy_files.write(self.path(folder, "M.ends.npy"), "<i4", (groups,), ends)
        return self.path(folder)

    def buffer(self, document, name, part="outputs"):
        return next(row for row in document[part] if row["name"] == name)

    def test_made_inputs_follow_the_seed(self):
        first = self.run_cpu(self.small())
        self.assertEqual(first["device"], "cpu")
        self.assertEqual(first["dims"], {"E": 2, "K": 16, "N": 32})
        self.assertEqual(first["seed"], 0)
        self.assertEqual({row["name"] for row in first["inputs"]}, {"M.ends", "x", "w", "b"})
        self.assertEqual([row["name"] for row in first["outputs"]], ["s", "s.scale", "y"])
        self.assertIsNone(self.buffer(first, "y")["file"])
        self.assertEqual(self.run_cpu(self.small(), "--jobs", "1")["outputs"], first["outputs"])
        self.assertNotEqual(self.run_cpu(self.small(), "--seed", "1")["outputs"], first["outputs"])

    def test_counts_decide_rows_and_groups(self):
        document = self.run_cpu(self.small(), "--counts", "0,1,127,3")
        self.assertEqual(document["dims"]["E"], 4)
        self.assertEqual(self.buffer(document, "y")["shape"], [131, 32])
        slack = self.run_cpu(self.small(), "--counts", "5,6", "--slack", "9")
        self.assertEqual(self.buffer(slack, "y")["shape"], [20, 32])
        empty = self.run_cpu(self.small(), "--counts", "0,0")
        self.assertEqual(self.buffer(empty, "y")["shape"], [0, 32])

    def test_files_decide_dimensions_and_results(self):
        document = self.run_cpu(self.small(), "--inputs", self.inputs(), "--param", "limit=1000", "-o", "out")
        self.assertEqual(document["dims"], {"E": 2, "K": 8, "N": 8})
        self.assertEqual(self.buffer(document, "x", "inputs")["from"], self.path("in", "x.npy"))
        self.assertEqual(self.buffer(document, "y")["file"], "out/y.npy")
        self.assertEqual((self.buffer(document, "y")["least"], self.buffer(document, "y")["most"]), (0, 21))
        shape, y = npy_files.read(self.path("out", "y.npy"))
        self.assertEqual(shape, (3, 8))
        self.assertEqual(list(y), [float((m + 1) * n) for m in range(3) for n in range(8)])
        self.assertEqual(self.files(), ["in/.keep", "in/M.ends.npy", "in/b.npy", "in/w.npy", "in/x.npy", "out/s.npy",
                                        "out/s.scale.npy", "out/y.npy", "small.epi"])
        # The param's default is the limit of the spec.
        limited = self.run_cpu(self.small(), "--inputs", self.path("in"))
        self.assertEqual(self.buffer(limited, "y")["most"], 7)

    def test_the_same_data_in_other_types_and_places(self):
        expected = self.run_cpu(self.small(), "--inputs", self.inputs())["outputs"]
        for dtype in ("<f4", "<f8"):
            folder = self.inputs(folder="in" + dtype[1:], dtype=dtype)
            self.assertEqual(self.run_cpu(self.small(), "--inputs", folder)["outputs"], expected)
        with zipfile.ZipFile(self.path("in.npz"), "w") as archive:
            for name in ("x", "w", "b", "M.ends"):
                archive.write(self.path("in", name + ".npy"), name + ".npy")
        self.assertEqual(self.run_cpu(self.small(), "--inputs", self.path("in.npz"))["outputs"], expected)
        single = [f"{name}={self.path('in', name)}.npy" for name in ("x", "w", "b", "M.ends")]
        self.assertEqual(self.run_cpu(self.small(), *single)["outputs"], expected)
        # NAME=FILE wins over --inputs; what is in neither is made.
        npy_files.write(self.path("one.npy"), "<f4", (2, 8), [1.0] * 16)
        other = self.run_cpu(self.small(), "b=one.npy", "--inputs", self.path("in"))
        self.assertEqual(self.buffer(other, "b", "inputs")["from"], "one.npy")
        self.assertEqual(self.buffer(other, "y")["least"], 1)

    def test_inputs_are_not_replaced(self):
        self.inputs(folder="out")
        with zipfile.ZipFile(self.path("in.npz"), "w") as archive:
            archive.write(self.path("out", "x.npy"), "x.npy")
        os.rename(self.path("out", "b.npy"), self.path("out", "y.npy"))
        before = self.files()
        run = ("run", self.small(), "--device", "cpu")
        self.refuses(1, *run, "b=out/y.npy", "-o", "out", says="cannot write 'out/y.npy': it is an input that is read")
        self.refuses(1, *run, "--inputs", "in.npz", "-o", "in.npz", says="it is the file of inputs that is read")
        self.assertEqual(self.files(), before + ["small.epi"])

    def test_left_out(self):
        document = self.run_cpu(self.small(), "--without", "b", "--without", "s", "--inputs", self.inputs())
        self.assertEqual([row["name"] for row in document["outputs"]], ["y"])
        self.assertNotIn("b", [row["name"] for row in document["inputs"]])

    def test_dyn(self):
        spec = self.write("dense.epi", "kernel dense {\n  dim N = 8\n  dyn S\n  in x : f32[S, N]\n"
                                       "  out y : bf16[S, N] = x * 2\n}\n")
        self.assertEqual(self.buffer(self.run_cpu(spec, "--dims", "S=5,N=16"), "y")["shape"], [5, 16])
        self.refuses(1, "run", spec, "--device", "cpu", "--counts", "1", says="no groups")
        npy_files.write(self.path("x.npy"), "<f4", (37, 8), [1.0] * 296)
        self.run_cpu(spec, "x=x.npy", "--dims", "S=37")
        self.refuses(1, "run", spec, "--device", "cpu", "x=x.npy", "--dims", "S=7", says=["'x'", "37", "'S'"])
        both = self.write("both.epi", "kernel both {\n  dyn S, K\n  in x : bf16[S, K]\n  out y : f32[S, K] = x\n}\n")
        self.assertEqual(self.buffer(self.run_cpu(both, "--dims", "S=5,K=24"), "y")["shape"], [5, 24])

    def test_no_gpu(self):
        if support.has_gpu():
            self.skipTest("a GPU is here")
        out, err = self.run_epifuse("run", self.small())
        self.assertIn("the interpreter", out)
        self.assertIn("no usable GPU, so the interpreter runs it", err)
        self.assertEqual(err.count("\n"), 1)
        self.refuses(3, "run", self.small(), "--device", "gpu", says="libcuda")
        self.refuses(3, "verify", self.small(), says=["verify", "needs one"])
        self.assertEqual(self.json("verify", self.small(), code=3)["error"]["kind"], "machine")
        self.assertEqual(self.json("run", self.small(), "--device", "gpu", code=3)["error"]["kind"], "machine")

    def test_inputs_that_do_not_fit(self):
        small, folder = self.small(), self.inputs()
        npy_files.write(self.path("wide.npy"), "<u2", (3, 16), [0] * 48)
        npy_files.write(self.path("flat.npy"), "<u2", (24,), [0] * 24)
        npy_files.write(self.path("ints.npy"), "<i4", (3, 8), [0] * 24)
        npy_files.write(self.path("late.npy"), "<i4", (2,), [1, 9])
        npy_files.write(self.path("back.npy"), "<i4", (2,), [3, 1])
        npy_files.write(self.path("long.npy"), "<i8", (2,), [1, 1 << 40])
        npy_files.write(self.path("floats.npy"), "<f4", (2,), [1.0, 3.0])
        self.write("text.npy", "1 2 3\n")
        self.write("empty.npy", "")
        with open(self.path("in", "x.npy"), "rb") as file:
            x = file.read()
        self.write("short.npy", x[:-1])
        self.write("head.npy", x[:40])
        self.write("more.npy", x + b"\0")
        self.write("huge.npy", x.replace(b"(3, 8)", b"(%d, 9)" % (1 << 62)))
        self.write("fortran.npy", x.replace(b"'fortran_order': False", b"'fortran_order': True "))
        self.write("big.npy", x.replace(b"<u2", b">u2"))
        self.write("bad.npz", "PK\x03\x04 and no more")
        self.write("nothing/readme.txt", "")
        cases = [
            (["x=missing.npy"], "missing.npy"),
            (["x=" + folder], "directory"),
            (["x=text.npy"], "text.npy"),
            (["x=empty.npy"], "empty.npy"),
            (["x=short.npy"], "short.npy"),
            (["x=head.npy"], "head.npy"),
            (["x=more.npy"], "more.npy"),
            (["x=huge.npy"], "huge.npy"),
            (["x=fortran.npy"], "fortran.npy"),
            (["x=big.npy"], "big.npy"),
            (["x=ints.npy"], "ints.npy"),
            (["x=flat.npy"], "'x'"),
            (["x=wide.npy", "w=in/w.npy"], "'w'"),
            (["x=wide.npy", "--dims", "K=8"], "'x'"),
            (["x=in/x.npy", "M.ends=late.npy"], "'M.ends'"),
            (["x=in/x.npy", "M.ends=back.npy"], "'M.ends'"),
            (["M.ends=long.npy"], "long.npy"),
            (["M.ends=floats.npy"], "floats.npy"),
            (["q=in/x.npy"], "no input 'q'"),
            (["y=in/x.npy"], "'y' is an output"),
            (["M.counts=in/M.ends.npy"], "'M.counts'"),
            (["b=in/b.npy", "--without", "b"], "'b' is given and left out"),
            (["M.ends=in/M.ends.npy", "--counts", "1,2"], "--counts"),
            (["--counts", "1,2,3", "--dims", "E=2"], "E"),
            (["x=in/x.npy", "--counts", "3,4"], ""),
            (["--counts", "1000000000000,1"], "rows"),
            (["--dims", "N=4611686018427387904"], "larger than any memory"),
            (["--dims", "N=0"], "'N'"),
            (["--dims", "M=4"], "--counts"),
            (["--dims", "Q=4"], "'Q'"),
            (["--param", "lim=4"], "'lim'"),
            (["--inputs", "nowhere"], "nowhere"),
            (["--inputs", "nothing"], "holds none of"),
            (["--inputs", "bad.npz"], "bad.npz"),
            (["--inputs", "in/x.npy"], "x.npy"),
            (["--without", "y", "--without", "s"], ""),
        ]
        before = self.files()
        for options, says in cases:
            self.refuses(1, "run", small, "--device", "cpu", "-o", "out", *options, says=says)
            self.assertEqual(self.json("run", small, "--device", "cpu", *options, code=1)["error"]["kind"], "user")
        self.assertEqual(self.files(), before)

    def test_params_without_a_default_must_be_given(self):
        spec = self.write("open.epi", support.SMALL.replace("limit = 7.0", "limit"))
        self.refuses(1, "run", spec, "--device", "cpu", says=["'limit'", "--param limit="])
        self.run_cpu(spec, "--param", "limit=3")

    def test_summaries_of_what_is_not_finite(self):
        spec = self.write("copy.epi", "kernel copy {\n  dim N = 8\n  dyn S\n  in x : f32[S, N]\n"
                                      "  out y : f32[S, N] = x\n}\n")
        inf, nan = float("inf"), float("nan")
        cases = [
            ([nan] * 8, ["-", "-", "-", "8", "0"], [None, None, None, 8, 0]),
            ([], ["-", "-", "-", "0", "0"], [None, None, None, 0, 0]),
            ([inf, -inf] + [1.0] * 6, ["-inf", "inf", "nan", "0", "2"], [None, None, None, 0, 2]),
            ([inf, nan] + [1.0] * 6, ["1", "inf", "inf", "1", "1"], [1, None, None, 1, 1]),
            ([2.0] * 8, ["2", "2", "2", "0", "0"], [2, 2, 2, 0, 0]),
        ]
        for values, text, fields in cases:
            with self.subTest(values=values):
                npy_files.write(self.path("x.npy"), "<f4", (len(values) // 8, 8), values)
                row = self.buffer(self.run_cpu(spec, "x=x.npy"), "y")
                self.assertEqual([row[key] for key in ("least", "most", "mean", "nans", "infinities")], fields)
                line = self.run_epifuse("run", spec, "x=x.npy", "--device", "cpu")[0].splitlines()[-1]
                self.assertEqual(line.split()[4:9], text)

    def test_sums_that_are_added_to(self):
        spec = self.write("add.epi", "kernel add {\n  dim N = 8\n  dyn S\n  in x : f32[S, N]\n"
                                     "  out y : f32[N] += sum(x)\n}\n")
        npy_files.write(self.path("x.npy"), "<f4", (2, 8), [1.0] * 16)
        npy_files.write(self.path("y.npy"), "<f4", (8,), [0.5] * 8)
        document = self.run_cpu(spec, "x=x.npy", "y=y.npy", "-o", "out.npz")
        self.assertEqual((document["outputs"][0]["least"], document["outputs"][0]["most"]), (2.5, 2.5))
        self.assertEqual(self.buffer(self.run_cpu(spec, "x=x.npy"), "y")["least"], 2)


if __name__ == "__main__":
    support.main()
