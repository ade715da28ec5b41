"""The example of tools/build_and_run, smaller: make_inputs.py, run, check_result.py, which sees damage."""

import os
import subprocess
import sys

import support
from support import npy_files

RESULTS = ("pre", "y", "y.scale", "yt", "yt.scale")


class ExampleTest(support.CliTest):
    def tool(self, name, *arguments):
        return subprocess.run([sys.executable, os.path.join(support.ROOT, "tools", name), *arguments], cwd=self.folder,
                              capture_output=True, text=True, check=False)

    def make(self, folder, *options):
        made = self.tool("make_inputs.py", "-o", folder, "--scale", "32", "--tokens", "96", *options)
        self.assertEqual(made.returncode, 0, made.stderr)
        return made

    def check(self, *arguments):
        return self.tool("check_result.py", "in", "out", "--samples", "24", *arguments)

    def test_equal_arguments_make_equal_bytes(self):
        self.assertEqual(self.make("a").stdout, "E=8,K=128,I=448\n")
        self.make("b")
        self.make("c", "--seed", "2")
        for name in ("x", "w", "prob", "M.ends"):
            contents = []
            for folder in "abc":
                with open(self.path(folder, name + ".npy"), "rb") as file:
                    contents.append(file.read())
            self.assertEqual(contents[0], contents[1])
            self.assertNotEqual(contents[0], contents[2])
        _, ends = npy_files.read(self.path("a", "M.ends.npy"))
        self.assertEqual(ends[-1], 2 * 96)
        counts = [end - start for start, end in zip([0, *ends], ends)]
        self.assertGreater(max(counts), 2 * min(counts))

    def test_result_is_right_and_damage_is_seen(self):
        self.make("in")
        self.run_epifuse("run", self.spec("moe_fc1_swiglu"), "--inputs", "in", "-o", "out", "--device", "cpu")
        good = self.check()
        self.assertEqual(good.returncode, 0, good.stderr)
        self.assertIn("all right", good.stdout)
        for name in RESULTS:
            path = self.path("out", name + ".npy")
            with open(path, "rb") as file:
                kept = file.read()
            shape, values = npy_files.read(path)
            step = 40 if name == "pre" else 1  # an ulp of bf16 is within the error of a GPU's sum where terms cancel
            npy_files.write(path, "<u2" if name == "pre" else "|u1", shape, [value ^ step for value in values])
            bad = self.check()
            self.assertEqual(bad.returncode, 1, name)
            self.assertIn(f"wrong: {name.split('.')[0]}", bad.stderr)
            with open(path, "wb") as file:
                file.write(kept)

    def test_many_experts_some_without_tokens(self):
        self.make("in", "--model", "qwen3-30b-a3b")
        _, ends = npy_files.read(self.path("in", "M.ends.npy"))
        self.assertIn(0, [end - start for start, end in zip([0, *ends], ends)])
        self.run_epifuse("run", self.spec("moe_fc1_swiglu"), "--inputs", "in", "-o", "out", "--device", "cpu")
        good = self.check()
        self.assertEqual(good.returncode, 0, good.stderr)

    def test_bad_arguments(self):
        for arguments in (["--scale", "3"], ["--tokens", "0"], ["--model", "other"], []):
            self.assertEqual(self.tool("make_inputs.py", *arguments).returncode, 2)
        self.assertEqual(self.files(), [])


if __name__ == "__main__":
    support.main()
