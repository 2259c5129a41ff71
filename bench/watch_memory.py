#!/usr/bin/env python3
"""Runs a command and writes how much memory it has, every second, to a JSON file:

    python3 bench/watch_memory.py memory.json headroom stream ...

Resident bytes are the process's own (VmRSS); device bytes are all that is taken of the first GPU, where nvidia-smi
tells, which is asked every ten seconds, since that may hold a GPU up. Exits as the command did. What the samples say of
a stream bench/stream_facts.py tells.
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import time


DEVICE_EVERY = 10  # samples


def resident_bytes(pid):
    try:
        status = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    found = re.search(r"^VmRSS:\s+(\d+) kB", status, re.MULTILINE)
    return int(found[1]) * 1024 if found else None


def device_bytes():
    if not shutil.which("nvidia-smi"):
        return None
    used = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "--id=0"], capture_output=True,
                          text=True, check=False).stdout.strip()
    return int(used) << 20 if used.isdigit() else None


def main():
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    began = time.monotonic()
    samples = []
    with subprocess.Popen(sys.argv[2:]) as process:
        while True:
            try:
                process.wait(timeout=1)
                break
            except subprocess.TimeoutExpired:
                resident = resident_bytes(process.pid)
                device = device_bytes() if len(samples) % DEVICE_EVERY == 0 else None
                if resident is None:
                    continue
                samples.append({"seconds": round(time.monotonic() - began, 2), "resident_bytes": resident} |
                               ({} if device is None else {"device_bytes": device}))
    pathlib.Path(sys.argv[1]).write_text(json.dumps({"samples": samples}) + "\n", encoding="utf-8")
    raise SystemExit(process.returncode)


if __name__ == "__main__":
    main()
