#!/usr/bin/env python3
"""Tries many random graphs in several processes of graph_fuzz, and adds up what they print.

    tests/differential/fuzz_many.py GRAPH_FUZZ [--graphs 100000] [--jobs N] [--seed 0] [--seconds T] [--device cpu] [--out FILE]

Ends with code 1 where a graph fails, and with code 3 where none does but a pass fired less than 1,000 times or a kernel of the
device was chosen less than 100 times, so that the graphs say little of it; those are marked with a "!".
"""

import argparse
import os
import re
import subprocess
import sys
import time

LEAST_FIRES = 1000
LEAST_CHOICES = 100


def start(arguments, first, graphs):
    command = [arguments.graph_fuzz, "--graphs", str(graphs), "--seed", str(first), "--device", arguments.device]
    if arguments.seconds:
        command += ["--seconds", str(arguments.seconds)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)


def counts_of(output):
    """Name to count of each line "  name  123" below "passes," and below "kernels,"."""
    passes, _, kernels = output.partition("kernels, and for")
    return [{name: int(count) for name, count in re.findall(r"^  ([\w.-]+) +(\d+)$", part, re.M)} for part in (passes, kernels)]


def added(parts):
    total = {}
    for part in parts:
        for name, count in part.items():
            total[name] = total.get(name, 0) + count
    return dict(sorted(total.items()))


def numbers_of(outputs, pattern):
    """The sums of a line's figures over all outputs."""
    found = [re.search(pattern, output) for output in outputs]
    return [sum(int(figure) for figure in column) for column in zip(*(match.groups() for match in found if match))]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graph_fuzz")
    parser.add_argument("--graphs", type=int, default=100000)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--out", help="where the report is kept; it is printed in any case")
    arguments = parser.parse_args()

    began = time.monotonic()
    share = -(-arguments.graphs // arguments.jobs)
    firsts = range(0, arguments.graphs, share)
    running = [start(arguments, arguments.seed + first, min(share, arguments.graphs - first)) for first in firsts]
    outputs = [process.communicate()[0] for process in running]

    lines = []
    thin = False
    tallies = [counts_of(output) for output in outputs]
    for what, least, parts in (("passes, and in how many runs each rewrote something", LEAST_FIRES, [t[0] for t in tallies]),
                               ("kernels, and for how many steps each was chosen", LEAST_CHOICES, [t[1] for t in tallies])):
        lines.append(f"{what} (at least {least}):")
        for name, count in added(parts).items():
            thin |= count < least
            lines.append(f"{'!' if count < least else ' '} {name:<30} {count:>12}")
    programs, tiled, without = numbers_of(outputs, r"(\d+) programs ran, (\d+) of them tiled; (\d+) plans") or (0, 0, 0)
    lines.append(f"{programs} programs ran, {tiled} of them tiled; {without} plans of graphs as made had a node without a kernel")
    (elements,) = numbers_of(outputs, r"(\d+) elements compared") or (0,)
    lines.append(f"{elements} elements compared")
    graphs, failures = numbers_of(outputs, r": (\d+) graphs from seed .* (\d+) failures") or (0, 0)
    ended = sum(process.returncode not in (0, 1) for process in running)  # neither passed nor failed
    failed = failures > 0 or ended > 0
    lines.append(f"{'FAILED' if failed else 'PASSED'}: {graphs} graphs from seed {arguments.seed} on {arguments.device}, "
                 f"{len(running)} processes, {time.monotonic() - began:.0f} s, {failures} failures, {ended} processes that ended early")
    for output, process in zip(outputs, running):
        if process.returncode != 0:
            print(output)
    print("\n".join(lines))
    if arguments.out:
        with open(arguments.out, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
    return 1 if failed else 3 if thin else 0


if __name__ == "__main__":
    sys.exit(main())
