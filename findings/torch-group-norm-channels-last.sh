#!/usr/bin/env bash
# PyTorch's group_norm on a CPU loses its digits in channels-last layout where the mean is far from zero.
#
# The same f32 values in both layouts: the error of the contiguous one grows slowly with the mean; in channels-last
# layout it grows with its square, and at a mean of 4000 standard deviations nothing of the result is left, as if the
# variance were the mean of squares minus the square of the mean in f32. Whoever compares an engine with PyTorch on a
# CPU, or moves a model to channels last for speed, needs inputs near zero or an oracle in double precision.
#
# Seen with torch 2.15.0, numpy 2.4.6 on an x86-64 CPU with AVX2, Python 3.11 (relative L2 error against double
# precision):
#   mean 0: contiguous 5.1e-08, channels last 1.3e-07
#   mean 100: contiguous 5.1e-06, channels last 2.1e-03
#   mean 1000: contiguous 2.5e-05, channels last 3.0e-01
#   mean 4000: contiguous 1.5e-04, channels last 1.9e+02
#
# Ends with 0 while channels last is more than 100 times worse at means of 100 and 1000 and above 1% at 1000, and with 1
# otherwise.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.15.0 numpy==2.4.6
cat >"$folder/norm.py" <<'PY'
import sys
import torch

torch.manual_seed(0)
noise = torch.randn(1, 32, 64, 64)
errors = {}
for mean in (0, 100, 1000, 4000):
    x = noise + mean
    exact = torch.nn.functional.group_norm(x.double(), 8)
    for name, layout in (("contiguous", torch.contiguous_format), ("channels last", torch.channels_last)):
        y = torch.nn.functional.group_norm(x.contiguous(memory_format=layout), 8)
        errors[mean, name] = ((y.double() - exact).norm() / exact.norm()).item()
    first, last = errors[mean, "contiguous"], errors[mean, "channels last"]
    print(f"mean {mean}: contiguous {first:.1e}, channels last {last:.1e}")
is_so = errors[1000, "channels last"] > 0.01
for mean in (100, 1000):
    is_so = is_so and errors[mean, "channels last"] > 100 * errors[mean, "contiguous"]
sys.exit(0 if is_so else "group_norm has become as accurate in channels-last layout")
PY
"$folder/venv/bin/python" "$folder/norm.py"
