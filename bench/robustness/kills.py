#!/usr/bin/env python3
"""kills.py HEADROOM [--kills 1000] [--seed 1] [--jobs 2]: runs that are ended at random moments.

Commands that write are ended by SIGKILL, SIGTERM or SIGINT while they work, several times each in one folder. Whatever
is there under a name that was asked for is whole: a picture decodes, a document parses, weights fill their file. The
command then runs to its end there, and leaves what it was asked for and nothing else. Moments are drawn between 0 and
what a whole run takes, from --seed. A run that ends by SIGTERM or SIGINT ends by that signal, or has done all its work.
For a build with sanitizers: no report of theirs is on stderr. Needs nothing but Python.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import zlib

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
GOLDENS = REPOSITORY / "tests" / "goldens"
SIGNALS = [signal.SIGKILL, signal.SIGTERM, signal.SIGINT]


def check_png(content):
    assert content[:8] == b"\x89PNG\r\n\x1a\n", "no PNG"
    at, data, kind = 8, b"", b""
    while at < len(content):
        (length,) = struct.unpack(">I", content[at:at + 4])
        kind, body = content[at + 4:at + 8], content[at + 8:at + 8 + length]
        assert struct.unpack(">I", content[at + 8 + length:at + 12 + length])[0] == zlib.crc32(kind + body), "a chunk is damaged"
        data += body if kind == b"IDAT" else b""
        at += 12 + length
    assert kind == b"IEND", "it has no end"
    zlib.decompress(data)


def check_safetensors(content):
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8:8 + length])
    ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
    assert max(ends, default=0) == len(content) - 8 - length, "its data is cut"


def check_y4m(content):
    header, _, rest = content.partition(b"\n")
    assert header.startswith(b"YUV4MPEG2 "), "no header"


CHECKS = {".png": check_png, ".json": json.loads, ".jsonl": None, ".safetensors": check_safetensors, ".y4m": check_y4m}


def is_temporary(path):
    return path.name.endswith(".tmp") or ".partial." in path.name


def whole(folder):
    """What in the folder is not whole, in words."""
    faults = []
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or any(is_temporary(part) for part in [path, *path.parents]):
            continue
        check = CHECKS.get(path.suffix)
        if check is None:
            continue
        try:
            check(path.read_bytes())
        except Exception as error:  # whatever the file is, that is the fault
            faults.append(f"{path.name}: {error}")
    return faults


def jobs_of(folder, share=1.0):
    """A command by name, its input, and the files that it leaves. `share` of the usual steps and frames."""
    flux, sd = GOLDENS / "pipelines" / "flux-schnell", GOLDENS / "pipelines" / "sd-1.5"
    small = ["--height", "32", "--width", "32", "--device", "cpu", "--quiet"]
    requests = "".join(json.dumps({"prompt": f"fox {i}", "height": 32, "width": 32, "steps": 2, "out": str(folder / f"r{i}.png")}) + "\n" for i in range(20))
    tiny = ["--token-rows", "4", "--token-columns", "4", "--batch", "1", "--trials", "3", "--max-rounds", "2", "--steps", "2", "--quiet"]
    return {
        "run": (["run", str(sd), "--prompt", "a fox", "--steps", str(round(40 * share)), *small, "--out", str(folder / "fox.png")], "", {"fox.png"}),
        "run of many": (["run", str(flux), *[x for i in range(8) for x in ("--prompt", f"fox {i}")], "--steps", "4", *small, "--out", str(folder / "fox.png")], "",
                        {f"fox-{i}.png" for i in range(1, 9)}),
        "requests": (["run", str(flux), "--prompts", "-", "--device", "cpu", "--quiet"], requests, {f"r{i}.png" for i in range(20)}),
        "convert": (["convert", str(REPOSITORY / "models" / "fashion-flux"), "--out", str(folder / "converted"), "--quiet"], "", {"converted"}),
        "ladder": (["ladder", str(GOLDENS / "flux" / "tiny-guidance"), *tiny, "--opt", "arena,fuse", "--device", "cpu", "--out", str(folder / "ladder")], "", {"ladder"}),
        "stream": (["stream", str(GOLDENS / "live_stream" / "three-levels"), "--input", f"scene:64x64@25:{round(200 * share)}", "--out", str(folder / "out.y4m"), "--save",
                    str(folder / "stream.json"), "--device", "cpu", "--quiet"], "", {"out.y4m", "stream.json"}),
        "report": (["report", str(REPOSITORY / "docs" / "result.example.json"), "--format", "svg", "--out", str(folder / "report"), "--quiet"], "", {"report"}),
    }


def start(headroom, command, requests, folder):
    env = dict(os.environ, OMP_NUM_THREADS="2", OMP_WAIT_POLICY="passive", CUDA_VISIBLE_DEVICES="", XDG_CACHE_HOME=str(folder.parent / "cache"),
               LSAN_OPTIONS=f"suppressions={REPOSITORY / 'tests' / 'leaks.supp'}:print_suppressions=0")
    (folder.parent / "requests").write_text(requests)
    with open(folder.parent / "requests") as stdin, open(folder.parent / "err", "wb") as err:
        return subprocess.Popen([headroom, *command], stdin=stdin, stdout=subprocess.DEVNULL, stderr=err, env=env, cwd=folder, start_new_session=True)


def session(headroom, name, number, seed, kills, share):
    """Several kills in one folder, and a run to the end. How many runs a signal reached, and what was wrong, in
    words.
    """
    chooser = random.Random(f"{seed} {name} {number}")
    root = pathlib.Path(tempfile.mkdtemp(prefix="kills-"))
    folder = root / "work"
    folder.mkdir()
    faults, reached = [], 0
    try:
        command, requests, expected = jobs_of(folder, share)[name]
        begin = time.monotonic()
        assert start(headroom, command, requests, folder).wait() == 0, f"{name} fails by itself: {(root / 'err').read_text()[-300:]}"
        whole_run = time.monotonic() - begin
        shutil.rmtree(folder)
        folder.mkdir()
        for _ in range(kills):
            process = start(headroom, command, requests, folder)
            sent = chooser.choice(SIGNALS)
            try:
                process.wait(chooser.random() * whole_run * 1.1)
            except subprocess.TimeoutExpired:
                process.send_signal(sent)
                reached += 1
            try:
                code = process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                code = process.wait()
                faults.append(f"{name}: still ran 30 s after {sent.name}")
            if code not in (0, -sent):
                faults.append(f"{name}: exit code {code} after {sent.name}: {(root / 'err').read_text()[-300:]}")
            err = (root / "err").read_text(errors="replace")
            if "internal error" in err or "Sanitizer" in err or "runtime error" in err:
                faults.append(f"{name}: {err[-500:]}")
            faults += [f"{name}, {sent.name}: {fault}" for fault in whole(folder)]
            # whole, if it is there; convert writes a new folder
            shutil.rmtree(folder / "converted", ignore_errors=True)
        process = start(headroom, command, requests, folder)
        if process.wait() != 0:
            faults.append(f"{name}: the run after the kills fails: {(root / 'err').read_text()[-300:]}")
        faults += [f"{name}, at the end: {fault}" for fault in whole(folder)]
        left = {path.name for path in folder.iterdir()}
        if left != expected:
            faults.append(f"{name}: left {sorted(left - expected)}, lacks {sorted(expected - left)}")
        inside = [str(path.relative_to(folder)) for path in folder.glob("*/**/*") if is_temporary(path) or path.name == "unfinished.json"]
        if inside:
            faults.append(f"{name}: left {inside}")
    except AssertionError as error:
        faults.append(str(error))
    finally:
        shutil.rmtree(root, ignore_errors=True)
    return reached, faults


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("headroom")
    parser.add_argument("--kills", type=int, default=1000, help="runs to end; some end by themselves before their moment")
    parser.add_argument("--in-a-row", type=int, default=5, help="runs in one folder, to be ended, before the run to the end")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only")
    parser.add_argument("--share", type=float, default=1.0, help="of the usual steps and frames, for a slow build")
    arguments = parser.parse_args()
    headroom = str(pathlib.Path(arguments.headroom).resolve())
    names = [arguments.only] if arguments.only else list(jobs_of(pathlib.Path("/")))
    sessions = [(names[i % len(names)], i) for i in range(-(-arguments.kills // arguments.in_a_row))]
    faults, done, kills = [], 0, 0
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        runs = [pool.submit(session, headroom, name, number, arguments.seed, arguments.in_a_row, arguments.share) for name, number in sessions]
        for future in concurrent.futures.as_completed(runs):
            reached, found = future.result()
            done, kills = done + 1, kills + reached
            for fault in found:
                print("FAULT", fault, flush=True)
            faults += found
            if done % 20 == 0:
                print(f"{done * arguments.in_a_row} runs, {kills} ended by a signal: {len(faults)} faults", flush=True)
    print(f"{len(sessions) * arguments.in_a_row} runs of {', '.join(names)}, {kills} ended by a signal: {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
