"""Checks result files as another program would: python3 result_schema_check.py SCHEMA FILE...

Validates the schema itself, each file against it, and each work hash against its description in the schema. Prints
every fault and exits with 1 if there is one. Needs jsonschema 4 (Debian: python3-jsonschema).
"""

import json
import sys

import jsonschema

MASK = (1 << 64) - 1


def work_hash(subject):
    """The hash as the schema's description states it, written without a look at the C++."""
    request = json.dumps(subject["request"], sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    state = 0xCBF29CE484222325
    for text in ("headroom.work/1", subject["kind"], subject["name"], request):
        data = text.encode("utf-8")
        for byte in len(data).to_bytes(8, "little") + data:
            state = ((state ^ byte) * 0x100000001B3) & MASK
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        state = ((state ^ (state >> 33)) * factor) & MASK
    return f"{state ^ (state >> 33):016x}"


def refuse_constant(name):
    raise ValueError(f"{name} is not JSON")


def check(validator, path):
    with open(path, encoding="utf-8") as file:
        document = json.load(file, parse_constant=refuse_constant)
    faults = [f"{path}: {error.json_path}: {error.message}" for error in validator.iter_errors(document)]
    for result in [] if faults else document["results"]:
        expected = work_hash(result["subject"])
        if result["work_hash"] != expected:
            faults.append(f"{path}: {result['id']}: work_hash is {result['work_hash']}, not {expected}")
    return faults


def main():
    schema_path, *paths = sys.argv[1:]
    with open(schema_path, encoding="utf-8") as file:
        schema = json.load(file)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    faults = [fault for path in paths for fault in check(validator, path)]
    for fault in faults:
        print(fault)
    return 1 if faults or not paths else 0


if __name__ == "__main__":
    sys.exit(main())
