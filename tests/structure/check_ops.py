#!/usr/bin/env python3
"""Checks that few files name an op: its row in ir/, its kernels, and at most MOST other files, the models and passes
that are about it. All others ask for roles (ir/operands.hpp) and properties (ir/op_definition.hpp), which a new op can
have too.

  check_ops.py SRC
"""

import re
import sys
from pathlib import Path

MOST = 4
OWN = ("ir", "kernels", "testing")
# Ops that passes write other graphs with.
BUILDING_BLOCKS = {"kCast", "kConcat", "kConstant", "kReshape", "kRope", "kSlice", "kTranspose", "kUnpackBlocks"}
TEST = re.compile(r"_test\.cpp$|_fuzz\.cpp$|^test_util\.hpp$")


def main():
    source = Path(sys.argv[1])
    ops = re.findall(r"^HR_OP\((k\w+)", (source / "ir/ops.def").read_text(), re.MULTILINE)
    named = {op: [] for op in ops}
    for path in sorted(path for path in source.rglob("*") if path.suffix in (".cpp", ".hpp", ".cu", ".cuh")):
        file = path.relative_to(source)
        if file.parts[0] in OWN or TEST.search(path.name):
            continue
        for op in set(re.findall(r"\bOp::(k\w+)", path.read_text())) & named.keys():
            named[op].append(file.as_posix())
    faults = [f"{op}: {len(files)} files outside {', '.join(OWN)} name it, {MOST} is the most: {', '.join(files)}"
              for op, files in named.items() if op not in BUILDING_BLOCKS and len(files) > MOST]
    if not any(named.values()):
        faults.append(f"no file below {source} names an op")
    print("\n".join(faults) if faults else f"{len(ops)} ops")
    sys.exit(1 if faults else 0)


main()
