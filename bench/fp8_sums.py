#!/usr/bin/env python3
"""fp8_sums.py: what FP8 tensor cores make of sums, with fast accumulation and without it.

For sums of several lengths and three kinds of left operands (never negative, after a GELU, normal) against a right
operand that is positive or normal: the mean of (result - exact) / mean |exact|, which is what sums lean, and the
relative L2 error, of both; and the times of a large diffusion transformer's products, medians, alternately. The exact
sums are those of the same FP8 numbers in double precision. Prints JSON. Needs PyTorch and a GPU with FP8 tensor cores;
scales are one for a tensor, so that PyTorch calls cuBLASLt.
"""

import json
import statistics

import torch

ROWS, COLUMNS = 256, 256
LENGTHS = [128, 256, 512, 1024, 1536, 3072, 6144, 12288, 15360]
# Rows, length and columns of FLUX.1-dev's products at 1024x1024 with 512 text tokens.
PRODUCTS = [(4608, 3072, 3072), (4608, 3072, 9216), (4608, 3072, 12288), (4608, 12288, 3072), (4608, 3072, 21504), (4608, 15360, 3072)]
E4M3 = torch.float8_e4m3fn
ONE = torch.ones((), device="cuda")


def product(a, b, fast):
    return torch._scaled_mm(a, b.t(), scale_a=ONE, scale_b=ONE, out_dtype=torch.float32 if a.shape[0] == ROWS else torch.bfloat16,
                            use_fast_accum=fast)


def operands(kind, length, generator):
    draw = lambda rows: torch.randn(rows, length, device="cuda", generator=generator)
    left, right = draw(ROWS), draw(COLUMNS)
    if kind == "positive":
        left, right = left.abs(), right.abs()
    elif kind == "relu by normal":
        left = left.relu()
    elif kind == "gelu by normal":
        left = torch.nn.functional.gelu(left)
    return left.to(E4M3), right.to(E4M3)


def errors(kind, length, generator):
    a, b = operands(kind, length, generator)
    exact = a.double() @ b.double().t()
    row = {"kind": kind, "length": length, "bf16_rounding": float((exact.bfloat16().double() - exact).norm() / exact.norm())}
    for name, fast in [("fast", True), ("exact", False)]:
        off = product(a, b, fast).double() - exact
        row[name] = {"lean": float(off.mean() / exact.abs().mean()), "error": float(off.norm() / exact.norm())}
    return row


def microseconds(a, b, fast):
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(10):
        product(a, b, fast)
    end.record()
    end.synchronize()
    return 100 * start.elapsed_time(end)


def times(rows, length, columns, generator):
    a, b = (torch.randn(n, length, device="cuda", generator=generator).to(E4M3) for n in (rows, columns))
    for fast in (True, False):
        microseconds(a, b, fast)
    rounds = [(microseconds(a, b, True), microseconds(a, b, False)) for _ in range(15)]
    return {"rows": rows, "length": length, "columns": columns, "fast_us": statistics.median(t[0] for t in rounds),
            "exact_us": statistics.median(t[1] for t in rounds), "ratio": statistics.median(t[1] / t[0] for t in rounds)}


def main():
    generator = torch.Generator("cuda").manual_seed(0)
    print(json.dumps({"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "cuda": torch.version.cuda}))
    for kind in ["positive", "relu by normal", "gelu by normal", "normal"]:
        for length in LENGTHS:
            print(json.dumps(errors(kind, length, generator)))
    for shape in PRODUCTS:
        print(json.dumps(times(*shape, generator)))


if __name__ == "__main__":
    main()
