"""tools/editor/epifuse.tmLanguage.json: its patterns compile, and take every spec apart as the lexer does.

Python's regular expressions are near enough to those of editors for what the grammar uses. The lists of words in it are
compared with the compiler's tables by tests/docs/tables_test.cpp.
"""

import glob
import json
import os
import re
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def read(*names):
    with open(os.path.join(ROOT, *names), encoding="utf-8") as file:
        return file.read()


GRAMMAR = json.loads(read("tools", "editor", "epifuse.tmLanguage.json"))
SPECS = sorted(glob.glob(os.path.join(ROOT, "specs", "**", "*.epi"), recursive=True))


def rules(patterns):
    """The patterns in their order, with includes followed."""
    for pattern in patterns:
        if "include" in pattern:
            yield from rules([GRAMMAR["repository"][pattern["include"][1:]]])
        elif "match" not in pattern and "begin" not in pattern:
            yield from rules(pattern["patterns"])
        else:
            yield pattern


def tokens(text):
    """(line, column, text, scope) of everything that has a scope, as an editor goes through a text line by line."""
    open_rule = None
    for number, line in enumerate(text.split("\n"), 1):
        at = 0
        while at < len(line):
            inside = list(rules(open_rule["patterns"] if open_rule else GRAMMAR["patterns"]))
            found = [(re.compile(rule.get("match") or rule["begin"]).search(line, at), rule) for rule in inside]
            if open_rule:
                found.insert(0, (re.compile(open_rule["end"]).search(line, at), None))
            found = [(match, rule) for match, rule in found if match and match.end() > match.start()]
            if not found:
                break
            match, rule = min(found, key=lambda pair: pair[0].start())  # the first of those that begin alike
            captures = (rule or {}).get("captures") or (rule or {}).get("beginCaptures") or {}
            if rule is None:
                captures = open_rule["endCaptures"]
            for group, style in sorted(captures.items()):
                if match.group(int(group)):
                    yield number, match.start(int(group)) + 1, match.group(int(group)), style["name"]
            if not captures:
                yield number, match.start() + 1, match.group(), rule["name"]
            if rule is None:
                open_rule = None
            elif "begin" in rule:
                open_rule = rule
            at = match.end()


def is_right(kind, text, scope):
    """Whether a token of the lexer may have the scope."""
    if kind.startswith("key_"):
        return scope.startswith("keyword.")
    if kind in ("integer", "number"):
        return scope.startswith("constant.numeric")
    if kind == "string":
        return scope.startswith("string.")
    if kind == "name":
        return scope.split(".")[0] in ("variable", "entity", "support", "storage") or \
            (scope.startswith("keyword.other") and text in ("by", "align", "slot", "ends", "counts"))
    return scope.startswith(("keyword.operator", "punctuation"))


class GrammarTest(unittest.TestCase):
    def test_patterns_compile_and_includes_exist(self):
        def walk(value):
            if isinstance(value, list):
                for item in value:
                    yield from walk(item)
            elif isinstance(value, dict):
                yield value
                for item in value.values():
                    yield from walk(item)

        count = 0
        for rule in walk(GRAMMAR):
            for key in ("match", "begin", "end"):
                if isinstance(rule.get(key), str):
                    re.compile(rule[key])
                    count += 1
            if "include" in rule:
                self.assertIn(rule["include"][1:], GRAMMAR["repository"])
        self.assertGreater(count, 12)
        self.assertEqual(GRAMMAR["fileTypes"], ["epi"])

    def test_everything_of_every_spec_has_a_scope(self):
        self.assertGreater(len(SPECS), 30)
        for path in SPECS:
            rest = [list(line) for line in read(path).split("\n")]
            for line, column, text, _ in tokens(read(path)):
                rest[line - 1][column - 1 : column - 1 + len(text)] = " " * len(text)
            left = [f"{os.path.relpath(path, ROOT)}:{i}: {''.join(line).strip()}" for i, line in enumerate(rest, 1)
                    if "".join(line).strip()]
            self.assertEqual(left, [])

    def test_scopes_are_what_the_lexer_sees(self):
        compared = 0
        for path in glob.glob(os.path.join(ROOT, "tests", "golden", "*", "tokens.txt")):
            name = os.path.basename(os.path.dirname(path))
            scopes = {(line, column): (text, scope) for line, column, text, scope in tokens(read("specs", name + ".epi"))}
            for row in read(path).splitlines():
                place, kind, *rest = row.split(" ", 2)
                if not rest:
                    continue
                line, column = map(int, place.split(":"))
                text, scope = scopes[(line, column)]
                self.assertEqual(text, rest[0], f"{name}:{place}")
                self.assertTrue(is_right(kind, text, scope), f"{name}:{place} {kind} {text} is {scope}")
                compared += 1
        self.assertGreater(compared, 1000)

    def test_words_in_their_places(self):
        text = "\n".join(["language 1", "kernel k {  # in out", "  group M by E counts i64 align 8",
                          "  out y : nvfp4(amax = a, rule = torchao, along = M)[M, 2*I] += min(swiglu(x), 0x1F) * 1.5e-3",
                          "  out amax : f32 = amax(v)", "}"])
        scope = {(line, word): style for line, _, word, style in tokens(text)}
        for place, style in {(1, "language"): "keyword.other", (2, "kernel"): "keyword.control", (2, "k"): "entity.name.function",
                             (2, "# in out"): "comment", (3, "group"): "keyword.control", (3, "by"): "keyword.other",
                             (3, "counts"): "keyword.other", (3, "i64"): "storage.type", (4, "nvfp4"): "storage.type",
                             (4, "amax"): "variable.parameter", (4, "torchao"): "support.constant", (4, "along"): "variable.parameter",
                             (4, "min"): "support.function", (4, "swiglu"): "entity.name.function", (4, "0x1F"): "constant.numeric",
                             (4, "1.5e-3"): "constant.numeric", (4, "+="): "keyword.operator", (5, "amax"): "support.function",
                             }.items():
            self.assertTrue(scope[place].startswith(style), (place, scope[place]))


if __name__ == "__main__":
    unittest.main()
