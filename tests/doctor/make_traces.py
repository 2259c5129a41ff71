#!/usr/bin/env python3
"""make_traces.py FOLDER: records traces of small models by torch.profiler on a CPU, for the tests of src/doctor/trace.

Each model has one fault; `clean` has none.

Run it by the peers' Python (scripts/bootstrap.sh peers). The committed ones were made by PyTorch 2.15. Kernels and idle
times of a GPU need one: the tests have events of those in the published format.
"""

import gzip
import json
import pathlib
import sys

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.profiler import ProfilerActivity, profile

LAYERS, STEPS = 12, 2


def attention(backends):
    q, k, v = (torch.randn(1, 2, 16, 8) for _ in range(3))
    for layer in range(LAYERS):
        with sdpa_kernel(backends(layer)):
            torch.nn.functional.scaled_dot_product_attention(q, k, v)


def fp8_storage():
    x, weight = torch.randn(4, 16, dtype=torch.bfloat16), torch.randn(16, 16).to(torch.float8_e4m3fn)
    for _ in range(LAYERS):
        torch.nn.functional.linear(x, weight.to(torch.bfloat16))


def storage_only_transformer():
    """Blocks as users of Qwen-Image ran them: weights stored in FP8, a mask that leaves only math attention."""
    x = torch.randn(1, 16, 32, dtype=torch.bfloat16)
    weights = [torch.randn(32, 32).to(torch.float8_e4m3fn) for _ in range(4)]
    for _ in range(LAYERS):
        q, k, v = (torch.nn.functional.linear(x, weight.to(torch.bfloat16)).unflatten(-1, (4, 8)).transpose(1, 2) for weight in weights[:3])
        with sdpa_kernel(SDPBackend.MATH):
            y = torch.nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + torch.nn.functional.linear(y.transpose(1, 2).flatten(-2), weights[3].to(torch.bfloat16))


def autocast():
    layer = torch.nn.Linear(16, 16)
    with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
        for _ in range(LAYERS):
            layer(torch.randn(4, 16))


def item():
    x = torch.randn(4, 16)
    for _ in range(LAYERS):
        if (x @ x.T).sum().item() > 1e9:
            raise RuntimeError


def clean():
    x, weight = torch.randn(4, 16, dtype=torch.bfloat16), torch.randn(16, 16, dtype=torch.bfloat16)
    for _ in range(LAYERS):
        torch.nn.functional.linear(x, weight)


COMPILED = torch.compile(torch.nn.Linear(16, 16), backend="eager")
ROWS = iter(range(8, 100))


def compiled(rows):
    for _ in range(LAYERS):
        x = torch.randn(rows, 16)
        torch._dynamo.mark_static(x)
        COMPILED(x)


TRACES = {
    "math_attention": lambda: attention(lambda _: SDPBackend.MATH),
    "mixed_attention": lambda: attention(lambda layer: SDPBackend.MATH if layer in (3, 7) else SDPBackend.FLASH_ATTENTION),
    "fp8_storage": fp8_storage,
    "storage_only_transformer": storage_only_transformer,
    "autocast": autocast,
    "item": item,
    "clean": clean,
    "compiled": lambda: compiled(4),
    "recompiles": lambda: compiled(next(ROWS)),  # another size in each step
}


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    with torch.inference_mode():
        for name, work in TRACES.items():
            work()
            with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
                for _ in range(STEPS):
                    work()
            path = folder / f"{name}.json"
            profiler.export_chrome_trace(str(path))
            trace = json.loads(path.read_text())
            # nothing of this machine
            trace = {key: trace[key] for key in ("schemaVersion", "traceEvents") if key in trace}
            path.unlink()
            with gzip.GzipFile(f"{path}.gz", "wb", mtime=0) as file:
                file.write(json.dumps(trace, separators=(",", ":")).encode())
    print(f"{len(TRACES)} traces in {folder}")


if __name__ == "__main__":
    main()
