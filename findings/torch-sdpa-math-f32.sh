#!/usr/bin/env bash
# PyTorch's math attention computes 16-bit operands in f32.
#
# scaled_dot_product_attention falls back to it for masks, head sizes and dtypes that no fused kernel takes. It casts
# queries, keys and values to f32 first, so both matmuls run in f32: on a GPU without tensor cores, as TF32 is off by
# default. On an H200 (PyTorch 2.11) a bf16 transformer's f32 matmuls alone took 47% of its time in a profile. Only
# torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp(True) keeps the 16 bits; despite its name it acts on a CPU too.
#
# Seen with torch 2.15.0, numpy 2.4.6, Python 3.11:
#   by default: bmm of float, float; 4 casts
#   allowed:    bmm of c10::BFloat16, c10::BFloat16; 0 casts
#
# Ends with 0 while that is so, and with 1 when it changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.15.0 numpy==2.4.6
cat >"$folder/math.py" <<'PY'
import json
import sys

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.profiler import ProfilerActivity, profile

q, k, v = (torch.randn(1, 2, 64, 32, dtype=torch.bfloat16) for _ in range(3))
seen = []
for allowed in (False, True):
    torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp(allowed)
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler, sdpa_kernel(SDPBackend.MATH):
        torch.nn.functional.scaled_dot_product_attention(q, k, v)
    profiler.export_chrome_trace(sys.argv[1])
    with open(sys.argv[1], encoding="utf-8") as file:
        ops = [(event["name"], event["args"].get("Input type", [])) for event in json.load(file)["traceEvents"]
               if event.get("cat") == "cpu_op"]
    matmuls = {", ".join(types[:2]) for name, types in ops if name == "aten::bmm"}
    casts = sum(name == "aten::copy_" and types[0] != types[1] and "double" not in types[:2] for name, types in ops)
    print(f"{'allowed:   ' if allowed else 'by default:'} bmm of {'; '.join(sorted(matmuls))}; {casts} casts")
    seen.append((matmuls, casts))
assert seen == [({"float, float"}, 4), ({"c10::BFloat16, c10::BFloat16"}, 0)], "it changed"
PY
"$folder/venv/bin/python" "$folder/math.py" "$folder/trace.json" 2>/dev/null
