#!/usr/bin/env python3
"""check_commands.py PROGRAM ROOT: what the documents below ROOT show of the command line is what the program has. Every
command and option in a block of code is one that its --help lists, and every command and option that --help lists has
its place in docs/commands.md or the command's own page. Runs nothing but --help.
"""

import pathlib
import re
import subprocess
import sys

BLOCK = re.compile(r"(?:^(?: {4}|\t)[^\n]*\n)+", re.M)
# A call in a block, with the lines that it goes on in behind a backslash.
CALL = re.compile(r"^ *(?:\$ )?(?:build/release/)?headroom ((?:[^\n]*\\\n)*[^\n]*)", re.M)
OPTION = re.compile(r"(?<![\w-])--?[a-z][\w-]*")
# The answer to a call that shows how a mistake is told.
MISTAKE = re.compile(r" *headroom: (?:unknown command|this argument was not expected|these arguments were not expected)")


def help_of(program, *command):
    return subprocess.run([program, *command, "--help"], check=True, capture_output=True, text=True).stdout


def options_of(text):
    """The names of the options that a help lists, each two blanks into its line; what lies further in goes on from
    the line before.
    """
    found = set()
    for line in text.splitlines():
        listed = re.match(r"  ((?:--?[a-z][\w-]*(?:, *)?)+)", line)
        if listed:
            found |= set(OPTION.findall(listed[1]))
    return found


def calls_of(text):
    """(call, what follows it in its block) of each call."""
    for block in BLOCK.findall(text):
        for call in CALL.finditer(block):
            yield call[1].replace("\\\n", " ").split("#")[0], block[call.end():].lstrip("\n")


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: check_commands.py PROGRAM ROOT")
    program, root = sys.argv[1], pathlib.Path(sys.argv[2])
    commands = re.findall(r"^  ([a-z]+) ", help_of(program).split("Subcommands:")[-1], re.M)
    options = {command: options_of(help_of(program, command)) for command in commands}
    faults, count = [], 0
    documents = [path for pattern in ("*.md", "docs/**/*.md", "models/*/*.md") for path in sorted(root.glob(pattern))]
    for path in documents:
        name = path.relative_to(root)
        for call, answer in calls_of(path.read_text(encoding="utf-8")):
            if MISTAKE.match(answer) or not call.strip():
                continue
            count += 1
            command = call.split()[0]
            if command not in options:
                if not command.startswith("-"):
                    faults.append(f"{name}: shows `headroom {command}`, which is no command")
                continue
            words = re.sub(r"'[^']*'|\"[^\"]*\"", "", call)
            for option in OPTION.findall(words):
                if option not in options[command] | {"--help"}:
                    faults.append(f"{name}: shows `headroom {command} {option}`, which is no option")
    shared = (root / "docs" / "commands.md").read_text(encoding="utf-8")
    for command, listed in options.items():
        page = root / "docs" / "commands" / f"{command}.md"
        own = page.read_text(encoding="utf-8") if page.exists() else ""
        if not own or f"commands/{command}.md" not in shared:
            faults.append(f"docs/commands.md: has no page of `headroom {command}`")
        for option in sorted(listed - {"--help", "-h"}):
            if not re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", own + shared):
                faults.append(f"docs/commands/{command}.md: does not tell of {option}")
    print("\n".join(faults) if faults else f"{count} calls in documents hold, of {len(commands)} commands")
    sys.exit(bool(faults) or not count or not commands)


if __name__ == "__main__":
    main()
