#!/usr/bin/env python3
"""How long a user waits for the first image of a size that a process has not made yet, weights in place.

    python3 bench/new_size.py build/release/headroom --device cuda --opt lossless,fp16 --save new_size.jsonl

SD-Turbo's shapes with the tiny autoencoder, random weights, one step, no guidance. A process answers `run --prompts -`,
one size after the other, each twice; the first size also loads the weights. The first process has neither compiled
kernels nor measured algorithms on disk, the others (--again) find what it left there. Writes a line for each request:
`cached`, the size, `wall_s` by the clock on the wall from the request to the answer, for which the PNG is written, and
the answer.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

FOLDER = pathlib.Path(__file__).resolve().parent / "sd_turbo_folder.py"


def answers(args, scratch):
    """What one process says to each request, and how long it took."""
    command = [args.headroom, "run", scratch / "sd-turbo", "--random-weights", "0", "--device", args.device, "--opt", args.opt,
               "--steps", "1", "--guidance", "1", "--search", args.search, "--prompts", "-", "--quiet"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                          env=os.environ | {"XDG_CACHE_HOME": str(scratch / "cache")}) as process:
        for side in [side for side in args.sides for _ in range(2)]:
            began = time.monotonic()
            print(json.dumps({"prompt": "a red fox in snow", "seed": 7, "height": side, "width": side, "out": str(scratch / "fox.png")}),
                  file=process.stdin, flush=True)
            answer = json.loads(process.stdout.readline())
            if "error" in answer:
                sys.exit(answer["error"])
            yield {"side": side, "wall_s": round(time.monotonic() - began, 4)} | answer | {"out": "fox.png"}
        process.stdin.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("headroom", help="the program")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--opt", default="lossless,fp16")
    parser.add_argument("--sides", type=int, nargs="+", default=[512, 448, 576, 640, 384], help="pixels, in the order of the requests")
    parser.add_argument("--search", default="first", choices=["first", "every"], help="sizes for which algorithms are searched")
    parser.add_argument("--again", type=int, default=2, help="processes that find kernels and algorithms on disk")
    parser.add_argument("--save", type=pathlib.Path, required=True, help="file to write")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        scratch = pathlib.Path(folder)
        subprocess.run([sys.executable, FOLDER, scratch / "sd-turbo"], check=True)
        lines = [{"cached": process > 0} | answer for process in range(1 + args.again) for answer in answers(args, scratch)]
    args.save.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    main()
