#!/usr/bin/env python3
"""Of result files whose plans are equal, leaves the plan in the first alone: turns of one match are many and their plans long.

    python3 bench/peers/share_plans.py headroom-forward-fp8-512-*.json
"""

import json
import pathlib
import sys


def main():
    kept = set()
    for path in map(pathlib.Path, sys.argv[1:]):
        document = json.loads(path.read_text(encoding="utf-8"))
        for result in document["results"]:
            if result.get("plan") in kept:
                del result["plan"]
        document["plans"] = {name: plan for name, plan in document["plans"].items() if name not in kept}
        kept |= document["plans"].keys()
        path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
