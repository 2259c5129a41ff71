#!/usr/bin/env python3
"""Runs clang-tidy on every source of a build, or on the files given, side by side.

A file whose preprocessed text, compile command, .clang-tidy and this script are those of an earlier clean run is not
checked again; the stamps of clean runs are in build/lint. Exit status: 0 clean, 1 findings, 2 usage.
"""

import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import shlex
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
STAMPS = ROOT / "build" / "lint"
# What clang needs other than the arguments of g++, whose -Wconversion leaves signs alone in C++. Without OpenMP because
# clang 16 refuses lambdas that capture structured bindings with it.
CLANG_ARGUMENTS = ["-Wno-unknown-warning-option", "-Wno-sign-conversion", "-fno-openmp", "-Wno-unknown-pragmas"]


def compiler_arguments(entry):
    """The entry's compiler and arguments, without launchers such as ccache, and without output files."""
    words = shlex.split(entry["command"])
    while len(words) > 1 and not words[1].startswith("-"):
        words = words[1:]
    output = words.index("-o")
    return words[:output] + words[output + 2:]


def work_key(entry, config):
    """A hash of all that clang-tidy's verdict on the file depends on; comments count, for they hold NOLINT."""
    arguments = [word for word in compiler_arguments(entry) if word != "-c"]
    text = subprocess.run(arguments + ["-E", "-C"], cwd=entry["directory"], capture_output=True, check=True).stdout
    return hashlib.sha256(b"\0".join([config, " ".join(arguments).encode(), text])).hexdigest()


def lint(entry, build, config):
    """Returns what clang-tidy has to say about one file, and whether it is clean."""
    try:
        stamp = STAMPS / work_key(entry, config)
    except subprocess.CalledProcessError as error:
        return error.stderr.decode(), False
    if stamp.exists():
        return "", True
    command = ["clang-tidy-16", "-p", str(build), "--quiet", *(f"--extra-arg={word}" for word in CLANG_ARGUMENTS), entry["file"]]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if result.returncode == 0:
        stamp.touch()
        return "", True
    return result.stdout + result.stderr, False


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=pathlib.Path, help="sources to check; all of the build's unless given")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "dev", help="with compile_commands.json")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    options.build = options.build.resolve()

    entries = [entry for entry in json.loads((options.build / "compile_commands.json").read_text())
               if not pathlib.Path(entry["file"]).is_relative_to(options.build) and entry["file"].endswith(".cpp")]
    if options.files:
        wanted = {str(file.resolve()) for file in options.files}
        entries = [entry for entry in entries if entry["file"] in wanted]
        for file in sorted(wanted - {entry["file"] for entry in entries}):
            if file.endswith(".cpp"):
                print(f"lint.py: {file} is no source of {options.build}", file=sys.stderr)
                return 2
    elif not entries:
        print(f"lint.py: {options.build} has no sources", file=sys.stderr)
        return 2

    STAMPS.mkdir(parents=True, exist_ok=True)
    config = (ROOT / ".clang-tidy").read_bytes() + pathlib.Path(__file__).read_bytes()
    failures = 0
    start = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for entry, (text, clean) in zip(entries, pool.map(lambda e: lint(e, options.build, config), entries)):
            if not clean:
                failures += 1
                print(text, end="", flush=True)
    print(f"clang-tidy: {len(entries) - failures} of {len(entries)} sources clean, {time.monotonic() - start:.0f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
