#!/usr/bin/env python3
"""Our forward pass against PyTorch's and OpenVINO's, round by round, from the result files of bench/cpu_peers.sh: a
Markdown table.

    python3 bench/peers/cpu_ratios.py bench/results/cpu/peers
    python3 bench/peers/cpu_ratios.py bench/results/cpu/peers --update docs/fashion_flux_cpu.md

A round's ratio is of the medians of its two sides, which ran one right after the other. Rounds count in which the
machine gave all it has from beginning to end: the yardstick, a product that is no part of either side, stayed within a
fifth of the least time that it took in any round of the match. Where fewer than six rounds are such, all of them count,
good and bad. The interval is of the median of the rounds' ratios: exact from six rounds on, else bootstrapped over
rounds and trials.
"""

import argparse
import pathlib

# Peers tell no peak memory on a CPU, so that there is none in this table.
from peer_ratios import (add_arguments, check_equal_work, check_same_run, compare, duration, markdown, peer_of, put, read, times)

FLUX, VAE, UNET = "fashion-flux, batch 20", "FLUX.1's decoder, 512x512", "SD-Turbo's U-Net, 256x256"
COMPILE, TUNED = ", `torch.compile`", ", `torch.compile(mode=\"max-autotune\")`"
PRECISION = None  # what OpenVINO took: a CPU without bf16 gets fp32
# By name: the work and our switches, who ran it beside us, and how.
MATCHES = {
    "eager-f32": (f"{FLUX}, fp32: `baseline`", "pytorch", ", eager"),
    "compiled-f32": (f"{FLUX}, fp32: `lossless`", "pytorch", COMPILE),
    "tuned-f32": (f"{FLUX}, fp32: `lossless`", "pytorch", TUNED),
    "latency-f32": (f"{FLUX}, fp32: `lossless`", "openvino", PRECISION),
    "compiled-bf16": (f"{FLUX}, bf16: `lossless,bf16`", "pytorch", COMPILE),
    "tuned-bf16": (f"{FLUX}, bf16: `lossless,bf16`", "pytorch", TUNED),
    "latency-bf16": (f"{FLUX}, bf16: `lossless,bf16`", "openvino", PRECISION),
    "vae-bf16": (f"{VAE}, bf16: `lossless,bf16`", "pytorch", COMPILE),
    "latency-vae-bf16": (f"{VAE}, bf16: `lossless,bf16`", "openvino", PRECISION),
    "sd-turbo-unet-f32": (f"{UNET}, fp32: `lossless`", "pytorch", COMPILE),
    "latency-sd-turbo-unet-f32": (f"{UNET}, fp32: `lossless`", "openvino", PRECISION),
    "sd-turbo-unet-bf16": (f"{UNET}, bf16: `lossless,bf16`", "pytorch", COMPILE),
    "latency-sd-turbo-unet-bf16": (f"{UNET}, bf16: `lossless,bf16`", "openvino", PRECISION),
}
STEADY = 1.2  # of the yardstick's best time: what a machine that gives all it has stays within
FEWEST_STEADY = 6  # rounds; fewer have no exact interval


def find_rounds(folder, name):
    """[(our result, theirs)] of equal work in one run, a pair for each round."""
    peer = MATCHES[name][1]
    sides = [[read(path) for path in sorted(folder.glob(f"{side}-{name}-*.json"))] for side in ("headroom", peer)]
    if len(sides[0]) != len(sides[1]):
        raise SystemExit(f"{name}: {len(sides[0])} rounds of headroom's, {len(sides[1])} of {peer}'s")
    for ours, theirs in zip(*sides):
        check_same_run(ours, theirs)
        check_equal_work(ours["results"][0], theirs["results"][0])
    return [(ours["results"][0], theirs["results"][0]) for ours, theirs in zip(*sides)]


def are_steady(yardsticks):
    """For each round, of the yardstick's times in which these are the rows, whether the machine gave all it has."""
    best = min((time for of_round in yardsticks for time in of_round), default=0)
    return [all(time <= STEADY * best for time in of_round) for of_round in yardsticks]


def row_of(what, how, rounds):
    steady = are_steady([times(theirs, "yardstick") for _, theirs in rounds])
    counted = [pair for pair, is_steady in zip(rounds, steady) if is_steady]
    if len(counted) < FEWEST_STEADY:
        counted = rounds
    found = compare([[times(side, "forward") for side in pair] for pair in counted])
    count = f"all {len(rounds)}" if len(counted) == len(rounds) else f"{len(counted)} of {len(rounds)}"
    if how is PRECISION:
        how = f", {rounds[0][1]['configuration']['applied'][0]}"
    return [what, peer_of(theirs for _, theirs in rounds) + how, count, duration(found.ours_ms), duration(found.theirs_ms), found.faster()]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=pathlib.Path, help="what bench/cpu_peers.sh wrote")
    add_arguments(parser)
    args = parser.parse_args()
    matches = [(what, how, find_rounds(args.folder, name)) for name, (what, _, how) in MATCHES.items()]
    rows = [row_of(what, how, rounds) for what, how, rounds in matches if rounds]
    if not rows:
        raise SystemExit(f"{args.folder} has no pair of result files")
    put(markdown(["a forward pass", "against", "rounds", "headroom", "the other", "faster (95% interval)"], rows), args)


if __name__ == "__main__":
    main()
