#!/usr/bin/env python3
"""Moves the plans of result files into plans/HASH.json.gz next to them, so that equal plans are stored once.

    python3 bench/peers/share_plans.py headroom-forward-fp8-512-*.json

HASH is of the plan's content. Nothing else in a file changes. A file whose plans are there already is left alone.
"""

import argparse
import gzip
import hashlib
import json
import pathlib

KEY = '"plans":'


def store(plan, folder):
    """The name of a plan's file, written where it is not there yet."""
    text = json.dumps(plan, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode("utf-8")
    name = f"plans/{hashlib.sha256(text).hexdigest()[:16]}.json.gz"
    path = folder / name
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(gzip.compress(text, mtime=0))
    return name


def share(path):
    text = path.read_text(encoding="utf-8")
    document = json.loads(text)
    if not any(isinstance(plan, dict) for plan in document["plans"].values()):
        return
    begin = text.index(KEY) + len(KEY)
    begin += len(text[begin:]) - len(text[begin:].lstrip())
    plans, length = json.JSONDecoder().raw_decode(text[begin:])
    assert plans == document["plans"], f"{path}: the first member named plans is another"
    names = {key: store(plan, path.parent) if isinstance(plan, dict) else plan for key, plan in plans.items()}
    rows = ",".join(f"\n    {json.dumps(key, ensure_ascii=False)}: {json.dumps(name)}" for key, name in names.items())
    path.write_text(text[:begin] + "{" + rows + "\n  }" + text[begin + length:], encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="+", type=pathlib.Path, metavar="FILE", help="result files, which change in place")
    for path in parser.parse_args().files:
        share(path)


if __name__ == "__main__":
    main()
