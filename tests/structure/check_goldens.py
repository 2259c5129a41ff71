#!/usr/bin/env python3
"""check_goldens.py ROOT: every source program of goldens, tests/goldens/make_*.py, is run by scripts/make_goldens.sh,
or its head says that it is not made there. Exit status: 0 all, 1 some are missing.
"""

import pathlib
import sys


def main():
    root = pathlib.Path(sys.argv[1])
    script = (root / "scripts/make_goldens.sh").read_text(encoding="utf-8")
    missing = [path.name for path in sorted((root / "tests/goldens").glob("make_*.py")) if path.name not in script]
    for name in missing:
        print(f"tests/goldens/{name} is neither run by scripts/make_goldens.sh nor named there as not made")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
