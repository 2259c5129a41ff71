"""How many times faster equal work runs here than in PyTorch and OpenVINO, from pairs of result files, and the
documents' tables of it.

What h200_ratios.py and cpu_ratios.py share. Needs nothing but Python.
"""

import datetime
import gzip
import json
import math
import pathlib
import random
import statistics
from typing import NamedTuple

RUN_MINUTES = 15  # two sides of a round were measured in one run if their files were written within so many
RESAMPLES = 10_000


class Comparison(NamedTuple):
    """Medians over rounds of the medians of each side, and of their ratio, with its 95% interval."""
    rounds: int
    ours_ms: float
    theirs_ms: float
    ratio: float
    interval: tuple

    def faster(self):
        return f"{self.ratio:.2f}x ({self.interval[0]:.2f} to {self.interval[1]:.2f})"


def stored(path):
    """The file, or where there is none, its packed form."""
    packed = path.with_name(path.name + ".gz")
    return packed if packed.exists() and not path.exists() else path


def read(path):
    """A result file, which may be packed, with the plans that it refers to."""
    data = pathlib.Path(path).read_bytes()
    document = json.loads(gzip.decompress(data) if str(path).endswith(".gz") else data)
    for name, plan in document.get("plans", {}).items():
        if isinstance(plan, str):
            document["plans"][name] = json.loads(gzip.decompress((pathlib.Path(path).parent / plan).read_bytes()))
    return document


def times(result, what):
    """The raw trials of a series in ms; none where the result has no such series."""
    return [time for series in result["trials"] if series["what"] == what for time in series["time"]]


def check_same_run(ours, theirs):
    """Refuses documents that two machines or two runs may have written: their ratio would say nothing."""
    def kinds(side):  # one side may list all GPUs of the machine, the other the one that it sees
        return sorted({(gpu["name"], gpu.get("driver")) for gpu in side["machine"]["gpus"]})

    for what in ("cpu", "kernel", "allowed_cores"):
        if ours["machine"][what] != theirs["machine"][what]:
            raise SystemExit(f"two machines: {what} is {ours['machine'][what]} and {theirs['machine'][what]}")
    if kinds(ours) != kinds(theirs):
        raise SystemExit(f"two machines: gpus is {ours['machine']['gpus']} and {theirs['machine']['gpus']}")
    began, ended = sorted(datetime.datetime.fromisoformat(side["created"].rstrip("Z")) for side in (ours, theirs))
    if ended - began > datetime.timedelta(minutes=RUN_MINUTES):
        raise SystemExit(f"not one run: {began} and {ended} are more than {RUN_MINUTES} minutes apart")


def check_equal_work(ours, theirs):
    if ours["work_hash"] != theirs["work_hash"]:
        raise SystemExit(f"unequal work: {ours['subject']} and {theirs['subject']}")


PEERS = {"pytorch": "PyTorch", "openvino": "OpenVINO"}


def peer_of(results):
    """Who ran the results and in which version, without a wheel's suffix; all rounds of a row must have the same."""
    found = {f"{PEERS[result['source']['name']]} {result['source']['version'].partition('+')[0]}" for result in results}
    if len(found) != 1:
        raise SystemExit(f"one row has results of {' and '.join(sorted(found))}")
    return found.pop()


def exact_interval(values):
    """Two of the values that hold the median of all there could be with 95% at least; None of fewer than six."""
    n, outside = len(values), 0
    while 2 * sum(math.comb(n, i) for i in range(outside + 1)) <= 0.05 * 2**n:
        outside += 1
    return (sorted(values)[outside - 1], sorted(values)[n - outside]) if outside else None


def bootstrap_interval(rounds):
    """For few rounds: they, and in each the trials of both sides, are drawn again with replacement."""
    draw = random.Random(0)
    again = lambda trials: statistics.median(draw.choices(trials, k=len(trials)))  # noqa: E731
    ratios = sorted(statistics.median(again(theirs) / again(ours) for ours, theirs in draw.choices(rounds, k=len(rounds)))
                    for _ in range(RESAMPLES))
    return ratios[RESAMPLES // 40], ratios[-RESAMPLES // 40 - 1]


def compare(rounds):
    """Of [(our trials, their trials)], a pair for each round."""
    medians = [(statistics.median(ours), statistics.median(theirs)) for ours, theirs in rounds]
    ratios = [theirs / ours for ours, theirs in medians]
    return Comparison(len(rounds), *(statistics.median(side) for side in zip(*medians)), statistics.median(ratios),
                      exact_interval(ratios) or bootstrap_interval(rounds))


def duration(ms):
    if ms >= 1000:
        return f"{ms / 1000:.3f} s"
    return f"{ms:.2f} ms" if ms < 10 else f"{ms:.1f} ms"


MEMORY = "peak memory, headroom / PyTorch"


def memory(rounds):
    """The peak device memory of both sides, medians over rounds, as a cell of the column MEMORY: pairs of results;
    "-" for a side that does not tell it, and empty where neither does."""
    def peak(results):
        peaks = [result.get("memory", {}).get("peak_bytes") for result in results]
        if None in peaks:
            return "-"
        gib = statistics.median(peaks) / 2**30
        return f"{gib:.1f} GiB" if gib >= 10 else f"{gib:.2f} GiB"
    cells = [peak(results) for results in zip(*rounds)]
    return "" if set(cells) == {"-"} else " / ".join(cells)


def markdown(header, rows):
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines).replace(" --- ", "---").replace("  |", " |")


def add_arguments(parser):
    documents = parser.add_mutually_exclusive_group()
    documents.add_argument("--update", nargs="+", type=pathlib.Path, metavar="DOCUMENT",
                           help="put the table in the place of the one with its columns in these")
    documents.add_argument("--check", nargs="+", type=pathlib.Path, metavar="DOCUMENT",
                           help="fail where one of these has another table, or none")


def columns(line):
    """What follows the first cell of a table's line, whose text may be anything."""
    return line.split("|", 2)[2] if line.startswith("|") else None


def find_table(lines, header):
    """Where the table with the header begins and ends, or, where no table has all of it, one with its columns; None
    where there is none.
    """
    begins = [begin for begin, line in enumerate(lines) if columns(line) == columns(header)]
    if not begins:
        return None
    begin = end = next((begin for begin in begins if lines[begin] == header), begins[0])
    while end < len(lines) and lines[end].startswith("|"):
        end += 1
    return begin, end


def put(table, args):
    """Prints a table, or does with the documents what is asked."""
    if not args.update and not args.check:
        print(table, end="")
    new = table.splitlines(keepends=True)
    for path in args.update or args.check or []:
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        place = find_table(lines, new[0])
        if not place:
            raise SystemExit(f"{path} has no table with the columns of {new[0]}")
        if args.check and lines[slice(*place)] != new:
            raise SystemExit(f"{path} has another table than the result files give:\n{table}")
        if args.update:
            lines[slice(*place)] = new
            path.write_text("".join(lines), encoding="utf-8")
