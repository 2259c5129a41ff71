#!/usr/bin/env python3
"""What result files of streams say of what a live stream must keep to: p99 over the median, frames lost or out of
order, drift of the latency, and, of a memory file with one (bench/watch_memory.py), whether memory grew.

    python3 bench/stream_facts.py results/live-ink-30-minutes.json results/live-ink-30-minutes-memory.json

Drift is how much larger the median of the last tenth of the frames is than that of the first. Growth of memory is from
after the first tenth of the time to the end.
"""

import argparse
import json
import pathlib
import statistics


def quantile(ordered, p):
    """Between neighbours, linearly."""
    at = p * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (at - low) * (ordered[high] - ordered[low])


def tenths(values):
    tenth = max(len(values) // 10, 1)
    return values[:tenth], values[-tenth:]


def facts_of_latency(latency):
    frames, times = latency["frame"], latency["latency_ms"]
    first, last = (statistics.median(part) for part in tenths(times))
    ordered = sorted(times)
    return {"frames": latency["shown"], "lost": latency["came"] - latency["shown"],
            "out of order": sum(a >= b for a, b in zip(frames, frames[1:])), "frames a second": latency["shown"] / latency["seconds"],
            "median ms": quantile(ordered, 0.5), "p99 ms": quantile(ordered, 0.99), "p99.9 ms": quantile(ordered, 0.999),
            "most ms": ordered[-1], "p99 / median": quantile(ordered, 0.99) / quantile(ordered, 0.5), "first tenth ms": first,
            "last tenth ms": last, "drift %": 100 * (last / first - 1), "drift of its device time %": drift(latency["device_ms"])}


def drift(values):
    first, last = (statistics.median(part) for part in tenths(values))
    return 100 * (last / first - 1)


def facts_of_memory(samples):
    facts = {}
    for key, name in (("resident_bytes", "resident"), ("device_bytes", "device")):
        values = [sample[key] for sample in samples if key in sample]
        if len(values) < 4:
            continue
        settled, end = values[max(len(values) // 10, 1)], values[-2]  # the last may be of a process that is ending
        facts |= {f"{name} MiB settled": settled / 2**20, f"{name} MiB at the end": end / 2**20,
                  f"{name} growth %": 100 * (end / settled - 1)}
    return facts


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="+", help="results and files of memory")
    args = parser.parse_args()
    for path in args.files:
        read = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
        if "samples" in read:
            facts = [facts_of_memory(read["samples"])]
        else:
            facts = [facts_of_latency(result["latency"]) for result in read["results"] if "latency" in result]
        for each in facts:
            print(path)
            for name, value in each.items():
                print(f"  {name:28} {value:.4g}" if isinstance(value, float) else f"  {name:28} {value}")


if __name__ == "__main__":
    main()
