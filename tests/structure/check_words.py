#!/usr/bin/env python3
"""check_words.py ROOT: comments, documents and messages keep to docs/glossary.md and to 120 columns.

Prints each line that holds a retired word, in comments and strings of C++ and CUDA sources and in Markdown outside
code, and each line of a comment or of a document that is longer than 120 columns; in Python, shell and CMake comments
of their own lines and docstrings alone. Tables, code blocks and links of documents may be longer, and indented lines of
comments. Exit status: 0 none, 1 some.
"""

import ast
import pathlib
import re
import sys

COLUMNS = 120
# Each with what to write instead.
RETIRED = {
    r"besides?": "next to, together with, other than",
    r"stands?": "is, lies, is placed",
    r"in front": "before",
    r"kin|kinship": "size family, nearest tuned size",
    r"told": "reported, printed, passed",
    r"(?<!-)ways?": "algorithm, candidate, method, layout",
    r"takes? turns|in turns|by turns": "alternate, one at a time, offloading",
    r"side numbers?": "per-channel vector",
    r"read by sample": "batched operand",
}
PATTERN = re.compile("|".join(rf"(?P<w{i}>\b(?:{words})\b)" for i, words in enumerate(RETIRED)), re.I)
SCRIPTS = {".py", ".sh", ".cmake"}
SCRIPT_FOLDERS = ("scripts", "bench", "tests", "cmake", "python", "findings")
SOURCES = {".cpp", ".hpp", ".cu", ".cuh", ".def"}
# Comments and strings, as they come; raw strings of tests hold graphs and JSON.
SPOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.S)
CODE = re.compile(r"(`+).+?\1", re.S)


def spoken_lines(text):
    """(line number, text) of comments and of strings that are no raw ones."""
    for match in SPOKEN.finditer(text):
        if match[0].startswith("R") or match[0].startswith("'"):
            continue
        first = text.count("\n", 0, match.start()) + 1
        for offset, line in enumerate(match[0].split("\n")):
            yield first + offset, line


def document_lines(text):
    """(line number, text without code, whether it may be long) of a document's lines outside code blocks."""
    is_fenced = False
    is_text = True
    for number, line in enumerate(text.split("\n"), 1):
        if line.lstrip().startswith("```"):
            is_fenced = not is_fenced
            continue
        is_indented = line.startswith("    ") and not is_text
        is_text = bool(line.strip()) and not is_indented
        if is_fenced or is_indented or line.startswith(("    $", "\t")):
            continue
        yield number, CODE.sub("``", line), line.startswith("|") or "](" in line or "http" in line


def long_lines_of_script(text, is_python):
    """Numbers of long lines of comments and docstrings, but for indented ones: lists and examples."""
    lines = text.split("\n")
    prose = {number for number, line in enumerate(lines, 1) if re.match(r"\s*# (?! )", line)}
    if is_python:
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node) is not None:
                held, indent = node.body[0], " " * node.body[0].col_offset
                prose |= {number for number in range(held.lineno, held.end_lineno + 1)
                          if not lines[number - 1].startswith(indent + " ")}
    return sorted(number for number in prose if len(lines[number - 1]) > COLUMNS)


def faults_of(path):
    text = path.read_text(encoding="utf-8")
    if path.suffix in SCRIPTS:
        for number in long_lines_of_script(text, path.suffix == ".py"):
            yield number, f"is longer than {COLUMNS} columns"
        return
    if path.suffix == ".md":
        lines = list(document_lines(text))
        whole = text.split("\n")
        long = [number for number, _, may_be in lines if not may_be and len(whole[number - 1]) > COLUMNS]
        spoken = [(number, line) for number, line, _ in lines]
    else:
        spoken = list(spoken_lines(text))
        comment = re.compile(r"^[^\"]*//")
        long = [number for number, line in enumerate(text.split("\n"), 1) if len(line) > COLUMNS and comment.match(line)]
    for number in long:
        yield number, f"is longer than {COLUMNS} columns"
    for number, line in spoken:
        for match in PATTERN.finditer(line):
            instead = list(RETIRED.values())[int(match.lastgroup[1:])]
            yield number, f"says '{match[0]}'; write {instead}"


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: check_words.py ROOT")
    root = pathlib.Path(sys.argv[1])
    files = [path for path in sorted((root / "src").rglob("*")) if path.suffix in SOURCES]
    files += sorted((root / "docs").rglob("*.md")) + [path for name in ("README.md", "CHANGELOG.md") if (path := root / name).exists()]
    files += [path for folder in SCRIPT_FOLDERS for path in sorted((root / folder).rglob("*")) if path.suffix in SCRIPTS]
    count = 0
    for path in files:
        for number, fault in faults_of(path):
            print(f"{path.relative_to(root)}:{number}: {fault}")
            count += 1
    print(f"{len(files)} files, {count} faults")
    return 1 if count or not files else 0


if __name__ == "__main__":
    sys.exit(main())
