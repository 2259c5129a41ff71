#!/usr/bin/env python3
"""Sends requests to `headroom run --prompts -`, each once the one before is answered, and adds a line of JSON for each
to a file.

    python3 bench/timed_requests.py requests.jsonl NAME REQUESTS headroom run FOLDER --prompts - ...

REQUESTS is a file with a request on each line. A line of the result has the name, the command's switches and limit,
`wall_ms` from sending the request to its answer, `device_bytes`, the most that was taken of the GPU meanwhile by all
its processes and contexts, sampled every 50 ms (null where nvidia-smi is missing), and the answer; for the first
request `wall_ms` is from the start of the process. A request with "psnr": FILE is compared with that PNG, and its line
has `psnr_db`, which needs numpy and Pillow. Exits as the command did.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import threading
import time


class DeviceMemory:
    """The most that was taken of the first visible GPU since the last call of most()."""

    def __init__(self):
        self.peak, self.watch = None, None
        if shutil.which("nvidia-smi"):
            gpu = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
            self.watch = subprocess.Popen(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "-lms", "50",
                                           f"--id={gpu}"], stdout=subprocess.PIPE, text=True)
            threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.watch.stdout:
            if line.strip().isdigit():
                self.peak = max(self.peak or 0, int(line) << 20)

    def most(self):
        peak, self.peak = self.peak, None
        return peak

    def close(self):
        if self.watch:
            self.watch.terminate()
            self.watch.wait()


def psnr(path, reference):
    """Of two PNGs of equal size, in dB; infinite, written as null, where they are equal."""
    import numpy
    from PIL import Image
    a, b = (numpy.asarray(Image.open(each), dtype=numpy.float64) / 255 for each in (path, reference))
    error = ((a - b) ** 2).mean()
    return float(-10 * numpy.log10(error)) if error > 0 else None


def option(command, name):
    return command[command.index(name) + 1] if name in command else None


def main():
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    out, name, requests, *command = sys.argv[1:]
    about = {"name": name, "switches": option(command, "--opt"), "limit": option(command, "--memory-limit")}
    memory = DeviceMemory()
    began = time.perf_counter()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as process, \
            open(out, "a", encoding="utf-8") as file:
        for line in pathlib.Path(requests).read_text(encoding="utf-8").splitlines():
            request = json.loads(line)
            reference = request.pop("psnr", None)
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            answer = process.stdout.readline()
            if not answer:
                break
            wall = (time.perf_counter() - began) * 1e3
            line = about | {"wall_ms": round(wall, 1), "device_bytes": memory.most()} | json.loads(answer)
            if "error" not in line and reference:
                line["psnr_db"] = psnr(request["out"], reference)
            line.pop("out", None)
            print(json.dumps(line), file=file, flush=True)
            print(f"{name} {line.get('id')}: {wall:.0f} ms, {line.get('error', '')}", flush=True)
            began = time.perf_counter()
        process.stdin.close()
        code = process.wait()
    memory.close()
    sys.exit(code)


if __name__ == "__main__":
    main()
