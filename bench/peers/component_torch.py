#!/usr/bin/env python3
"""Times one pass of a network in PyTorch, eager, compiled, and compiled in a CUDA graph, or in OpenVINO (--engine), raw
trials kept. The networks are diffusers' AutoencoderKL, AutoencoderTiny, AutoencoderKLQwenImage, UNet2DConditionModel
and UNet2DModel, channels-last, transformers' CLIPTextModel, T5EncoderModel and the language half of Qwen2.5-VL, and our
own LiveStreamUNet, whose definition is with its goldens.

    python3 bench/peers/component_torch.py vae --pass decode --device cuda --dtype bf16 --height 1024 --width 1024 --compile --graph \\
        --rounds 6 --beside "build/release/headroom bench flux-vae --random-weights 0 --pass decode --height 1024 --width 1024 \\
        --device cuda --opt lossless --out headroom-{round}.json" --save pytorch-{round}.json

Random weights, as Headroom's stand-ins are: 0.02 randn, and 1 + 0.02 randn for the gains of norms. With --beside this
process, compiled once, alternates with another program, so that both meet the same moods of a shared machine; {round}
in that command and in --save becomes the number of the round. With --cache what torch.compile makes is kept in that
folder, and a later run on such a machine takes it from there instead of compiling for minutes. Pin a processor's cores
from outside (taskset). Needs PyTorch, diffusers and numpy, and transformers for the text encoders, and OpenVINO where
that is the engine.
"""

import argparse
import contextlib
import lzma
import pathlib
import sys
import time
from typing import Callable, NamedTuple

import torch
import torch._inductor.config

from diffusers import AutoencoderKL, AutoencoderKLQwenImage, AutoencoderTiny, UNet2DConditionModel, UNet2DModel

import flux_peer
import flux_shapes
import peer_result
import qwen_shapes
import unet_shapes
from flux_torch import Form, openvino_form, peak_bytes, time_cpu, time_cuda
from launched import kernels_of
from rounds import add_arguments, parse, save_rounds

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "goldens"))
import live_stream_unet  # noqa: E402

INPUT_SETS = 2
TEXT_TOKENS = 77
UNETS = {"sd-turbo-unet": (UNet2DConditionModel, unet_shapes.SD_TURBO), "sdxl-unet": (UNet2DConditionModel, unet_shapes.SDXL),
         "pixel-unet": (UNet2DModel, unet_shapes.PIXEL)}
LIVE_UNET = "live-stream-unet"
VAES = {"vae": (AutoencoderKL, flux_shapes.VAE), "taesd": (AutoencoderTiny, unet_shapes.TAESD),
        "qwen-vae": (AutoencoderKLQwenImage, qwen_shapes.VAE)}
QWEN_TEXT = "qwen_text_encoder"
NAMES = {"vae": "flux-vae", "qwen-vae": "qwen-image-vae", QWEN_TEXT: "qwen2.5-vl-7b"}  # where Headroom has another


def channels_last(x):
    """Of images and of filters, also of frames; anything else as it is."""
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    return x.to(memory_format=formats[x.ndim]) if x.ndim in formats else x


def random_image_network(kind, config, device, dtype, seed):
    with torch.device("meta"):
        model = kind.from_config(config)
    model = flux_peer.fill(model.to(dtype).to_empty(device=device).eval(), seed)
    for parameter in model.parameters():
        parameter.data = channels_last(parameter.data)
    return model


def random_vae(device, dtype, seed, part="vae"):
    return random_image_network(*VAES[part], device, dtype, seed)


def random_text_encoder(part, device, dtype, seed):
    """text_encoder: CLIP-L; text_encoder_2: T5-XXL; QWEN_TEXT: the language half of Qwen2.5-VL 7B, which keeps no
    keys and values
    """
    from transformers import CLIPTextConfig, CLIPTextModel, T5Config, T5EncoderModel
    from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import Qwen2_5_VLTextConfig, Qwen2_5_VLTextModel
    kind, config = {"text_encoder": (CLIPTextModel, CLIPTextConfig(**flux_shapes.CLIP)),
                    "text_encoder_2": (T5EncoderModel, T5Config(**flux_shapes.T5)),
                    QWEN_TEXT: (Qwen2_5_VLTextModel, Qwen2_5_VLTextConfig(**qwen_shapes.LANGUAGE, use_cache=False))}[part]
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    with torch.device(device):
        model = kind(config)
    torch.set_default_dtype(before)
    return flux_peer.fill(model.eval(), seed)


class Pass(torch.nn.Module):
    """One pass of a network as a module of tensors alone: what is compiled and captured. Gives a tuple."""

    def __init__(self, model, which):
        super().__init__()
        self.model, self.which = model, which

    def forward(self, x, *given):
        if self.which == "decode":
            return self.model.decode(x, return_dict=False)
        if self.which == "encode":
            made = self.model.encode(x, return_dict=False)[0]
            return (made,) if torch.is_tensor(made) else (made.mean, made.logvar)
        if self.which == "step":
            return self.model(x, *given)
        if len(given) > 2:  # SDXL
            timestep, text, pooled, ids = given
            return self.model(x, timestep, text, added_cond_kwargs={"text_embeds": pooled, "time_ids": ids}, return_dict=False)
        return self.model(x, *given, return_dict=False)


def capture(module, inputs):
    """The module captured in a CUDA graph; returns replay(inputs), which copies in and gives the output, and holds
    the module.
    """
    static = [x.clone(memory_format=torch.preserve_format) for x in inputs]
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            module(*static)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = module(*static)

    def replay(inputs):
        for to, given in zip(static, inputs):
            to.copy_(given)
        graph.replay()
        return output

    replay.module = module
    return replay


class Work(NamedTuple):
    """What is timed, named as Headroom names it."""
    subject: dict
    eager: torch.nn.Module
    draw: Callable  # a tuple of inputs
    is_image: bool  # or pixels, or latents: then it is channels-last


def subject_of(args, which, **size):
    return {"kind": "model", "name": NAMES.get(args.part, args.part), "request": {"pass": which, "batch": args.batch, **size}}


def normal(shape, device, dtype, generator):
    return channels_last(torch.randn(shape, generator=generator).to(device, dtype))


def vae_work(args, device, dtype, generator):
    config, frames = VAES[args.part][1], (1,) * (args.part == "qwen-vae")
    shape = (args.batch, 3, *frames, args.height, args.width)
    if args.which == "decode":
        shape = (args.batch, config.get("latent_channels") or config["z_dim"], *frames, args.height // 8, args.width // 8)
    return Work(subject_of(args, args.which, height=args.height, width=args.width),
                Pass(random_vae(device, dtype, args.seed, args.part), args.which),
                lambda: (normal(shape, device, dtype, generator),), True)


def unet_work(args, device, dtype, generator):
    kind, config = UNETS[args.part]
    model = random_image_network(kind, config, device, dtype, args.seed)
    if args.merge_qkv:
        model.fuse_qkv_projections()
    latents = 1 if args.part == "pixel-unet" else 8  # pixels along a side of what it reads
    draw_normal = lambda *shape: normal((args.batch, *shape), device, dtype, generator)  # noqa: E731

    def draw():
        inputs = [draw_normal(config["in_channels"], args.height // latents, args.width // latents),
                  1000 * torch.rand(args.batch, generator=generator).to(device)]
        if "cross_attention_dim" in config:
            inputs.append(draw_normal(TEXT_TOKENS, config["cross_attention_dim"]))
        if "addition_time_embed_dim" in config:
            inputs += [draw_normal(1280), torch.tensor([[1024, 1024, 0, 0, 1024, 1024]] * args.batch).to(device, dtype)]
        return tuple(inputs)

    return Work(subject_of(args, "forward", height=args.height, width=args.width), Pass(model, "forward"), draw, True)


def live_work(args, device, dtype, generator):
    config = live_stream_unet.LARGE
    model = random_image_network(live_stream_unet.LiveStreamUNet, config, device, dtype, args.seed)

    def draw():
        frames = [normal((args.batch, config["out_channels"], args.height, args.width), device, dtype, generator) for _ in range(3)]
        memory = normal((args.batch, config["memory_frames"], config["memory_dim"]), device, dtype, generator)
        position = torch.randint(config["memory_frames"], (), generator=generator).to(device)
        return (*frames, memory, position, 1000 * torch.rand(args.batch, generator=generator).to(device))

    return Work(subject_of(args, "step", height=args.height, width=args.width), Pass(model, "step"), draw, True)


def text_work(args, device, dtype, generator):
    tokens = {"text_encoder": 77, "text_encoder_2": 512, QWEN_TEXT: args.text_tokens}[args.part]
    model = random_text_encoder(args.part, device, dtype, args.seed)
    return Work(subject_of(args, "encode", text_tokens=tokens), Pass(model, "forward"),
                lambda: (torch.randint(model.config.vocab_size, (args.batch, tokens), generator=generator).to(device),), False)


def work_of(args, device, dtype, generator):
    make = live_work if args.part == LIVE_UNET else unet_work if args.part in UNETS else vae_work if args.part in VAES else text_work
    return make(args, device, dtype, generator)


class CompileCache:
    """What torch.compile made of a work, in a file of a folder; nothing where no folder is given."""

    def __init__(self, folder, args):
        size = [f"{args.batch}x{args.height}x{args.width}", args.dtype, args.compile_mode]
        which = [args.which] * (args.part in VAES)
        name = "-".join([args.part, *which, *size, *["qkv"] * args.merge_qkv, *["autocast"] * args.autocast])
        self.path = pathlib.Path(folder) / f"{name}.xz" if folder else None

    def load(self):
        if self.path and self.path.exists():
            torch.compiler.load_cache_artifacts(lzma.decompress(self.path.read_bytes()))
            return True
        return False

    def save(self):
        made = torch.compiler.save_cache_artifacts() if self.path else None
        if made:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_bytes(lzma.compress(made[0], preset=0))


def make_forms(args, work, sets):
    """Eager, and with --compile and --graph those; with OpenVINO that alone."""
    if args.engine == "openvino":
        return [openvino_form(args.dtype, args.threads, work.eager, sets[0], lambda engine: lambda inputs: engine(*inputs))]
    on_gpu = args.device == "cuda"
    forms = []
    autocast = torch.autocast(args.device, torch.float16) if args.autocast else contextlib.nullcontext()
    how = [args.dtype] + ["autocast fp16"] * args.autocast + ["channels-last"] * work.is_image + ["merged QKV"] * args.merge_qkv

    def called(module):
        def call(inputs):
            with autocast:
                return module(*inputs)
        return call

    def add(prepare, applied, then=lambda: None):
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
        then()
        memory = peak_bytes() if on_gpu else {}
        forms.append(Form(prepared, how + applied, first_ms, memory, kernels_of(prepared, sets[0]) if on_gpu else []))

    if not args.compile or args.eager:
        add(lambda: called(work.eager), ["eager"])
    if args.compile:
        cache = CompileCache(args.cache, args)
        is_known = cache.load()
        compiled = torch.compile(work.eager, mode=args.compile_mode, fullgraph=work.is_image)
        add(lambda: called(compiled), [f"torch.compile({args.compile_mode})"] + ["freezing"] * args.freeze,
            then=(lambda: None) if is_known else cache.save)
        print(f"torch.compile took {forms[-1].first_ms / 1e3:.1f} s{', from the cache' if is_known else ''}", flush=True)
        if args.graph:
            with autocast:
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
        "work_hash": peer_result.work_hash(subject), "source": {"name": form.source, "version": form.version},
        "configuration": form.configuration(args.device),
        "trials": trials, "quality": form.quality, "tags": ["random_weights"],
    }
    return result | ({"memory": form.memory} if form.memory else {}) | ({"plan": name} if form.kernels else {})


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("part", choices=[*VAES, *UNETS, LIVE_UNET, "text_encoder", "text_encoder_2", QWEN_TEXT])
    parser.add_argument("--pass", dest="which", choices=["decode", "encode"], default="decode", help="of an autoencoder")
    parser.add_argument("--engine", choices=["pytorch", "openvino"], default="pytorch", help="what runs the network")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--dtype", choices=list(flux_peer.DTYPES), default="fp32")
    parser.add_argument("--height", type=int, default=1024)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--text-tokens", type=int, default=512, help="of Qwen-Image's text encoder")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--compile", action="store_true", help="torch.compile")
    parser.add_argument("--compile-mode", default="default", help="torch.compile's mode, such as max-autotune-no-cudagraphs")
    parser.add_argument("--freeze", action="store_true", help="with --compile: weights are constants, packed once")
    parser.add_argument("--merge-qkv", action="store_true", help="of a U-Net: one product for queries, keys and values")
    parser.add_argument("--autocast", action="store_true", help="fp16 where PyTorch's autocast has it, weights as --dtype says")
    parser.add_argument("--cache", metavar="FOLDER", help="with --compile: keep what is compiled there, and take it from there")
    parser.add_argument("--graph", action="store_true", help="with --compile: also captured in a CUDA graph and replayed")
    parser.add_argument("--eager", action="store_true", help="with --compile: eager as well")
    parser.add_argument("--threads", type=int, default=2)
    add_arguments(parser, trials=10)
    args = parse(parser)
    if args.engine == "openvino" and (args.device != "cpu" or args.dtype == "fp16" or args.compile or args.merge_qkv or args.autocast):
        parser.error("--engine openvino needs --device cpu and --dtype fp32 or bf16, and takes no option of PyTorch's")

    torch._inductor.config.freezing = args.freeze
    torch.set_num_threads(args.threads)
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True  # engines chosen by measurement
    # OpenVINO takes the network and its inputs in fp32 and rounds them itself.
    device, dtype = torch.device(args.device), flux_peer.DTYPES["fp32" if args.engine == "openvino" else args.dtype]
    generator = torch.Generator().manual_seed(args.seed)
    work = work_of(args, device, dtype, generator)
    sets = [work.draw() for _ in range(INPUT_SETS)]
    with torch.inference_mode():
        forms = make_forms(args, work, sets)
        measure = lambda number: [result_of(args, work.subject, form, sets, number) for form in forms]  # noqa: E731
        save_rounds(args, forms, measure)


if __name__ == "__main__":
    main()
