#!/usr/bin/env python3
"""predictions.py PROGRAM [--rounds N] -- ARGUMENTS: what `headroom doctor ARGUMENTS` predicts of switches, against what
it measures. predictions.py --read FILE... -- ARGUMENTS: the same from what such runs printed elsewhere.

Runs `PROGRAM doctor ARGUMENTS --json --run-switches 100` N times (3) and prints one JSON line a switch: the medians
over rounds of its gain predicted by rates, by launches, and measured, and the stated errors; then one with the median
and the worst error of the predicted times, and whether the three largest gains are the measured ones, and in their
order. ARGUMENTS are of a model: fashion-flux --device cpu.
"""

import json
import pathlib
import statistics
import subprocess
import sys


def predictions_of(program, arguments):
    command = [program, "doctor", *arguments, "--json", "--quiet", "--run-switches", "100"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 3, 4):
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")
    return measured_of(done.stdout)


def measured_of(report):
    return [one for one in json.loads(report)["work"]["predictions"] if "measured" in one]


def off(predicted, measured):
    """The relative error of a predicted time, from the gains."""
    return max(predicted / measured, measured / predicted) - 1


def main():
    if "--" not in sys.argv:
        sys.exit(__doc__)
    own, arguments = sys.argv[1 : sys.argv.index("--")], sys.argv[sys.argv.index("--") + 1 :]
    if own[0] == "--read":
        reports = [measured_of(pathlib.Path(file).read_text(encoding="utf-8")) for file in own[1:]]
    else:
        rounds = int(own[own.index("--rounds") + 1]) if "--rounds" in own else 3
        reports = [predictions_of(own[0], arguments) for _ in range(rounds)]
    found = {}
    for report in reports:
        for one in report:
            found.setdefault(one["switch"], []).append(one)
    rows = []
    for switch, ones in found.items():
        median = lambda *keys: statistics.median(one[keys[0]][keys[1]] for one in ones)  # noqa: E731
        rows.append({"switch": switch, "on": ones[0]["on"], "measured": median("measured", "gain"),
                     "by_rates": median("by_rates", "gain"), "by_rates_error": median("by_rates", "error"),
                     "by_launches": median("by_launches", "gain"), "by_launches_error": median("by_launches", "error")})
        print(json.dumps({key: round(value, 4) if isinstance(value, float) else value for key, value in rows[-1].items()}))
    first = lambda key: [row["switch"] for row in sorted(rows, key=lambda row: -row[key])][:3]  # noqa: E731
    summary = {"arguments": arguments, "rounds": len(reports)}
    for way in ("by_rates", "by_launches"):
        errors = [off(row[way], row["measured"]) for row in rows]
        summary[way] = {"median_error": round(statistics.median(errors), 4), "worst_error": round(max(errors), 4),
                        "top_three": set(first(way)) == set(first("measured")),
                        "top_three_in_order": first(way) == first("measured")}
    print(json.dumps(summary))


if __name__ == "__main__":
    main()
