#!/usr/bin/env python3
"""Where the time of passes goes, from result files of `headroom profile`, as a Markdown table: a row for each file.

    python3 bench/peers/profile_table.py bench/results/h200/qwen/headroom-profile-*.json
    python3 bench/peers/profile_table.py bench/results/h200/qwen/headroom-profile-*.json --update docs/qwen_h200.md

Launches are timed one by one. Attention is its kernel, or the matmuls and the softmax of stored scores. Modulations are
matmuls of one row, which do at most two operations for each byte. What a pass takes beyond its launches is the last
column, negative where launches overlap.
"""

import argparse
import statistics

from peer_ratios import add_arguments, duration, markdown, put, read, times

ATTENTION = ("attention", "matmul", "softmax")
KINDS = ("matmuls", "modulations", "attention", "other launches")


def kind_of(node):
    if node["op"] in ATTENTION:
        return "attention"
    if "linear" not in node["op"]:
        return "other launches"
    return "modulations" if node["cost"]["flops"] <= 2 * node["cost"]["bytes"] else "matmuls"


def row_of(path):
    document = read(path)
    result = document["results"][0]
    nodes, profile = document["plans"][result["plan"]]["nodes"], result["profile"]
    if len(nodes) != len(profile["time_ms"]):
        raise SystemExit(f"{path}: {len(profile['time_ms'])} launches were timed, but the plan has {len(nodes)}")
    if set(profile["runs"]) != {1}:
        raise SystemExit(f"{path} is of a request, whose launches run again in each step; profile a pass with --pass forward")
    by_kind = dict.fromkeys(KINDS, 0.0)
    for node, time in zip(nodes, profile["time_ms"]):
        by_kind[kind_of(node)] += time
    applied = "+".join(result["configuration"]["applied"]) or "baseline"
    whole = statistics.median(times(result, result["trials"][0]["what"]))
    rest = whole - sum(by_kind.values())
    cells = [duration(time) for time in by_kind.values()]
    return [f"`{applied}`", duration(whole), *cells, ("-" if rest < 0 else "") + duration(abs(rest)), str(len(nodes))], document


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="+", metavar="FILE")
    add_arguments(parser)
    args = parser.parse_args()
    rows, documents = zip(*map(row_of, args.files))
    gpus = {gpu["name"] for document in documents for gpu in document["machine"]["gpus"]}
    if len(gpus) != 1:
        raise SystemExit(f"the files are of {len(gpus)} kinds of GPU, expected one: {sorted(gpus)}")
    put(markdown([f"{gpus.pop().removeprefix('NVIDIA ')}, a pass", "all of it", *KINDS, "between launches", "launches"], rows), args)


if __name__ == "__main__":
    main()
