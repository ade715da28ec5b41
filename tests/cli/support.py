"""What the tests of the command share: running it in a clean environment, and small specs and files for it."""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tools"))
import npy_files  # noqa: E402,F401

EPIFUSE = ""  # set by main()

# A kernel that the interpreter runs in no time. M is cut by E; y is a product, s scaled.
SMALL = """use "activations.epi"
kernel small {
  dim   E = 2, K = 16, N = 32
  group M by E
  param limit = 7.0
  in  x : bf16[M, K]
  in  w : bf16[E, N, K]
  in  b : bf16[E, N] = 0
  h     = gemm(x, w) + b
  out y : f32[M, N] = min(h, limit)
  out s : mxfp8[M, N] = h
}
"""


with open(os.path.join(ROOT, "docs", "command_line.md"), encoding="utf-8") as page:
    DOCUMENTED = set(re.findall(r"`([a-z0-9_]+)`", page.read()))


def keys_of(value):
    """The keys of a document at every depth, but those that are names of a spec."""
    if isinstance(value, list):
        for item in value:
            yield from keys_of(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            if key != "dims":
                yield from keys_of(item)


def has_gpu():
    return os.path.exists("/dev/nvidiactl")


class CliTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="epifuse-cli-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        kept = ("PATH", "LD_LIBRARY_PATH", "CUDA_HOME", "EPIFUSE_NVRTC", "ASAN_OPTIONS", "UBSAN_OPTIONS")
        self.environment = {name: os.environ[name] for name in kept if name in os.environ}
        self.environment["HOME"] = self.folder
        self.environment["EPIFUSE_CACHE_DIR"] = self.path("cache")

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def write(self, name, content):
        path = self.path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
        return path

    def spec(self, name="grouped_gemm"):
        return os.path.join(ROOT, "specs", name + ".epi")

    def small(self):
        return self.write("small.epi", SMALL)

    def start(self, *arguments, start_new_session=False, **settings):
        return subprocess.Popen([EPIFUSE, *arguments], cwd=self.folder, env={**self.environment, **settings},
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                start_new_session=start_new_session)

    def run_epifuse(self, *arguments, code=0, raw=False, **settings):
        """Stdout and stderr of a run that must end with the code."""
        process = self.start(*arguments, **settings)
        out, err = process.communicate(timeout=300)
        err = err.decode(errors="replace")
        if process.returncode != code:
            self.fail(f"epifuse {' '.join(arguments)} ended with {process.returncode}, not {code}\n{err}\n{out[:2000]}")
        return (out if raw else out.decode()), err

    def json(self, *arguments, code=0, **settings):
        """The document of a run with --json: exactly one, that says how the run ended."""
        out, _ = self.run_epifuse(*arguments, "--json", code=code, **settings)
        document = json.loads(out)
        self.assertEqual(document["exit_code"], code)
        self.assertEqual(document["ok"], code == 0)
        self.assertIsInstance(document["diagnostics"], list)
        self.assertEqual("error" in document, code != 0)
        self.assertEqual(set(keys_of(document)) - DOCUMENTED, set(), "keys that docs/command_line.md does not have")
        return document

    def refuses(self, code, *arguments, says, **settings):
        """The run fails with the code, says why on stderr, and prints nothing on stdout."""
        with self.subTest(arguments=arguments):
            out, err = self.run_epifuse(*arguments, code=code, **settings)
            self.assertEqual(out, "")
            for text in [says] if isinstance(says, str) else says:
                self.assertIn(text, err)

    def files(self):
        """Everything below the test's folder but the cache."""
        found = []
        for folder, folders, names in os.walk(self.folder):
            with contextlib.suppress(ValueError):
                folders.remove("cache")
            found += [os.path.relpath(os.path.join(folder, name), self.folder) for name in names]
        return sorted(found)


def main():
    global EPIFUSE
    EPIFUSE = os.path.abspath(sys.argv.pop(1))
    unittest.main(module="__main__")
