#!/usr/bin/env python3
"""Holds the excerpts in docs/*.md to what the compiler prints.

A line `<!-- FILE from "TEXT", N lines -->` stands above a fenced block that shows N lines of a golden file (FILE is
its path below tests/golden), beginning at the first that holds TEXT; lines longer than 118 characters are cut. With
--update the blocks are rewritten. Usage: excerpts.py [--update]
"""

import glob
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
EXCERPT = re.compile(r'(<!-- (\S+) from "([^"]+)", (\d+) lines -->\n```\w*\n)(.*?)(```\n)', re.DOTALL)
LONGEST = 118


def shorten(line):
    return line if len(line) <= LONGEST else line[: LONGEST - 2] + " …"


def excerpt(path, text, count):
    with open(os.path.join(ROOT, "tests", "golden", path), encoding="utf-8") as file:
        lines = file.read().split("\n")
    begin = next((i for i, line in enumerate(lines) if text in line), None)
    if begin is None or begin + count > len(lines):
        return f"{path} has no {count} lines from '{text}'\n"
    return "".join(shorten(line) + "\n" for line in lines[begin : begin + count])


def main(arguments):
    stale, seen = [], 0
    for path in sorted(glob.glob(os.path.join(ROOT, "docs", "*.md"))):
        with open(path, encoding="utf-8") as file:
            page = file.read()

        def renew(match):
            return match[1] + excerpt(match[2], match[3], int(match[4])) + match[6]

        new, count = EXCERPT.subn(renew, page)
        seen += count
        if new == page:
            continue
        if arguments == ["--update"]:
            with open(path, "w", encoding="utf-8") as file:
                file.write(new)
        else:
            stale.append(os.path.relpath(path, ROOT))
    for path in stale:
        print(f"{path}: an excerpt is not what the golden file says; tests/golden/excerpts.py --update rewrites it")
    if not seen:
        print("no excerpt was found in docs/*.md")
    return 1 if stale or not seen else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
