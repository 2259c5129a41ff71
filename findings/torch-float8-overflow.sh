#!/usr/bin/env bash
# PyTorch's cast to float8_e4m3fn saturates, its casts to three other float8 types do not, and ml_dtypes' never do.
#
# In PyTorch float8_e4m3fn makes 448 of all that is too large. Infinity becomes 448 as well, so an overflow before the
# cast is no longer visible after it. float8_e5m2 gives infinity, and the two types with fnuz give NaN. ml_dtypes, on
# which onnx and JAX build their types of these names, gives NaN for float8_e4m3fn: a file written through one library
# holds other bytes than through the other.
#
# Seen with torch 2.15.0, ml_dtypes 0.6.0, numpy 2.4.6 on an x86-64 CPU, Python 3.11:
#   float8_e4m3fn of 1e+06: torch 448, ml_dtypes nan
#   float8_e4m3fn of inf: torch 448, ml_dtypes nan
#   float8_e4m3fnuz of 1e+06: torch nan, ml_dtypes nan
#   float8_e4m3fnuz of inf: torch nan, ml_dtypes nan
#   float8_e5m2 of 1e+06: torch inf, ml_dtypes inf
#   float8_e5m2 of inf: torch inf, ml_dtypes inf
#   float8_e5m2fnuz of 1e+06: torch nan, ml_dtypes nan
#   float8_e5m2fnuz of inf: torch nan, ml_dtypes nan
#
# Ends with 0 while that is so, and with 1 when it changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.15.0 ml_dtypes==0.6.0 numpy==2.4.6
cat >"$folder/cast.py" <<'PY'
import ml_dtypes
import numpy
import torch

numpy.seterr(all="ignore")
for name in ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"):
    for value in (1e6, float("inf")):
        by_torch = torch.tensor(value).to(getattr(torch, name)).float().item()
        by_ml_dtypes = float(numpy.float32(value).astype(getattr(ml_dtypes, name)).astype(numpy.float32))
        print(f"{name} of {value:g}: torch {by_torch:g}, ml_dtypes {by_ml_dtypes:g}")
PY
"$folder/venv/bin/python" "$folder/cast.py" | tee "$folder/seen"
diff - "$folder/seen" <<'EXPECTED'
float8_e4m3fn of 1e+06: torch 448, ml_dtypes nan
float8_e4m3fn of inf: torch 448, ml_dtypes nan
float8_e4m3fnuz of 1e+06: torch nan, ml_dtypes nan
float8_e4m3fnuz of inf: torch nan, ml_dtypes nan
float8_e5m2 of 1e+06: torch inf, ml_dtypes inf
float8_e5m2 of inf: torch inf, ml_dtypes inf
float8_e5m2fnuz of 1e+06: torch nan, ml_dtypes nan
float8_e5m2fnuz of inf: torch nan, ml_dtypes nan
EXPECTED
