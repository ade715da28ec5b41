#!/usr/bin/env python3
"""Holds the tree to the rules that no compiler checks: who may include whom, and what may not be written where.

The table below is the dependency table of the project; the link lines of the CMakeLists.txt files say the same, but
with includes written from the root a wrong include alone would still compile. tests/house/check_layers_test.py plants
a violation of every rule. Usage: check_layers.py [ROOT]; prints `file:line: what` and exits 1 when something is wrong.
"""

import os
import re
import sys

# Folder -> folders whose headers it may include, besides its own. The deepest folder that matches a file decides;
# "compiler" itself is only the facade, compiler/compiler.*.
COMPILER_PARTS = ["parser", "ir", "interpreter", "semantics", "chain", "lowering", "codegen", "toolchain"]
COMPILER = ["compiler"] + [f"compiler/{part}" for part in COMPILER_PARTS]
LIBRARIES = ["base", *COMPILER, "cache", "runtime", "deploy", "jit"]
MAY_INCLUDE = {
    "base": [],
    "compiler/parser": ["base"],
    "compiler/ir": ["base"],
    "compiler/interpreter": ["compiler/ir", "base"],
    "compiler/semantics": ["compiler/parser", "compiler/ir", "base"],
    "compiler/chain": ["compiler/semantics", "compiler/parser", "compiler/ir", "base"],
    "compiler/lowering": ["compiler/ir", "base"],
    "compiler/codegen": ["compiler/lowering", "compiler/ir", "base"],
    "compiler/toolchain": ["base"],
    "compiler": [*COMPILER, "base"],
    "cache": ["base"],
    "runtime": ["base"],
    "deploy": ["cache", "runtime", "base"],
    "jit": LIBRARIES,
    "tools": LIBRARIES,
    "tests": [*LIBRARIES, "tools"],
}

# Device code: each layer may include itself and those before it. A file directly in templates/ may include all.
TEMPLATE_LAYERS = ["ptx", "formats", "atom", "tile", "pipeline", "epilogue", "pointwise", "kernels"]

LONGEST_FILE = 900
# Settings are read in one place; the test replaces the function, to count who else calls it.
KNOW_ENVIRONMENT = ("base/settings.cpp", "tests/runtime/bound_launch_test.cpp")
CODE = (".h", ".cpp", ".cuh", ".cu", ".def", ".py", ".sh", ".cmake")
HOST = (".h", ".cpp")
DEVICE = (".cuh", ".cu")

# The build machine may have no CUDA toolkit, and NVRTC no file system. A test may compare with a header that is there.
TOOLKIT_HEADER = re.compile(r"(cuda\w*|nvrtc|cute|cutlass|cub|thrust|cooperative_groups)(\.h|/.*)?$")
ACTIVATION = re.compile(r"swiglu|geglu|silu|gelu", re.IGNORECASE)
# An absolute path of one person's machine; "runtime/work/" and "https://host/home/" are none, and "/home/u" is made up.
PERSONAL_PATH = re.compile(r"(?<![\w.)}\]*/-])/(?:home|root|work|Users)/(?!u\b)\w")

SOURCE_IN_CMAKE = re.compile(r"[\w./${}-]+\.cpp")
INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)')
COMMENT_OR_LITERAL = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)


def files_of(root):
    """Every file of the tree, from the root with forward slashes; not what git ignores: build folders and dot folders."""
    found = []
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(
            f for f in folders
            if f != "__pycache__" and not (f.startswith(".") and f != ".ci") and not (folder == root and f.startswith("build"))
        )
        found += [os.path.relpath(os.path.join(folder, name), root).replace(os.sep, "/") for name in sorted(names)]
    return found


def text_of(root, path):
    """The file's text, or None for a file that is not text."""
    with open(os.path.join(root, path), "rb") as file:
        data = file.read()
    try:
        return None if b"\0" in data else data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def folder_in(table, path):
    """The deepest folder of the table that holds the path, or None."""
    parts = path.split("/")[:-1]
    while parts:
        if "/".join(parts) in table:
            return "/".join(parts)
        parts.pop()
    return None


def without_comments_and_literals(text):
    """The code alone, with its lines kept."""
    return COMMENT_OR_LITERAL.sub(lambda match: "\n" * match.group().count("\n"), text)


def opens_with_comment(path, text):
    lines = text.split("\n")
    first = lines[1] if lines[0].startswith("#!") and len(lines) > 1 else lines[0]
    starts = ("//", "/*") if path.endswith(HOST + DEVICE + (".def",)) else ("#", '"""')
    return first.startswith(starts)


def has_header(root, path):
    """A source with a header of its own name has its purpose there."""
    return path.endswith(".cpp") and os.path.exists(os.path.join(root, path[: -len("cpp")] + "h"))


def check_host_include(root, path, target):
    """What is wrong with a quoted include of host code, or None."""
    if target.startswith("."):
        return f'include "{target}" from the root of the tree'
    if "/" not in target:
        # A bare name is a header that the build generates; one that lies in the tree has a path.
        beside = os.path.join(root, os.path.dirname(path), target)
        return f'include "{target}" from the root of the tree' if os.path.exists(beside) else None
    owner, wanted = folder_in(MAY_INCLUDE, path), folder_in(MAY_INCLUDE, target)
    if wanted is None and path.startswith("tests/") and target.split("/")[0] in TEMPLATE_LAYERS:
        return None  # device code that a test runs on the host
    if wanted is None:
        return f'"{target}" is in no folder of the dependency table'
    if wanted != owner and wanted not in MAY_INCLUDE[owner]:
        return f"{owner} may not include {wanted} ({target})"
    return None


def check_template_include(path, target):
    """What is wrong with a quoted include of device code, or None."""
    parts = target.removeprefix("templates/").split("/")
    own = path.removeprefix("templates/").split("/")
    if len(parts) < 2 or parts[0] not in TEMPLATE_LAYERS:
        return f'templates include only templates, from their root: "{target}"'
    if len(own) > 1 and own[0] in TEMPLATE_LAYERS and TEMPLATE_LAYERS.index(parts[0]) > TEMPLATE_LAYERS.index(own[0]):
        return f"templates/{own[0]} may not include the later layer {parts[0]} ({target})"
    return None


def check_includes(root, path, text):
    device = path.startswith("templates/")
    for number, line in enumerate(text.split("\n"), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        quoted, system = match.groups()
        if quoted and device:
            problem = check_template_include(path, quoted)
        elif quoted:
            problem = check_host_include(root, path, quoted)
        elif device:
            problem = f"<{system}>: NVRTC compiles the templates without an include path"
        elif system.startswith("nlohmann/json.hpp") and path.endswith(".h"):
            problem = "nlohmann/json belongs in .cpp files: it is dear to compile"
        elif TOOLKIT_HEADER.match(system) and not path.startswith("tests/"):
            problem = f"<{system}>: the host code builds without a CUDA toolkit"
        else:
            problem = None
        if problem:
            yield number, problem


def lines_matching(pattern, text):
    return [number for number, line in enumerate(text.split("\n"), 1) if pattern.search(line)]


def check_sources_are_built(root, paths):
    """A source file that no CMake file names would be compiled, and tested, by nobody."""
    named = set()
    for path in paths:
        if os.path.basename(path) == "CMakeLists.txt" or path.endswith(".cmake"):
            for source in SOURCE_IN_CMAKE.findall(text_of(root, path) or ""):
                from_root = re.sub(r"^\$\{(PROJECT|CMAKE)_SOURCE_DIR\}/", "", source)
                folder = "" if from_root != source else os.path.dirname(path)
                named.add(os.path.normpath(os.path.join(folder, from_root)).replace(os.sep, "/"))
    for path in paths:
        if path.endswith(".cpp") and folder_in(MAY_INCLUDE, path) and path not in named:
            yield path, 1, "no CMake file names this source"


def check(root):
    """All violations under root, as (path, line, what)."""
    paths = files_of(root)
    problems = list(check_sources_are_built(root, paths))
    for path in paths:
        text = text_of(root, path)
        if text is None:
            continue
        found = [(number, "a path of one machine") for number in lines_matching(PERSONAL_PATH, text)]
        if path.startswith(("compiler/", "templates/")):
            found += [(number, "an activation by name; specs name activations, the compiler knows arithmetic")
                      for number in lines_matching(ACTIVATION, text)]
        if path.endswith(CODE):
            length = text.count("\n")
            if length > LONGEST_FILE:
                found.append((length, f"{length} lines; the longest allowed file has {LONGEST_FILE}"))
            if not opens_with_comment(path, text) and not has_header(root, path):
                found.append((1, "a file opens with a comment of its purpose"))
        if path.startswith("templates/") and path.endswith(DEVICE) or path.endswith(HOST) and folder_in(MAY_INCLUDE, path):
            found += check_includes(root, path, text)
        if path.endswith(HOST) and path not in KNOW_ENVIRONMENT:
            code = without_comments_and_literals(text)
            found += [(number, "only base/settings.cpp reads the environment")
                      for number in lines_matching(re.compile(r"\b(?:secure_)?getenv\b"), code)]
            if path != "base/json.cpp" and not path.startswith("tests/"):
                found += [(number, "JSON is read with base/json.h, which bounds it")
                          for number in lines_matching(re.compile(r"\b(?:J|j|ordered_j)son::(?:sax_)?parse\b"), code)]
        problems += [(path, number, what) for number, what in found]
    return sorted(problems)


def main(arguments):
    if len(arguments) > 1:
        print("usage: check_layers.py [ROOT]", file=sys.stderr)
        return 2
    root = arguments[0] if arguments else os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    problems = check(root)
    for path, number, what in problems:
        print(f"{path}:{number}: {what}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
