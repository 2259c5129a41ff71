#!/usr/bin/env python3
"""Our forward pass against PyTorch's, turn by turn, from the result files of bench/cpu_peers.sh: a Markdown table.

    python3 bench/peers/cpu_ratios.py bench/results/cpu/peers

A turn's ratio is of the medians of its two sides, which ran one right after the other. Turns count in which the machine gave
all it has from beginning to end: the yardstick, a product that is no part of either side, stayed within a fifth of the
least time that it took in any turn of the match. Given are the median over these of each side and of the ratio, and the
least and the largest ratio; then the ratio over all turns.
"""

import argparse
import pathlib
import statistics

from h200_ratios import median, results

MATCHES = {
    "eager-f32": "fp32, eager",
    "compiled-f32": "fp32: `lossless` against `torch.compile`",
    "tuned-f32": "fp32: `lossless` against `torch.compile(mode=\"max-autotune\")`",
    "compiled-bf16": "bf16: `lossless,bf16` against `torch.compile`",
    "tuned-bf16": "bf16: `lossless,bf16` against `torch.compile(mode=\"max-autotune\")`",
}
STEADY = 1.2  # of the yardstick's best time: what a machine that gives all it has stays within


def forward_ms(path):
    return median(results(path)[0], "forward")


def yardstick_ms(path):
    """Its times in a turn; none where PyTorch was not run by turns."""
    return [time for series in results(path)[0]["trials"] if series["what"] == "yardstick" for time in series["time"]]


def steady_turns(paths):
    """For each turn, whether it counts."""
    times = [yardstick_ms(path) for path in paths]
    best = min((time for of_turn in times for time in of_turn), default=0)
    return [all(time <= STEADY * best for time in of_turn) for of_turn in times]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=pathlib.Path, help="what bench/cpu_peers.sh wrote")
    folder = parser.parse_args().folder
    print("| match | turns | headroom | PyTorch | faster | least to most | in all turns |\n|---|---|---|---|---|---|---|")
    for name, what in MATCHES.items():
        paths = sorted(folder.glob(f"pytorch-{name}-*.json"))
        ours = [forward_ms(path) for path in sorted(folder.glob(f"headroom-{name}-*.json"))]
        theirs = [forward_ms(path) for path in paths]
        if len(ours) != len(theirs):
            raise SystemExit(f"{name}: {len(ours)} turns of ours, {len(theirs)} of PyTorch's")
        if not ours:
            continue
        turns = [turn for turn, steady in enumerate(steady_turns(paths)) if steady]
        all_ratios = [their / our for our, their in zip(ours, theirs)]
        in_all = f"{statistics.median(all_ratios):.2f}x"
        if not turns:
            print(f"| {what} | 0 of {len(ours)} | | | | | {in_all} |")
            continue
        of = lambda values: [values[turn] for turn in turns]  # noqa: E731
        print(f"| {what} | {len(turns)} of {len(ours)} | {statistics.median(of(ours)):.1f} ms | "
              f"{statistics.median(of(theirs)):.1f} ms | {statistics.median(of(all_ratios)):.2f}x | "
              f"{min(of(all_ratios)):.2f}x to {max(of(all_ratios)):.2f}x | {in_all} |")


if __name__ == "__main__":
    main()
