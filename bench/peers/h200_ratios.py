#!/usr/bin/env python3
"""Our denoise step against PyTorch's forward pass from the result files of bench/h200.sh: a Markdown table.

    python3 bench/peers/h200_ratios.py bench/results/h200/flux

Each round's ratio is of the medians of its own processes. A peer's step is one forward pass, without its sampler; ours is a
whole step, and what runs once a request before the loop (the series "prologue") is given beside it.
"""

import argparse
import json
import pathlib
import statistics

# (what, our file, our peer's files, the peer's size: image tokens and batch)
MATCHES = [
    ("1024x1024 bf16", "bf16-1024", ["bf16", "bf16-graph"], (4096, 1)),
    ("1024x1024 fp8", "fp8-1024", ["fp8"], (4096, 1)),
    ("512x512 fp8", "fp8-512", ["fp8"], (1024, 1)),
    ("512x512 fp8, peer in a CUDA Graph", "fp8-512", ["fp8-graph"], (1024, 1)),
    ("1024x1024 fp8, batch 4", "fp8-batch4", ["fp8"], (4096, 4)),
]


def results(path):
    return json.loads(path.read_text(encoding="utf-8"))["results"]


def median(result, what):
    for series in result["trials"]:
        if series["what"] == what:
            return statistics.median(series["time"])
    return None


def ours(folder, name, number):
    """(step, prologue) in ms of the last rung: all switches."""
    last = results(folder / f"headroom-{name}-{number}.json")[-1]
    return median(last, "step"), median(last, "prologue") or 0.0


def theirs(folder, names, number, size):
    """The fastest in ms of the peers' forms that were run."""
    times = []
    paths = [folder / f"pytorch-{name}-{number}.json" for name in names]
    for path in filter(pathlib.Path.exists, paths):
        for result in results(path):
            request = result["subject"]["request"]
            if (request["image_tokens"], request["batch"]) == size:
                times.append(median(result, "forward"))
    return min(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=pathlib.Path, help="what bench/h200.sh wrote")
    args = parser.parse_args()
    print("| FLUX.1-dev | round | headroom, a step | once a request | PyTorch, best | faster |\n|---|---|---|---|---|---|")
    for what, name, peers, size in MATCHES:
        for number in range(100):
            if not (args.folder / f"headroom-{name}-{number}.json").exists():
                break
            step, prologue = ours(args.folder, name, number)
            peer = theirs(args.folder, peers, number, size)
            print(f"| {what} | {number} | {step:.1f} ms | {prologue:.1f} ms | {peer:.1f} ms | {peer / step:.2f}x |")


if __name__ == "__main__":
    main()
