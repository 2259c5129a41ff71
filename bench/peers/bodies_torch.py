#!/usr/bin/env python3
"""Times the bodies of `headroom bench bodies` in PyTorch: each as a function compiled by
torch.compile(mode="max-autotune-no-cudagraphs", dynamic=False), raw trials kept.

    python3 bench/peers/bodies_torch.py --filter 'bf16 (medium|large)' --rounds 2 --save pytorch-{round}.json \\
        --beside "build/release/headroom bench bodies --filter 'bf16 (medium|large)' --device cuda --out headroom-{round}.json"

Timed as Headroom times its own (replays.py). Inputs are drawn anew for each round.

Names, operands and results are those of src/measure/suites/body_cases.cpp: the work hash, which is of their dtypes and
shapes, says so. What is compiled is held against the same function, eager, on the operands in f32. The plan of a result
lists the kernels that the profiler saw in one call; what these cost is not known, and 0 there.

Tuning takes most of the time. --workers processes share it and leave what they found in inductor's caches; while one of
them times a kernel, the others time none. With --beside this process alternates with another program. Needs PyTorch
with Triton, and numpy.
"""

import argparse
import fcntl
import re
import subprocess
import sys
import tempfile
import time
from typing import Callable, NamedTuple

import torch
import torch._dynamo
import torch.nn.functional as F
from torch._inductor.runtime.triton_heuristics import CachingAutotuner

import peer_result
from launched import kernels_of, plan_of
from replays import operand_text, time_calls
from rounds import in_rounds, tell

MODE = "max-autotune-no-cudagraphs"
EPS = 1e-6
STORED = {"f32": torch.float32, "bf16": torch.bfloat16}
SIZES = ("small", "medium", "large")
# of a result from what it is in f32, relative, in the 2-norm; f8e4m3 has steps of 1/8
FARTHEST, FARTHEST_F8 = 1e-2, 3e-2


class F32(NamedTuple):
    """An operand in f32, whatever is stored: normal numbers."""
    shape: tuple
    mean: float = 0
    deviation: float = 1


class Places(NamedTuple):
    """i32[rows, 1]: a place in each row of a table [rows, columns], from the table's start."""
    rows: int
    columns: int


def quantize(x):
    """f8e4m3 with a scale for each row."""
    x = x.float()
    peak = x.abs().amax(-1, keepdim=True).clamp(min=2.0**-100)
    return (x * (448 / peak)).to(torch.float8_e4m3fn), (peak / 448).squeeze(-1)


def modulated_norm(x, scale, shift):
    return F.layer_norm(x, x.shape[-1:], eps=EPS) * (1 + scale) + shift


def bias_gelu_quantize(x, bias):
    return quantize(F.gelu(x + bias, approximate="tanh"))


def silu_mul(x, y):
    return F.silu(x) * y


def rms_norm_residual(x, residual, weight):
    total = residual + x
    return total, F.rms_norm(total, weight.shape, weight, EPS)


def norm_modulate_quantize(x, scale, shift):
    return quantize(modulated_norm(x, scale, shift))


def softmax_mask(scores, mask):
    return torch.softmax(scores * 0.125 + mask, -1)


def group_norm_silu(x, weight, bias):
    image = x.permute(0, 3, 1, 2)  # channels-last
    return F.silu(F.group_norm(image, 32, weight, bias, EPS)).permute(0, 2, 3, 1).contiguous()


def rms_norm_rope_heads(x, weight, cosine, sine):
    heads = x.unflatten(-1, (-1, weight.shape[0])).transpose(1, 2)
    even, odd = F.rms_norm(heads, weight.shape, weight, EPS).float().unflatten(-1, (-1, 2)).unbind(-1)
    turned = torch.stack((even * cosine - odd * sine, odd * cosine + even * sine), -1).flatten(-2)
    return turned.to(x.dtype).contiguous()


def gate_residual_norm_quantize(residual, gate, x, scale, shift):
    total = residual + gate * x
    return total, *quantize(modulated_norm(total, scale, shift))


def adamw(weight, gradient, first, second, rate=1e-4, decay=0.01, beta1=0.9, beta2=0.999, step=10):
    gradient = gradient.float()
    first = first * beta1 + gradient * (1 - beta1)
    second = second * beta2 + gradient * gradient * (1 - beta2)
    root = second.sqrt() * (1 / (1 - beta2**step) ** 0.5) + 1e-8
    moved = weight.float() * (1 - rate * decay) - first / root * (rate / (1 - beta1**step))
    return moved.to(weight.dtype), first, second


def cross_entropy(logits, places):
    return torch.logsumexp(logits.float(), -1, keepdim=True) - logits.view(-1)[places].float()


def bias_table_add(scores, table):
    return scores + table


def upsample_add(x, skip):
    large = F.interpolate(x.permute(0, 3, 1, 2), scale_factor=2, mode="nearest")  # channels-last
    return large.permute(0, 2, 3, 1) + skip


def pixel_shuffle(x):
    return F.pixel_shuffle(x, 2)


def clamp_to_u8(x):
    return (x.float() * 127.5 + 127.5).round().clamp(0, 255).to(torch.uint8)


ROWS = (5440, 384), (4608, 3072), (36864, 3072)
WIDE = (5440, 384), (4608, 3072), (9216, 12288)
TOKENS = (20, 272, 384), (1, 4608, 3072), (8, 4608, 3072)
HEADS = (20, 272, 6, 64), (1, 4608, 24, 128), (8, 4608, 24, 128)
INNER = (1, 128, 128, 128), (1, 256, 256, 256), (1, 128, 1024, 1024)
# A body, its operands (a bare shape is of the stored dtype) and its sizes. Images [b, c, h, w] are given as [b, h, w,
# c].
BODIES = [
    (bias_gelu_quantize, lambda r, d: [(r, d), (d,)], WIDE),
    (silu_mul, lambda r, d: [(r, d)] * 2, WIDE),
    (rms_norm_residual, lambda r, d: [(r, d), (r, d), (d,)], ROWS),
    (norm_modulate_quantize, lambda b, s, d: [(b, s, d), (b, 1, d), (b, 1, d)], TOKENS),
    (softmax_mask, lambda b, h, s, t: [(b, h, s, t), (s, t)], ((20, 3, 192, 192), (1, 24, 1024, 1024), (1, 24, 2048, 2048))),
    (group_norm_silu, lambda b, c, h, w: [(b, h, w, c), (c,), (c,)], INNER),
    (rms_norm_rope_heads, lambda b, s, h, d: [(b, s, h * d), (d,), F32((s, d // 2)), F32((s, d // 2))], HEADS),
    (gate_residual_norm_quantize, lambda b, s, d: [(b, s, d), (b, 1, d), (b, s, d), (b, 1, d), (b, 1, d)], TOKENS),
    (adamw, lambda r, d: [(r, d), (r, d), F32((r, d)), F32((r, d), 1, 0.1)], ((2048, 1024), (4608, 3072), (8192, 3072))),
    (cross_entropy, lambda r, n: [(r, n), Places(r, n)], ((64, 32768), (512, 32768), (4096, 32768))),
    (bias_table_add, lambda b, h, s, t: [(b, h, s, t), (h, s, t)], ((64, 8, 64, 64), (256, 16, 64, 64), (2048, 16, 64, 64))),
    (upsample_add, lambda b, c, h, w: [(b, h // 2, w // 2, c), (b, h, w, c)], INNER),
    (pixel_shuffle, lambda b, c, h, w: [(b, c, h, w)], INNER),
    (clamp_to_u8, lambda b, c, h, w: [(b, c, h, w)], ((1, 3, 1024, 1024), (8, 3, 1024, 1024), (64, 3, 1024, 1024))),
]


class Case(NamedTuple):
    name: str  # as Headroom names it
    function: Callable
    operands: list
    dtype: torch.dtype

    def draw(self):
        return [draw_operand(operand, self.dtype) for operand in self.operands]


def draw_operand(operand, dtype):
    if isinstance(operand, Places):
        columns = torch.randint(operand.columns, (operand.rows, 1), device="cuda")
        rows = torch.arange(operand.rows, device="cuda")[:, None]
        return (rows * operand.columns + columns).to(torch.int32)
    if isinstance(operand, F32):
        return torch.randn(operand.shape, device="cuda") * operand.deviation + operand.mean
    return torch.randn(operand, device="cuda", dtype=dtype)


def list_cases(pattern):
    cases = [Case(f"{function.__name__} {name} {which} {'x'.join(map(str, size))}", function, operands(*size), dtype)
             for function, operands, sizes in BODIES for name, dtype in STORED.items() for which, size in zip(SIZES, sizes)]
    taken = [case for case in cases if re.search(pattern, case.name)]
    if not taken:
        raise SystemExit(f"no body has a name that matches '{pattern}'")
    return taken


def compiled(case):
    return torch.compile(case.function, mode=MODE, dynamic=False, fullgraph=True)


def tuple_of(outputs):
    return outputs if isinstance(outputs, tuple) else (outputs,)


def check(case, outputs, inputs):
    """Holds the results against those of f32, rounded nowhere but where a body quantizes."""
    wide = [x.float() if x.is_floating_point() else x for x in inputs]
    for found, expected in zip(outputs, tuple_of(case.function(*wide)), strict=True):
        if not found.is_contiguous():
            raise SystemExit(f"{case.name}: a result is not dense: {found.shape}, {found.stride()}")
        expected = expected.float()
        distance = ((found.float() - expected).norm() / expected.norm()).item()
        if not distance <= (FARTHEST_F8 if found.dtype == torch.float8_e4m3fn else FARTHEST):  # a NaN is refused
            raise SystemExit(f"{case.name}: compiled and eager are {distance:.2e} apart")


class Measured:
    """A case, compiled once and timed in each round."""

    def __init__(self, case):
        began = time.perf_counter()
        self.case, self.function = case, compiled(case)
        inputs = case.draw()
        outputs = tuple_of(self.function(*inputs))
        check(case, outputs, inputs)
        self.subject = {"kind": "kernel", "name": case.function.__name__,
                        "request": {"inputs": [operand_text(x) for x in inputs], "outputs": [operand_text(x) for x in outputs]}}
        self.plan = plan_of(case.function.__name__, kernels_of(self.function, *inputs))
        print(f"{case.name}: {len(self.plan['nodes'])} kernels, ready after {time.perf_counter() - began:.1f} s", flush=True)

    def result(self, number):
        times, warmup = time_calls(self.function, self.case.draw())
        applied = [f"torch.compile({MODE})", "CUDA Graph"]
        return {
            "id": self.case.name, "name": self.case.name, "subject": self.subject, "work_hash": peer_result.work_hash(self.subject),
            "source": {"name": "pytorch", "version": torch.__version__},
            "configuration": {"device": "cuda", "asked": applied, "applied": applied, "declined": [], "threads": torch.get_num_threads()},
            "trials": [peer_result.series("launch", number, times, warmup)], "quality": [], "tags": [], "plan": self.case.name,
        }


def tune_alone(path):
    """Lets one process at a time measure kernels, whatever the others compile."""
    bench = CachingAutotuner.bench

    def bench_alone(*args, **kwargs):
        with open(path, "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            torch.cuda.synchronize()
            return bench(*args, **kwargs)

    CachingAutotuner.bench = bench_alone


def tune(args):
    """Compiles a share of the cases, for the caches."""
    tune_alone(args.lock)
    for case in list_cases(args.filter)[args.share::args.workers]:
        compiled(case)(*case.draw())
        torch.cuda.synchronize()
        torch.cuda.empty_cache()


def tune_in_workers(args):
    with tempfile.NamedTemporaryFile() as lock:
        command = [sys.executable, __file__, "--filter", args.filter, "--workers", str(args.workers), "--lock", lock.name]
        workers = [subprocess.Popen([*command, "--share", str(share)]) for share in range(args.workers)]
        if any([worker.wait() for worker in workers]):
            raise SystemExit("a worker failed")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--filter", default="bf16 (medium|large)", metavar="REGEX", help="names of bodies to take; . takes all")
    parser.add_argument("--workers", type=int, default=0, help="processes that tune, before this one takes what they found")
    parser.add_argument("--share", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--lock", help=argparse.SUPPRESS)
    parser.add_argument("--list", action="store_true", help="the names, and no more")
    parser.add_argument("--beside", metavar="COMMAND", action="append", help="alternate with this program")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--save", help="JSON file to write, one for each {round}")
    args = parser.parse_args()
    if args.list:
        print(*(case.name for case in list_cases(args.filter)), sep="\n")
        return
    torch._dynamo.config.recompile_limit = 64  # a function is compiled for each dtype and size
    torch.set_float32_matmul_precision("highest")
    with torch.inference_mode():
        if args.share is not None:
            tune(args)
            return
        if not args.save or (args.rounds > 1 or "{round}" in args.save) != bool(args.beside):
            parser.error("--save is needed; --beside, --rounds and a {round} in --save go together")
        if args.workers > 0:
            tune_in_workers(args)
        cases = [Measured(case) for case in list_cases(args.filter)]
        plans = {measured.case.name: measured.plan for measured in cases}
        for number, results in in_rounds(args.beside, args.rounds, lambda number: [measured.result(number) for measured in cases]):
            peer_result.write(args.save.replace("{round}", str(number)), results, plans)
            tell(results)


if __name__ == "__main__":
    main()
