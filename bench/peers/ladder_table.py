#!/usr/bin/env python3
"""The rungs of one ladder from its result file, as a Markdown table.

    python3 bench/peers/ladder_table.py bench/results/h200/flux/headroom-ladder.json
    python3 bench/peers/ladder_table.py bench/results/cpu/ladder.json --update docs/gallery.md

A table is identified in a document by its first line, which names the work and the machine. An image is the median of
what runs before the loop and its steps, divided by the images made at once, as `headroom ladder` tells it; so is the
factor, over rounds where the file has rounds, else of the medians. What is unsettled has no factor, and what declined
says so. Times that have no interval, as of fewer than six trials, have "(-)".
"""

import argparse
import math
import pathlib
import statistics

from peer_ratios import add_arguments, markdown, put, read

QUALITIES = {"psnr_db": "PSNR", "accuracy": "accuracy (95% interval)", "frechet_distance": "Fréchet distance"}


def series_of(result, what):
    return next((series for series in result["trials"] if series["what"] == what), None)


def steps_of(result):
    """Steps of its loop: those of `steps=N` where that was applied."""
    own = [int(name.removeprefix("steps=")) for name in result["configuration"]["applied"] if name.startswith("steps=")]
    return own[0] if own else result["subject"]["request"]["steps"]


def image_ms(result, step_ms, number=None):
    """After the median prologue, of one round if its number is given."""
    prologue = series_of(result, "prologue") or {"time": [0]}
    rounds = prologue.get("round") or [number] * len(prologue["time"])
    before = statistics.median(time for time, of in zip(prologue["time"], rounds) if number is None or of == number)
    return (before + steps_of(result) * step_ms) / result["subject"]["request"].get("images", 1)


def round_images(result):
    """By round the median image; all trials are one round where the file knows of none."""
    step = series_of(result, "step")
    by_round = {}
    for number, time in zip(step.get("round") or [0] * len(step["time"]), step["time"]):
        by_round.setdefault(number, []).append(time)
    return {number: image_ms(result, statistics.median(times), number) for number, times in by_round.items()}


def factor(baseline, result):
    """Over rounds the geometric mean; a rung's round lies between two of the baseline's visits."""
    around, own = round_images(baseline), round_images(result)
    return math.exp(statistics.mean(math.log(math.sqrt(around[number] * around.get(number + 1, around[number])) / time)
                                    for number, time in own.items()))


def with_interval(value, *bounds, unit):
    return f"{value}{unit} ({' to '.join(bounds) or '-'})"


def median_and_bounds(series):
    """The median and the ends of its interval, if it has one."""
    stats = series["statistics"]
    return [stats[key] for key in ("median_ms", "ci_low_ms", "ci_high_ms") if key in stats]


def image_and_bounds(result):
    """The same of an image: errors of the prologue and of the steps are independent, as in
    src/measure/results/timing.cpp.
    """
    median, *bounds = median_and_bounds(series_of(result, "step"))
    image = image_ms(result, median)
    if not bounds:
        return [image]
    prologue = series_of(result, "prologue")
    stats = prologue["statistics"] if prologue else dict.fromkeys(("median_ms", "min_ms", "max_ms"), 0)
    before, low, high = (stats["median_ms"], stats.get("ci_low_ms", stats.get("min_ms")), stats.get("ci_high_ms", stats.get("max_ms")))
    steps, images = steps_of(result), result["subject"]["request"].get("images", 1)
    down = math.hypot(steps * (median - bounds[0]), before - low) / images
    up = math.hypot(steps * (bounds[1] - median), high - before) / images
    return [image, image - down, image + up]


def times(median, *bounds):
    """A median with its interval, if it has one, in one unit, to as many places as the median has three digits."""
    scale, unit = (1000, " s") if median >= 999.5 else (1, " ms")
    places = max(0, 2 - math.floor(math.log10(median / scale)))
    return with_interval(*(f"{value / scale:.{places}f}" for value in (median, *bounds)), unit=unit)


def times_factor(value):
    return f"{value:.2f}x" if value < 10 else f"{value:.1f}x"


def quality(result, metric):
    found = next((entry for entry in result["quality"] if entry["metric"] == metric), None)
    if not found:
        return "-"
    if "value" not in found:
        return found["note"]
    value = found["value"]
    if metric == "psnr_db":
        return f"{value:.1f} dB"
    if metric == "accuracy":
        interval = found["interval"]
        return with_interval(*(f"{100 * share:.1f}" for share in (value, interval["low"], interval["high"])), unit="%")
    return f"{value:.3f}"


def size(num_bytes):
    unit, name = (2**30, "GiB") if num_bytes >= 2**30 else (2**20, "MiB")
    return f"{num_bytes / unit:.1f} {name}"


def title(document):
    subject, machine = document["results"][0]["subject"], document["machine"]
    request = subject["request"]
    on = (machine["gpus"][0]["name"].removeprefix("NVIDIA ") if document["results"][0]["configuration"]["device"] == "cuda" else
          f"{machine['allowed_cores']} cores, {machine['cpu_isa'].upper()}")
    images = request.get("images", 1)
    return (f"{subject['name']}, {request['token_rows']}x{request['token_columns']} tokens, {request['steps']} steps"
            f"{f', {images} images at once' if images > 1 else ''}, {on}")


def ladder_table(document):
    results = document["results"]
    baseline = results[0]
    if baseline["name"] != "baseline":
        raise SystemExit(f"the first result is {baseline['name']}, expected baseline: this is no ladder")
    metrics = {metric: name for metric, name in QUALITIES.items()
               if any(entry["metric"] == metric for result in results for entry in result["quality"])}
    rows = []
    for result in results:
        declined = " (declined)" if any(entry["switch"] in result["name"].split("+")[-1] for entry in
                                        result["configuration"]["declined"]) else ""
        on_baseline = ("-" if result is baseline or declined else "unsettled" if result.get("unsettled") else
                       times_factor(factor(baseline, result)))
        rows.append([f"`{result['name']}`{declined}", times(*median_and_bounds(series_of(result, "step"))), times(*image_and_bounds(result)),
                     on_baseline, size(result["memory"]["peak_bytes"]), *(quality(result, metric) for metric in metrics)])
    return markdown([title(document), "a step (95% interval)", "an image (95% interval)", "on baseline", "peak memory",
                     *metrics.values()], rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file", type=pathlib.Path, help="what headroom ladder wrote")
    add_arguments(parser)
    args = parser.parse_args()
    put(ladder_table(read(args.file)), args)


if __name__ == "__main__":
    main()
