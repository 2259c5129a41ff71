#!/usr/bin/env python3
"""Our forward pass against PyTorch's, turn by turn, from the result files of bench/cpu_peers.sh: a Markdown table.

    python3 bench/peers/cpu_ratios.py bench/results/cpu/peers

A turn's ratio is of the medians of its two sides, which ran one right after the other. Given are the median over turns of
each side and of the ratio, and the least and the largest ratio.
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


def forward_ms(path):
    return median(results(path)[0], "forward")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=pathlib.Path, help="what bench/cpu_peers.sh wrote")
    folder = parser.parse_args().folder
    print("| match | turns | headroom | PyTorch | faster | least to most |\n|---|---|---|---|---|---|")
    for name, what in MATCHES.items():
        ours = [forward_ms(path) for path in sorted(folder.glob(f"headroom-{name}-*.json"))]
        theirs = [forward_ms(path) for path in sorted(folder.glob(f"pytorch-{name}-*.json"))]
        if len(ours) != len(theirs):
            raise SystemExit(f"{name}: {len(ours)} turns of ours, {len(theirs)} of PyTorch's")
        if not ours:
            continue
        ratios = [their / our for our, their in zip(ours, theirs)]
        print(f"| {what} | {len(ours)} | {statistics.median(ours):.1f} ms | {statistics.median(theirs):.1f} ms | "
              f"{statistics.median(ratios):.2f}x | {min(ratios):.2f}x to {max(ratios):.2f}x |")


if __name__ == "__main__":
    main()
