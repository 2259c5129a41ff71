#!/usr/bin/env python3
"""check_weight.py ROOT MEGABYTES: a clone of depth 1 weighs at most MEGABYTES (of 10^6 bytes).

Sums the sizes of the distinct files that git tracks, each compressed by zlib as git does. Git also stores some files as
differences, so a clone weighs a little less. Exit status: 0 at most that, 1 more, or no files.
"""

import hashlib
import pathlib
import subprocess
import sys
import zlib

HEAVIEST = 5  # files to name


def main():
    root, most = pathlib.Path(sys.argv[1]), float(sys.argv[2])
    listed = subprocess.run(["git", "-C", root, "ls-files", "-z"], capture_output=True)
    if listed.returncode != 0:
        print(f"skipped: {root} is no git checkout")
        return 0
    sizes, seen = [], set()
    for name in listed.stdout.decode().split("\0")[:-1]:
        path = root / name
        if not path.is_file() or path.is_symlink():
            continue
        data = path.read_bytes()
        digest = hashlib.sha256(data).digest()
        if digest not in seen:
            seen.add(digest)
            sizes.append((len(zlib.compress(data)), name))
    total = sum(size for size, _ in sizes) / 1e6
    print(f"{len(sizes)} files, {total:.2f} MB compressed")
    if sizes and total <= most:
        return 0
    print(f"a clone of depth 1 weighs more than {most:g} MB, or has no files; the heaviest are")
    for size, name in sorted(sizes)[:-HEAVIEST - 1:-1]:
        print(f"  {size / 1e6:.2f} MB  {name}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
