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
import torch._inductor.config
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
    q1, q3 = np.quantile(x, 0.25), np.quantile(x, 0.75)
    beyond = np.maximum(q1 - x, x - q3) / max(q3 - q1, np.finfo(np.float64).tiny)
    figures = {
        "median": np.median(x), "q1": q1, "q3": q3, "mean": x.mean(), "min": x.min(), "max": x.max(),
        "p95": np.quantile(x, 0.95), "p99": np.quantile(x, 0.99), "trimmed_mean": x[beyond <= 1.5].mean(),
    }
    if len(x) > 1:
        figures |= {"stddev": x.std(ddof=1), "ci_low": np.quantile(medians, 0.025), "ci_high": np.quantile(medians, 0.975)}
    return {"n": len(x), "outliers_mild": int(((beyond > 1.5) & (beyond <= 3)).sum()), "outliers_severe": int((beyond > 3).sum()),
            **{f"{name}_ms": float(value) for name, value in figures.items()}}


def machine():
    def field(path, name):
        with contextlib.suppress(OSError), open(path, encoding="utf-8") as file:
            for line in file:
                if line.startswith(name):
                    return line.split("=" if "=" in line else ":", 1)[1].strip().strip('"')
        return "unknown"

    system = platform.uname()
    found = {
        "cpu": field("/proc/cpuinfo", "model name"), "logical_cores": os.cpu_count(),
        "allowed_cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), "gpus": [],
        "os": field("/etc/os-release", "PRETTY_NAME"), "kernel": f"{system.system} {system.release} {system.machine}",
        "libraries": {"PyTorch": torch.__version__, "diffusers": diffusers.__version__, "Python": platform.python_version()},
    }
    if torch.cuda.is_available():
        query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        found["gpus"] = [{"name": torch.cuda.get_device_name()}]
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            found["gpus"][0]["driver"] = subprocess.run(query, capture_output=True, text=True, check=True, timeout=20).stdout.split()[0]
        found["libraries"] |= {"CUDA": torch.version.cuda, "cuDNN": str(torch.backends.cudnn.version())}
    return found


def work_hash(subject):
    """As docs/result.schema.json defines it: equal work has equal hashes, whoever ran it."""
    state, mask = 0xCBF29CE484222325, 2**64 - 1
    request = json.dumps(subject["request"], sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    for text in ("headroom.work/1", subject["kind"], subject["name"], request):
        data = text.encode()
        for byte in len(data).to_bytes(8, "little") + data:
            state = ((state ^ byte) * 0x100000001B3) & mask
    state = ((state ^ (state >> 33)) * 0xFF51AFD7ED558CCD) & mask
    state = ((state ^ (state >> 33)) * 0xC4CEB9FE1A85EC53) & mask
    return f"{state ^ (state >> 33):016x}"


def write_result(path, args, trials):
    """The one place that knows the schema, headroom.result/1."""
    rows, columns = args.image_tokens
    subject = {
        "kind": "model", "name": os.path.basename(os.path.normpath(args.model)),
        "request": {"pass": "forward", "batch": args.batch, "image_tokens": rows * columns, "text_tokens": args.text_tokens},
    }
    applied = [args.dtype, f"{args.attention} attention"] + ["tf32"] * args.tf32
    applied.append(f"torch.compile({args.compile_mode})" if args.compile else "eager")
    applied += ["freezing"] * args.freeze
    name = "pytorch " + ", ".join(applied)

    def series(what, times):
        return {"what": what, "unit": "ms", "process": [args.process] * len(times), "time": times, "warmup": args.warmup,
                "warmup_stable": True, "complete": True, "statistics": statistics(times)}

    result = {
        "schema": "headroom.result/1",
        "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": machine(),
        "plans": {},
        "results": [{
            "id": name, "name": name, "subject": subject, "work_hash": work_hash(subject),
            "source": {"name": "pytorch", "version": torch.__version__},
            "configuration": {"device": args.device, "asked": applied, "applied": applied, "declined": [],
                              "threads": torch.get_num_threads()},
            "trials": [series("forward" if what == "time" else f"forward_{what}", times) for what, times in trials.items()],
            "quality": [], "tags": [],
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
    parser.add_argument("--freeze", action=argparse.BooleanOptionalAction, default=False,
                        help="with --compile: weights are constants, so that they are packed once")
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

    if args.freeze and not args.compile:
        parser.error("--freeze needs --compile")
    torch._inductor.config.freezing = args.freeze
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
    row = result["results"][0]["trials"][0]["statistics"]
    print(f"{args.device} {args.dtype} {args.attention} {'compiled' if args.compile else 'eager'} batch {args.batch}: "
          f"median {row['median_ms']:.3f} ms, quartiles {row['q1_ms']:.3f} to {row['q3_ms']:.3f}, n {row['n']}")


if __name__ == "__main__":
    main()
