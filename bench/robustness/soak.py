#!/usr/bin/env python3
"""soak.py HEADROOM [--minutes 10] [--requests 100000] [--spread] [--fps 25] [--size 64] [--seed 1]: a server and a
paced stream that run for long.

`run --prompts -` answers mixed requests, of which some cannot be done, for that long or that many, whatever is less,
while a stream is paced at --fps frames a second at the same time. --spread sends the requests evenly over the whole
time, so that the server lives as long as the stream. Memory, threads and open files are looked at all the time: after
the first tenth they may not grow. Growth is the slope of a line through the last nine tenths, by least squares, over
their length: at most 2% of the memory or 4 MiB; threads and files at the end are no more than at the tenth. Every
request is answered in order. Needs nothing but Python and /proc.
"""

import argparse
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import threading
import time

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
GOLDENS = REPOSITORY / "tests" / "goldens"
SIZES = [(16, 16), (32, 32), (32, 48), (48, 32), (64, 32), (16, 64)]


class Watch:
    """What a process holds, by the second."""

    def __init__(self, pid):
        self.pid, self.samples = pid, []

    def look(self):
        try:
            status = pathlib.Path(f"/proc/{self.pid}/status").read_text()
            files = len(os.listdir(f"/proc/{self.pid}/fd"))
        except OSError:
            return
        values = {line.split(":")[0]: line.split()[1] for line in status.splitlines() if line.startswith(("VmRSS", "RssAnon", "Threads"))}
        if "RssAnon" in values:
            self.samples.append((time.monotonic(), 1024 * int(values["RssAnon"]), int(values["Threads"]), files))

    def faults(self, name):
        count = len(self.samples)
        if count < 20:
            return [f"{name}: only {count} looks"]
        rest = self.samples[count // 10:]
        times, memory = [x[0] - rest[0][0] for x in rest], [x[1] for x in rest]
        mean_time, mean = sum(times) / len(times), sum(memory) / len(memory)
        slope = sum((t - mean_time) * (m - mean) for t, m in zip(times, memory)) / sum((t - mean_time) ** 2 for t in times)
        growth = slope * times[-1]
        print(f"{name}: {count} looks in {times[-1]:.0f} s, {mean / 2**20:.1f} MiB, growth {growth / 2**20:+.2f} MiB, threads {rest[0][2]} to {rest[-1][2]}, "
              f"files {rest[0][3]} to {rest[-1][3]}")
        faults = []
        if growth > max(0.02 * mean, 4 << 20):
            faults.append(f"{name}: memory grew by {growth / 2**20:.1f} MiB from {mean / 2**20:.1f} MiB")
        tail = rest[-max(1, len(rest) // 10):]  # the least of the last looks: a file may be open for a moment
        for column, what in ((2, "threads"), (3, "files")):
            before, after = max(x[column] for x in rest[:max(1, len(rest) // 10)]), min(x[column] for x in tail)
            if after > before:
                faults.append(f"{name}: {before} {what} became {after}")
        return faults


def requests_of(chooser, folder):
    """Endless requests, and whether each can be done."""
    number = 0
    while True:
        number += 1
        height, width = chooser.choice(SIZES[:3] if chooser.random() < 0.9 else SIZES)
        request = {"id": number, "prompt": f"fox {chooser.randrange(50)}", "seed": chooser.randrange(1000), "height": height, "width": width, "steps": 1,
                   "out": str(folder / f"{number % 8}.png")}
        kind = chooser.randrange(12)
        good = True
        if kind == 0:
            request["height"], good = "é" * 100, False
        elif kind == 1:
            request["out"], good = str(folder / "x\0.png"), False
        elif kind == 2:
            yield number, b"[" * chooser.randrange(1, 1000), False
            continue
        elif kind == 3 and number % 50 == 0:
            yield number, b'{"prompt": "' + b"x" * (2 << 20) + b'"}', False
            continue
        elif kind == 4:
            request["image"], good = "/nonexistent.png", False
        elif kind == 5:
            request["prompt"] = "é " * chooser.randrange(400)
        yield number, json.dumps(request).encode(), good


def serve(headroom, folder, env, end, most, interval, seed, faults, watches):
    """`interval` seconds lie between the starts of two requests; with 0 the next follows the last answer."""
    process = subprocess.Popen([headroom, "run", str(GOLDENS / "pipelines" / "flux-schnell"), "--prompts", "-", "--device", "cpu", "--quiet"],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env)
    watches["requests"] = Watch(process.pid)
    done, start = 0, time.monotonic()
    for number, line, good in requests_of(random.Random(seed), folder):
        if done == most or time.monotonic() > end:
            break
        time.sleep(max(0, start + done * interval - time.monotonic()))
        # One at a time, so that the answer is known to be this request's.
        process.stdin.write(line + b"\n")
        process.stdin.flush()
        answer = process.stdout.readline()
        try:
            document = json.loads(answer.decode())
            if ("error" in document) == good or document.get("id", number) != number:
                faults.append(f"request {number} {line[:200]!r} is answered with {answer[:300]!r}")
        except ValueError as error:
            faults.append(f"request {number}: {error}: {answer[:300]!r}")
        if not answer or len(faults) > 10:
            break
        done += 1
    process.stdin.close()
    if process.wait(60) != 0:
        faults.append(f"the server ended with {process.returncode}")
    print(f"{done} requests")


def stream(headroom, env, seconds, fps, size, faults, watches):
    frames = int(fps * seconds)
    process = subprocess.Popen([headroom, "stream", str(GOLDENS / "live_stream" / "three-levels"), "--input", f"scene:{size}x{size}@{fps}:{frames}",
                                "--fps", str(fps), "--output", "-", "--device", "cpu", "--quiet"], stdout=subprocess.PIPE, env=env)
    watches["stream"] = Watch(process.pid)
    shown, last = 0, b""
    while piece := process.stdout.read(1 << 16):
        shown += (last + piece).count(b"FRAME\n")
        last = piece[-5:]  # a header may lie in two pieces; five bytes of it are no whole one
    if process.wait() != 0:
        faults.append(f"the stream ended with {process.returncode}")
    print(f"{shown} frames of {frames}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("headroom")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--spread", action="store_true")
    parser.add_argument("--fps", type=int, default=25)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    headroom = str(pathlib.Path(arguments.headroom).resolve())
    env = dict(os.environ, OMP_NUM_THREADS="2", OMP_WAIT_POLICY="passive", CUDA_VISIBLE_DEVICES="")
    faults, watches = [], {}
    seconds = 60 * arguments.minutes
    interval = seconds / arguments.requests if arguments.spread else 0
    end = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as folder:
        threads = [threading.Thread(target=serve, args=(headroom, pathlib.Path(folder), env, end, arguments.requests, interval, arguments.seed, faults, watches)),
                   threading.Thread(target=stream, args=(headroom, env, seconds, arguments.fps, arguments.size, faults, watches))]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            for watch in list(watches.values()):
                watch.look()
            time.sleep(min(1, seconds / 100))
        left = [name for name in os.listdir(folder) if not name.endswith(".png")]
        if left:
            faults.append(f"left {left}")
    for name, watch in watches.items():
        faults += watch.faults(name)
    for fault in faults:
        print("FAULT", fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
