#!/usr/bin/env bash
# OpenVINO computes int64 and float64 in 32 bits on a CPU, and hands the results out as int64 and float64.
#
# Whole numbers wrap at 2^32, and sums and angles have seven digits. Nothing warns; the model's inputs, outputs and
# types say 64 bits. diffusers computes the angles of rotary embeddings in float64 on purpose: at a position of 100000
# the sine is off in its third digit after the conversion. Hashes, seeds and times in nanoseconds become other numbers.
#
# Seen with openvino 2026.4.1, numpy 2.4.6, Python 3.11, on an AMD EPYC with AVX2:
#   2000000000 * 3 + 1: int64 1705032705, numpy 6000000001
#   1099511627776 * 3 + 1: int64 1, numpy 3298534883329
#   1 + 1e-09 - 1: float64 0.00000e+00, numpy 1.00000e-09
#   sin(100000.1): float64 -6.57586e-02, numpy -6.41994e-02
#
# Ends with 0 while that is so, and with 1 when it changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet openvino==2026.4.1 numpy==2.4.6
cat >"$folder/wide.py" <<'PY'
import numpy as np
import openvino
from openvino import opset13 as ops

def run(value, function):
    given = ops.parameter([1], value.dtype)
    compiled = openvino.Core().compile_model(openvino.Model([function(given)], [given]), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return compiled([value])[0]

def constant(value, dtype):
    return ops.constant(np.array([value], dtype))

for whole in (2_000_000_000, 1 << 40):
    x = np.array([whole])
    made = run(x, lambda x: ops.add(ops.multiply(x, constant(3, np.int64)), constant(1, np.int64)))
    print(f"{whole} * 3 + 1: {made.dtype} {made[0]}, numpy {x[0] * 3 + 1}")
one = np.array([1.0])
made = run(one, lambda x: ops.subtract(ops.add(x, constant(1e-9, np.float64)), constant(1.0, np.float64)))
print(f"1 + 1e-09 - 1: {made.dtype} {made[0]:.5e}, numpy {one[0] + 1e-9 - 1:.5e}")
angle = np.array([100000.1])
made = run(angle, ops.sin)
print(f"sin(100000.1): {made.dtype} {made[0]:.5e}, numpy {np.sin(angle[0]):.5e}")
PY
"$folder/venv/bin/python" "$folder/wide.py" 2>"$folder/err" >"$folder/seen" || { cat "$folder/err"; exit 1; }
cat "$folder/seen"
diff - "$folder/seen" <<'EXPECTED'
2000000000 * 3 + 1: int64 1705032705, numpy 6000000001
1099511627776 * 3 + 1: int64 1, numpy 3298534883329
1 + 1e-09 - 1: float64 0.00000e+00, numpy 1.00000e-09
sin(100000.1): float64 -6.57586e-02, numpy -6.41994e-02
EXPECTED
