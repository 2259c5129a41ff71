"""An image from a prompt."""

import sys

import headroom

out = sys.argv[1] if len(sys.argv) > 1 else "boot.png"
image = headroom.Pipeline("fashion-flux", optimize="lossless")("an ankle boot", seed=7)
image.save(out)
print(f"{image} in {out}")
