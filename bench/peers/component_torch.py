#!/usr/bin/env python3
"""Times one pass of a component of FLUX.1 in PyTorch: eager, compiled, and compiled in a CUDA graph, raw trials kept. The components
are diffusers' AutoencoderKL, channels-last, and transformers' CLIPTextModel and T5EncoderModel.

    python3 bench/peers/component_torch.py vae --pass decode --device cuda --dtype bf16 --height 1024 --width 1024 --compile --graph \\
        --turns 6 --beside "build/release/headroom bench flux-vae --random-weights 0 --pass decode --height 1024 --width 1024 \\
        --device cuda --opt lossless --save headroom-{turn}.json" --save pytorch-{turn}.json

Random weights, as Headroom's stand-ins are: 0.02 randn, and 1 + 0.02 randn for the gains of norms. With --beside this process, compiled
once, takes turns with another program, so that both meet the same moods of a shared machine; {turn} in that command and in --save
becomes the number of the turn. Pin a processor's cores from outside (taskset). Needs PyTorch, diffusers and numpy, and transformers
for the text encoders.
"""

import argparse
import time
from typing import Callable, NamedTuple

import torch
import torch._inductor.config

from diffusers import AutoencoderKL

import flux_peer
import flux_shapes
import peer_result
from flux_torch import Form, peak_bytes, time_cpu, time_cuda
from launched import kernels_of, plan_of
from turns import in_turns, tell

INPUT_SETS = 2


def random_vae(device, dtype, seed):
    model = AutoencoderKL.from_config(flux_shapes.VAE)
    return flux_peer.fill(model.to(device=device, dtype=dtype, memory_format=torch.channels_last).eval(), seed)


def random_text_encoder(part, device, dtype, seed):
    """text_encoder: CLIP-L; text_encoder_2: T5-XXL"""
    from transformers import CLIPTextConfig, CLIPTextModel, T5Config, T5EncoderModel
    kind, config = {"text_encoder": (CLIPTextModel, CLIPTextConfig(**flux_shapes.CLIP)),
                    "text_encoder_2": (T5EncoderModel, T5Config(**flux_shapes.T5))}[part]
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    with torch.device(device):
        model = kind(config)
    torch.set_default_dtype(before)
    return flux_peer.fill(model.eval(), seed)


class Pass(torch.nn.Module):
    """One pass of a component as a module of one tensor: what is compiled and captured. Gives a tuple."""

    def __init__(self, model, which):
        super().__init__()
        self.model, self.which = model, which

    def forward(self, x):
        if self.which == "decode":
            return self.model.decode(x, return_dict=False)
        if self.which == "text":
            return self.model(x, return_dict=False)
        distribution = self.model.encode(x, return_dict=False)[0]
        return distribution.mean, distribution.logvar


def capture(module, x):
    """The module captured in a CUDA graph; returns replay(x), which copies in and gives the output, and holds the module."""
    static = x.clone(memory_format=torch.preserve_format)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            module(static)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = module(static)

    def replay(x):
        static.copy_(x)
        graph.replay()
        return output

    replay.module = module
    return replay


class Work(NamedTuple):
    """What is timed, named as Headroom names it."""
    subject: dict
    eager: torch.nn.Module
    draw: Callable  # an input


def vae_work(args, device, dtype, generator):
    shape = (args.batch, 3, args.height, args.width)
    if args.which == "decode":
        shape = (args.batch, 16, args.height // 8, args.width // 8)
    request = {"pass": args.which, "batch": args.batch, "height": args.height, "width": args.width}
    return Work({"kind": "model", "name": "flux-vae", "request": request}, Pass(random_vae(device, dtype, args.seed), args.which),
                lambda: torch.randn(shape, generator=generator).to(device, dtype).to(memory_format=torch.channels_last))


def text_work(args, device, dtype, generator):
    tokens = {"text_encoder": 77, "text_encoder_2": 512}[args.part]
    model = random_text_encoder(args.part, device, dtype, args.seed)
    request = {"pass": "encode", "batch": args.batch, "text_tokens": tokens}
    return Work({"kind": "model", "name": args.part, "request": request}, Pass(model, "text"),
                lambda: torch.randint(model.config.vocab_size, (args.batch, tokens), generator=generator).to(device))


def make_forms(args, eager, sets):
    """Eager, and with --compile and --graph those."""
    on_gpu = args.device == "cuda"
    forms = []

    def add(prepare, applied):
        if on_gpu:
            torch.cuda.empty_cache()
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
        began = time.perf_counter()
        prepared = prepare()
        if not all(torch.isfinite(part).all() for part in prepared(sets[0])):
            raise SystemExit("the output is not finite")
        if on_gpu:
            torch.cuda.synchronize()
        first_ms = (time.perf_counter() - began) * 1e3
        layout = ["channels-last"] * (args.part == "vae")
        memory = peak_bytes() if on_gpu else {}
        forms.append(Form(prepared, [args.dtype] + layout + applied, first_ms, memory, kernels_of(prepared, sets[0]) if on_gpu else []))

    if not args.compile or args.eager:
        add(lambda: eager, ["eager"])
    if args.compile:
        compiled = torch.compile(eager, mode=args.compile_mode)
        add(lambda: compiled, [f"torch.compile({args.compile_mode})"] + ["freezing"] * args.freeze)
        if args.graph:
            add(lambda: capture(compiled, sets[0]), [f"torch.compile({args.compile_mode})", "CUDA Graph"])
    return forms


def result_of(args, subject, form, sets, process):
    name = form.name
    clock = time_cuda if args.device == "cuda" else time_cpu
    for i in range(args.warmup):
        form.forward(sets[i % INPUT_SETS])
    trials = peer_result.all_series("forward", process, clock(form.forward, sets, args.trials), args.warmup)
    trials.append(peer_result.series("first_forward", process, [form.first_ms]))
    work = ", ".join(f"{key} {value}" for key, value in subject["request"].items())
    result = {
        "id": f"{name}, {subject['name']}, {work}", "name": name, "subject": subject,
        "work_hash": peer_result.work_hash(subject), "source": {"name": "pytorch", "version": torch.__version__},
        "configuration": {"device": args.device, "asked": form.applied, "applied": form.applied, "declined": [],
                          "threads": torch.get_num_threads()},
        "trials": trials, "quality": [], "tags": ["random_weights"],
    }
    return result | ({"memory": form.memory} if form.memory else {}) | ({"plan": name} if form.kernels else {})


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("part", choices=["vae", "text_encoder", "text_encoder_2"])
    parser.add_argument("--pass", dest="which", choices=["decode", "encode"], default="decode", help="of the vae")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--dtype", choices=list(flux_peer.DTYPES), default="fp32")
    parser.add_argument("--height", type=int, default=1024)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--compile", action="store_true", help="torch.compile")
    parser.add_argument("--compile-mode", default="default", help="torch.compile's mode, such as max-autotune-no-cudagraphs")
    parser.add_argument("--freeze", action="store_true", help="with --compile: weights are constants, packed once")
    parser.add_argument("--graph", action="store_true", help="with --compile: also captured in a CUDA graph and replayed")
    parser.add_argument("--eager", action="store_true", help="with --compile: eager as well")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--beside", metavar="COMMAND", action="append", help="take turns with this program")
    parser.add_argument("--turns", type=int, default=1)
    parser.add_argument("--save", required=True, help="JSON file to write, one for each {turn}")
    args = parser.parse_args()
    if (args.turns > 1 or "{turn}" in args.save) != bool(args.beside):
        parser.error("--beside, --turns and a {turn} in --save go together")

    torch._inductor.config.freezing = args.freeze
    torch.set_num_threads(args.threads)
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True  # engines chosen by measurement
    device, dtype = torch.device(args.device), flux_peer.DTYPES[args.dtype]
    generator = torch.Generator().manual_seed(args.seed)
    work = (vae_work if args.part == "vae" else text_work)(args, device, dtype, generator)
    sets = [work.draw() for _ in range(INPUT_SETS)]
    with torch.inference_mode():
        forms = make_forms(args, work.eager, sets)
        measure = lambda turn: [result_of(args, work.subject, form, sets, turn) for form in forms]  # noqa: E731
        plans = {form.name: plan_of("forward", form.kernels) for form in forms if form.kernels}
        for turn, results in in_turns(args.beside, args.turns, measure):
            peer_result.write(args.save.replace("{turn}", str(turn)), results, plans)
            tell(results)


if __name__ == "__main__":
    main()
