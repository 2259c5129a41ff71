#!/usr/bin/env python3
"""Times diffusers' FluxTransformer2DModel in PyTorch or, with --engine openvino, in OpenVINO: a forward pass and, with
--steps, the denoise loop of a whole request, raw trials kept, for each of several sizes.

    taskset -c 0,1 python3 bench/peers/flux_torch.py --model models/fashion-flux --dtype fp32 --compile --sizes 16x16x20 \\
        --threads 2 --save flux_torch.json
    python3 bench/peers/flux_torch.py --random-weights 0 --device cuda --dtype bf16 --fp8 --merge-qkv --attention cudnn \\
        --compile-blocks --graph --sizes 64x64x1 32x32x1 64x64x4 --text-tokens 512 --steps 10 --save flux_dev.json

Pin the processor's cores from outside (taskset): the affinity found is recorded. On CUDA each trial is timed with
events and also with the wall clock up to the end of a synchronization. Inputs are random and rotate among
several sets. --graph measures everything twice, without and with a CUDA graph.

With --beside this process, compiled once, alternates with another program, so that both meet the same moods of a shared
machine, and warms up again in each; {round} in that command and in --save becomes the number of the round. On a CPU a
product, the yardstick, is timed before, between and after the two sides of a round, and a round begins once the machine
gives the yardstick its best rate again (or after 10 s): its times go into the result, so that rounds in which the
machine gave less can be distinguished from the others.

    taskset -c 0,1 python3 bench/peers/flux_torch.py --model models/fashion-flux --dtype bf16 --compile --freeze --rounds 8 \\
        --beside "build/release/headroom bench models/fashion-flux --opt fast --batch 20 --out headroom-{round}.json" \\
        --save pytorch-{round}.json
Needs PyTorch, diffusers, safetensors and numpy, and OpenVINO where that is the engine.
"""

import argparse
import contextlib
import math
import os
import time
from typing import Callable, NamedTuple

import torch
import torch._inductor.config
from torch.nn.attention import SDPBackend, sdpa_kernel

import flux_peer
import peer_result
from launched import kernels_of, plan_of
from cpu_ratios import STEADY
from rounds import run_commands, tell

INPUT_SETS = 4
# The name of an attention, and PyTorch's; None leaves the choice to PyTorch.
ATTENTION = {"math": SDPBackend.MATH, "sdpa": None, "flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}


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


def peak_bytes():
    """Most memory of the device that PyTorch held, and most of it in use, since the last reset."""
    if not torch.cuda.is_available():
        return {}
    return {"peak_bytes": torch.cuda.max_memory_allocated(), "reserved_bytes": torch.cuda.max_memory_reserved(),
            "device_total_bytes": torch.cuda.get_device_properties(0).total_memory}


def description(args):
    """What was applied in PyTorch, in the order in which it was."""
    applied = [args.dtype] + ["GGUF"] * bool(args.gguf) + ["fp8"] * args.fp8 + [f"{args.attention} attention"] + ["merged QKV"] * args.merge_qkv
    if args.compile:
        applied.append(f"torch.compile({args.compile_mode})")
    elif args.compile_blocks:
        applied.append(f"torch.compile({args.compile_mode}) of each kind of block")
    else:
        applied.append("eager")
    return applied + ["tf32"] * args.tf32 + ["freezing"] * args.freeze


def result_of(args, size, subject, form, trials):
    """One result of the schema headroom.result/1."""
    name = form.name
    rows, columns, batch = size
    work = f"{args.steps} steps" if "steps" in subject["request"] else "forward"
    result = {
        "id": f"{name}, {rows}x{columns} tokens, batch {batch}, {work}", "name": name, "subject": subject,
        "work_hash": peer_result.work_hash(subject), "source": {"name": form.source, "version": form.version},
        "configuration": form.configuration(args.device),
        "trials": trials, "quality": form.quality, "tags": ["random_weights"] * (args.model is None),
    }
    return result | ({"memory": form.memory} if form.memory else {})


class Yardstick:
    """A product that says what the machine gives at the moment."""

    def __init__(self, dtype):
        self.a, self.b = torch.randn(5440, 960).to(dtype), torch.randn(960, 192).to(dtype)
        self.best = float("inf")
        for _ in range(20):
            self.time()

    def time(self):
        """Median milliseconds of a few."""
        times = time_cpu(lambda _: torch.mm(self.a, self.b), [None], 9)["time"]
        self.best = min(self.best, *times)
        return sorted(times)[len(times) // 2]

    def wait(self, seconds=10):
        """Returns the time once that is near the best so far, or the last when the seconds are over."""
        end = time.perf_counter() + seconds
        while True:
            now = self.time()
            if now <= STEADY * self.best or time.perf_counter() > end:
                return now
            time.sleep(0.05)


def size_of(text):
    """ROWSxCOLUMNSxBATCH"""
    numbers = tuple(int(n) for n in text.split("x"))
    if len(numbers) != 3 or min(numbers) < 1:
        raise ValueError(text)
    return numbers


class Form(NamedTuple):
    """One way to run a forward pass."""
    forward: Callable
    applied: list
    first_ms: float
    memory: dict
    kernels: list  # that a forward pass launches on a GPU
    cache: flux_peer.FirstBlockCache = None
    source: str = "pytorch"
    version: str = torch.__version__
    quality: list = []
    asked: list = None  # where that is not what was applied
    declined: list = []

    @property
    def name(self):
        """Of OpenVINO the precision alone: it has one way to run."""
        return f"{self.source} {', '.join(self.applied if self.source == 'pytorch' else self.applied[:1])}"

    def configuration(self, device):
        return {"device": device, "asked": self.asked or self.applied, "applied": self.applied, "declined": self.declined,
                "threads": torch.get_num_threads()}


class Positional(torch.nn.Module):
    """The model called with the tensors of these names in their order, and what it makes of the `tokens` of the
    image.
    """

    def __init__(self, model, names, tokens):
        super().__init__()
        self.model, self.names, self.tokens = model, names, tokens

    def forward(self, *given):
        return self.model(**dict(zip(self.names, given)), return_dict=False)[0][:, :self.tokens]


def openvino_form(dtype, threads, module, inputs, called):
    """`module` compiled by OpenVINO for tensors like the `inputs`; called(engine) takes a set of inputs."""
    from openvino_peer import VERSION, Engine  # which a machine with a GPU lacks
    began = time.perf_counter()
    engine = Engine(module, inputs, dtype, threads)
    engine(*inputs)
    first_ms = (time.perf_counter() - began) * 1e3
    quality = engine.check(module, inputs)
    print(f"OpenVINO took {first_ms / 1e3:.1f} s, {quality['value']:.1e} from {quality['against']}", flush=True)
    return Form(called(engine), [engine.precision, *engine.applied], first_ms, {}, [], source="openvino", version=VERSION,
                quality=[quality], asked=engine.asked, declined=engine.declined)


def make_forms(args, model, sets, tokens):
    """The model as it is called and, with --graph, captured. What it makes of the `tokens` of the image is read."""
    if args.engine == "openvino":
        module = Positional(model, list(sets[0]), tokens)
        return [openvino_form(args.dtype, args.threads, module, tuple(sets[0].values()),
                              lambda engine: lambda inputs: engine(*inputs.values())[0])]
    on_gpu = args.device == "cuda"
    module = torch.compile(model, mode=args.compile_mode) if args.compile else model
    forward = lambda inputs: module(**inputs, return_dict=False)[0][:, :tokens]  # noqa: E731

    def form(prepare, applied):
        if on_gpu:
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
        began = time.perf_counter()
        prepared = prepare()
        if not torch.isfinite(prepared(sets[0])).all():
            raise SystemExit("the output is not finite")
        first_ms, memory = (time.perf_counter() - began) * 1e3, peak_bytes() if on_gpu else {}
        return Form(prepared, description(args) + applied, first_ms, memory, kernels_of(prepared, sets[0]) if on_gpu else [])

    forms = [form(lambda: forward, [])]
    if args.graph:
        def captured():
            replay = flux_peer.capture(module, sets[0])
            return lambda inputs: replay(inputs)[:, :tokens]
        forms.append(form(captured, ["CUDA Graph"]))
    if args.first_block_cache:  # last, since its hooks stay
        cache = flux_peer.FirstBlockCache(model, args.first_block_cache)
        cached = form(lambda: cache, [f"first-block cache, schedule {args.first_block_cache}"])
        forms = forms[1:] + [cached._replace(kernels=[], cache=cache)]
    return forms


def warm_up(args, form, sets):
    for i in range(args.warmup):
        form.forward(sets[i % len(sets)])


def time_forward(args, size, subject, form, sets, process):
    """The result of forward passes of a form, which warms up first."""
    clock = time_cuda if args.device == "cuda" else time_cpu
    warm_up(args, form, sets)
    trials = peer_result.all_series("forward", process, clock(form.forward, sets, args.trials), args.warmup)
    trials.append(peer_result.series("first_forward", process, [form.first_ms]))
    return result_of(args, size, subject, form, trials) | ({"plan": form.name} if form.kernels else {})


def time_form(args, size, form, sets, scheduler, process):
    """Forward passes and, with a scheduler, as many whole requests as there are steps in so many passes."""
    rows, columns, batch = size
    model = "flux-dev" if args.model is None else os.path.basename(os.path.normpath(args.model))
    results = []
    if args.first_block_cache:
        warm_up(args, form, sets)
    else:
        subject = peer_result.forward_subject(model, rows * columns, batch, args.text_tokens, math.prod(args.reference))
        results.append(time_forward(args, size, subject, form, sets, process))
    if scheduler:
        clock = time_cuda if args.device == "cuda" else time_cpu
        latents = []

        def request(inputs):
            if form.cache:
                form.cache.begin()
            latents.append(flux_peer.denoise(form.forward, scheduler, inputs))

        requests = clock(request, sets, math.ceil(args.trials / args.steps))
        if not all(torch.isfinite(one).all() for one in latents):
            raise SystemExit("the latents are not finite")
        subject = peer_result.denoise_subject(model, rows, columns, batch, args.steps, args.text_tokens, flux_peer.GUIDANCE)
        by_image = {name: [ms / batch for ms in times] for name, times in requests.items()}
        trials = peer_result.all_series("image", process, by_image, args.warmup)
        results.append(result_of(args, size, subject, form, trials))
    return results


def time_size(args, model, size, device, dtype):
    """For each round its number, its results and their plans."""
    rows, columns, batch = size
    generator = torch.Generator().manual_seed(args.seed)
    sets = [flux_peer.random_inputs(model.config, rows, columns, batch, args.text_tokens, device, dtype, generator, args.reference)
            for _ in range(INPUT_SETS)]
    scheduler = flux_peer.schedule(args.steps, rows * columns, device) if args.steps else None
    forms = make_forms(args, model, sets, rows * columns)
    if args.device == "cuda":
        torch.cuda.empty_cache()  # what --beside runs needs memory too
    yardstick = Yardstick(flux_peer.DTYPES[args.dtype]) if args.beside and args.device == "cpu" else None
    for number in range(args.rounds):
        measured = [yardstick.wait()] if yardstick else []
        mark = lambda: measured.append(yardstick.time()) if yardstick else None  # noqa: E731
        if args.beside and number % 2 == 0:
            run_commands(args.beside, number)
            mark()
        process = args.process + number
        results = [result for form in forms for result in time_form(args, size, form, sets, scheduler, process)]
        mark()
        if args.beside and number % 2 == 1:
            run_commands(args.beside, number)
            mark()
        if yardstick:
            results[0]["trials"].append(peer_result.series("yardstick", process, measured))
        yield number, results, {form.name: plan_of("forward", form.kernels) for form in forms if form.kernels}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    weights = parser.add_mutually_exclusive_group(required=True)
    weights.add_argument("--model", help="checkpoint folder in diffusers layout")
    weights.add_argument("--random-weights", type=int, metavar="SEED", help="FLUX.1-dev with random weights")
    weights.add_argument("--gguf", metavar="FILE", help="FLUX.1-dev from a GGUF file, by diffusers' loader")
    parser.add_argument("--engine", choices=["pytorch", "openvino"], default="pytorch", help="what runs the model")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--dtype", choices=list(flux_peer.DTYPES), default="fp32")
    parser.add_argument("--attention", choices=list(ATTENTION), default="sdpa",
                        help="math: scores in memory; sdpa: PyTorch's own choice")
    parser.add_argument("--merge-qkv", action="store_true", help="diffusers' fuse_qkv_projections")
    parser.add_argument("--fp8", action="store_true", help="products of tokens in the blocks in FP8, scales by row")
    parser.add_argument("--compile", action="store_true", help="torch.compile of the whole model")
    parser.add_argument("--compile-blocks", action="store_true", help="diffusers' compile_repeated_blocks")
    parser.add_argument("--compile-mode", default="default", help="torch.compile's mode, such as max-autotune")
    parser.add_argument("--freeze", action="store_true", help="with --compile: weights are constants, packed once")
    parser.add_argument("--graph", action="store_true", help="each size also captured in a CUDA Graph and replayed")
    parser.add_argument("--tf32", action="store_true")
    parser.add_argument("--sizes", type=size_of, nargs="+", default=[(16, 16, 20)], metavar="ROWSxCOLUMNSxBATCH",
                        help="image tokens down and across, and the batch")
    parser.add_argument("--reference", type=int, nargs=2, default=(0, 0), metavar=("ROWS", "COLUMNS"),
                        help="tokens of an image that is edited; what the model makes of them is not read")
    parser.add_argument("--text-tokens", type=int, default=16)
    parser.add_argument("--steps", type=int, default=0, help="also time whole requests of so many denoise steps")
    parser.add_argument("--first-block-cache", metavar="DIGITS",
                        help="time requests alone, also with diffusers' first-block cache, of which this schedule makes the decisions")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--process", type=int, default=0, help="this process's number among repeated runs")
    parser.add_argument("--beside", metavar="COMMAND", action="append",
                        help="alternate with this program: it runs before the trials of a round and after those of the next; "
                             "given several times, they run one after the other")
    parser.add_argument("--rounds", type=int, default=1, help="with --beside: how many, each with --trials of its own")
    parser.add_argument("--save", required=True, help="JSON file to write, with --beside one for each {round}")
    args = parser.parse_args()
    if args.compile and args.compile_blocks:
        parser.error("--compile and --compile-blocks exclude each other")
    if args.freeze and not args.compile:
        parser.error("--freeze needs --compile")
    if args.graph and args.device != "cuda":
        parser.error("--graph needs --device cuda")
    if (args.rounds > 1 or "{round}" in args.save) != bool(args.beside):
        parser.error("--beside, --rounds and a {round} in --save go together")
    if args.gguf and (args.merge_qkv or args.fp8):
        parser.error("--gguf goes without --merge-qkv and --fp8: its weights stay in blocks")
    if args.steps and args.model is not None:
        parser.error("--steps goes with --random-weights: its requests are FLUX.1-dev's")
    if args.first_block_cache and not (args.steps and args.graph and args.compile_blocks):
        parser.error("--first-block-cache needs --steps, --graph and --compile-blocks")
    if args.steps and any(args.reference):
        parser.error("--steps and --reference exclude each other")
    if args.beside and len(args.sizes) > 1:
        parser.error("--beside alternates at one size")
    if args.engine == "openvino" and (args.device != "cpu" or args.dtype == "fp16" or args.attention != "sdpa" or args.compile
                                      or args.compile_blocks or args.merge_qkv or args.fp8 or args.steps):
        parser.error("--engine openvino needs --device cpu and --dtype fp32 or bf16, and takes no option of PyTorch's and no --steps")

    torch._inductor.config.freezing = args.freeze
    args.warmup = max(args.warmup, INPUT_SETS)  # every input set is seen once before the clock starts
    torch.set_num_threads(args.threads)
    torch.set_num_interop_threads(1)
    torch.set_float32_matmul_precision("high" if args.tf32 else "highest")
    torch.backends.cudnn.allow_tf32 = args.tf32
    # OpenVINO takes the model and its inputs in fp32 and rounds them itself.
    device, dtype = torch.device(args.device), flux_peer.DTYPES["fp32" if args.engine == "openvino" else args.dtype]
    if args.model is not None:
        model = flux_peer.load_model(args.model, device, dtype)
    elif args.gguf is not None:
        model = flux_peer.load_gguf(args.gguf, device, dtype)
    else:
        model = flux_peer.random_model(device, dtype, args.random_weights)
    if args.merge_qkv:
        flux_peer.merge_qkv(model)
    if args.fp8:
        flux_peer.quantize_fp8(model.transformer_blocks, model.single_transformer_blocks)
    if args.compile_blocks:
        flux_peer.compile_blocks(model, args.compile_mode)

    backend = ATTENTION[args.attention]
    results = []
    with torch.inference_mode(), contextlib.nullcontext() if backend is None else sdpa_kernel(backend):
        for size in args.sizes:
            for number, of_round, plans in time_size(args, model, size, device, dtype):
                results = of_round if args.beside else results + of_round
                peer_result.write(args.save.replace("{round}", str(number)), results, plans)
                tell(of_round)


if __name__ == "__main__":
    main()
