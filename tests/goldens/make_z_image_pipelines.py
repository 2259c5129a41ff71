#!/usr/bin/env python3
"""Makes the goldens of Z-Image's pipeline: a small folder, requests, and diffusers' images in double precision.

    python3 tests/goldens/make_z_image_pipelines.py --out tests/goldens/pipelines

z-image is a folder as diffusers writes it (tiny_z_image_folder.py), F32 and random, with

    requests.json         by name: the arguments that the pipeline is called with, and the seed of its noise
    expected.safetensors  by `<request>.<name>`, of that request:

        noise [images, tokens, 4 channels]                      F32; 2x2 patches, latent by latent
        ids [images, ids]                                       I64; padded on the right
        text_lengths [images]                                   I64; states of each text that the transformer reads
        prompt_embeds [images, text tokens, width]              F32; padded with zeros
        sigmas [steps + 1]                                      F64
        latents [images, tokens, 4 channels]                    F32; patches, after the last step
        image [images, 3, height, width]                        F32; decoded

`negative_` precedes what guidance takes as well. `*_bf16_error` is how far diffusers in bf16 is from it (relative L2).
Runs on a CPU in seconds. Needs PyTorch, transformers, diffusers and safetensors. A double pipeline is not double
throughout: see make_flux_pipelines.py.
"""

import argparse
import sys
from pathlib import Path

import diffusers
import diffusers.pipelines.z_image.pipeline_z_image as published
import torch
import transformers
from diffusers import AutoencoderKL, FlowMatchEulerDiscreteScheduler, ZImagePipeline, ZImageTransformer2DModel
from safetensors.torch import save_file
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.utils.rnn import pad_sequence
from transformers import Qwen2Tokenizer

from make_flux_pipelines import pipelines_in_double, spy
from make_qwen_image_pipelines import CHINESE, LONG, golden_tensors
from make_text_encoders import InDouble, in_double
from make_tokens import write
from make_z_image import from_patches, to_patches, with_double_positions
from tiny_flux3_folder import TEMPLATE
from tiny_z_image_folder import write_folder

# Images with and without padding of their tokens, and texts of one, two and more multiples of 32 tokens; "whole" is one
# without padding.
CASES = {
    "z-image": dict(
        seed=81, text_layers=3,
        transformer=dict(dim=24, n_layers=2, n_refiner_layers=1, n_heads=2, n_kv_heads=2, axes_dims=[4, 4, 4], axes_lens=[1536, 512, 512]),
        vae=dict(latent_channels=4, block_out_channels=[4, 4, 8, 8], layers_per_block=1),
        requests={
            "unguided": dict(prompt=["a red fox"], guidance_scale=0.0, height=80, width=112, num_inference_steps=4, seed=1),
            "guided": dict(prompt=["a red fox"], negative_prompt=["blurry"], guidance_scale=3.5, height=64, width=128, num_inference_steps=3,
                           seed=2),
            "guided_without_a_text": dict(prompt=[LONG], guidance_scale=2.0, height=48, width=48, num_inference_steps=3, seed=3),
            "of_several_lengths": dict(prompt=[LONG, CHINESE], negative_prompt=["", "red"], guidance_scale=1.0, height=48, width=64,
                                       num_inference_steps=2, seed=4),
            "whole": dict(prompt=["x" * 24], guidance_scale=0.0, height=64, width=128, num_inference_steps=2, seed=5),
            "truncated": dict(prompt=[LONG], guidance_scale=0.0, height=32, width=16, num_inference_steps=3, max_sequence_length=60, seed=6),
        }),
}
TOKEN_PIXELS = 16


class DoubleTorch:
    """The pipeline's torch, whose float32 is float64: it asserts that latents are float32."""

    float32 = torch.float64

    def __getattr__(self, name):
        return getattr(torch, name)


def load(folder, encoder, dtype):
    part = lambda kind, name: kind.from_pretrained(str(folder / name), torch_dtype=dtype)  # noqa: E731
    transformer = part(ZImageTransformer2DModel, "transformer")
    tokenizer = Qwen2Tokenizer.from_pretrained(str(folder / "tokenizer"))
    tokenizer.chat_template = TEMPLATE
    pipeline = ZImagePipeline(scheduler=FlowMatchEulerDiscreteScheduler.from_pretrained(str(folder / "scheduler")), tokenizer=tokenizer,
                              text_encoder=in_double(encoder) if dtype == torch.float64 else encoder.to(dtype),
                              transformer=with_double_positions(transformer) if dtype == torch.float64 else transformer,
                              vae=part(AutoencoderKL, "vae"))
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def run(pipeline, request, noise):
    """All that the pipeline computes on its way to the image; noise and latents are patches."""
    encoded, texts = spy(pipeline.text_encoder, "forward"), spy(pipeline, "encode_prompt")
    decoded = spy(pipeline.vae, "decode")
    latents = []
    arguments = {name: value for name, value in request.items() if name != "seed"}
    arguments["prompt"] = list(request["prompt"])  # the pipeline writes into its lists
    if "negative_prompt" in request:
        arguments["negative_prompt"] = list(request["negative_prompt"])
    rows, columns = request["height"] // TOKEN_PIXELS, request["width"] // TOKEN_PIXELS
    image = torch.stack([from_patches(patches, rows, columns)[:, 0] for patches in noise])
    pipeline(**arguments, latents=image, callback_on_step_end=lambda _, step, time, state: latents.append(state["latents"]) or {})
    result = {"sigmas": pipeline.scheduler.sigmas, "latents": torch.stack([to_patches(one[:, None]) for one in latents[-1]]),
              "image": decoded[0][2][0]}
    for call, states, sign in zip(encoded, texts[0][2], ("", "negative_")):
        result |= {sign + "ids": call[1]["input_ids"], sign + "prompt_embeds": pad_sequence(states, batch_first=True),
                   sign + "text_lengths": torch.tensor([len(of_one) for of_one in states])}
    delattr(pipeline.text_encoder, "forward")  # the encoder is used again
    return result


def run_double(folder, encoder, request, noise):
    published.torch = DoubleTorch()
    try:
        with pipelines_in_double():
            pipeline = load(folder, encoder, torch.float64)
            with InDouble():
                return run(pipeline, request, noise.double())
    finally:
        published.torch = torch


def make_request(folder, encoder, weights, case, request):
    tokens = (request["height"] // TOKEN_PIXELS) * (request["width"] // TOKEN_PIXELS)
    draw = torch.Generator().manual_seed(request["seed"])
    noise = torch.randn(len(request["prompt"]), tokens, 4 * case["vae"]["latent_channels"], generator=draw)
    golden = run_double(folder, encoder, request, noise)  # first, since it computes the frequencies that bf16 rounds
    encoder.float().load_state_dict(weights)
    single = run(load(folder, encoder, torch.float32), request, noise)
    narrow = run(load(folder, encoder, torch.bfloat16), request, noise)
    encoder.float().load_state_dict(weights)
    return golden_tensors(folder, noise, golden, single, narrow)


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
        write(folder / "requests.json", case["requests"], indent=2)
        expected = {}
        with torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
            for request, arguments in case["requests"].items():
                made = make_request(folder, encoder, weights, case, arguments)
                expected |= {f"{request}.{of}": tensor for of, tensor in made.items()}
        if expected["whole.text_lengths"].item() % 32 != 0:
            sys.exit(f"the text of 'whole' has {expected['whole.text_lengths'].item()} tokens, expected a multiple of 32")
        save_file(expected, str(folder / "expected.safetensors"))
        print(f"  {sum(file.stat().st_size for file in folder.rglob('*') if file.is_file())} bytes", flush=True)


if __name__ == "__main__":
    main()
