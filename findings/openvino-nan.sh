#!/usr/bin/env bash
# OpenVINO makes numbers of NaN in relu, clamp, hsigmoid, maximum, minimum and reduce_max, on a CPU in fp32.
#
# PyTorch and numpy keep NaN there. A network that overflows therefore gives NaN before its conversion, and black or
# plausible pixels after it: the last op of an image pipeline is a clamp, and a check of its output for NaN passes. It
# depends on the order of operands as well: maximum(x, 0) loses the NaN that maximum(0, x) keeps.
#
# Seen with openvino 2026.4.1, numpy 2.4.6, Python 3.11, on an AMD EPYC with AVX2; x is nan, -inf, 0.5, 7:
#   x + 0: nan, -inf, 0.5, 7
#   sigmoid(x): nan, 0, 0.622459, 0.999089
#   relu(x): 0, 0, 0.5, 7
#   clamp(x, 0, 1): 0, 0, 0.5, 1
#   hsigmoid(x): 0, 0, 0.583333, 1
#   maximum(x, 0): 0, 0, 0.5, 7
#   maximum(0, x): nan, 0, 0.5, 7
#   minimum(x, 0): 0, -inf, 0, 0
#   reduce_max(x): 7
#
# Ends with 0 while that is so, and with 1 when it changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet openvino==2026.4.1 numpy==2.4.6
cat >"$folder/nan.py" <<'PY'
import numpy as np
import openvino
from openvino import opset13 as ops

x = np.array([np.nan, -np.inf, 0.5, 7.0], np.float32)
zero = ops.constant(np.zeros(1, np.float32))
CASES = {
    "x + 0": lambda x: ops.add(x, zero), "sigmoid(x)": ops.sigmoid, "relu(x)": ops.relu,
    "clamp(x, 0, 1)": lambda x: ops.clamp(x, 0.0, 1.0), "hsigmoid(x)": ops.hsigmoid,
    "maximum(x, 0)": lambda x: ops.maximum(x, zero), "maximum(0, x)": lambda x: ops.maximum(zero, x),
    "minimum(x, 0)": lambda x: ops.minimum(x, zero),
    "reduce_max(x)": lambda x: ops.reduce_max(x, np.array([0], np.int64)),
}
for name, op in CASES.items():
    given = ops.parameter([len(x)], np.float32)
    model = openvino.Model([op(given)], [given])
    compiled = openvino.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    print(f"{name}: {', '.join(f'{value:g}' for value in np.ravel(compiled([x])[0]))}")
PY
"$folder/venv/bin/python" "$folder/nan.py" 2>"$folder/err" >"$folder/seen" || { cat "$folder/err"; exit 1; }
cat "$folder/seen"
diff - "$folder/seen" <<'EXPECTED'
x + 0: nan, -inf, 0.5, 7
sigmoid(x): nan, 0, 0.622459, 0.999089
relu(x): 0, 0, 0.5, 7
clamp(x, 0, 1): 0, 0, 0.5, 1
hsigmoid(x): 0, 0, 0.583333, 1
maximum(x, 0): 0, 0, 0.5, 7
maximum(0, x): nan, 0, 0.5, 7
minimum(x, 0): 0, -inf, 0, 0
reduce_max(x): 7
EXPECTED
