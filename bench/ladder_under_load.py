#!/usr/bin/env python3
"""Does `headroom ladder` tell a wrong factor as a fact while the machine's load changes?

    bench/ladder_under_load.py HEADROOM OUT.jsonl [--device cpu|cuda] [--tries 10] [--seed 1]

Climbs a short ladder on two CPUs (CORES, 0,1 unless set) or on a GPU: twice while nothing else runs, then ten times
with two busy processes on the same CPUs or the same GPU that start somewhere in its middle and end again before its
shortest course would. A rung's factor that is reported as a fact is held against what the hardware does when nothing
disturbs it: of all images that the two made, settled or not, the fastest tenth of the baseline's over the fastest tenth
of the rung's. Writes a line for each ladder: what was reported of each rung, and how far the one furthest off is from
that. Ends with code 1 where that is more than 1.3x, and with code 2 where no factor was reported at all, so that
nothing was tried. Takes about a quarter of an hour on two cores.
"""

import argparse
import json
import math
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time

MODEL = str(pathlib.Path(__file__).resolve().parent.parent / "models/fashion-flux")
MOST_WRONG = 1.3
QUIET_LADDERS = 2
STEPS = 8
STEPS_OF = {"steps=4": 4}  # by a rung's last switch
SWITCHES = "arena,flash,fuse,hoist,steps=4"
IMAGES = {"cpu": 1, "cuda": 256}  # at once: enough to keep the device busy


def start_ladder(headroom, device, folder):
    """Starts a ladder whose table comes through a pipe."""
    command = [headroom, "ladder", MODEL, "--device", device, "--batch", str(IMAGES[device]), "--steps", str(STEPS),
               "--opt", SWITCHES, "--quiet", "--out", folder]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def start_load(headroom, device):
    """Starts a process that keeps one CPU, or the GPU, busy until it is killed."""
    if device == "cpu":
        return subprocess.Popen([sys.executable, "-c", "while True: pass"])
    command = [headroom, "bench", MODEL, "--device", device, "--batch", str(IMAGES[device]), "--trials", "1000000",
               "--max-seconds", "3600", "--quiet"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL)


def reported_rungs(table):
    """Rung to factor on the baseline, or None where it is marked unsettled; what declined is not among them."""
    rungs = {}
    lines = table.splitlines()
    column = re.split(r"\s{2,}", lines[0].strip()).index("on baseline")
    for line in lines[1:]:
        cells = re.split(r"\s{2,}", line.strip())
        if line.startswith(("synergy", "unsettled")) or not line:
            break
        if len(cells) <= column or cells[0].startswith(("-", "baseline")):
            continue
        rungs[cells[0].removesuffix(" ?")] = float(cells[column][:-1]) if cells[column].endswith("x") else None
    return rungs


def read_results(folder):
    """Rung to why it is unsettled, and rung to its images' times in ms, those of disturbed visits among them."""
    with open(pathlib.Path(folder) / "results.json", encoding="utf-8") as file:
        results = json.load(file)["results"]
    times = {}
    for result in results:
        steps = STEPS_OF.get(result["name"].split("+")[-1], STEPS)
        series = [trial for trial in result["trials"] if trial["what"].startswith("step")]
        times[result["name"]] = [steps * ms for trial in series for ms in trial["time"]]
    return {result["name"]: result["unsettled"] for result in results if "unsettled" in result}, times


def climb(headroom, device, load=None):
    """One ladder, with two busy processes from load[0] to load[1] seconds after its start."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        ladder = start_ladder(headroom, device, folder)
        busy = []
        try:
            if load:
                time.sleep(load[0])
                busy = [start_load(headroom, device) for _ in range(2)]
                time.sleep(load[1] - load[0])
        finally:
            for process in busy:
                process.kill()
                process.wait()
        table = ladder.communicate()[0]
        if ladder.returncode != 0:
            sys.exit(f"headroom ladder ended with code {ladder.returncode}")
        unsettled, times = read_results(folder)
        seconds = round(time.monotonic() - began, 1)
        return {"seconds": seconds, "factors": reported_rungs(table), "unsettled": unsettled}, times


def fastest_tenth(times):
    """The mean of the fastest tenth."""
    fastest = sorted(times)[: max(1, len(times) // 10)]
    return sum(fastest) / len(fastest)


def reference_of(ladders):
    """Rung to its factor where nothing disturbs, from the times of several ladders."""
    pooled = {rung: [ms for times in ladders for ms in times[rung]] for rung in ladders[0]}
    return {rung: fastest_tenth(pooled["baseline"]) / fastest_tenth(times) for rung, times in pooled.items()}


def worst_of(factors, reference):
    """How far the factor that is furthest off is from the reference; 1 where none was reported."""
    return max((math.exp(abs(math.log(factor / reference[rung]))) for rung, factor in factors.items() if factor), default=1.0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("headroom")
    parser.add_argument("out")
    parser.add_argument("--device", choices=IMAGES, default="cpu")
    parser.add_argument("--tries", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    os.sched_setaffinity(0, {int(core) for core in os.environ.get("CORES", "0,1").split(",")})
    lines = []

    def write(line):
        lines.append(line)
        with open(arguments.out, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(each) + "\n" for each in lines)

    def add(kind, ladder):
        write({"kind": kind, **ladder})
        print(f"{kind}: {ladder['seconds']} s, reported: {ladder['factors']}", file=sys.stderr)
        for rung, reason in ladder["unsettled"].items():
            print(f"  {rung} is unsettled: {reason}", file=sys.stderr)

    quiet = [climb(arguments.headroom, arguments.device) for _ in range(QUIET_LADDERS)]
    for ladder, _ in quiet:
        add("quiet", ladder)
    reference = reference_of([times for _, times in quiet])
    write({"kind": "reference", "factors": {rung: round(factor, 4) for rung, factor in reference.items()}})
    shortest = min(ladder["seconds"] for ladder, _ in quiet)
    draw = random.Random(arguments.seed)
    for _ in range(arguments.tries):
        begin = draw.uniform(0.15, 0.6) * shortest
        end = begin + draw.uniform(0.15, 0.35) * shortest
        ladder, _ = climb(arguments.headroom, arguments.device, (begin, end))
        worst = worst_of(ladder["factors"], reference)
        add("loaded", {"load_s": [round(begin, 1), round(end, 1)], "worst": round(worst, 3), **ladder})

    loaded = [line for line in lines if line["kind"] == "loaded"]
    worst = max((line["worst"] for line in loaded), default=1.0)
    named = sum(1 for line in loaded if line["unsettled"])
    reported = sum(1 for line in loaded for factor in line["factors"].values() if factor)
    print(f"{len(loaded)} ladders under load, {named} with unsettled rungs; of {reported} factors reported as facts one is off by "
          f"{worst:.3f}x, the others by less")
    return 2 if reported == 0 else 1 if worst > MOST_WRONG else 0


if __name__ == "__main__":
    sys.exit(main())
