#!/usr/bin/env python3
"""What int8 is worth, from the rounds of bench/int8.sh: a Markdown table, and one result file of all rounds.

    python3 bench/int8_ratios.py OUT_DIR [--save FILE]

A round's factor is fp32's median over that of the same round. Given are the medians over rounds, of times and of
factors, each with the exact 95% interval of a median (order statistics).
"""

import argparse
import json
import math
import pathlib
import statistics

NAMES = {"fp32": "`lossless`", "bf16": "`lossless,bf16`", "int8": "`lossless,int8`", "int8-bf16": "`lossless,bf16,int8`"}


def interval(values):
    """The narrowest pair of order statistics that holds the median with 95% confidence, or the extremes."""
    values, n = sorted(values), len(values)
    outside, below = 0.0, 0
    while below < n // 2 and outside + 2 * math.comb(n, below) / 2**n <= 0.05:
        outside += 2 * math.comb(n, below) / 2**n
        below += 1
    cut = max(below - 1, 0)
    return values[cut], values[n - 1 - cut]


def cell(values, unit, digits):
    low, high = interval(values)
    return f"{statistics.median(values):.{digits}f}{unit} [{low:.{digits}f}, {high:.{digits}f}]"


def forward_ms(file):
    series = next(series for series in file["results"][0]["trials"] if series["what"] == "forward")
    return statistics.median(series["time"])


def joined(files):
    """One result file of all rounds, whose results keep their times and say which round they are of."""
    first = next(iter(files.values()))[0]
    whole = {key: first[key] for key in ("schema", "created", "machine")} | {"plans": {}, "results": []}
    for name, rounds in files.items():
        for number, file in enumerate(rounds):
            whole["plans"] |= file["plans"]
            result = file["results"][0]
            whole["results"].append(result | {"id": f"{name}, round {number}", "name": f"{result['name']}, round {number}"})
    return whole


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=pathlib.Path, help="what bench/int8.sh wrote")
    parser.add_argument("--save", type=pathlib.Path, help="the file of all rounds")
    arguments = parser.parse_args()
    files = {}
    for name in NAMES:
        count = len(list(arguments.folder.glob(f"round-{name}-[0-9]*.json")))
        paths = [arguments.folder / f"round-{name}-{number}.json" for number in range(count)]
        files[name] = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    times = {name: [forward_ms(file) for file in rounds] for name, rounds in files.items()}
    if len({len(rounds) for rounds in times.values()}) != 1 or not times["fp32"]:
        raise SystemExit(f"{arguments.folder}: not as many rounds of each: {({n: len(t) for n, t in times.items()})}")
    print(f"| switches | a pass | times as fast as fp32 | relative to bf16 |\n|---|---|---|---|")
    for name, label in NAMES.items():
        against = lambda other: [a / b for a, b in zip(times[other], times[name])]  # noqa: E731
        print(f"| {label} | {cell(times[name], ' ms', 1)} | {cell(against('fp32'), 'x', 2)} | "
              f"{cell(against('bf16'), 'x', 2)} |")
    print(f"\n{len(times['fp32'])} rounds; medians, and 95% intervals of the median")
    if arguments.save:
        arguments.save.write_text(json.dumps(joined(files), indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
