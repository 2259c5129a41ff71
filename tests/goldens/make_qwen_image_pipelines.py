#!/usr/bin/env python3
"""Makes the goldens of Qwen-Image's pipeline: a small folder, requests, and diffusers' images in double precision.

    python3 tests/goldens/make_qwen_image_pipelines.py --out tests/goldens/pipelines

qwen-image is a folder as diffusers writes it (tiny_qwen_image_folder.py), F32 and random, with

    requests.json         by name: the arguments that the pipeline is called with, and the seed of its noise
    expected.safetensors  by `<request>.<name>`, of that request:

        noise [images, tokens, channels]                        F32; packed
        ids [images, text tokens]                               I64; padded on the right
        text_lengths [images]                                   I64; states of each text that the transformer reads
        prompt_embeds [images, text tokens, width]              F32; padded with zeros
        sigmas [steps + 1]                                      F64
        latents [images, tokens, channels]                      F32; packed, after the last step
        image [images, 3, height, width]                        F32; decoded

`negative_` precedes what guidance takes as well. `*_bf16_error` is how far diffusers in bf16 is from it (relative L2).
Runs on a CPU in seconds. Needs PyTorch, transformers, diffusers and safetensors. A double pipeline is not double
throughout: see make_flux_pipelines.py.
"""

import argparse
import json
import sys
from pathlib import Path

import diffusers
import torch
import transformers
from diffusers import AutoencoderKLQwenImage, FlowMatchEulerDiscreteScheduler, QwenImagePipeline, QwenImageTransformer2DModel
from safetensors.torch import save_file
from torch.nn.attention import SDPBackend, sdpa_kernel
from transformers import Qwen2Tokenizer

from make_flux_pipelines import pipelines_in_double, spy
from make_qwen_image import double_positions
from make_text_encoders import InDouble, in_double
from make_tokens import write
from tiny_qwen_image_folder import BEFORE, write_folder

# Texts of other lengths, for the encoder in buckets of 64: one that fills two, one of special tokens, one of composed
# letters.
LONG = ("A harbour at dawn; boats in red and green, nets on the quay, gulls over the water, an old man who mends a sail, and behind "
        "them all the white houses of the town")
CHINESE = "一只红色的狐狸坐在雪地里 🦊, \u00e9tude, ½"
CASES = {
    "qwen-image": dict(
        seed=51,
        language=dict(hidden_size=16, intermediate_size=20, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                      rms_norm_eps=1e-6, mrope_section=[1, 0, 1]),
        transformer=dict(num_layers=2, attention_head_dim=8, num_attention_heads=2, axes_dims_rope=[2, 2, 4]),
        vae=dict(base_dim=4, z_dim=3, dim_mult=[1, 2, 2], num_res_blocks=1, temperal_downsample=[False, True],
                 latents_mean=[-0.3, 0.2, 0.5], latents_std=[1.4, 0.8, 2.1]),
        requests={
            "guided": dict(prompt=["a red fox"], negative_prompt=[" "], true_cfg_scale=4.0, height=40, width=56, num_inference_steps=4, seed=1),
            "guided_by_a_long_text": dict(prompt=["fox"], negative_prompt=[LONG], true_cfg_scale=2.5, height=32, width=32,
                                          num_inference_steps=3, seed=2),
            "of_several_lengths": dict(prompt=[LONG, CHINESE], negative_prompt=["", "blurry"], true_cfg_scale=3.0, height=24, width=64,
                                       num_inference_steps=2, seed=3),
            "of_one_length": dict(prompt=["red fox"], negative_prompt=["red fog"], true_cfg_scale=3.0, height=16, width=24,
                                  num_inference_steps=2, seed=4),
            "truncated": dict(prompt=[LONG], height=24, width=16, num_inference_steps=3, max_sequence_length=60, seed=5),
            "special": dict(prompt=["<|im_end|>\n<|im_start|>user\n{} <|vision_start|>"], height=16, width=16, num_inference_steps=2, seed=6),
        }),
}


def load(folder, encoder, dtype):
    part = lambda kind, name: kind.from_pretrained(str(folder / name), torch_dtype=dtype)  # noqa: E731
    transformer = part(QwenImageTransformer2DModel, "transformer")
    if dtype == torch.float64:
        transformer.pos_embed = double_positions(list(transformer.config.axes_dims_rope))
    pipeline = QwenImagePipeline(scheduler=FlowMatchEulerDiscreteScheduler.from_pretrained(str(folder / "scheduler")),
                                 tokenizer=Qwen2Tokenizer.from_pretrained(str(folder / "tokenizer")),
                                 text_encoder=in_double(encoder) if dtype == torch.float64 else encoder.to(dtype),
                                 transformer=transformer, vae=part(AutoencoderKLQwenImage, "vae"))
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def run(pipeline, request, noise):
    """All that the pipeline computes on its way to the image."""
    encoded, texts = spy(pipeline.text_encoder, "forward"), spy(pipeline, "encode_prompt")
    decoded = spy(pipeline.vae, "decode")
    latents = []
    arguments = {name: value for name, value in request.items() if name != "seed"}
    pipeline(**arguments, latents=noise, callback_on_step_end=lambda _, step, time, state: latents.append(state["latents"]) or {})
    result = {"sigmas": pipeline.scheduler.sigmas, "latents": latents[-1], "image": decoded[0][2][0][:, :, 0]}
    for call, (states, mask), sign in zip(encoded, (text[2] for text in texts), ("", "negative_")):
        lengths = torch.full((len(states),), states.shape[1]) if mask is None else mask.sum(dim=1)
        result |= {sign + "ids": call[1]["input_ids"], sign + "prompt_embeds": states, sign + "text_lengths": lengths}
    for owner, name in ((pipeline.text_encoder, "forward"),):  # the encoder is used again
        delattr(owner, name)
    return result


def run_double(folder, encoder, request, noise):
    with pipelines_in_double():
        pipeline = load(folder, encoder, torch.float64)
        with InDouble():
            return run(pipeline, request, noise.double())


def make_request(folder, encoder, weights, case, request):
    pixels = 2 * 2 ** len(case["vae"]["temperal_downsample"])
    tokens = (request["height"] // pixels) * (request["width"] // pixels)
    draw = torch.Generator().manual_seed(request["seed"])
    noise = torch.randn(len(request["prompt"]), tokens, 4 * case["vae"]["z_dim"], generator=draw)
    narrow = run(load(folder, encoder, torch.bfloat16), request, noise.bfloat16())
    encoder.float().load_state_dict(weights)
    single = run(load(folder, encoder, torch.float32), request, noise)
    golden = run_double(folder, encoder, request, noise)
    encoder.float().load_state_dict(weights)
    return golden_tensors(folder, noise, golden, single, narrow)


def golden_tensors(folder, noise, golden, single, narrow):
    """What is stored of a request: all in double precision, and how far others are from it."""

    def error(other, name):
        return ((other[name].double() - golden[name]).norm() / golden[name].norm().clamp(min=1e-30)).item()

    tensors = {"noise": noise}
    for name, tensor in golden.items():
        if tensor.is_floating_point():
            if tensor.dtype != torch.float64 or not torch.isfinite(tensor).all():
                sys.exit(f"{folder}: {name} is {tensor.dtype} and must be finite float64")
            if not error(single, name) < 1e-4:
                sys.exit(f"{folder}: float32 diffusers is {error(single, name):.2e} from {name}")
        elif not torch.equal(tensor, single[name]):
            sys.exit(f"{folder}: {name} differs in float32")
        tensors[name] = tensor.float() if tensor.is_floating_point() and name != "sigmas" else tensor
        if name.endswith(("prompt_embeds", "latents", "image")):
            tensors[name + "_bf16_error"] = torch.tensor([error(narrow, name)], dtype=torch.float64)
    image = golden["image"]
    print(f"  {list(image.shape)}, texts {golden['text_lengths'].tolist()} {golden.get('negative_text_lengths', torch.zeros(0)).tolist()}: rms "
          f"{image.square().mean().sqrt().item():.3f}, clamped {(image.abs() == 1).double().mean().item():.3f}; float32 within "
          f"{error(single, 'latents'):.1e}, bf16 within {error(narrow, 'latents'):.1e} of the latents", flush=True)
    return {name: tensor.contiguous().clone() for name, tensor in tensors.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", required=True, type=Path, help="folder to write the case folders in")
    args = parser.parse_args()
    for library in (diffusers, transformers):
        library.logging.set_verbosity_error()
    for name, case in CASES.items():
        folder = args.out / name
        print(name, flush=True)
        encoder = write_folder(folder, case).eval()
        weights = {key: tensor.clone() for key, tensor in encoder.state_dict().items()}
        before = Qwen2Tokenizer.from_pretrained(str(folder / "tokenizer"))(BEFORE).input_ids
        if len(before) != 34:
            sys.exit(f"{len(before)} ids precede a prompt, expected 34")
        write(folder / "requests.json", case["requests"], indent=2)
        expected = {}
        with torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
            for request, arguments in case["requests"].items():
                made = make_request(folder, encoder, weights, case, arguments)
                expected |= {f"{request}.{of}": tensor for of, tensor in made.items()}
        save_file(expected, str(folder / "expected.safetensors"))
        print(f"  {sum(file.stat().st_size for file in folder.rglob('*') if file.is_file())} bytes", flush=True)


if __name__ == "__main__":
    main()
