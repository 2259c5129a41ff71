#!/usr/bin/env python3
"""check_kernels.py SRC ARCHIVE: every kernel of SRC that an archive's objects launch was compiled for a GPU too.

The host compiler instantiates a kernel's template by its own reading of the code, nvcc by another: where they take
different arguments for it, a launch names a kernel that is on no GPU, and is refused when it is run. Needs nm, and
nothing else but Python.
"""

import pathlib
import re
import subprocess
import sys

from check_waits import kernels_of, without_comments

STUB = re.compile(r"__device_stub_(_Z\w+)")


def symbols_of(archive):
    """Names, and whether they are of code, of what nvcc compiled."""
    listed = subprocess.run(["nm", "-A", archive], check=True, capture_output=True, text=True).stdout
    for line in listed.splitlines():
        parts = line.split()
        if len(parts) == 3 and ".cu.o:" in parts[0]:
            yield parts[2], parts[1] in "tTwW"


def main():
    names = set()
    for path in pathlib.Path(sys.argv[1]).rglob("*.cu*"):
        names.update(name for _, name, body in kernels_of(without_comments(path.read_text())) if name and body)
    if not names:
        print(f"no kernel below {sys.argv[1]}")
        return 1
    # As they stand in a mangled name, with the mark of internal linkage that stubs' names lack.
    mangled = re.compile(r"(?:L|(?<!\d))(" + "|".join(f"{len(name)}{name}" for name in names) + ")")
    compiled, launched = [], []
    for name, is_code in symbols_of(sys.argv[2]):
        if (stub := STUB.search(name)) is not None:
            compiled.append(stub.group(1))
        elif is_code and "." not in name and name.startswith("_Z") and mangled.search(name):
            launched.append(mangled.sub(r"\1", name))
    compiled = "\n".join(compiled)
    faults = [name for name in launched if name not in compiled]
    print("\n".join(f"{name}: on no GPU" for name in faults) if faults else f"{len(launched)} kernels are on a GPU too")
    return 1 if faults or not launched else 0


if __name__ == "__main__":
    sys.exit(main())
