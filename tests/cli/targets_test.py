"""tools/targets.py on the figures that are kept, and on files that are something else."""

import copy
import json
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
KEPT = os.path.join(ROOT, "docs", "measurements", "speed_h200.json")
SHAPE = "8x4096x2048x7168"


def run(path):
    command = [sys.executable, "-B", os.path.join(ROOT, "tools", "targets.py"), "--from", path]
    return subprocess.run(command, capture_output=True, encoding="utf-8", check=False, env={**os.environ, "PYTHONIOENCODING": "utf-8"})


class TargetsTest(unittest.TestCase):
    def setUp(self):
        with open(KEPT, encoding="utf-8") as file:
            self.kept = json.load(file)

    def lines(self, document):
        """The words of each line, by what is in front of its first figure."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "figures.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump(document, file)
            done = run(path)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return {line[:45].strip(): line[45:].split() for line in done.stdout.splitlines()[3:]}

    def test_a_figure_of_each_shape_stands_beside_what_must_be(self):
        lines = self.lines(self.kept)
        self.assertEqual(len(lines), 19)
        words = lines["backward, time ÷ plain"]
        ms = self.kept["seven shapes"]["backward"][SHAPE]["hot_ms"]
        plain = min(value for row, value in ms.items() if row.startswith("plain"))
        self.assertEqual(words[2].rstrip("!+"), f"{ms['backward'] / plain:.3f}")
        self.assertEqual(" ".join(words[7:]), "≤ 1.09 (1.05), 1.3 (1.18), 1.22 (1.13)")
        self.assertEqual(lines["… added to f32, ÷ torch's bf16"][6], "-")
        self.assertEqual(lines["… % of copy bandwidth"][:6], ["-"] * 6)

    def test_what_misses_and_what_is_better_still_is_marked(self):
        for factor, mark in (1.299, ""), (1.301, "!"), (1.179, "+"):
            document = copy.deepcopy(self.kept)
            ms = document["seven shapes"]["backward"][SHAPE]["hot_ms"]
            ms["backward"] = factor * min(value for row, value in ms.items() if row.startswith("plain"))
            self.assertEqual(self.lines(document)["backward, time ÷ plain"][2], f"{factor:.3f}{mark}")
        document = copy.deepcopy(self.kept)
        ms = document["seven shapes"]["shapes"][SHAPE]["hot_ms"]
        for row in ms:
            if row.startswith("plain"):
                ms[row] = ms["grouped"] / 1.04
        self.assertEqual(self.lines(document)["plain product, throughput ÷ torch"][2], "1.040!")

    def test_files_that_are_something_else(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "x.json")
            for content, says in (None, "No such file or directory"), ("{", "it is no JSON"), ("[]", "it has no figures of seven shapes"):
                if content is not None:
                    with open(path, "w", encoding="utf-8") as file:
                        file.write(content)
                done = run(path)
                self.assertEqual((done.returncode, done.stdout, done.stderr), (1, "", f"{path}: {says}\n"))


if __name__ == "__main__":
    unittest.main()
