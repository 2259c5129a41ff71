#!/usr/bin/env python3
"""Makes the goldens of FLUX pipelines: small folders, requests, and what diffusers makes of them in double precision.

    python3 tests/goldens/make_flux_pipelines.py --out tests/goldens/pipelines

flux-dev, flux-schnell and flux-kontext are folders as diffusers writes them (tiny_flux_folder.py), F32 and random, with

    requests.json         by name: the arguments that the pipeline is called with, the seed of its noise, and of a
                          reference its height and width
    expected.safetensors  by `<request>.<name>`, of that request:

        noise [images, tokens, channels]                        F32; packed, what a torch.Generator of the seed draws
        clip_ids [images, 77], t5_ids [images, text tokens]     I64
        pooled_prompt_embeds [images, width], prompt_embeds [images, text tokens, width]
        txt_ids [text tokens, 3], img_ids [tokens, 3]           img_ids of the reference behind those of the noise
        sigmas [steps + 1]                                      the transformer's timesteps, and 0
        latents [steps, images, tokens, channels]               F32; packed, after every step
        image [images, 3, height, width]                        F32; decoded, unclamped
        image_u8 [images, height, width, 3]                     U8; the image to save
        reference [height, width, 3], reference_resized         U8; of Kontext: the input, and what is encoded of it
        reference_latents [images, tokens, channels]            of Kontext: packed

`negative_` precedes what true classifier-free guidance takes as well. What names no type is F64. `*_bf16_error` is
how far diffusers in bf16 is from it (relative L2). flux-kontext also has sizes.json, what sizes ([height, width]) the
pipeline makes of those it is given, and resize.safetensors: `<n>.image` and `<n>.resized`, U8 [height, width, 3], as
Pillow resizes for it.

Runs on a CPU in a minute. Needs PyTorch, transformers, diffusers, safetensors, sentencepiece (spm_train) and Pillow.
The committed files are by diffusers 0.35.2 and transformers 4.45 (development, August 2024) under PyTorch 1.13, which
lacks scaled_dot_product_attention and RMSNorm and was given their plain definitions, and whose group_norm was given
contiguous tensors, for it is wrong in bf16 where channels are last.
resize.safetensors is by a Pillow before 13, which resizes along x first; 13 resizes `0.resized` along y first
(findings/pillow-resize-order.sh).

A double pipeline is not double throughout: models, scheduler and image processor cast to float32. While a golden is
computed, such casts go to float64, and an operation that returns another floating-point dtype stops the script.
"""

import argparse
import contextlib
import json
import sys
from pathlib import Path

import diffusers
import diffusers.image_processor as image_processor
import diffusers.schedulers.scheduling_flow_match_euler_discrete as scheduling
import numpy as np
import PIL.Image
import torch
import transformers
from diffusers import AutoencoderKL, FlowMatchEulerDiscreteScheduler, FluxTransformer2DModel
from safetensors.torch import save_file
from torch.nn.attention import SDPBackend, sdpa_kernel
from transformers import CLIPTextModel, CLIPTokenizer, T5EncoderModel, T5Tokenizer

from make_text_encoders import InDouble
from make_tokens import write
from tiny_flux_folder import write_folder

# Letters that NFC composes, spaces that collapse, letters that no piece has. Nothing that ftfy mends, which
# transformers uses for CLIP's prompts where it is installed.
ACCENTS = "Ein süßer  Käfer auf der ÉLAN-Tu\u0308r,\tŁódź & Ёлка: ½ price 👍"
LONG = ("A very long description of a small harbour at dawn, with fishing boats in red and green, nets that dry on the "
        "quay, gulls over the water, an old man who mends a sail, and behind them all the white houses of the town, "
        "their windows still dark, under a sky of pale gold; highly detailed, 8k, by nobody in particular")
DYNAMIC = dict(base_image_seq_len=256, base_shift=0.5, max_image_seq_len=4096, max_shift=1.15, num_train_timesteps=1000,
               shift=3.0, use_dynamic_shifting=True)
NEWER = dict(invert_sigmas=False, shift_terminal=None, stochastic_sampling=False, time_shift_type="exponential",
             use_beta_sigmas=False, use_exponential_sigmas=False, use_karras_sigmas=False)

CASES = {
    "flux-dev": dict(
        pipeline="FluxPipeline", absent=[], seed=41, scheduler=DYNAMIC,
        end_of_text=2,  # as published: CLIP then pools at the highest id
        clip=dict(hidden_size=20, intermediate_size=44, num_attention_heads=2),
        t5=dict(d_model=28, d_kv=10, num_heads=3, d_ff=44),
        transformer=dict(num_layers=2, num_single_layers=2, attention_head_dim=12, num_attention_heads=2,
                         guidance_embeds=True, axes_dims_rope=[4, 2, 6]),
        vae=dict(latent_channels=16, block_out_channels=[8, 8, 12, 12]),
        requests={
            "plain": dict(prompt=[ACCENTS, LONG], height=64, width=96, num_inference_steps=4, guidance_scale=3.5,
                          max_sequence_length=32, seed=1),
            "true_cfg": dict(prompt=["A red fox in the snow"], prompt_2=["Ｆｕｌｌ width, ﬁne art: " + ACCENTS],
                             negative_prompt=["blurry, 8k"], true_cfg_scale=2.0, height=80, width=48,
                             num_inference_steps=3, guidance_scale=2.25, max_sequence_length=40, seed=2)}),
    "flux-schnell": dict(
        pipeline="FluxPipeline", absent=[], seed=42, end_of_text=2,
        scheduler={**DYNAMIC, "shift": 1.0, "use_dynamic_shifting": False},
        clip=dict(hidden_size=24, intermediate_size=40, num_attention_heads=3),
        t5=dict(d_model=20, d_kv=8, num_heads=2, d_ff=36),
        transformer=dict(num_layers=1, num_single_layers=2, attention_head_dim=8, num_attention_heads=3,
                         guidance_embeds=False, axes_dims_rope=[2, 2, 4]),
        vae=dict(latent_channels=4, block_out_channels=[4, 4, 8, 8]),
        requests={
            "plain": dict(prompt=[LONG, ACCENTS], height=48, width=80, num_inference_steps=4, guidance_scale=0.0,
                          max_sequence_length=24, seed=3),
            "one_step": dict(prompt=[""], height=64, width=32, num_inference_steps=1, guidance_scale=0.0,
                             max_sequence_length=256, seed=4)}),
    "flux-kontext": dict(
        pipeline="FluxKontextPipeline", absent=["feature_extractor", "image_encoder"], seed=43,
        scheduler={**DYNAMIC, **NEWER},
        end_of_text=None,
        clip=dict(hidden_size=18, intermediate_size=40, num_attention_heads=3),
        t5=dict(d_model=22, d_kv=6, num_heads=4, d_ff=40),
        transformer=dict(num_layers=1, num_single_layers=1, attention_head_dim=10, num_attention_heads=2,
                         guidance_embeds=True, axes_dims_rope=[2, 4, 4]),
        vae=dict(latent_channels=4, block_out_channels=[4, 8, 8, 12]),
        requests={
            "reference": dict(prompt=[LONG, ACCENTS], reference=(61, 47), height=48, width=64, max_area=48 * 64,
                              _auto_resize=False, num_inference_steps=3, guidance_scale=3.5,
                              max_sequence_length=32, seed=5),
            "true_cfg": dict(prompt=["make the fox blue"], negative_prompt=[LONG], true_cfg_scale=1.5,
                             reference=(48, 80), height=512, width=300, max_area=64 * 64, _auto_resize=False,
                             num_inference_steps=2, guidance_scale=2.5, max_sequence_length=28, seed=6),
            "no_reference": dict(prompt=[ACCENTS], height=32, width=32, max_area=32 * 48, num_inference_steps=2,
                                 guidance_scale=2.5, max_sequence_length=16, seed=7)}),
}

REFERENCE_SIZES = [(1024, 1024), (512, 512), (61, 47), (16, 16), (31, 17), (1080, 1920), (1920, 1080), (672, 1568),
                   (1568, 672), (200, 2000), (2000, 200), (768, 512), (512, 768), (1333, 2000), (500, 333), (47, 33),
                   (1504, 688), (1600, 1000), (1023, 1025), (100, 121), (121, 100), (897, 1111), (650, 1000),
                   (1000, 1490)]
ASKED_SIZES = [(None, None), (512, 512), (1024, 1024), (720, 1280), (1280, 720), (64, 96), (96, 64), (1000, 100),
               (100, 999), (1, 1), (333, 777), (768, 1344), (1568, 672), (900, 1600), (1600, 900), (480, 640),
               (1023, 1025)]
RESIZES = [((61, 47), (48, 64)), ((13, 9), (40, 33)), ((90, 70), (16, 7)), ((48, 64), (48, 32)), ((1, 5), (3, 4))]


class DoubleNumpy:
    """numpy, but that float32 is float64."""

    float32 = np.float64

    def __getattr__(self, name):
        return getattr(np, name)


def load(folder, case, dtype):
    part = lambda kind, name: kind.from_pretrained(str(folder / name), torch_dtype=dtype)  # noqa: E731
    pipeline = getattr(diffusers, case["pipeline"])(
        scheduler=FlowMatchEulerDiscreteScheduler.from_pretrained(str(folder / "scheduler")),
        tokenizer=CLIPTokenizer.from_pretrained(str(folder / "tokenizer")),
        tokenizer_2=T5Tokenizer.from_pretrained(str(folder / "tokenizer_2")),
        text_encoder=part(CLIPTextModel, "text_encoder"), text_encoder_2=part(T5EncoderModel, "text_encoder_2"),
        transformer=part(FluxTransformer2DModel, "transformer"), vae=part(AutoencoderKL, "vae"))
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def picture(size):
    """Waves with noise over them: edges, flat parts and all values. [height, width, 3] U8"""
    height, width = size
    draw = np.random.RandomState(height * 10_000 + width)
    rows, columns = np.mgrid[0:height, 0:width]
    waves = np.stack([np.sin(rows / 5 + c) + np.cos(columns / (3 + c)) for c in range(3)], axis=-1)
    noise = draw.randint(-60, 61, size=(height, width, 3))
    return np.clip(np.rint(128 + 90 * waves + noise), 0, 255).astype(np.uint8)


def spy(owner, name):
    """The list that every call of owner.name is put in, as (arguments, named arguments, result)."""
    calls, function = [], getattr(owner, name)

    def call(*arguments, **named):
        calls.append((arguments, named, function(*arguments, **named)))
        return calls[-1][2]

    setattr(owner, name, call)
    return calls


def run(pipeline, request, noise=None):
    """All that the pipeline computes on its way to the image; without noise, that of the request's seed."""
    clip, t5 = spy(pipeline.text_encoder, "forward"), spy(pipeline.text_encoder_2, "forward")
    steps, decoded = spy(pipeline.transformer, "forward"), spy(pipeline.vae, "decode")
    prepared, resized = spy(pipeline, "prepare_latents"), spy(pipeline.image_processor, "resize")
    latents = []
    arguments = {name: value for name, value in request.items() if name not in ("seed", "reference")}
    if "reference" in request:
        reference = picture(request["reference"])
        arguments["image"] = PIL.Image.fromarray(reference)
    images = pipeline(**arguments, latents=noise, generator=torch.Generator().manual_seed(request["seed"]),
                      callback_on_step_end=lambda _, step, time, state: latents.append(state["latents"]) or {}).images

    result = {}
    for i, sign in enumerate(["", "negative_"] if "negative_prompt" in request else [""]):
        step = steps[i][1]
        result |= {sign + "clip_ids": clip[i][0][0], sign + "t5_ids": t5[i][0][0],
                   sign + "pooled_prompt_embeds": step["pooled_projections"],
                   sign + "prompt_embeds": step["encoder_hidden_states"]}
    first = steps[0][1]
    result |= {"noise": prepared[0][2][0], "txt_ids": first["txt_ids"], "img_ids": first["img_ids"],
               "sigmas": pipeline.scheduler.sigmas, "latents": torch.stack(latents), "image": decoded[0][2][0],
               "image_u8": torch.stack([torch.from_numpy(np.array(image)) for image in images])}
    if "reference" in request:
        result |= {"reference": torch.from_numpy(reference), "reference_latents": prepared[0][2][1],
                   "reference_resized": torch.from_numpy(np.array(resized[0][2]))}
    return result


@contextlib.contextmanager
def pipelines_in_double():
    """What pipelines, the schedule of levels and image processing make is in double precision."""
    torch.set_default_dtype(torch.float64)
    scheduling.np = image_processor.np = DoubleNumpy()
    try:
        yield
    finally:
        scheduling.np = image_processor.np = np
        torch.set_default_dtype(torch.float32)


def run_double(folder, case, request, noise):
    with pipelines_in_double():
        pipeline = load(folder, case, torch.float64)
        with InDouble():
            return run(pipeline, request, noise.double())


def make_request(folder, case, request):
    single = run(load(folder, case, torch.float32), request)
    golden = run_double(folder, case, request, single["noise"])
    narrow = run(load(folder, case, torch.bfloat16), request, single["noise"].bfloat16())

    def error(other, name):
        return ((other[name].double() - golden[name]).norm() / golden[name].norm().clamp(min=1e-30)).item()

    tensors = {}
    for name, tensor in golden.items():
        if tensor.is_floating_point():
            if tensor.dtype != torch.float64 or not torch.isfinite(tensor).all():
                sys.exit(f"{folder}: {name} is {tensor.dtype} and must be finite float64")
            if not error(single, name) < 1e-4:
                sys.exit(f"{folder}: float32 diffusers is {error(single, name):.2e} from {name}")
        elif tensor.dtype == torch.int64 and not torch.equal(tensor, single[name]):
            sys.exit(f"{folder}: {name} differs in float32")
        tensors[name] = tensor.float() if name in ("noise", "latents", "image") else tensor
        if name in ("prompt_embeds", "pooled_prompt_embeds", "reference_latents", "latents", "image"):
            tensors[name + "_bf16_error"] = torch.tensor([error(narrow, name)], dtype=torch.float64)
    image = golden["image"]
    print(f"  {list(image.shape)}: rms {image.square().mean().sqrt().item():.3f}, clamped "
          f"{(image.abs() > 1).double().mean().item():.3f}, levels {len(golden['image_u8'].unique())}; float32 within "
          f"{error(single, 'latents'):.1e}, bf16 within {error(narrow, 'latents'):.1e} of the latents", flush=True)
    return {name: tensor.contiguous().clone() for name, tensor in tensors.items()}


class Prepared(Exception):
    """Thrown to leave a pipeline when it has found its sizes."""


def found_sizes(pipeline, reference, asked):
    """(height, width) of what FluxKontextPipeline encodes of a reference, and of what it makes."""
    def stop(image, batch, channels, height, width, *rest):
        raise Prepared(list(image.shape[2:]), [height, width])

    pipeline.prepare_latents = stop
    width = pipeline.transformer.config.joint_attention_dim
    try:
        pipeline(image=PIL.Image.new("RGB", reference[::-1]), height=asked[0], width=asked[1],
                 prompt_embeds=torch.zeros(1, 4, width), pooled_prompt_embeds=torch.zeros(1, 4))
    except Prepared as found:
        return found.args


def make_sizes(folder, case):
    pipeline = load(folder, case, torch.float32)
    references = [{"reference": size, "resized": found_sizes(pipeline, size, (None, None))[0]}
                  for size in REFERENCE_SIZES]
    outputs = [{"asked": size, "output": found_sizes(pipeline, (64, 64), size)[1]} for size in ASKED_SIZES]
    lines = lambda rows: ",\n".join("    " + json.dumps(row) for row in rows)  # noqa: E731
    (folder / "sizes.json").write_text(
        f'{{\n  "references": [\n{lines(references)}\n  ],\n  "outputs": [\n{lines(outputs)}\n  ]\n}}\n')
    resized = {}
    for i, (given, wanted) in enumerate(RESIZES):
        image = pipeline.image_processor.resize(PIL.Image.fromarray(picture(given)), *wanted)
        resized |= {f"{i}.image": torch.from_numpy(picture(given)), f"{i}.resized": torch.from_numpy(np.array(image))}
    save_file(resized, str(folder / "resize.safetensors"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", required=True, type=Path, help="folder to write the case folders in")
    parser.add_argument("--cases", default=",".join(CASES), help="comma-separated; default: %(default)s")
    args = parser.parse_args()
    for library in (diffusers, transformers):  # each says at length what a request truncates
        library.logging.set_verbosity_error()
    for name in args.cases.split(","):
        case, folder = CASES[name], args.out / name
        print(name, flush=True)
        write_folder(folder, case)
        write(folder / "requests.json", case["requests"], indent=2)
        expected = {}
        for request, arguments in case["requests"].items():
            made = make_request(folder, case, arguments)
            expected |= {f"{request}.{of}": tensor for of, tensor in made.items()}
        save_file(expected, str(folder / "expected.safetensors"))
        if case["pipeline"] == "FluxKontextPipeline":
            make_sizes(folder, case)
        print(f"  {sum(file.stat().st_size for file in folder.rglob('*') if file.is_file())} bytes", flush=True)


if __name__ == "__main__":
    main()
