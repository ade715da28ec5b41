"""check: good specs, bad specs, and files that are no specs."""

import glob
import os

import support


class CheckTest(support.CliTest):
    def test_all_examples_are_good(self):
        specs = sorted(glob.glob(os.path.join(support.ROOT, "specs", "*.epi")))
        out, err = self.run_epifuse("check", *specs)
        self.assertEqual(len(out.splitlines()), len(specs))
        self.assertEqual(err, "")

    def test_needs_no_nvrtc(self):
        self.run_epifuse("check", self.small(), EPIFUSE_NVRTC="/nonexistent")

    def test_json(self):
        document = self.json("check", self.small())
        self.assertEqual(document["command"], "check")
        self.assertEqual(document["files"],
                         [{"file": self.path("small.epi"), "ok": True,
                           "kernels": [{"name": "small", "bound": True, "compiles": True}]}])

    def test_every_mistake_is_told_with_its_place(self):
        spec = self.write("bad.epi", "kernel k {\n  dim K = 8, N = 8\n  dyn S\n  in x : bf166[S, K]\n"
                                     "  in w : bf16[N, K]\n  out y : bf16[S, N] = gemm(x, v)\n}\n")
        out, err = self.run_epifuse("check", spec, code=1)
        self.assertEqual(out, "")
        self.assertIn(f"{spec}:4:10: error: ", err)
        self.assertIn("did you mean 'bf16'?", err)
        self.assertIn(f"{spec}:6:", err)
        self.assertIn("^~~~", err)
        rows = self.json("check", spec, code=1)["diagnostics"]
        self.assertEqual([(row["severity"], row["file"], row["line"]) for row in rows],
                         [("error", spec, 4), ("error", spec, 6)])
        self.assertEqual((rows[0]["column"], rows[0]["end_line"], rows[0]["end_column"]), (10, 4, 15))
        self.assertIn("bf16", rows[0]["hint"])

    def test_a_good_file_beside_a_bad_one(self):
        bad = self.write("bad.epi", "kernel k {\n}\nnonsense\n")
        out, err = self.run_epifuse("check", bad, self.small(), code=1)
        self.assertIn("small.epi: 1 kernel, no mistakes", out)
        self.assertIn("bad.epi:3:1: error", err)
        document = self.json("check", bad, self.small(), code=1)
        self.assertEqual([row["ok"] for row in document["files"]], [False, True])

    def test_what_is_not_compiled_yet_is_a_warning(self):
        spec = self.write("rotated.epi", "kernel rotated {\n  dim E = 2, K = 16, N = 16\n  group M by E\n"
                                         "  in a : bf16[M, K]\n  in b : bf16[E, N, K]\n"
                                         "  out y : f32[M, N] = hadamard(gemm(a, b), N)\n}\n")
        _, err = self.run_epifuse("check", spec)
        self.assertIn("rotated.epi:6:", err)
        self.assertIn("warning", err)
        document = self.json("check", spec)
        self.assertEqual(document["files"][0]["kernels"], [{"name": "rotated", "bound": True, "compiles": False}])
        self.assertEqual(document["diagnostics"][0]["severity"], "warning")
        self.refuses(1, "compile", spec, says="rotated.epi:6:")

    def test_files_that_are_no_specs(self):
        self.refuses(1, "check", self.path("missing.epi"), says="there is no file")
        self.refuses(1, "check", self.folder, says="is a directory")
        self.refuses(1, "check", self.write("empty.epi", ""), says="the file has no kernel")
        self.refuses(1, "check", self.write("blank.epi", "\n\n# nothing\n"), says="the file has no kernel")
        self.refuses(1, "check", self.write("cubin.epi", b"\x7fELF\0\0\1\2"), says="it is not a text")
        self.refuses(1, "check", self.write("huge.epi", b"# much\n" * 700000), says="larger than 4 MiB")
        self.refuses(1, "check", self.write("latin1.epi", b"kernel k\xe9 {\n}\n"), says="latin1.epi:1:9: error")
        self.refuses(1, "check", "/dev/zero", says="not a regular file")
        os.mkfifo(self.path("pipe.epi"))
        self.refuses(1, "check", self.path("pipe.epi"), says="not a regular file")
        os.symlink(self.path("nowhere"), self.path("dangling.epi"))
        self.refuses(1, "check", self.path("dangling.epi"), says="dangling.epi")

    def test_a_log_taken_for_a_spec_is_not_printed_whole(self):
        log = self.write("log.epi", "kernel k {\n" + "  all ? well\n" * 5000 + "}\n")
        _, err = self.run_epifuse("check", log, code=1)
        self.assertIn("more\n", err)
        self.assertLess(len(err), 50000)

    def test_odd_paths(self):
        for name in ("sp ace.epi", "ünïcode-日本.epi", "quote'\".epi", "-dash.epi", "per%cent{}.epi"):
            with self.subTest(name=name):
                self.write(name, support.SMALL)
                out, _ = self.run_epifuse("check", "./" + name)
                self.assertIn(name, out)
                self.assertEqual(self.json("check", "./" + name)["files"][0]["file"], "./" + name)
        bytes_name = os.fsencode(self.folder) + b"/bad-\xff.epi"
        with open(bytes_name, "wb") as file:
            file.write(support.SMALL.encode())
        self.json("check", os.fsdecode(bytes_name))

    def test_use(self):
        self.write("lib/mine.epi", "fn twice(x) = x + x\n")
        good = self.write("good.epi", 'use "lib/mine.epi"\nkernel k {\n  dyn S\n  dim N = 8\n  in x : f32[S, N]\n'
                                      "  out y : f32[S, N] = twice(x)\n}\n")
        self.run_epifuse("check", good)
        self.refuses(1, "check", self.write("lost.epi", 'use "lib/mien.epi"\nkernel k {\n}\n'), says="lost.epi:1:5")
        self.write("a.epi", 'use "b.epi"\nfn f(x) = x\n')
        self.write("b.epi", 'use "a.epi"\nfn g(x) = x\n')
        self.refuses(1, "check", self.path("a.epi"), says="cycle")

    def test_dims(self):
        self.run_epifuse("check", self.small(), "--dims", "E=4,K=32")
        self.refuses(1, "check", self.small(), "--dims", "Q=4", says="'Q'")

    def test_dims_of_several_kernels(self):
        spec = self.write("two.epi", "".join(f"kernel {name} {{\n  dim {dim}\n  in x : f32[{dim}]\n"
                                             f"  out y : f32[{dim}] = {value}\n}}\n"
                                             for name, dim, value in [("a", "N", "x"), ("b", "L", "hadamard(x, L)")]))
        rows = self.json("check", spec, "--dims", "N=32,L=64")["files"][0]["kernels"]
        self.assertEqual(rows, [{"name": "a", "bound": True, "compiles": True},
                                {"name": "b", "bound": True, "compiles": False}])


if __name__ == "__main__":
    support.main()
