#!/usr/bin/env python3
"""Fused bodies in Headroom and compiled by PyTorch: a Markdown table from the result files of bench/h200_bodies.sh.

Below the table it prints which of the required ratios are reached.

    python3 bench/peers/body_ratios.py bench/results/h200/bodies_bf16

A round's ratio is of the medians of its two sides. Intervals are of the median of the rounds' ratios: exact from six
rounds on, else bootstrapped over rounds and trials. "launches" are the nodes of our plan, next to them the kernels of a
call in PyTorch. "of copying" is the rate of a copy of as many bytes that a body reaches, the median over the rounds
that it took with the copy.
"""

import argparse
import math
import pathlib
import re
import statistics
from typing import NamedTuple

from peer_ratios import Comparison, add_arguments, check_same_run, compare, markdown, put, read, times

LEAST_RATIO, LEAST_MEAN, LEAST_SHARE, LARGE = 0.98, 1.15, 0.90, 256e6  # the bars; bytes from which on the share counts
BYTES = {"f32": 4, "i32": 4, "bf16": 2, "f8e4m3": 1, "u8": 1}


class Body(NamedTuple):
    name: str
    found: Comparison
    launches: int  # ours
    kernels: int  # theirs
    share: float  # of the copy's rate
    bytes: int

    def cells(self):
        body, dtype, which, size = self.name.split()
        return [f"`{body}`", dtype, f"{which}, {size}", microseconds(self.found.ours_ms), microseconds(self.found.theirs_ms),
                self.found.faster(), f"{self.launches} / {self.kernels}", f"{self.share:.2f}"]


def microseconds(ms):
    return f"{ms * 1e3:.1f} us"


def bytes_of(operand):
    """Of "bf16[4, 8]"."""
    dtype, extents = re.fullmatch(r"(\w+)\[([\d, ]*)\]", operand).groups()
    return BYTES[dtype] * math.prod(int(extent) for extent in extents.split(",") if extent)


def by_process(result, what):
    """Trials of a series by the number of the round that they are of."""
    rounds = {}
    for series in result["trials"]:
        if series["what"] == what:
            for process, time in zip(series["process"], series["time"], strict=True):
                rounds.setdefault(process, []).append(time)
    return rounds


def shares_of(result):
    """By round with the copy, or one where there were none."""
    floors = by_process(result, "floor")
    if not floors:
        return [result["floor"]["ms"] / statistics.median(times(result, "launch"))]
    return [statistics.median(floors[number]) / statistics.median(launches)
            for number, launches in by_process(result, "launch").items()]


def launches_of(results, documents):
    """Nodes of the plan of the first result that has one."""
    for result, document in zip(results, documents, strict=True):
        if "plan" in result and result["plan"] in document["plans"]:
            return len(document["plans"][result["plan"]]["nodes"])
    raise SystemExit(f"{results[0]['name']} has no plan")


def read_side(folder, side):
    """The documents by round, and for each the bodies by the hash of their work."""
    documents = [read(path) for path in sorted(folder.glob(f"{side}-bodies-*.json*"))]
    return documents, [{result["work_hash"]: result for result in document["results"] if result["name"] != "copy"}
                       for document in documents]


def find_bodies(folder):
    """GPU and bodies that both sides have in every round, in our order; names that one side alone has."""
    (our_documents, ours), (their_documents, theirs) = read_side(folder, "headroom"), read_side(folder, "pytorch")
    if not ours or len(ours) != len(theirs):
        raise SystemExit(f"{folder} has {len(ours)} rounds of ours and {len(theirs)} of PyTorch's")
    for pair in zip(our_documents, their_documents):
        check_same_run(*pair)
    rounds = ours + theirs
    shared = [work for work in ours[0] if all(work in each for each in rounds)]
    alone = sorted({result["name"] for each in rounds for work, result in each.items() if work not in shared})
    bodies = []
    for work in shared:
        our_results, their_results = [each[work] for each in ours], [each[work] for each in theirs]
        request = our_results[0]["subject"]["request"]
        bodies.append(Body(
            our_results[0]["name"],
            compare([(times(mine, "launch"), times(other, "launch")) for mine, other in zip(our_results, their_results)]),
            launches_of(our_results, our_documents), launches_of(their_results, their_documents),
            statistics.median(share for result in our_results for share in shares_of(result)),
            sum(map(bytes_of, request["inputs"] + request["outputs"]))))
    return our_documents[0]["machine"]["gpus"][0]["name"], bodies, alone


def body_table(gpu, bodies):
    return markdown([gpu, "stored", "size", "headroom", "PyTorch", "faster (95% interval)", "launches", "of copying"],
                    [body.cells() for body in bodies])


def bar_lines(bodies):
    """What the table says of each bar."""
    several = [body.found.ratio for body in bodies if body.kernels >= 2]
    mean = f"{statistics.geometric_mean(several):.3f}x" if several else "none"
    slow = [f"{body.name} {body.found.ratio:.3f}x" for body in bodies if body.found.ratio < LEAST_RATIO]
    large = [body for body in bodies if body.bytes >= LARGE]
    low = [f"{body.name} {body.share:.3f}" for body in large if body.share < LEAST_SHARE]
    return [f"geometric mean of the {len(several)} for which PyTorch launches two kernels or more: {mean} (bar {LEAST_MEAN:.2f}x)",
            f"below {LEAST_RATIO:.2f}x of PyTorch, of {len(bodies)}: {', '.join(slow) or 'none'}",
            f"below {LEAST_SHARE:.2f} of the copy's rate, of {len(large)} from 256 MB on: {', '.join(low) or 'none'}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=pathlib.Path, help="what bench/h200_bodies.sh wrote")
    add_arguments(parser)
    args = parser.parse_args()
    gpu, bodies, alone = find_bodies(args.folder)
    if not bodies:
        raise SystemExit(f"{args.folder} has no body that both sides ran")
    put(body_table(gpu, bodies), args)
    if not args.update and not args.check:
        print("", *bar_lines(bodies), sep="\n")
        if alone:
            print(f"on one side alone: {', '.join(alone)}")


if __name__ == "__main__":
    main()
