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

    def test_ranges_for_editors(self):
        # Behind letters of 2, 3 and 4 bytes, which editors count as 1, 1 and 2 units, and behind a byte that is no text.
        spec = self.write("letters.epi", "# é 漢 𝄞\nkernel k {\n  dim N = 8\n  in x : f32[N]  # é漢𝄞\n  out y : f32[N] = x\n}\n"
                                         "kernel é漢𝄞z {\n}\n")
        with open(spec, "ab") as file:
            file.write(b"# \xff\nkernel l {\n  in x : f32[8]\n  out y : f32[8] = x + (\n}\n\xff ?\n")
        rows = self.json("check", spec, code=1)["diagnostics"]
        with open(spec, "rb") as file:
            lines = file.read().split(b"\n")
        for row in rows:
            with self.subTest(row["message"]):
                for line, column, place in ((row["line"], row["column"], row["range"]["start"]),
                                            (row["end_line"], row["end_column"], row["range"]["end"])):
                    before = lines[line - 1][: column - 1].decode(errors="replace")
                    self.assertEqual(place, {"line": line - 1, "character": len(before.encode("utf-16-le")) // 2})
                self.assertLessEqual((row["line"], row["column"]), (row["end_line"], row["end_column"]))
        self.assertTrue(any(row["range"]["end"]["character"] != row["end_column"] - 1 for row in rows))

    def test_every_diagnostic_of_a_spec_has_a_range(self):
        texts = ["kernel k {", "kernel k {\n}\n", "use \"nowhere.epi\"\n", "fn f(x) = x +", "kernel k {\n  dim N\n  dyn N\n}\n",
                 "kernel k {\n  dim N = 8\n  in x : bf16[M, N]\n  out y : f32[N] = gemm(x, x)\n}\n", "?", "kernel k {\n  out"]
        for text in texts:
            with self.subTest(text):
                for row in self.json("check", self.write("bad.epi", text), code=1)["diagnostics"]:
                    self.assertEqual(set(row["range"]), {"start", "end"})
                    ends = text.count("\n")
                    self.assertTrue(0 <= row["range"]["start"]["line"] <= row["range"]["end"]["line"] <= ends)

    def test_a_good_file_beside_a_bad_one(self):
        bad = self.write("bad.epi", "kernel k {\n}\nnonsense\n")
        out, err = self.run_epifuse("check", bad, self.small(), code=1)
        self.assertIn("small.epi: 1 kernel, no mistakes", out)
        self.assertIn("bad.epi:3:1: error", err)
        document = self.json("check", bad, self.small(), code=1)
        self.assertEqual([row["ok"] for row in document["files"]], [False, True])

    def test_what_is_not_compiled_yet_is_a_warning(self):
        spec = self.write("scaled.epi", "kernel scaled {\n  dim E = 2, K = 32, N = 16\n  group M by E\n"
                                        "  in a : bf16[M, K]\n  in b : mxfp8[E, N, K]\n"
                                        "  out y : f32[M, N] = gemm(a, b)\n}\n")
        _, err = self.run_epifuse("check", spec)
        self.assertIn("scaled.epi:5:", err)
        self.assertIn("warning", err)
        document = self.json("check", spec)
        self.assertEqual(document["files"][0]["kernels"], [{"name": "scaled", "bound": True, "compiles": False}])
        self.assertEqual(document["diagnostics"][0]["severity"], "warning")
        self.refuses(1, "compile", spec, says="scaled.epi:5:")

    def test_sizes_that_no_launch_can_pass_are_a_mistake_everywhere(self):
        for dims, says in (("K=1000000000000", "the dimension 'K' is 1000000000000, and can be 2147483647 at most"),
                           ("N=2147483648", "the dimension 'N'"), ("E=1000000000", "the rows of w"),
                           ("E=2147483647", "the rows of w")):
            for command in (["check"], ["compile"], ["compile", "--emit=plan"], ["compile", "--emit=cuda"],
                            ["compile", "--schedule", "pingpong 128x64"], ["prebuild", "-o", "b.epb"],
                            ["prebuild", "-o", "b.epb", "--dry-run"], ["cache", "why"]):
                _, err = self.run_epifuse(*command, self.small(), "--dims", dims, code=1)
                self.assertIn(says, err)
            for command in (["explain"], ["bench"], ["tune", "--report"]):
                self.run_epifuse(*command, self.small(), "--dims", dims, code=1)
        document = self.json("check", self.small(), "--dims", "K=1000000000000", code=1)
        self.assertEqual(document["files"][0]["kernels"], [{"name": "small", "bound": True, "compiles": False}])
        self.assertEqual([row["severity"] for row in document["diagnostics"]], ["error"])
        self.assertEqual(self.files(), ["small.epi"])

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
        spec = self.write("two.epi", "".join(f"kernel {name} {{\n  dim {dim}\n  in x : {kind}[{dim}]\n"
                                             f"  out y : f32[{dim}] = x\n}}\n"
                                             for name, dim, kind in [("a", "N", "f32"), ("b", "L", "mxfp8")]))
        rows = self.json("check", spec, "--dims", "N=32,L=64")["files"][0]["kernels"]
        self.assertEqual(rows, [{"name": "a", "bound": True, "compiles": True},
                                {"name": "b", "bound": True, "compiles": False}])


if __name__ == "__main__":
    support.main()
