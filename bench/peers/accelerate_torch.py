#!/usr/bin/env python3
"""headroom.accelerate() against torch.compile, both in diffusers, with random weights.

    accelerate_torch.py flux --optimize lossless --save flux.json         the whole call of FluxPipeline, FLUX.1-dev
    accelerate_torch.py flux --optimize lossless,fp8 --fp8 --save fp8.json   the same with FP8 products on both sides
    accelerate_torch.py unet --save unet.json                             a call of SD-Turbo's U-Net

FLUX: prompt embeds are given, latents come out. The peer has merged QKV, cuDNN's attention, and each kind of block
compiled. The U-Net: the peer is compiled as a whole and captured in a CUDA graph. Both sides alternate in one process.
Also measured: the time from accelerate() to the end of the first step, what accelerate() adds to the GPU's memory in
use at its peak and afterwards, and the step of our own pipeline. Needs PyTorch, diffusers and the package headroom.
"""

import argparse
import gc
import json
import os
import statistics
import sys
import time

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

import diffusers
import flux_peer
import flux_shapes
import headroom
import unet_shapes

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
from accelerate_memory import Peak, warm_up  # noqa: E402


def synchronize(device):
    if device == "cuda":
        torch.cuda.synchronize()


def milliseconds_of(call, device):
    synchronize(device)
    start = time.perf_counter()
    call()
    synchronize(device)
    return (time.perf_counter() - start) * 1e3


def alternate(sides, rounds, device):
    """Times of each side, in turn, each next round in the other order."""
    times = {name: [] for name in sides}
    for index in range(rounds):
        for name in list(sides)[:: 1 if index % 2 else -1]:
            times[name].append(milliseconds_of(sides[name], device))
    return times


def ratio(times, peer, ours):
    return statistics.median(times[peer]) / statistics.median(times[ours])


def flux_model(args):
    if not args.tiny:
        return flux_peer.random_model(args.device, torch.bfloat16, 0)
    config = {**flux_shapes.transformer("dev"), "num_layers": 1, "num_single_layers": 1, "num_attention_heads": 2,
              "joint_attention_dim": 64, "pooled_projection_dim": 32}
    return flux_peer.fill(diffusers.FluxTransformer2DModel.from_config(config).to(args.device).eval(), 0)


def flux_pipe(transformer, args):
    """A pipeline that reads no text and does not decode; its autoencoder is asked for its sizes alone."""
    scheduler = diffusers.FlowMatchEulerDiscreteScheduler(
        use_dynamic_shifting=True, base_shift=0.5, max_shift=1.15, base_image_seq_len=256, max_image_seq_len=4096, shift=3.0)
    vae = diffusers.AutoencoderKL.from_config(flux_shapes.VAE | {"block_out_channels": [8] * 4, "norm_num_groups": 4})
    vae.to(args.device, transformer.dtype)
    pipe = diffusers.FluxPipeline(scheduler, vae, None, None, None, None, transformer)
    pipe.set_progress_bar_config(disable=True)
    return pipe


class FluxCall:
    """The pipeline's own __call__, which notes when its steps end."""

    def __init__(self, pipe, args):
        self.pipe, self.args, self.ends = pipe, args, []
        config = pipe.transformer.config
        generator = torch.Generator().manual_seed(1)
        draw = lambda *shape: torch.randn(*shape, generator=generator).to(args.device, pipe.transformer.dtype)  # noqa: E731
        self.embeds = {"prompt_embeds": draw(1, 512, config["joint_attention_dim"]),
                       "pooled_prompt_embeds": draw(1, config["pooled_projection_dim"])}

    def __call__(self):
        self.ends = []

        def note(_pipe, _step, _time, kwargs):
            synchronize(self.args.device)
            self.ends.append(time.perf_counter())
            return kwargs

        with torch.no_grad():
            return self.pipe(
                **self.embeds, height=self.args.size, width=self.args.size, num_inference_steps=self.args.steps,
                guidance_scale=3.5, generator=torch.Generator(self.args.device).manual_seed(0), output_type="latent",
                callback_on_step_end=note,
            ).images  # fmt: skip

    def step_ms(self):
        return statistics.median((b - a) * 1e3 for a, b in zip(self.ends, self.ends[1:]))


def own_steps(args):
    """Milliseconds of the steps of our own pipeline."""
    pipeline = headroom.Pipeline("flux-dev", args.device, optimize=args.optimize, random_weights=0, baseline="bf16")
    generator = pipeline.generator(height=args.size, width=args.size, steps=args.steps, text_tokens=512)
    steps = []
    for _ in range(3):
        generator.generate(label=0, seed=0, callback=lambda _step, ms: steps.append(ms))
    return steps[args.steps :]


def flux(args):
    result = {"work": f"FLUX.1-dev {args.size}x{args.size}, {args.steps} steps, FluxPipeline.__call__ to latents"}
    model = flux_model(args)
    weights = sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
    ours = FluxCall(flux_pipe(model, args), args)
    warm_up(args.device, args.optimize)
    synchronize(args.device)
    peak = Peak(args.device)
    start = time.perf_counter()
    headroom.accelerate(model, optimize=args.optimize, release=args.release, strict=True)
    after_accelerate = time.perf_counter()
    first = ours()
    added_peak, added = peak.stop()
    result["accelerate"] = {
        "release": args.release, "weights_bytes": weights, "added_peak_bytes": added_peak, "added_bytes": added,
        "accelerate_s": round(after_accelerate - start, 3), "to_first_step_s": round(ours.ends[0] - start, 3),
        "latents_std": float(first.float().std()),
    }  # fmt: skip
    print(json.dumps(result["accelerate"]), flush=True)

    sides = {"accelerated": ours}
    if not args.no_peer:
        other = flux_model(args)
        flux_peer.merge_qkv(other)
        if args.fp8:
            flux_peer.quantize_fp8(*other.transformer_blocks, *other.single_transformer_blocks)
        if not args.tiny:
            flux_peer.compile_blocks(other, args.compile_mode)
        peer = FluxCall(flux_pipe(other, args), args)

        def compiled():
            with sdpa_kernel(SDPBackend.CUDNN_ATTENTION if args.device == "cuda" else SDPBackend.MATH):
                return peer()

        result["compile_s"] = round(milliseconds_of(compiled, args.device) / 1e3, 1)
        sides["compiled"] = compiled
    for side in sides.values():
        side()
    times = result["call_ms"] = alternate(sides, args.rounds, args.device)
    result["step_ms"] = {"accelerated": ours.step_ms()}
    if not args.no_peer:
        result["step_ms"]["compiled"] = peer.step_ms()
        result["compiled_over_accelerated"] = round(ratio(times, "compiled", "accelerated"), 4)
        del peer, other, compiled, sides
    gc.collect()
    if args.device == "cuda":
        torch.cuda.empty_cache()
    if args.release != "drop":  # again, now that the kernels' algorithms are chosen
        headroom.restore(model)
        synchronize(args.device)
        start = time.perf_counter()
        headroom.accelerate(model, optimize=args.optimize, release=args.release, strict=True)
        ours()
        result["accelerate"]["again_to_first_step_s"] = round(ours.ends[0] - start, 3)
    if not args.tiny:
        steps = own_steps(args)
        result["own_step_ms"] = steps
        result["accelerated_step_over_own"] = round(result["step_ms"]["accelerated"] / statistics.median(steps), 4)
    return result


def unet(args):
    config = unet_shapes.SD_TURBO
    if args.tiny:
        config = config | {"block_out_channels": [32, 32, 64, 64], "attention_head_dim": [2, 2, 4, 4]}
    dtype = torch.bfloat16 if args.device == "cuda" else torch.float32
    with torch.device(args.device):
        models = [flux_peer.fill(diffusers.UNet2DConditionModel.from_config(config).to(dtype).eval(), 0) for _ in range(2)]
        sample = torch.randn(1, 4, args.latent, args.latent, dtype=dtype)
        text = torch.randn(1, 77, config["cross_attention_dim"], dtype=dtype)
        when = torch.tensor(999)
    accelerated, peer = models
    with torch.no_grad():
        eager = peer(sample, when, text, return_dict=False)[0]
        headroom.accelerate(accelerated, optimize=args.optimize, release=args.release, strict=True)
        ours = accelerated(sample, when, text, return_dict=False)[0]
        error = float((ours.double() - eager.double()).norm() / eager.double().norm())
        sides = {"accelerated": lambda: accelerated(sample, when, text, return_dict=False)}
        if args.device == "cuda":
            peer.to(memory_format=torch.channels_last)
            peer.fuse_qkv_projections()
            module = torch.compile(peer, mode=args.compile_mode, fullgraph=True)
            start = time.perf_counter()
            inputs = [sample.clone(memory_format=torch.channels_last), when, text]
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                for _ in range(3):
                    module(*inputs, return_dict=False)
            torch.cuda.current_stream().wait_stream(stream)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                module(*inputs, return_dict=False)
            print(f"compiled and captured in {time.perf_counter() - start:.1f} s", flush=True)

            def compiled():
                inputs[0].copy_(sample)
                graph.replay()

            sides["compiled"] = compiled
        for side in sides.values():
            for _ in range(10):
                side()
        times = alternate(sides, args.rounds * 25, args.device)
    result = {"work": f"SD-Turbo U-Net, latents {args.latent}x{args.latent}, one call", "relative_l2_to_eager": error,
              "call_ms": times}  # fmt: skip
    if "compiled" in times:
        result["compiled_over_accelerated"] = round(ratio(times, "compiled", "accelerated"), 4)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["flux", "unet"])
    parser.add_argument("--optimize", default="lossless")
    parser.add_argument("--release", default="torch", choices=["torch", "keep", "drop"])
    parser.add_argument("--fp8", action="store_true", help="the peer's products in FP8 too")
    parser.add_argument("--no-peer", action="store_true")
    parser.add_argument("--compile-mode", default="default")
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--latent", type=int, default=64)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true", help="small networks, to try this script where there is no GPU")
    parser.add_argument("--save")
    args = parser.parse_args()
    result = {"flux": flux, "unet": unet}[args.what](args)
    result |= {"optimize": args.optimize, "fp8_peer": args.fp8, "compile_mode": args.compile_mode,
               "torch": torch.__version__, "diffusers": diffusers.__version__, "headroom": headroom.version(),
               "device": headroom.Device(args.device).description}
    text = json.dumps(result, indent=1)
    if args.save:
        with open(args.save, "w", encoding="utf-8") as file:
            file.write(text + "\n")
    print(json.dumps({name: value for name, value in result.items() if name not in ("call_ms", "own_step_ms")}))


if __name__ == "__main__":
    main()
