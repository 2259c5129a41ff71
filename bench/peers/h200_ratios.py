#!/usr/bin/env python3
"""Networks here and in PyTorch, equal work against equal work, from the result files of bench/h200_peers.sh or
bench/h200_unets.sh: a Markdown table.

    python3 bench/peers/h200_ratios.py bench/results/h200/peers
    python3 bench/peers/h200_ratios.py bench/results/h200/peers --update docs/flux_h200.md
    python3 bench/peers/h200_ratios.py bench/results/h200/peers --stages
    python3 bench/peers/h200_ratios.py bench/results/h200/peers --caches
    python3 bench/peers/h200_ratios.py bench/results/h200/peers --launches
    python3 bench/peers/h200_ratios.py --error bench/results/h200/flux/error.json

A round's ratio is of the medians of its two sides, wall times both. PyTorch's side is the form (with or without a CUDA
graph) whose median over the rounds is the least, and its memory is that form's. Work that only one side has measured
has no row. Intervals are of the median of the rounds' ratios: exact from six rounds on, else bootstrapped over rounds
and trials. With --stages the table is of the stages of requests from a prompt to pixels, with --error of distances from
fp32.
"""

import argparse
import pathlib
import statistics
from typing import NamedTuple

from peer_ratios import (MEMORY, add_arguments, check_equal_work, check_same_run, compare, duration, markdown, memory, put, read,
                         stored, times)

MATCHES = {"bf16-1328": "1328x1328, bf16", "fp8-1328": "1328x1328, fp8", "bf16-1024": "1024x1024, bf16", "fp8-1024": "1024x1024, fp8",
           "bf16-512": "512x512, bf16", "fp8-512": "512x512, fp8",
           "fp8-batch4": "1024x1024, batch 4, fp8", "vae-decode-1024": "AutoencoderKL, decode 1024x1024, bf16",
           "vae-encode-1024": "AutoencoderKL, encode 1024x1024, bf16", "vae-decode-2048": "AutoencoderKL, decode 2048x2048, bf16",
           "kontext-bf16": "4096 + 4096 image tokens, bf16", "kontext-fp8": "4096 + 4096 image tokens, fp8",
           "flux3-reference-bf16": "FLUX.3 [klein], 4096 + 4096 image tokens, bf16",
           "qwen3-4b-80": "Qwen3 4B, states of eight layers, 80 tokens, bf16", "qwen3-4b-512": "the same, 512 tokens, bf16",
           "t5-xxl": "T5-XXL, 512 tokens, bf16", "clip-l": "CLIP-L, 77 tokens, bf16",
           "qwen-text-64": "Qwen2.5-VL 7B, 64 tokens, bf16", "qwen-text-512": "Qwen2.5-VL 7B, 512 tokens, bf16",
           "qwen-vae-decode": "AutoencoderKLQwenImage, decode 1328x1328, bf16",
           "qwen-vae-encode": "AutoencoderKLQwenImage, encode 1328x1328, bf16",
           "whole-fp8-1024": "1024x1024, fp8, from a prompt to pixels",
           "sd-turbo-unet": "SD-Turbo's U-Net, 64x64 latents, fp16", "sd-turbo-unet-batch4": "SD-Turbo's U-Net, 64x64 latents, batch 4, fp16",
           "pixel-unet": "UNet2DModel of 692 M, 3x64x64, fp16", "sdxl-unet-batch2": "SDXL's U-Net, 128x128 latents, batch 2, fp16",
           "live-stream-unet": "LiveStreamUNet, a call, 3x64x64, fp16",
           "stream-frame": "a frame of SD-Turbo's shapes, 512x512, pixels to pixels, fp16",
           "taesd-encode": "AutoencoderTiny, encode 512x512, fp16", "taesd-decode": "AutoencoderTiny, decode 512x512, fp16"}
# Work, our series and theirs; a request's times are by image.
WORKS = {"forward": ("forward", "forward_wall"), "request": ("image", "image_wall")}


def is_fp8(result):
    return "fp8" in result["configuration"]["applied"]


class Round(NamedTuple):
    gpu: str
    ours: dict
    theirs: dict  # by form
    launches: dict  # of ours and by form, where a plan says how many


def launches_of(document, result):
    plan = document.get("plans", {}).get(result.get("plan"))
    return len(plan["nodes"]) if plan else None


def find_rounds(folder, name, work):
    """The rounds of a match that both sides have."""
    rounds = []
    while (path := stored(folder / f"headroom-{work}-{name}-{len(rounds)}.json")).exists():
        document = read(path)
        ours = document["results"][0]
        pair = Round(document["machine"]["gpus"][0]["name"], ours, {}, {"ours": launches_of(document, ours)})
        for peer_path in sorted(folder.glob(f"pytorch-*-{len(rounds)}.json*")):
            peer = read(peer_path)
            for result in peer["results"]:
                if result["work_hash"] == pair.ours["work_hash"] and is_fp8(result) == is_fp8(pair.ours):
                    check_same_run(document, peer)
                    pair.theirs[result["name"]] = result
                    pair.launches[result["name"]] = launches_of(peer, result)
        if not pair.theirs:
            break
        rounds.append(pair)
    return rounds


def row_of(rounds, work):
    """What was compared and how it came out, as cells of the table."""
    ours_series, theirs_series = WORKS[work]
    forms = set.intersection(*(set(pair.theirs) for pair in rounds))
    fastest = min(forms, key=lambda form: statistics.median(
        statistics.median(times(pair.theirs[form], theirs_series)) for pair in rounds))
    request = rounds[0].ours["subject"]["request"]
    images = request.get("images", 1)
    of_generation = lambda result, series: [images * time for time in times(result, series)]  # noqa: E731
    found = compare([(of_generation(pair.ours, ours_series), of_generation(pair.theirs[fastest], theirs_series)) for pair in rounds])
    steps = [statistics.median(times(pair.ours, "step")) for pair in rounds] if work == "request" else []
    return [f"a request of {request['steps']} steps" if steps else "a forward pass", str(found.rounds), duration(found.ours_ms),
            duration(found.theirs_ms), found.faster(), memory([(pair.ours, pair.theirs[fastest]) for pair in rounds]),
            duration(statistics.median(steps)) if steps else ""]


def ratio_table(folder):
    rows, gpus = [], set()
    for name, what in MATCHES.items():
        of_match = {work: rounds for work in WORKS if (rounds := find_rounds(folder, name, work))}
        gpus |= {pair.gpu for rounds in of_match.values() for pair in rounds}
        rows += [[what, *row_of(rounds, work)] for work, rounds in of_match.items()]
    if len(gpus) != 1:
        raise SystemExit(f"{folder} has pairs of result files from {len(gpus)} kinds of GPU, expected one: {sorted(gpus)}")
    return markdown([*gpus, "equal work", "rounds", "headroom", "PyTorch", "faster (95% interval)", MEMORY, "our step"], rows)


def launch_table(folder):
    rows = []
    for name, what in MATCHES.items():
        rounds = find_rounds(folder, name, "forward")
        counts = rounds[0].launches if rounds else {}
        theirs = [count for side, count in counts.items() if side != "ours" and count]
        if theirs and counts["ours"]:
            rows.append([what, str(counts["ours"]), str(min(theirs))])
    return markdown(["launches of a forward pass", "headroom", "PyTorch"], rows)


def stage_table(folder):
    rounds = find_rounds(folder, "whole-fp8-1024", "request")
    if not rounds:
        raise SystemExit(f"{folder} has no requests from a prompt to pixels of both sides")
    rows = []
    for stage in (stage["name"] for stage in rounds[0].ours["stages"]):
        found = compare([(times(pair.ours, stage), times(*pair.theirs.values(), stage)) for pair in rounds])
        rows.append([f"`{stage}`", str(found.rounds), duration(found.ours_ms), duration(found.theirs_ms), found.faster()])
    return markdown([rounds[0].gpu, "rounds", "headroom", "PyTorch", "faster (95% interval)"], rows)


BOTH_CACHED = "PyTorch's, diffusers' first-block cache"
CACHE_MEMORY = "peak memory, ours / the other"


def cache_rows(folder):
    """Requests with every second step reused, of either side, and without: the GPU, and of each pair the cells of
    its row.
    """
    ours, theirs = [], []
    while (path := folder / f"headroom-request-fp8-cache-{len(ours)}.json").exists():
        document, peer = read(path), read(folder / f"pytorch-fp8-cache-{len(ours)}.json")
        check_same_run(document, peer)
        ours.append({bool(result["tags"].count("forced")): result for result in document["results"]})
        requests = [result for result in peer["results"] if times(result, WORKS["request"][1])]
        theirs.append({any("cache" in name for name in result["configuration"]["applied"]): result for result in requests})
        for result in [*ours[-1].values(), *requests]:
            check_equal_work(ours[-1][True], result)
    if not ours:
        raise SystemExit(f"{folder} has no requests with a step cache of both sides")

    def row(pairs):
        found = compare(list(pairs))
        return [str(found.rounds), duration(found.ours_ms), duration(found.theirs_ms), found.faster()]

    def memory_row(others):
        return memory(list(zip((each[True] for each in ours), others)))

    image, wall = WORKS["request"]
    cached = [times(each[True], image) for each in ours]
    return document["machine"]["gpus"][0]["name"], {
        "ours without it": row(zip(cached, (times(each[False], image) for each in ours))) +
        [memory_row(each[False] for each in ours)],
        BOTH_CACHED: row(zip(cached, (times(each[True], wall) for each in theirs))) +
        [memory_row(each[True] for each in theirs)],
        "PyTorch's without it": row(zip(cached, (times(each[False], wall) for each in theirs))) +
        [memory_row(each[False] for each in theirs)]}


def cache_table(folder):
    gpu, rows = cache_rows(folder)
    return markdown([gpu, "rounds", "ours, half the steps reused", "the other", "faster (95% interval)", CACHE_MEMORY],
                    [[what, *cells] for what, cells in rows.items()])


def error_table(path):
    """The distance of either side from fp32, by precision."""
    errors = {(result["source"]["name"], is_fp8(result)): quality["value"] for result in read(path)["results"]
              for quality in result["quality"] if "baseline" not in result["configuration"]["applied"]}
    return markdown(["relative L2 from fp32", "headroom", "PyTorch"],
                    [[precision, *(f"{errors[side, precision == 'fp8']:.4f}" for side in ("headroom", "pytorch"))]
                     for precision in ("bf16", "fp8")])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("folder", type=pathlib.Path, nargs="?", help="what bench/h200_peers.sh, h200_unets.sh or h200_qwen.sh wrote")
    what.add_argument("--error", type=pathlib.Path, metavar="FILE", help="what bench/peers/flux_error.py wrote")
    parser.add_argument("--stages", action="store_true", help="of requests from a prompt to pixels")
    parser.add_argument("--caches", action="store_true", help="of requests with a step cache, whose decisions a schedule makes")
    parser.add_argument("--launches", action="store_true", help="how many a forward pass has on either side: ours in the plan, "
                        "theirs the kernels that the profiler saw")
    add_arguments(parser)
    args = parser.parse_args()
    if args.error:
        table = error_table(args.error)
    else:
        make = next((table for wanted, table in ((args.stages, stage_table), (args.launches, launch_table), (args.caches, cache_table))
                     if wanted), ratio_table)
        table = make(args.folder)
    put(table, args)


if __name__ == "__main__":
    main()
