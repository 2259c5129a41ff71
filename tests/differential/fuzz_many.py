#!/usr/bin/env python3
"""Checks many random graphs in several processes of graph_fuzz, and adds up their statistics.

    tests/differential/fuzz_many.py GRAPH_FUZZ [--graphs 100000] [--jobs N] [--seed 0] [--seconds T] [--out FILE]
                                    [--device cpu] [--isa ISA|all] [--bodies] [--add REPORT...]

--isa all gives each vector instruction set of this CPU, from the widest down, an equal share of the graphs. Kernels for
CPUs with narrower vectors are thus checked as well. --add includes reports of other runs, possibly from other machines;
they must have the same revision and other seeds. With --graphs 0 it only adds up reports.

The exit code is 1 if a graph fails. It is 3 if no graph fails, but a pass fired less than 1,000 times or a kernel of
the device was chosen less than 100 times. Such passes and kernels are marked with a "!": the graphs say little about
them.
"""

import argparse
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

LEAST_FIRES = 1000
LEAST_CHOICES = 100
COUNTS = {
    "passes": ("passes, and in how many runs each rewrote something", LEAST_FIRES),
    "kernels": ("kernels, and for how many steps each was chosen", LEAST_CHOICES),
}
SUMS = ("programs", "tiled", "without", "elements")


class Share(NamedTuple):
    """Graphs that one process, or one earlier run, checked."""

    first: int
    graphs: int
    place: str  # "cpu as avx512_vnni"
    revision: str
    seconds: int  # of one process
    failures: int


class Tally(NamedTuple):
    """The statistics of one output of graph_fuzz, or of one report."""

    counts: dict  # by section, by name
    sums: dict
    shares: list

    @staticmethod
    def of(text):
        sections = re.split(r"^(passes|kernels), and ", text, flags=re.M)
        counts = {section: {} for section in COUNTS}
        for section, body in zip(sections[1::2], sections[2::2]):
            counts[section] = {name: int(count) for name, count in re.findall(r"^[ !] ([\w.-]+) +(\d+)$", body, re.M)}
        found = re.search(r"(\d+) programs ran, (\d+) of them tiled; (\d+) plans.*?^(\d+) elements compared", text, re.M | re.S)
        sums = dict(zip(SUMS, map(int, found.groups()))) if found else dict.fromkeys(SUMS, 0)
        shares = re.findall(r"(\d+) graphs from seed (\d+) on (.+) at (\S+) in (\d+) s, (\d+) failures", text)
        return Tally(counts, sums, [Share(int(first), int(graphs), place, revision, int(seconds), int(failures))
                                    for graphs, first, place, revision, seconds, failures in shares])


def run(arguments, isa, first, graphs, seconds):
    """The exit code and output of one process."""
    command = [arguments.graph_fuzz, "--graphs", str(graphs), "--seed", str(first), "--device", arguments.device]
    command += ["--bodies"] if arguments.bodies else []
    command += ["--isa", isa] if isa else []
    command += ["--seconds", str(seconds)] if seconds else []
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}
    ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, check=False)
    return ended.returncode, ended.stdout


def run_all(arguments):
    """The results of all processes of this run. Each has a part of the seeds; `jobs` run at a time."""
    isas = [arguments.isa]
    if arguments.isa == "all":
        isas = subprocess.run([arguments.graph_fuzz, "--isas"], capture_output=True, text=True, check=True).stdout.split()[::-1]
    size = -(-arguments.graphs // (arguments.jobs * len(isas)))
    with ThreadPoolExecutor(arguments.jobs) as pool:
        runs = [pool.submit(run, arguments, isas[i // arguments.jobs], arguments.seed + offset, min(size, arguments.graphs - offset),
                            arguments.seconds / len(isas))
                for i, offset in enumerate(range(0, arguments.graphs, max(1, size)))]
        return [each.result() for each in runs]


def check_shares(shares):
    """Exits if the shares have different revisions or overlapping seeds."""
    if len({share.revision for share in shares}) > 1:
        sys.exit("of several revisions: " + ", ".join(sorted({share.revision for share in shares})))
    ordered = sorted(share for share in shares if share.graphs > 0)
    for before, after in zip(ordered, ordered[1:]):
        if before.first + before.graphs > after.first:
            sys.exit(f"seed {after.first} is in two of them: {before} and {after}")


def joined(shares):
    """Merges consecutive shares of the same machine and vector units."""
    whole = []
    for share in sorted(share for share in shares if share.graphs > 0):
        last = whole[-1] if whole else None
        if last and last.first + last.graphs == share.first and last.place == share.place:
            whole[-1] = last._replace(graphs=last.graphs + share.graphs, seconds=last.seconds + share.seconds,
                                      failures=last.failures + share.failures)
        else:
            whole.append(share)
    return whole


def report(tallies, shares, ended_early):
    """The lines of the report, and whether a pass or kernel has too few cases."""
    lines, thin = [], False
    for section, (what, least) in COUNTS.items():
        lines.append(f"{what} (at least {least}):")
        for name in sorted({name for tally in tallies for name in tally.counts[section]}):
            count = sum(tally.counts[section].get(name, 0) for tally in tallies)
            thin |= count < least
            lines.append(f"{'!' if count < least else ' '} {name:<30} {count:>12}")
    sums = {key: sum(tally.sums[key] for tally in tallies) for key in SUMS}
    lines.append(f"{sums['programs']} programs ran, {sums['tiled']} of them tiled; "
                 f"{sums['without']} plans of graphs as made had a node without a kernel")
    lines.append(f"{sums['elements']} elements compared")
    for share in joined(shares):
        lines.append(f"{share.graphs} graphs from seed {share.first} on {share.place} at {share.revision} in {share.seconds} s, "
                     f"{share.failures} failures")
    graphs, failures = sum(share.graphs for share in shares), sum(share.failures for share in shares)
    lines.append(f"{'FAILED' if failures or ended_early else 'PASSED'}: {graphs} graphs in all, {failures} failures, "
                 f"{ended_early} processes that ended early")
    return lines, thin


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graph_fuzz")
    parser.add_argument("--graphs", type=int, default=100000)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--device", choices=["cpu", "cuda", "imaginary"], default="cpu")
    parser.add_argument("--isa", default="", help="vector units as graph_fuzz names them, or 'all' for each of this CPU")
    parser.add_argument("--bodies", action="store_true", help="graphs of four fused ops and nothing else, run as they are")
    parser.add_argument("--add", nargs="+", default=[], metavar="REPORT", help="reports that earlier runs wrote to --out")
    parser.add_argument("--out", help="where the report is kept; it is printed in any case")
    arguments = parser.parse_args()

    runs = run_all(arguments)
    for code, output in runs:
        if code != 0:
            print(output)
    added = []
    for path in arguments.add:
        with open(path, encoding="utf-8") as file:
            added.append(file.read())
    tallies = [Tally.of(text) for text in [output for _, output in runs] + added]
    shares = [share for tally in tallies for share in tally.shares]
    check_shares(shares)
    # neither passed nor failed
    early = sum(code != 0 and not re.search(r"^FAILED: ", output, re.M) for code, output in runs)
    early += sum(int(count) for text in added for count in re.findall(r"(\d+) processes that ended early", text))
    lines, thin = report(tallies, shares, early)
    print("\n".join(lines))
    if arguments.out:
        with open(arguments.out, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
    return 1 if lines[-1].startswith("FAILED") else 3 if thin else 0


if __name__ == "__main__":
    sys.exit(main())
