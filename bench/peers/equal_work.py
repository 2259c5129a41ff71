#!/usr/bin/env python3
"""The README's table of equal work: the chief rows of h200_ratios.py and cpu_ratios.py together, as Markdown.

    python3 bench/peers/equal_work.py bench/results
    python3 bench/peers/equal_work.py bench/results --update README.md

Figures and intervals are theirs; nothing is worked out here.
"""

import argparse
import pathlib

import cpu_ratios
import h200_ratios
from peer_ratios import add_arguments, markdown, peer_of, put, read

# A row: what it is, the match, and the work that both sides did.
GPU_ROWS = [("FLUX.1-dev, 1024x1024, bf16: a forward pass", "bf16-1024", "forward"),
            ("FLUX.1-dev, 1024x1024, fp8: a forward pass", "fp8-1024", "forward"),
            ("FLUX.1-dev, fp8: 28 steps, from a prompt to pixels", "whole-fp8-1024", "request"),
            ("FLUX.1 Kontext, 1024x1024, fp8: a forward pass", "kontext-fp8", "forward"),
            ("FLUX.1's decoder, bf16: decode 1024x1024", "vae-decode-1024", "forward"),
            ("T5-XXL, bf16: 512 tokens", "t5-xxl", "forward")]
CACHE_ROW = "FLUX.1-dev, fp8: a loop of 28 steps, half of them cached"
UNET_ROWS = [("SD-Turbo's U-Net, 512x512, fp16: a forward pass", "sd-turbo-unet", "forward"),
             ("LiveStreamUNet, 64x64, fp16: a call", "live-stream-unet", "forward"),
             ("AutoencoderTiny, fp16: decode 512x512", "taesd-decode", "forward")]
# With the matches of each peer.
CPU_ROWS = [("fashion-flux, fp32, batch 20: a forward pass", ["compiled-f32", "latency-f32"]),
            ("fashion-flux, bf16, batch 20: a forward pass", ["compiled-bf16", "latency-bf16"]),
            ("FLUX.1's decoder, bf16: decode 512x512", ["vae-bf16", "latency-vae-bf16"])]


def need(rounds, match):
    if not rounds:
        raise SystemExit(f"there are no results of both sides of {match}")
    return rounds


def gpu_row(folder, what, match, work):
    rounds = need(h200_ratios.find_rounds(folder, match, work), match)
    _, count, ours, theirs, faster, memory, _ = h200_ratios.row_of(rounds, work)
    against = peer_of(result for pair in rounds for result in pair.theirs.values())
    return [what, rounds[0].gpu.removeprefix("NVIDIA "), against, count, ours, theirs, faster, memory]


def cpu_rows(folder, what, matches):
    """One for each peer that was measured; PyTorch, the first, must have been."""
    rows = []
    for match in matches:
        rounds = cpu_ratios.find_rounds(folder, match)
        if match == matches[0]:
            need(rounds, match)
        if rounds:
            how = "" if match == matches[0] else cpu_ratios.PRECISION
            _, against, *cells = cpu_ratios.row_of(what, how, rounds)
            machine = read(folder / f"headroom-{match}-0.json")["machine"]
            rows.append([what, f"{machine['allowed_cores']} cores, {machine['cpu_isa'].upper()}", against, *cells, ""])
    return rows


def equal_work_table(results):
    gpu, cpu = results / "h200" / "peers", results / "cpu" / "peers"
    rows = [gpu_row(gpu, *row) for row in GPU_ROWS]
    # Of the step caches the row in which both sides have one.
    name, cached = h200_ratios.cache_rows(gpu)
    against = peer_of(read(gpu / "pytorch-fp8-cache-0.json")["results"])
    rows.insert(3, [CACHE_ROW, name.removeprefix("NVIDIA "), against, *cached[h200_ratios.BOTH_CACHED]])
    rows += [gpu_row(results / "unets" / "h200", *row) for row in UNET_ROWS]
    rows += [row for matches in CPU_ROWS for row in cpu_rows(cpu, *matches)]
    return markdown(["equal work", "on", "against", "rounds", "headroom", "the other", "faster (95% interval)",
                     "peak memory, headroom / the other"], rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("results", type=pathlib.Path, help="bench/results")
    add_arguments(parser)
    args = parser.parse_args()
    put(equal_work_table(args.results), args)


if __name__ == "__main__":
    main()
