#!/usr/bin/env python3
"""Times diffusers' FluxTransformer2DModel in PyTorch on a model folder: one forward pass, raw trials kept.

    taskset -c 0,1 python3 bench/peers/flux_torch.py --model models/fashion-flux --device cpu --dtype fp32 \\
        --attention sdpa --compile --batch 20 --threads 2 --save flux_torch.json

Pin the processor's cores from outside (taskset): the affinity found is recorded. On CUDA each trial is timed with
events and, beside them, with the wall clock up to the end of a synchronization. Inputs are random and rotate among
several sets.
Needs PyTorch, diffusers, safetensors and numpy.
"""

import argparse
import contextlib
import json
import os
import platform
import subprocess
import time

import numpy as np
import torch
from safetensors.torch import load_file
from torch.nn.attention import SDPBackend, sdpa_kernel

import diffusers
from diffusers import FluxTransformer2DModel

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
INPUT_SETS = 4


def load_model(folder, device, dtype):
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    model = FluxTransformer2DModel.from_config(config)
    model.load_state_dict(load_file(os.path.join(folder, "diffusion_pytorch_model.safetensors")))
    return model.to(device=device, dtype=dtype).eval(), config


def random_inputs(config, args, device, dtype, generator):
    """One set of inputs as FLUX's pipeline shapes them. Drawn on the CPU so that every device gets the same numbers."""
    rows, columns = args.image_tokens
    draw = lambda *shape: torch.randn(*shape, generator=generator).to(device, dtype)  # noqa: E731
    ids = torch.zeros(rows, columns, 3)
    ids[..., 1] = torch.arange(rows)[:, None]
    ids[..., 2] = torch.arange(columns)[None, :]
    inputs = {
        "hidden_states": draw(args.batch, rows * columns, config["in_channels"]),
        "encoder_hidden_states": draw(args.batch, args.text_tokens, config["joint_attention_dim"]),
        "pooled_projections": draw(args.batch, config["pooled_projection_dim"]),
        "timestep": torch.rand(args.batch, generator=generator).to(device, dtype),
        "img_ids": ids.reshape(rows * columns, 3).to(device),
        "txt_ids": torch.zeros(args.text_tokens, 3, device=device),
        "return_dict": False,
    }
    if config["guidance_embeds"]:
        inputs["guidance"] = torch.full((args.batch,), 3.5, device=device, dtype=dtype)
    return inputs


def time_cpu(forward, sets, trials):
    times = []
    for trial in range(trials):
        began = time.perf_counter_ns()
        forward(sets[trial % len(sets)])
        times.append((time.perf_counter_ns() - began) / 1e6)
    return {"time": times}


def time_cuda(forward, sets, trials):
    times, walls = [], []
    for trial in range(trials):
        start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda.synchronize()
        began = time.perf_counter_ns()
        start.record()
        forward(sets[trial % len(sets)])
        stop.record()
        torch.cuda.synchronize()
        walls.append((time.perf_counter_ns() - began) / 1e6)
        times.append(start.elapsed_time(stop))
    return {"time": times, "wall": walls}


def statistics(times):
    """Quantiles interpolate linearly between order statistics; the interval is a bootstrap of the median."""
    x = np.asarray(times, dtype=np.float64)
    rng = np.random.default_rng(0)
    medians = np.median(rng.choice(x, size=(10000, len(x))), axis=1)
    return {
        "n": len(x), "median": float(np.median(x)),
        "q1": float(np.quantile(x, 0.25)), "q3": float(np.quantile(x, 0.75)),
        "mean": float(x.mean()), "stddev": float(x.std(ddof=1)) if len(x) > 1 else 0.0,
        "min": float(x.min()), "max": float(x.max()),
        "p95": float(np.quantile(x, 0.95)), "p99": float(np.quantile(x, 0.99)),
        "ci95": [float(np.quantile(medians, 0.025)), float(np.quantile(medians, 0.975))],
    }


def machine():
    cpu = platform.processor()
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as file:
        cpu = next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), cpu)
    found = {
        "cpu": cpu, "cores": os.cpu_count(), "affinity": sorted(os.sched_getaffinity(0)),
        "os": f"{platform.system()} {platform.release()}", "arch": platform.machine(),
        "python": platform.python_version(), "torch": torch.__version__, "diffusers": diffusers.__version__,
    }
    if torch.cuda.is_available():
        found["gpu"] = torch.cuda.get_device_name()
        found["cuda"] = torch.version.cuda
        found["cudnn"] = torch.backends.cudnn.version()
        query = ["nvidia-smi", "--query-gpu=driver_version,clocks.sm,clocks.mem,clocks_event_reasons.active",
                 "--format=csv,noheader"]
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            found["driver, SM clock, memory clock, clock event reasons"] = subprocess.run(
                query, capture_output=True, text=True, check=True, timeout=20).stdout.strip()
    return found


def write_result(path, args, trials):
    """The one place that knows the schema."""
    rows, columns = args.image_tokens
    version = torch.__version__
    result = {
        "schema": "headroom.result/1",
        "machine": machine(),
        "results": [{
            "subject": {
                "kind": "model",
                "name": os.path.basename(os.path.normpath(args.model)),
                "request": {"batch": args.batch, "image_tokens": rows * columns, "text_tokens": args.text_tokens},
            },
            "source": {"name": "pytorch", "version": version},
            "configuration": {
                "device": args.device, "dtype": args.dtype, "attention": args.attention, "compile": args.compile,
                "compile_mode": args.compile_mode if args.compile else None, "tf32": args.tf32,
                "threads": torch.get_num_threads(), "warmup": args.warmup,
            },
            "trials": {"unit": "ms", "process": [args.process] * len(trials["time"]), **trials},
            "statistics": statistics(trials["time"]),
        }],
    }
    with open(path, "w", encoding="utf-8") as file:
        json.dump(result, file, indent=1)
        file.write("\n")
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", required=True, help="checkpoint folder in diffusers layout")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--dtype", choices=list(DTYPES), default="fp32")
    parser.add_argument("--attention", choices=["math", "sdpa"], default="sdpa",
                        help="math: scores in memory; sdpa: PyTorch's own choice")
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction, default=False)
    parser.add_argument("--compile-mode", default="default", help="torch.compile's mode, such as max-autotune")
    parser.add_argument("--tf32", action=argparse.BooleanOptionalAction, default=False)
    parser.add_argument("--batch", type=int, default=20)
    parser.add_argument("--image-tokens", type=lambda text: tuple(int(n) for n in text.split("x")), default=(16, 16),
                        metavar="ROWSxCOLUMNS")
    parser.add_argument("--text-tokens", type=int, default=16)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--process", type=int, default=0, help="this process's number among repeated runs")
    parser.add_argument("--save", required=True, help="JSON file to write")
    args = parser.parse_args()
    if len(args.image_tokens) != 2:
        parser.error("--image-tokens: expected ROWSxCOLUMNS, such as 16x16")

    args.warmup = max(args.warmup, INPUT_SETS)  # every input set is seen once before the clock starts
    torch.set_num_threads(args.threads)
    torch.set_num_interop_threads(1)
    torch.set_float32_matmul_precision("high" if args.tf32 else "highest")
    torch.backends.cudnn.allow_tf32 = args.tf32
    device, dtype = torch.device(args.device), DTYPES[args.dtype]
    model, config = load_model(args.model, device, dtype)
    generator = torch.Generator().manual_seed(args.seed)
    sets = [random_inputs(config, args, device, dtype, generator) for _ in range(INPUT_SETS)]
    module = torch.compile(model, mode=args.compile_mode) if args.compile else model
    forward = lambda inputs: module(**inputs)[0]  # noqa: E731
    attention = sdpa_kernel(SDPBackend.MATH) if args.attention == "math" else contextlib.nullcontext()
    with torch.inference_mode(), attention:
        for i in range(args.warmup):
            output = forward(sets[i % INPUT_SETS])
        if not torch.isfinite(output).all():
            raise SystemExit(f"{args.model}: the output is not finite")
        trials = (time_cuda if args.device == "cuda" else time_cpu)(forward, sets, args.trials)
    result = write_result(args.save, args, trials)
    row = result["results"][0]["statistics"]
    print(f"{args.device} {args.dtype} {args.attention} {'compiled' if args.compile else 'eager'} batch {args.batch}: "
          f"median {row['median']:.3f} ms, quartiles {row['q1']:.3f} to {row['q3']:.3f}, n {row['n']}")


if __name__ == "__main__":
    main()
