"""tools/plot.py on what is no document of bench: a sentence and exit code 1, and no traceback."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

PLOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "plot.py")
GOOD = {"gpu": {"name": "H200"}, "version": "1", "commit": "abc", "kernels": []}


class PlotTest(unittest.TestCase):
    def refuses(self, content, says):
        with self.subTest(content), tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "bench.json")
            if content is not None:
                with open(path, "w", encoding="utf-8") as file:
                    file.write(content)
            done = subprocess.run([sys.executable, "-B", PLOT, path], capture_output=True, text=True, check=False, cwd=folder)
            self.assertEqual(done.returncode, 1)
            self.assertEqual(done.stderr, f"{path}: {says}\n")
            self.assertEqual(done.stdout, "")

    def test_files_that_bench_has_not_written(self):
        self.refuses(None, "No such file or directory")
        self.refuses("{", "it is no JSON")
        for content in "null", "[]", "7", "{}", json.dumps({**GOOD, "gpu": None}), json.dumps({**GOOD, "kernels": 1}), \
                json.dumps({**GOOD, "kernels": [{"forms": [{"form": "fused", "hot": 1}]}]}):
            self.refuses(content, "bench has not written this")
        self.refuses(json.dumps({**GOOD, "ok": False}), "this run of bench failed")
        self.refuses(json.dumps(GOOD), "it has no times")


if __name__ == "__main__":
    unittest.main()
