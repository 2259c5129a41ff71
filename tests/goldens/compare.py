#!/usr/bin/env python3
"""compare.py COMMITTED MADE: how the goldens in one folder differ from those that were made again in another.

Every file of MADE is held against the file of the same name in COMMITTED. Tensors of safetensors files are compared one
by one: floating point ones by relative L2, all others bit by bit. JSON is compared by value, everything else byte by
byte. Prints a line for each file that differs, and a count at the end. Exits with 1 where a float tensor is off by more
than --tolerance (1e-6) or anything else differs. Tensors NAME_error are a peer's own errors in a narrower dtype, which
depend on its kernels: half and twice as much pass. So does the version of a library that wrote a configuration.
"""

import argparse
import json
import pathlib
import struct
import sys

import numpy

DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "U8": "u1", "I8": "i1", "BOOL": "?"}


def tensors_of(path):
    """By name: dtype, shape and values; of BF16 as float32."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        if entry["dtype"] == "BF16":
            values = (numpy.frombuffer(data[begin:end], "<u2").astype("<u4") << 16).view("<f4")
        else:
            values = numpy.frombuffer(data[begin:end], DTYPES[entry["dtype"]])
        tensors[name] = entry["dtype"], entry["shape"], values
    return tensors


def relative_l2(expected, made):
    """Of values in double precision; 0 where both are the same bits, infinities and NaN too."""
    if numpy.array_equal(expected, made, equal_nan=True):
        return 0.0
    scale = numpy.linalg.norm(expected.astype("f8"))
    return float(numpy.linalg.norm(expected.astype("f8") - made.astype("f8")) / (scale or 1))


def tensor_faults(committed, made, tolerance):
    """What differs, in words, and whether all of it is rounding."""
    ours, theirs = tensors_of(committed), tensors_of(made)
    if ours.keys() != theirs.keys():
        return f"other tensors: {sorted(ours.keys() ^ theirs.keys())[:4]}", False
    worst, differing, rounding = (0.0, ""), 0, True
    for name, (dtype, shape, values) in ours.items():
        if (dtype, shape) != theirs[name][:2]:
            return f"{name} is {dtype} {shape} and now {theirs[name][0]} {theirs[name][1]}", False
        if numpy.array_equal(values, theirs[name][2], equal_nan=values.dtype.kind == "f"):
            continue
        differing += 1
        is_float = values.dtype.kind == "f"
        error = relative_l2(values, theirs[name][2]) if is_float else float("inf")
        worst = max(worst, (error, name))
        is_same = error <= tolerance
        if name.endswith("_error"):
            is_same = bool(numpy.all((values <= 2 * theirs[name][2]) & (theirs[name][2] <= 2 * values)))
        rounding &= is_same
    return f"{differing} of {len(ours)} tensors, {worst[1]} by {worst[0]:.2g}" if differing else None, rounding


def without_versions(value):
    """A JSON value without the members that name the version of the library that wrote it."""
    if isinstance(value, dict):
        return {key: without_versions(of) for key, of in value.items() if key not in ("_diffusers_version", "transformers_version")}
    return [without_versions(of) for of in value] if isinstance(value, list) else value


def json_of(path):
    return without_versions(json.loads(path.read_text()))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("committed", type=pathlib.Path)
    parser.add_argument("made", type=pathlib.Path)
    parser.add_argument("--tolerance", type=float, default=1e-6)
    arguments = parser.parse_args()
    equal = rounded = different = 0
    for made in sorted(path for path in arguments.made.rglob("*") if path.is_file()):
        name = made.relative_to(arguments.made)
        committed = arguments.committed / name
        rounding = False
        if not committed.exists():
            fault = "is not committed"
        elif made.suffix == ".safetensors":
            fault, rounding = tensor_faults(committed, made, arguments.tolerance)
        elif made.suffix == ".json":
            fault = None if json_of(committed) == json_of(made) else "another value"
        else:
            fault = None if committed.read_bytes() == made.read_bytes() else "other bytes"
        if fault:
            print(f"{name}: {fault}")
        equal, rounded, different = equal + (not fault), rounded + bool(fault and rounding), different + bool(fault and not rounding)
    print(f"{equal} files equal, {rounded} equal but for rounding, {different} differ")
    return 1 if different or not equal + rounded else 0


if __name__ == "__main__":
    sys.exit(main())
