#!/usr/bin/env python3
"""Tests tools/check_layers.py: a small clean tree passes, and one planted violation of each rule is found, at its line."""

import contextlib
import io
import os
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools"))
import check_layers  # noqa: E402

CLEAN = {
    "base/CMakeLists.txt": "epifuse_library(epifuse_base SOURCES a.cpp settings.cpp)\n",
    "base/a.h": "// A.\n#pragma once\n#include <string>\n",
    "base/a.cpp": '// A\'s body; it never calls getenv.\n#include "base/a.h"\n#include <nlohmann/json.hpp>\n',
    "base/settings.cpp": '// Settings.\nconst char* home = std::getenv("HOME");\n',
    "compiler/CMakeLists.txt": "epifuse_library(epifuse_compiler SOURCES compiler.cpp)\n",
    "compiler/compiler.h": "// Facade.\n",
    "compiler/compiler.cpp": '// Facade.\n#include "compiler/codegen/emit.h"\n#include "compiler/compiler.h"\n#include "generated.h"\n',
    "compiler/parser/parser.h": '// Parser.\n#include "base/a.h"\n',
    "compiler/semantics/resolve.h": '// Resolver.\n#include "compiler/ir/graph.h"\n#include "compiler/parser/parser.h"\n',
    "compiler/codegen/emit.h": '// Emitter.\n#include "compiler/lowering/plan.h"\n',
    "templates/all.cu": '// All.\n#include "kernels/gemm.cuh"\n',
    "templates/tile/copy.cuh": '// Copy.\n#include "ptx/tma.cuh"\n#include "tile/layout.cuh"\n',
    "templates/kernels/gemm.cuh": '// Gemm.\n#include "templates/epilogue/store.cuh"\n',
    "deploy/bundle.h": '// Bundle.\n#include "cache/cache.h"\n#include "runtime/launch.h"\n',
    "jit/engine.h": '// Engine.\n#include "compiler/compiler.h"\n#include "deploy/bundle.h"\n',
    "CMakeLists.txt": "add_subdirectory(base)\n",
    "cmake/Tests.cmake": "# Tests.\nadd_library(main \"${PROJECT_SOURCE_DIR}/tests/support/main.cpp\")\n",
    "tests/support/main.cpp": "// Main.\n",
    "tests/support/fake.cpp": "// Fake.\n",
    "tests/runtime/CMakeLists.txt": "epifuse_test(runtime_test SOURCES ../support/fake.cpp)\n",
    "specs/lib/activations.epi": "# silu is a name for specs\n",
    "tests/golden/kernel.bin": b"\0 swiglu",
    "docs/page.md": "See https://host/home/page and compiler/root/x.\n",
    "build/x.cpp": "no comment\n",
}

# Rule -> (path, text, line, part of the message). The file replaces or joins the clean tree.
VIOLATIONS = {
    "base includes nothing of ours": ("base/a.h", '// A.\n#include "cache/cache.h"\n', 2, "base may not include cache"),
    "the parser does not know the IR": (
        "compiler/parser/parser.h", '// P.\n\n#include "compiler/ir/graph.h"\n', 3, "may not include compiler/ir"),
    "the emitter does not know the toolchain": (
        "compiler/codegen/emit.h", '// E.\n#include "compiler/toolchain/nvrtc.h"\n', 2, "compiler/toolchain"),
    "no stage knows the facade": (
        "compiler/lowering/plan.h", '// P.\n#include "compiler/compiler.h"\n', 2, "may not include compiler "),
    "cache and runtime do not know each other": (
        "cache/cache.h", '// C.\n#include "runtime/launch.h"\n', 2, "cache may not include runtime"),
    "deploy does not know the compiler": (
        "deploy/bundle.h", '// B.\n#include "compiler/compiler.h"\n', 2, "deploy may not include compiler"),
    "jit does not know the tools": ("jit/engine.h", '// E.\n#include "tools/main.h"\n', 2, "jit may not include tools"),
    "no library knows the tests": (
        "runtime/launch.h", '// L.\n#include "tests/support/x.h"\n', 2, "runtime may not include tests"),
    "includes are written from the root": ("base/b.h", '// B.\n#include "a.h"\n', 2, "from the root"),
    "no include climbs": ("base/b.h", '// B.\n#include "../cache/cache.h"\n', 2, "from the root"),
    "an unknown folder": ("base/b.h", '// B.\n#include "vendor/x.h"\n', 2, "no folder of the dependency table"),
    "template layers": (
        "templates/ptx/tma.cuh", '// T.\n#include "tile/copy.cuh"\n', 2, "may not include the later layer tile"),
    "templates include templates": ("templates/ptx/tma.cuh", '// T.\n#include "base/a.h"\n', 2, "only templates"),
    "templates need no include path": ("templates/ptx/tma.cuh", "// T.\n#include <cuda_fp16.h>\n", 2, "NVRTC"),
    "json in a header": ("cache/j.h", "// J.\n#include <nlohmann/json.hpp>\n", 2, "belongs in .cpp"),
    "second reader of JSON": ("cache/j.h", "// J.\nauto j = Json::parse(text);\n", 2, "base/json.h"),
    "toolkit header": ("runtime/d.h", "// D.\n#include <cuda.h>\n", 2, "without a CUDA toolkit"),
    "purpose of a header": ("base/b.h", "#pragma once\n", 1, "opens with a comment"),
    "purpose of a script": ("tools/x.py", "#!/usr/bin/env python3\nimport os\n", 1, "opens with a comment"),
    "long file": ("base/b.h", "// B.\n" + "\n" * 900, 901, "901 lines"),
    "second reader of the environment": (
        "cache/e.h", '// E.\ninline auto h = getenv("HOME");\n', 2, "reads the environment"),
    "activation in the compiler": ("compiler/ir/o.def", "// O.\n// like SwiGLU\n", 2, "activation"),
    "activation in a template": ("templates/tile/g.cuh", "// G.\nfloat fast_silu(float);\n", 2, "activation"),
    "personal path": ("docs/page.md", "\nRun `/home/" "ann/x`.\n", 2, "a path of one machine"),
    "source that nobody builds": ("base/b.cpp", "// B.\n", 1, "no CMake file"),
}


class CheckLayers(unittest.TestCase):
    def problems_of(self, tree):
        with tempfile.TemporaryDirectory() as root:
            for path, content in tree.items():
                os.makedirs(os.path.join(root, os.path.dirname(path)), exist_ok=True)
                with open(os.path.join(root, path), "wb") as file:
                    file.write(content if isinstance(content, bytes) else content.encode())
            return check_layers.check(root)

    def test_clean_tree(self):
        self.assertEqual(self.problems_of(CLEAN), [])

    def test_violations(self):
        for rule, (path, text, line, what) in VIOLATIONS.items():
            with self.subTest(rule):
                problems = self.problems_of({**CLEAN, path: text})
                self.assertEqual([problem[:2] for problem in problems], [(path, line)], problems)
                self.assertIn(what, problems[0][2])

    def test_exit_code(self):
        with tempfile.TemporaryDirectory() as root:
            self.assertEqual(check_layers.main([root]), 0)
            with open(os.path.join(root, "x.py"), "w") as file:
                file.write("import os\n")
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                self.assertEqual(check_layers.main([root]), 1)
            self.assertIn("x.py:1: ", printed.getvalue())


if __name__ == "__main__":
    unittest.main()
