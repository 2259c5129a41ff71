#!/usr/bin/env bash
# Pillow 13 resizes some images to other pixels than Pillow 11 does, by up to 34 of 255.
#
# Image.resize works in two passes, each rounded and clamped to 8 bits. Pillow 11 always resizes along x first. Pillow
# 13 resizes along y first where that costs less, as from 47x61 to 64x48. Lanczos overshoots at sharp edges, and what a
# pass clamps depends on the order. Preprocessing for a network (diffusers' VaeImageProcessor is one) changes with the
# version.
#
# Seen with Pillow 11.3.0 and 13.0.0, Python 3.11, on an image of random bytes, 47x61 to 64x48, LANCZOS:
#   11.3.0: x first; orders differ by 34
#   13.0.0: y first; orders differ by 34
#
# Ends with 0 while that is so, and with 1 when it changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/resize.py" <<'PY'
import random
import sys
from PIL import Image

random.seed(1)
image = Image.frombytes("RGB", (47, 61), random.randbytes(47 * 61 * 3))
filter = Image.Resampling.LANCZOS
made = image.resize((64, 48), filter).tobytes()
by_order = {"x first": image.resize((64, 61), filter).resize((64, 48), filter).tobytes(),
            "y first": image.resize((47, 48), filter).resize((64, 48), filter).tobytes()}
orders = [name for name, pixels in by_order.items() if pixels == made]
difference = max(abs(a - b) for a, b in zip(*by_order.values()))
print(f"{Image.__version__}: {', '.join(orders)}; orders differ by {difference}")
sys.exit(not (orders == [sys.argv[1]] and difference > 5))
PY
for expected in "11.3.0:x first" "13.0.0:y first"; do
  python3 -m venv "$folder/${expected%%:*}"
  "$folder/${expected%%:*}/bin/pip" install --quiet "pillow==${expected%%:*}"
  "$folder/${expected%%:*}/bin/python" "$folder/resize.py" "${expected#*:}"
done
