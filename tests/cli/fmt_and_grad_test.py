"""fmt and grad: specs that the command writes."""

import glob
import os
import stat

import support

UGLY = ("kernel k { # one\n dim E=2,K = 16, N=8\n\n\n group M by E\n   in x:bf16[M,K]   # two\n"
        "in w : bf16[E,N,K]\nout y:bf16[M,N]=gemm( x,w )*2 }\n")
NEAT = """kernel k {                            # one
  dim   E = 2, K = 16, N = 8

  group M by E
  in  x     : bf16[M, K]              # two
  in  w     : bf16[E, N, K]
  out y     : bf16[M, N] = gemm(x, w) * 2
}
"""

MLP = """use "activations.epi"
kernel fc1 {
  dim E = 2, K = 16, I = 8
  group M by E
  in x : bf16[M, K]
  in w1 : bf16[E, 2*I, K]
  h = gemm(x, w1)
  gate, up = split(h)
  out pre : bf16[M, 2*I] = h
  out a : bf16[M, I] = swiglu(gate, up)
}
kernel fc2 {
  dim E = 2, I = 8, H = 24
  group M by E
  in a : bf16[M, I]
  in w2 : bf16[E, H, I]
  out z : bf16[M, H] = gemm(a, w2)
}
"""


class FmtTest(support.CliTest):
    def text(self, path):
        with open(path, encoding="utf-8") as file:
            return file.read()

    def test_in_place(self):
        ugly, neat = self.write("ugly.epi", UGLY), self.write("neat.epi", NEAT)
        os.chmod(ugly, 0o640)
        before = os.stat(neat).st_mtime_ns
        out, err = self.run_epifuse("fmt", ugly, neat)
        self.assertEqual(out, f"{ugly}: formatted\n")
        self.assertEqual(err, "")
        self.assertEqual(self.text(ugly), NEAT)
        self.assertEqual(stat.S_IMODE(os.stat(ugly).st_mode), 0o640)
        self.assertEqual(os.stat(neat).st_mtime_ns, before, "a formatted spec is not written")
        self.assertEqual(self.run_epifuse("fmt", ugly)[0], "")
        self.assertEqual(self.files(), ["neat.epi", "ugly.epi"])

    def test_through_a_link(self):
        ugly = self.write("ugly.epi", UGLY)
        os.symlink(ugly, self.path("link.epi"))
        self.run_epifuse("fmt", self.path("link.epi"))
        self.assertTrue(os.path.islink(self.path("link.epi")))
        self.assertEqual(self.text(ugly), NEAT)

    def test_check(self):
        ugly, neat = self.write("ugly.epi", UGLY), self.write("neat.epi", NEAT)
        self.run_epifuse("fmt", "--check", neat)
        _, err = self.run_epifuse("fmt", neat, ugly, "--check", code=1)
        self.assertIn("ugly.epi' is not formatted", err)
        self.assertNotIn("neat.epi", err)
        self.assertEqual(self.text(ugly), UGLY)
        document = self.json("fmt", neat, ugly, "--check", code=1)
        self.assertEqual([row["changed"] for row in document["files"]], [False, True])

    def test_another_file(self):
        ugly = self.write("ugly.epi", UGLY)
        self.run_epifuse("fmt", ugly, "-o", "new.epi")
        self.assertEqual(self.text(self.path("new.epi")), NEAT)
        self.assertEqual(self.text(ugly), UGLY)
        self.refuses(1, "fmt", ugly, "-o", "missing/new.epi", says="there is no directory 'missing'")

    def test_another_file_is_none_that_the_spec_uses(self):
        library = self.write("lib.epi", "fn twice(v) = v*2\n")
        self.write("between.epi", 'use "lib.epi"\n')
        os.symlink(library, self.path("link.epi"))
        for used in "lib.epi", "between.epi":
            ugly = self.write("ugly.epi", f'use "{used}"\n' + UGLY)
            for output in "lib.epi", "link.epi":
                self.refuses(1, "fmt", ugly, "-o", output,
                             says=f"cannot write '{output}': it is a file of the spec that is read")
        self.assertEqual(self.text(library), "fn twice(v) = v*2\n")
        # What is used and cannot be read is no reason, nor is the spec itself.
        ugly = self.write("ugly.epi", 'use "nowhere.epi"\nuse "lib.epi"\n' + UGLY)
        self.refuses(1, "fmt", ugly, "-o", "lib.epi", says="it is a file of the spec that is read")
        self.run_epifuse("fmt", ugly, "-o", self.path("new.epi"))
        self.run_epifuse("fmt", ugly, "-o", "ugly.epi")
        self.assertEqual(self.text(ugly), self.text(self.path("new.epi")))

    def test_a_spec_with_mistakes_is_left_alone(self):
        bad, ugly = self.write("bad.epi", "kernel k {\n  in  x : \n}\n"), self.write("ugly.epi", UGLY)
        out, err = self.run_epifuse("fmt", bad, ugly, code=1)
        self.assertIn("ugly.epi: formatted", out)
        self.assertIn("bad.epi:2:", err)
        self.assertEqual(self.text(bad), "kernel k {\n  in  x : \n}\n")
        self.refuses(1, "fmt", self.path("missing.epi"), says="there is no file")
        document = self.json("fmt", bad, code=1)
        self.assertEqual(document["files"], [{"file": bad, "ok": False, "changed": False}])

    def test_a_spec_need_not_be_right_to_be_formatted(self):
        spec = self.write("spec.epi", 'use "nowhere.epi"\nkernel k {\n  in x : nonsense[Q]\n}\n')
        self.run_epifuse("fmt", spec)
        self.assertIn("in  x     : nonsense[Q]", self.text(spec))

    def test_the_kernel_stays_the_same(self):
        for path in sorted(glob.glob(os.path.join(support.ROOT, "specs", "*.epi")))[:3]:
            with open(path, encoding="utf-8") as file:
                text = file.read()
            loose = self.write("loose.epi", text.replace(", ", " ,  ").replace("  :", ":").replace("\n  ", "\n\n\n "))
            name = text.split("kernel ")[1].split()[0]
            before = self.run_epifuse("compile", loose, "--kernel", name, "--emit=ir")[0]
            self.assertIn("formatted", self.run_epifuse("fmt", loose)[0])
            self.assertEqual(self.run_epifuse("compile", loose, "--kernel", name, "--emit=ir")[0], before)


class GradTest(support.CliTest):
    def test_a_chain(self):
        spec = self.write("mlp.epi", MLP)
        out, err = self.run_epifuse("grad", spec, "--chain", "fc1,fc2")
        self.assertEqual(err, "")
        self.assertIn("derived from mlp.epi by `epifuse grad --chain fc1,fc2`", out)
        self.assertIn("# What feeds what: fc1.a -> fc2.a\n", out)
        self.assertIn("dh        = grad(a, gemm(dz, w2), pre)", out)
        self.run_epifuse("grad", spec, "--chain", "fc1,fc2", "-o", "backward.epi")
        with open(self.path("backward.epi"), encoding="utf-8") as file:
            self.assertEqual(file.read(), out)
        self.run_epifuse("fmt", "--check", "backward.epi")
        self.assertIn("4 kernels, no mistakes", self.run_epifuse("check", "backward.epi")[0])
        self.run_epifuse("run", "backward.epi", "--kernel", "fc2_dgrad", "--device", "cpu", "--counts", "3,2")

    def test_the_cookbook_shows_what_is_printed(self):
        with open(os.path.join(support.ROOT, "docs", "cookbook.md"), encoding="utf-8") as file:
            page = file.read()
        shown = [block for block in page.split("```\n")[1::2] if "kernel fc2_dgrad {" in block]
        self.assertEqual(len(shown), 1)
        self.assertIn(shown[0], self.run_epifuse("grad", self.spec("tanh_squared_glu"), "--chain", "fc1,fc2")[0])

    def test_json(self):
        spec = self.write("mlp.epi", MLP)
        document = self.json("grad", spec, "--chain", "fc2")
        self.assertEqual(document["chain"], ["fc2"])
        self.assertIn("kernel fc2_wgrad {", document["text"])
        self.assertEqual(self.json("grad", spec, "--chain", "fc2", "-o", "b.epi")["output"], "b.epi")

    def test_what_is_used_is_found_from_another_folder(self):
        for folder in ("mlp", "mlp/lib", "out"):
            os.mkdir(self.path(folder))
        self.write("mlp/lib/own.epi", "fn bent(t) = t * tanh(t)\n")
        self.write("mlp/mlp.epi", 'use "lib/own.epi"\n' + MLP)
        found_from = {"out/b.epi": "../mlp/lib/own.epi", "b.epi": "mlp/lib/own.epi", "mlp/b.epi": "lib/own.epi"}
        for output, path in found_from.items():
            self.run_epifuse("grad", "mlp/mlp.epi", "--chain", "fc1,fc2", "-o", output)
            with open(self.path(output), encoding="utf-8") as file:
                self.assertIn(f'use "{path}"\n', file.read())
            self.assertIn("no mistakes", self.run_epifuse("check", output)[0])

    def test_refusals(self):
        spec = self.write("mlp.epi", MLP)
        self.refuses(1, "grad", spec, "--chain", "fc1,fc3", says=["mlp.epi:1:1: error", "did you mean 'fc1'?"])
        self.refuses(1, "grad", spec, "--chain", "fc2,fc1", says=["mlp.epi:5:6: error", "as bf16[M, K]"])
        self.refuses(1, "grad", spec, "--chain", "fc1", "-o", spec, says="it is the spec that is read")
        self.refuses(1, "grad", self.write("bad.epi", "kernel {"), "--chain", "fc1", says="bad.epi:1:8")


if __name__ == "__main__":
    support.main()
