#!/usr/bin/env python3
"""check_links.py ROOT: every link of the documents below ROOT leads to a file, folder or heading that is there, every
path that they name in code is there, and docs/README.md lists every document. check_links.py --site FOLDER: every link
of the pages in FOLDER leads to a file in it, or to an element of a page.

Links to other sites are held to their form alone. Needs nothing but Python.
"""

import html.parser
import pathlib
import re
import sys
import urllib.parse

FENCED = re.compile(r"^( *)(```|~~~).*?^\1\2[^\n]*$", re.M | re.S)
INDENTED = re.compile(r"(?:(?<=\n\n)|\A)(?:(?: {4}|\t)[^\n]*\n|\n(?= {4}|\t))+")
CODE = re.compile(r"(`+)(.+?)\1", re.S)
LINK = re.compile(r"\]\(\s*<?([^)\s>]*)>?(?:\s+\"[^\"]*\")?\s*\)")
HEADING = re.compile(r"^#{1,6} +(.+?)(?: +#+)? *$", re.M)
# Files of the repository as documents write them: from its root, from src/ or from the document. NAME in one stands for
# any name.
PATH = re.compile(r"[\w.-]+(?:/[\w.-]+)*/(?:[\w.-]+\.(?:hpp|cpp|cu|cuh|def|cmake|py|sh|js|css|md|json|jsonl|txt|csv)|)")
FOLDERS = ("bench", "cmake", "docs", "examples", "models", "scripts", "src", "tests", "third_party")


def without_code(text):
    """The prose of a document, its code blocks and code spans left empty."""
    return CODE.sub("``", INDENTED.sub("\n", FENCED.sub("", text)))


def anchors_of(text):
    """The anchors that GitHub gives the headings."""
    seen, anchors = {}, set()
    for heading in HEADING.findall(INDENTED.sub("\n", FENCED.sub("", text))):
        words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower()
        anchor = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        number = seen.get(anchor, 0)
        seen[anchor] = number + 1
        anchors.add(f"{anchor}-{number}" if number else anchor)
    return anchors


def bad_external(target):
    parts = urllib.parse.urlsplit(target)
    return parts.scheme not in ("http", "https", "mailto") or not (parts.netloc or parts.path) or bool(re.search(r"[\s<>\"]", target))


class Faults:
    def __init__(self):
        self.lines, self.links = [], 0

    def add(self, where, what):
        self.lines.append(f"{where}: {what}")

    def internal(self, where, targets):
        """Those of the targets that lead to no other site; counts all."""
        for target in targets:
            self.links += 1
            if re.match(r"[A-Za-z][\w+.-]*:", target) is None:
                yield target
            elif bad_external(target):
                self.add(where, f"'{target}' is no link to another site")

    def end(self, what):
        print("\n".join(self.lines) if self.lines else f"{self.links} {what}")
        if not self.links:
            print(f"no {what.split()[0]} found")
        sys.exit(bool(self.lines) or not self.links)


def check_documents(root):
    faults = Faults()
    documents = [path for pattern in ("*.md", "docs/**/*.md", "models/*/*.md", "examples/**/*.md") for path in sorted(root.glob(pattern))]
    texts = {path: path.read_text(encoding="utf-8") for path in documents}
    listed = set()
    for path, text in texts.items():
        name = path.relative_to(root)
        for target in faults.internal(name, LINK.findall(without_code(text))):
            file, _, anchor = target.partition("#")
            to = (path.parent / file).resolve() if file else path
            if not to.exists() or not to.is_relative_to(root):
                faults.add(name, f"links to {file}, which is not there")
                continue
            if name == pathlib.Path("docs/README.md"):
                listed.add(to)
            if anchor and anchor not in anchors_of(texts.get(to, "")):
                faults.add(name, f"links to {target}, where no heading has the anchor {anchor}")
        for code in (code.strip() for _, code in CODE.findall(INDENTED.sub("\n", FENCED.sub("", text)))):
            first = code.split("/")[0]
            of_repository = PATH.fullmatch(code) and (first in FOLDERS or (root / "src" / first).is_dir()) and "NAME" not in code
            if of_repository and not any((base / code).exists() for base in (root, root / "src", path.parent)):
                faults.add(name, f"names `{code}`, which is not there")
    index = root / "docs" / "README.md"
    for path in documents:
        if path != index and path not in listed:
            faults.add(index.relative_to(root), f"does not list {path.relative_to(root)}")
    faults.end("links in documents hold")


class Page(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.ids, self.targets = set(), []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        if values.get("id"):
            self.ids.add(values["id"])
        self.targets += [values[key] for key in ("href", "src") if values.get(key) is not None]


def check_site(folder):
    faults = Faults()
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(folder.rglob("*.html"))}
    for path, page in pages.items():
        name = path.relative_to(folder)
        for target in faults.internal(name, page.targets):
            file, _, anchor = target.partition("#")
            to = (path.parent / urllib.parse.unquote(file)).resolve() if file else path
            if not to.is_file() or not to.is_relative_to(folder):
                faults.add(name, f"links to {target}, which is not there")
            elif file.endswith(".md"):
                faults.add(name, f"links to {target}, not to the page of it")
            elif anchor and (to not in pages or urllib.parse.unquote(anchor) not in pages[to].ids):
                faults.add(name, f"links to {target}, where nothing is called {anchor}")
    faults.end("links in pages hold")


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "--site":
        check_site(pathlib.Path(sys.argv[2]).resolve())
    if len(sys.argv) == 2 and not sys.argv[1].startswith("-"):
        check_documents(pathlib.Path(sys.argv[1]).resolve())
    sys.exit("usage: check_links.py ROOT | check_links.py --site FOLDER")


if __name__ == "__main__":
    main()
