#!/usr/bin/env python3
"""Does a build plan FLUX as another one does: kernels, launches, memory?

    bench/compare_plans.py HEADROOM BASE [--device cpu|cuda] [--out FILE]

Plans fashion-flux on a CPU, or FLUX.1-dev (random weights) on a GPU, with several sets of switches in both programs,
and prints a table of what each plan takes, with the median of five planning times, in which libraries look for
algorithms, too. Ends with code 1 where HEADROOM takes more launches or more memory than BASE.
"""

import argparse
import collections
import re
import statistics
import subprocess
import sys

MODELS = {"cpu": ["fashion-flux", "--images", "20"], "cuda": ["flux-dev", "--random-weights", "1"]}
SWITCHES = {"cpu": ["baseline", "lossless", "lossless,bf16", "lossless,int8"],
            "cuda": ["baseline", "lossless", "lossless,fp8"]}
REPEATS = 5
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def plan(program, device, switches):
    command = [program, "plan", *MODELS[device], "--device", device, "--opt", switches, "--quiet"]
    texts = [subprocess.run(command, check=True, capture_output=True, text=True).stdout for _ in range(REPEATS)]
    text = texts[0]
    memory = re.search(r"(?:arena +|at most )([\d.]+) (\w+)", text)
    kernels = re.findall(r"^ +\d+ +\w+ +([a-z]+\.[\w.]+)", text, re.M)
    return {"launches": int(re.search(r"(\d+) launches", text)[1]), "memory": float(memory[1]) * UNITS[memory[2]],
            "kernels": dict(sorted(collections.Counter(kernels).items())),
            "ms": statistics.median(float(re.search(r"planned in ([\d.]+) ms", each)[1]) for each in texts)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("headroom")
    parser.add_argument("base")
    parser.add_argument("--device", choices=MODELS, default="cpu")
    parser.add_argument("--out")
    arguments = parser.parse_args()

    lines, is_worse = [], False
    for program in (arguments.base, arguments.headroom):
        version = subprocess.run([program, "--version"], check=True, capture_output=True, text=True).stdout.splitlines()[0]
        lines.append(f"{'base' if program == arguments.base else 'this'}: {version}")
    for switches in SWITCHES[arguments.device]:
        base, new = (plan(program, arguments.device, switches) for program in (arguments.base, arguments.headroom))
        is_worse |= new["launches"] > base["launches"] or new["memory"] > base["memory"]
        lines.append(f"{MODELS[arguments.device][0]} {switches}")
        for name, each in (("base", base), ("this", new)):
            lines.append(f"  {name}: {each['launches']} launches, {each['memory'] / (1 << 20):.1f} MiB of activations, "
                         f"planned in {each['ms']:.1f} ms")
        for kernel in sorted(base["kernels"] | new["kernels"]):
            counts = [each["kernels"].get(kernel, 0) for each in (base, new)]
            lines.append(f"    {kernel:<32} {counts[0]:>5} {counts[1]:>5}{'' if counts[0] == counts[1] else '  differs'}")
    print("\n".join(lines))
    if arguments.out:
        with open(arguments.out, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
    return 1 if is_worse else 0


if __name__ == "__main__":
    sys.exit(main())
