#!/usr/bin/env python3
"""How often `headroom compare` is wrong about times whose truth is known: made-up result files of a build against
itself (A/A) and against one that is 10% slower, 200 pairs of each kind. Writes a line of JSON for each kind and ends
with 1 where more than 2.5% of the A/A are REGRESSED or IMPROVED, more than 2.5% of the slower builds are OK, or one of
them is IMPROVED.

  bench/verdicts.py HEADROOM OUT.jsonl [--pairs 200] [--seed 1]

Kinds: trials with heavy tails, on a coarse clock, that drift, of two modes, and 1 to 5 in all; each once in one process
a side (`--process-noise 3%`, which is what processes differ by) and once in eight. 4,000 comparisons take about two
minutes.
"""

import argparse
import collections
import concurrent.futures
import json
import math
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

TEMPLATE = Path(__file__).resolve().parent / "results/cpu/ladder.json"
NOISE = 0.03  # standard deviation between processes
SLOWDOWN = 1.1


def quantile(values, share):
    position = (len(values) - 1) * share
    below = int(position)
    above = min(below + 1, len(values) - 1)
    return values[below] + (position - below) * (values[above] - values[below])


def statistics(times):
    ordered = sorted(times)
    n, mean = len(ordered), sum(ordered) / len(ordered)
    figures = {"n": n, "mean_ms": mean, "median_ms": quantile(ordered, 0.5), "q1_ms": quantile(ordered, 0.25),
               "q3_ms": quantile(ordered, 0.75), "min_ms": ordered[0], "max_ms": ordered[-1], "p95_ms": quantile(ordered, 0.95),
               "p99_ms": quantile(ordered, 0.99), "outliers_mild": 0, "outliers_severe": 0, "trimmed_mean_ms": mean}
    if n > 1:
        figures["stddev_ms"] = math.sqrt(sum((ms - mean) ** 2 for ms in ordered) / (n - 1))
    return figures


def write_file(path, template, processes):
    """A result file of one series; `processes` has the trials of each in ms."""
    times = [ms for trials in processes for ms in trials]
    result = {key: template["results"][0][key] for key in ("configuration", "id", "name", "quality", "subject", "tags", "work_hash")}
    result["source"] = {"name": "made-up", "version": "1"}
    result["trials"] = [{"what": "step", "unit": "ms", "warmup": 0, "warmup_stable": True, "complete": True, "time": times,
                         "process": [i for i, trials in enumerate(processes) for _ in trials], "statistics": statistics(times)}]
    document = {"schema": template["schema"], "created": template["created"], "machine": template["machine"], "plans": {},
                "results": [result]}
    path.write_text(json.dumps(document))


# Each kind gives a function of (level, trials) for one process, from a generator that both sides share, since a drift
# or a clock is that of the machine. `levels` below puts what processes differ by on top.

def heavy_tails(rng):
    draw = rng.choice([lambda: math.exp(0.5 * rng.gauss(0, 1)), lambda: 1 + 0.1 * rng.paretovariate(1.2),
                       lambda: math.exp(0.02 * rng.gauss(0, 1)) * (3 if rng.random() < 0.05 else 1),
                       lambda: math.exp(max(-3, min(3, 0.05 * rng.gauss(0, 1) / max(0.05, abs(rng.gauss(0, 1))))))])
    return lambda level, trials: [level * draw() for _ in range(trials)]


def ties(rng):
    step, to_step = 10 * math.exp(rng.uniform(math.log(0.03), math.log(0.5))), rng.choice([round, math.floor])
    return lambda level, trials: [max(1, to_step(level * math.exp(0.02 * rng.gauss(0, 1)) / step)) * step for _ in range(trials)]


def wander(rng, n):
    """n values that depend on those before them: an autoregression, a random walk, a line or a wave, by about 5%."""
    kind = rng.randrange(4)
    if kind == 0:
        share, value, values = rng.uniform(0.5, 0.95), rng.gauss(0, 0.04), []
        for _ in range(n):
            values.append(value)
            value = share * value + math.sqrt(1 - share * share) * rng.gauss(0, 0.04)
        return values
    if kind == 1:
        values = [0.0]
        while len(values) < n:
            values.append(values[-1] + rng.gauss(0, 0.1 / math.sqrt(n)))
        return values
    if kind == 2:
        slope = rng.choice([-0.1, 0.1])
        return [slope * i / n + 0.01 * rng.gauss(0, 1) for i in range(n)]
    phase, period = rng.uniform(0, 2 * math.pi), rng.uniform(0.3, 2) * n
    return [0.05 * math.sin(phase + 2 * math.pi * i / period) + 0.01 * rng.gauss(0, 1) for i in range(n)]


def drift(rng):
    return lambda level, trials: [level * math.exp(x + 0.005 * rng.gauss(0, 1)) for x in wander(rng, trials)]


def bimodal(rng):
    share, factor = rng.choice([0.5, 0.4, 0.3]), rng.choice([1.15, 1.2, 1.3])
    return lambda level, trials: [level * math.exp(0.01 * rng.gauss(0, 1)) * (factor if rng.random() < share else 1)
                                  for _ in range(trials)]


def few(rng):
    spread, count = rng.choice([0.02, 0.05, 0.1, 0.2]), rng.randint(1, 5)
    return lambda level, trials: [level * math.exp(spread * rng.gauss(0, 1)) for _ in range(count)]


KINDS = {"heavy tails": heavy_tails, "ties": ties, "drift": drift, "bimodal": bimodal, "1 to 5 trials": few}


def levels(kind, rng, count):
    """What processes of one build take, in the order they run: the base's first, then those of the other."""
    if count > 2 and kind == "drift":
        return [10 * math.exp(x) for x in wander(rng, count)]
    if count > 2 and kind == "heavy tails":
        return [10 * math.exp(NOISE * max(-20, min(20, rng.gauss(0, 1) / max(0.05, abs(rng.gauss(0, 1)))))) for _ in range(count)]
    if count > 2 and kind == "bimodal":
        return [10 * rng.choice([1, 1.2]) * math.exp(0.01 * rng.gauss(0, 1)) for _ in range(count)]
    return [10 * math.exp(NOISE * rng.gauss(0, 1)) for _ in range(count)]


def verdict(headroom, folder, template, kind, processes, slower, seed):
    rng = random.Random(seed)
    times = KINDS[kind](rng)
    trials = 20 if processes == 1 else 10
    sides = levels(kind, rng, 2 * processes)
    paths = []
    for side, factor in enumerate((1, SLOWDOWN if slower else 1)):
        of_side = sides[side * processes:(side + 1) * processes]
        paths.append(Path(folder) / f"{seed}-{side}.json")
        write_file(paths[-1], template, [times(factor * level, trials) for level in of_side])
    noise = ["--process-noise", f"{100 * NOISE:g}%"] if processes == 1 else []
    done = subprocess.run([headroom, "compare", *map(str, paths), *noise, "--json"], capture_output=True, text=True, check=False)
    if done.returncode not in (0, 3, 4):
        sys.exit(f"{kind}: {done.stderr}")
    for path in paths:
        path.unlink()
    return json.loads(done.stdout)["benchmarks"][0]["verdict"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("headroom")
    parser.add_argument("out")
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    template = json.loads(TEMPLATE.read_text())
    lines, misses = [], []
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for number, (kind, processes) in enumerate((kind, processes) for kind in KINDS for processes in (1, 8)):
            line = {"kind": kind, "processes": processes, "pairs": args.pairs}
            for slower in (False, True):
                first = ((args.seed * 100 + number) * 2 + slower) * 10**6
                found = collections.Counter(pool.map(lambda seed: verdict(args.headroom, folder, template, kind, processes, slower, seed),
                                                     range(first, first + args.pairs)))
                line["slower by 10%" if slower else "equal"] = dict(sorted(found.items()))
            lines.append(json.dumps(line))
            print(lines[-1], flush=True)
            equal, slower = collections.Counter(line["equal"]), collections.Counter(line["slower by 10%"])
            if equal["REGRESSED"] + equal["IMPROVED"] > 0.025 * args.pairs or slower["OK"] > 0.025 * args.pairs or slower["IMPROVED"]:
                misses.append(f"{kind} in {processes} processes")
    Path(args.out).write_text("\n".join(lines) + "\n")
    if misses:
        sys.exit("more than 2.5% are wrong, or a slower build IMPROVED: " + ", ".join(misses))


if __name__ == "__main__":
    main()
