#!/usr/bin/env bash
# torchao's float8 weights turn a row of zeros into NaN.
#
# Float8WeightOnlyConfig gives each row of a linear layer's weight its own scale, from the largest magnitude in it. A
# row of zeros has the scale 0, and its values are stored as NaN. The layer's output is NaN in that channel. Layers that
# start at zero have such rows, and so have pruned ones. The int8 quantizer of the same library keeps the zeros.
#
# Seen with torchao 0.18.0, torch 2.15.0, numpy 2.4.6 on an x86-64 CPU, Python 3.11:
#   Float8WeightOnlyConfig: the row is NaN, NaN in outputs [2]
#   Int8WeightOnlyConfig: the row is 0, NaN in outputs []
#
# Ends with 0 while that is so, and with 1 when it changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torchao==0.18.0 torch==2.15.0 numpy==2.4.6
cat >"$folder/row.py" <<'PY'
import torch
from torchao.quantization import Float8WeightOnlyConfig, Int8WeightOnlyConfig, quantize_

for config in (Float8WeightOnlyConfig(), Int8WeightOnlyConfig()):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 4, bias=False))
    model[0].weight.data[2] = 0
    quantize_(model, config)
    weight = model[0].weight.dequantize()
    with torch.no_grad():
        y = model(torch.ones(1, 64))[0]
    zeros = "NaN" if weight[2].isnan().all() else f"{weight[2].abs().max().item():g}"
    print(f"{type(config).__name__}: the row is {zeros}, NaN in outputs {y.isnan().nonzero().flatten().tolist()}")
PY
"$folder/venv/bin/python" "$folder/row.py" 2>"$folder/err" >"$folder/seen" || { cat "$folder/err"; exit 1; }
cat "$folder/seen"
diff - "$folder/seen" <<'EXPECTED'
Float8WeightOnlyConfig: the row is NaN, NaN in outputs [2]
Int8WeightOnlyConfig: the row is 0, NaN in outputs []
EXPECTED
