#!/usr/bin/env python3
"""Our forward pass against PyTorch's, round by round, from the result files of bench/cpu_peers.sh: a Markdown table.

    python3 bench/peers/cpu_ratios.py bench/results/cpu/peers
    python3 bench/peers/cpu_ratios.py bench/results/cpu/peers --update docs/fashion_flux_cpu.md

A round's ratio is of the medians of its two sides, which ran one right after the other. Rounds count in which the machine gave
all it has from beginning to end: the yardstick, a product that is no part of either side, stayed within a fifth of the
least time that it took in any round of the match. Where fewer than six rounds are such, all of them count, good and bad. The
interval is of the median of the rounds' ratios: exact from six rounds on, else bootstrapped over rounds and trials.
"""

import argparse
import pathlib

# PyTorch tells no peak memory on a CPU, so that there is none in this table.
from peer_ratios import add_arguments, check_equal_work, check_same_run, compare, duration, markdown, put, read, times

MATCHES = {
    "eager-f32": "fp32, eager",
    "compiled-f32": "fp32: `lossless` against `torch.compile`",
    "tuned-f32": "fp32: `lossless` against `torch.compile(mode=\"max-autotune\")`",
    "compiled-bf16": "bf16: `lossless,bf16` against `torch.compile`",
    "tuned-bf16": "bf16: `lossless,bf16` against `torch.compile(mode=\"max-autotune\")`",
    "vae-bf16": "FLUX.1's decoder, 512x512, bf16: `lossless,bf16` against `torch.compile`",
    "sd-turbo-unet-f32": "SD-Turbo's U-Net, 256x256, fp32: `lossless` against `torch.compile`",
    "sd-turbo-unet-bf16": "SD-Turbo's U-Net, 256x256, bf16: `lossless,bf16` against `torch.compile`",
}
STEADY = 1.2  # of the yardstick's best time: what a machine that gives all it has stays within
FEWEST_STEADY = 6  # rounds; fewer have no exact interval


def find_rounds(folder, name):
    """[(our result, theirs)] of equal work in one run, a pair for each round."""
    sides = [[read(path) for path in sorted(folder.glob(f"{side}-{name}-*.json"))] for side in ("headroom", "pytorch")]
    if len(sides[0]) != len(sides[1]):
        raise SystemExit(f"{name}: {len(sides[0])} rounds of ours, {len(sides[1])} of PyTorch's")
    for ours, theirs in zip(*sides):
        check_same_run(ours, theirs)
        check_equal_work(ours["results"][0], theirs["results"][0])
    return [(ours["results"][0], theirs["results"][0]) for ours, theirs in zip(*sides)]


def are_steady(yardsticks):
    """For each round, of the yardstick's times in which these are the rows, whether the machine gave all it has."""
    best = min((time for of_round in yardsticks for time in of_round), default=0)
    return [all(time <= STEADY * best for time in of_round) for of_round in yardsticks]


def row_of(what, rounds):
    steady = are_steady([times(theirs, "yardstick") for _, theirs in rounds])
    counted = [pair for pair, is_steady in zip(rounds, steady) if is_steady]
    if len(counted) < FEWEST_STEADY:
        counted = rounds
    found = compare([[times(side, "forward") for side in pair] for pair in counted])
    count = f"all {len(rounds)}" if len(counted) == len(rounds) else f"{len(counted)} of {len(rounds)}"
    return [what, count, duration(found.ours_ms), duration(found.theirs_ms), found.faster()]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=pathlib.Path, help="what bench/cpu_peers.sh wrote")
    add_arguments(parser)
    args = parser.parse_args()
    matches = [(what, find_rounds(args.folder, name)) for name, what in MATCHES.items()]
    rows = [row_of(what, rounds) for what, rounds in matches if rounds]
    if not rows:
        raise SystemExit(f"{args.folder} has no pair of result files")
    put(markdown(["match", "rounds", "headroom", "PyTorch", "faster (95% interval)"], rows), args)


if __name__ == "__main__":
    main()
