#!/usr/bin/env python3
"""make_gpu_traces.py FOLDER [--device cpu]: twelve traces of torch.profiler on a GPU, ten models with a fault and two
without.

For each with a fault times.json has the median time of a step as it is and mended, so that what `headroom doctor
--trace` says it costs can be compared with what mending gains. `--device cpu` runs small sizes of the same code on a
CPU, to try this script: such traces show no kernels, and those that need a GPU are left out. Run it by the peers'
Python (scripts/bootstrap.sh peers).
"""

import argparse
import contextlib
import gzip
import json
import pathlib
import statistics
import time

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.profiler import ProfilerActivity, profile, record_function

LAYERS, STEPS, TIMED = 12, 3, 20
RECOMPILED = 3  # with what precedes them fewer than torch.compile's limit, after which it no longer compiles


class Sizes:
    """Large enough that a step is milliseconds on an H200; small for a trial on a CPU."""

    def __init__(self, device):
        self.device = device
        on_gpu = device == "cuda"
        self.tokens, self.heads, self.width = (4096, 16, 2048) if on_gpu else (64, 2, 32)
        self.channels, self.side = (320, 64) if on_gpu else (8, 8)

    def randn(self, *shape, dtype=torch.bfloat16):
        return torch.randn(*shape, device=self.device, dtype=torch.float32).to(dtype)


class Block(nn.Module):
    """A transformer block as FLUX has them: attention and a feed-forward part around a residual stream."""

    def __init__(self, sizes, backends=(SDPBackend.FLASH_ATTENTION,)):
        super().__init__()
        self.heads, self.backends = sizes.heads, list(backends)
        self.norm, self.qkv = nn.LayerNorm(sizes.width), nn.Linear(sizes.width, 3 * sizes.width)
        self.out, self.up = nn.Linear(sizes.width, sizes.width), nn.Linear(sizes.width, 4 * sizes.width)
        self.down = nn.Linear(4 * sizes.width, sizes.width)

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv(self.norm(x)).chunk(3, -1))
        with sdpa_kernel(self.backends):
            y = F.scaled_dot_product_attention(q, k, v)
        x = x + self.out(y.transpose(1, 2).flatten(-2))
        return x + self.down(F.gelu(self.up(self.norm(x)), approximate="tanh"))


def blocks(sizes, backends=lambda _: (SDPBackend.FLASH_ATTENTION,), dtype=torch.bfloat16):
    return nn.Sequential(*(Block(sizes, backends(layer)) for layer in range(LAYERS))).to(sizes.device, dtype)


def on_tokens(sizes, model, dtype=torch.bfloat16):
    x = sizes.randn(1, sizes.tokens, sizes.width, dtype=dtype)
    return lambda: model(x)


def fp8_linears(sizes, cast):
    weights = [sizes.randn(sizes.width, sizes.width).to(torch.float8_e4m3fn) for _ in range(LAYERS)]
    ready = [weight.to(torch.bfloat16) for weight in weights]
    x = sizes.randn(sizes.tokens, sizes.width)

    def step():
        for weight, wide in zip(weights, ready):
            F.linear(x, weight.to(torch.bfloat16) if cast else wide)

    return step


def autocast(sizes):
    run = on_tokens(sizes, blocks(sizes, dtype=torch.float32), torch.float32)

    def step():
        with torch.autocast(sizes.device, dtype=torch.bfloat16):
            run()

    return step


def small_unet(sizes):
    layers = []
    for _ in range(40):
        layers += [nn.GroupNorm(8, 32), nn.SiLU(), nn.Conv2d(32, 32, 3, padding=1)]
    model = nn.Sequential(*layers).to(sizes.device, torch.float16 if sizes.device == "cuda" else torch.float32)
    x = sizes.randn(1, 32, 16, 16, dtype=next(model.parameters()).dtype)
    return lambda: model(x)


def captured(step):
    for _ in range(3):
        step()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def convolutions(sizes, memory_format):
    layers = [nn.Sequential(nn.Conv2d(sizes.channels, sizes.channels, 3, padding=1), nn.SiLU()) for _ in range(LAYERS)]
    model = nn.Sequential(*layers).to(sizes.device, torch.float16 if sizes.device == "cuda" else torch.float32)
    model = model.to(memory_format=memory_format)
    x = sizes.randn(4, sizes.channels, sizes.side, sizes.side, dtype=next(model.parameters()).dtype).to(memory_format=memory_format)
    return lambda: model(x)


def with_item(sizes, reads):
    weight, x = sizes.randn(sizes.width, sizes.width), sizes.randn(sizes.tokens // 4, sizes.width)

    def step():
        for _ in range(LAYERS):
            y = F.linear(x, weight).sum()
            if reads and y.item() == 12345.678:
                raise RuntimeError("no sum of random numbers is exactly that")

    return step


def offloaded(sizes, stays):
    weights = [sizes.randn(4 * sizes.width, sizes.width) for _ in range(LAYERS)]
    host = [weight.cpu() for weight in weights]
    x = sizes.randn(sizes.tokens, sizes.width)

    def step():
        for on_host, on_device in zip(host, weights):
            F.linear(x, on_device if stays else on_host.to(sizes.device))

    return step


def f32_matmuls(sizes, precision):
    weight, x = sizes.randn(sizes.width, sizes.width, dtype=torch.float32), sizes.randn(sizes.tokens, sizes.width, dtype=torch.float32)

    def step():
        torch.set_float32_matmul_precision(precision)
        for _ in range(LAYERS):
            F.linear(x, weight)

    return step


def sizes_that_change(sizes, dynamic):
    torch._dynamo.reset()
    # without matmuls a kernel is compiled in a second
    layers = nn.Sequential(nn.LayerNorm(sizes.width), nn.GELU(), nn.LayerNorm(sizes.width))
    model = torch.compile(layers.to(sizes.device, torch.bfloat16), dynamic=dynamic)
    rows = iter(range(sizes.tokens // 2, sizes.tokens))

    def step():
        x = sizes.randn(1, next(rows), sizes.width)
        if not dynamic:
            torch._dynamo.mark_static(x)
        model(x)

    return step


def compiled(sizes):
    torch._dynamo.reset()
    return on_tokens(sizes, torch.compile(blocks(sizes)))


MATH, FLASH = (SDPBackend.MATH,), (SDPBackend.FLASH_ATTENTION,)
CASES = {  # name: (with the fault, mended, needs a GPU)
    "math_attention": (lambda s: on_tokens(s, blocks(s, lambda _: MATH)), lambda s: on_tokens(s, blocks(s)), False),
    "fp8_storage": (lambda s: fp8_linears(s, True), lambda s: fp8_linears(s, False), False),
    "autocast": (autocast, lambda s: on_tokens(s, blocks(s)), False),
    "host_bound": (small_unet, lambda s: captured(small_unet(s)), True),
    "channels_first": (lambda s: convolutions(s, torch.contiguous_format), lambda s: convolutions(s, torch.channels_last), False),
    "item": (lambda s: with_item(s, True), lambda s: with_item(s, False), False),
    "offload": (lambda s: offloaded(s, False), lambda s: offloaded(s, True), False),
    "no_tf32": (lambda s: f32_matmuls(s, "highest"), lambda s: f32_matmuls(s, "high"), False),
    "recompiles": (lambda s: sizes_that_change(s, False), lambda s: sizes_that_change(s, True), True),
    "clean_compiled": (compiled, None, True),
    "clean_captured": (lambda s: captured(on_tokens(s, blocks(s))), None, True),
    "mixed_attention": (lambda s: on_tokens(s, blocks(s, lambda layer: MATH if layer in (3, 7) else FLASH)), lambda s: on_tokens(s, blocks(s)),
                        False),
}


def synchronize(device):
    if device == "cuda":
        torch.cuda.synchronize()


def median_ms(step, device, runs):
    times = []
    for _ in range(runs):
        begin = time.perf_counter()
        step()
        synchronize(device)
        times.append(1000 * (time.perf_counter() - begin))
    return round(statistics.median(times), 4)


def trace(step, path, device):
    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if device == "cuda" else [])
    with profile(activities=activities, record_shapes=True) as profiler:
        for number in range(STEPS):
            with record_function(f"ProfilerStep#{number}"):
                step()
        synchronize(device)
    profiler.export_chrome_trace(str(path))
    whole = json.loads(path.read_text())
    kept = {"schemaVersion": whole["schemaVersion"],  # without what draws arrows, and without call stacks
            "deviceProperties": [{"id": one["id"], "name": one["name"]} for one in whole.get("deviceProperties", [])],
            "traceEvents": [event for event in whole["traceEvents"] if event["ph"] == "X" and event.get("cat") != "python_function"]}
    path.unlink()
    with gzip.GzipFile(f"{path}.gz", "wb", mtime=0) as file:
        file.write(json.dumps(kept, separators=(",", ":")).encode())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    sizes, device, times = Sizes(arguments.device), arguments.device, {}
    for name, (faulty, mended, needs_gpu) in CASES.items():
        if needs_gpu and device != "cuda":
            continue
        torch.manual_seed(0)
        with torch.inference_mode() if name != "recompiles" else contextlib.nullcontext():
            step = faulty(sizes)
            for _ in range(2):
                step()
            synchronize(device)
            trace(step, arguments.folder / f"{name}.json", device)
            if mended is not None:
                times[name] = {"ms": median_ms(step, device, RECOMPILED if name == "recompiles" else TIMED)}
                step = mended(sizes)
                for _ in range(3):
                    step()
                times[name]["mended_ms"] = median_ms(step, device, TIMED)
        device_name = torch.cuda.get_device_name() if device == "cuda" else "cpu"
        (arguments.folder / "times.json").write_text(json.dumps({"torch": torch.__version__, "device": device_name, "steps": times}, indent=1))


if __name__ == "__main__":
    main()
