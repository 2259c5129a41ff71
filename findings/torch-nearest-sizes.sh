#!/usr/bin/env bash
# PyTorch's nearest resizing takes other pixels than its rule says, at some sizes.
#
# The rule for output pixel i is floor(i * in / out) for "nearest" and floor((i + 0.5) * in / out) for "nearest-exact".
# Where the exact quotient is a whole number, PyTorch takes the pixel before it at some sizes, as a product with in /
# out in f32 does. A kernel that divides whole numbers differs there by whole pixels. Sizes where out / in is 1, 2, 4
# and so on agree.
#
# Seen with torch 2.15.0, numpy 2.4.6 on an x86-64 CPU, Python 3.11:
#   nearest: 594 of 32768 pairs of sizes differ, 0 of them with a factor of 1, 2, 4, ...
#     2 to 82: pixel 41 is taken from 0, the rule says 1
#     2 to 94: pixel 47 is taken from 0, the rule says 1
#   nearest-exact: 764 of 32768 pairs of sizes differ, 0 of them with a factor of 1, 2, 4, ...
#     2 to 61: pixel 30 is taken from 0, the rule says 1
#     2 to 115: pixel 57 is taken from 0, the rule says 1
#
# Ends with 0 while both modes differ somewhere, and with 1 otherwise.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.15.0 numpy==2.4.6
cat >"$folder/resize.py" <<'PY'
import sys
import torch

rules = {"nearest": lambda i, size, out: i * size // out,
         "nearest-exact": lambda i, size, out: (2 * i + 1) * size // (2 * out)}
counts = []
for mode, rule in rules.items():
    differ = []
    for size in range(1, 129):
        x = torch.arange(size, dtype=torch.float32).reshape(1, 1, size)
        for out in range(1, 257):
            seen = torch.nn.functional.interpolate(x, size=out, mode=mode)[0, 0].int().tolist()
            exact = [rule(i, size, out) for i in range(out)]
            if seen != exact:
                differ.append((size, out, next((i, seen[i], exact[i]) for i in range(out) if seen[i] != exact[i])))
    counts.append(len(differ))
    powers = sum(1 for size, out, _ in differ if out % size == 0 and (out // size) & (out // size - 1) == 0)
    print(f"{mode}: {len(differ)} of {128 * 256} pairs of sizes differ, {powers} of them with a factor of 1, 2, 4, ...")
    for size, out, (i, got, due) in differ[:2]:
        print(f"  {size} to {out}: pixel {i} is taken from {got}, the rule says {due}")
sys.exit(0 if all(counts) else "nearest resizing follows its rule at all sizes")
PY
"$folder/venv/bin/python" "$folder/resize.py"
