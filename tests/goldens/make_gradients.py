#!/usr/bin/env python3
"""Makes the goldens of gradients: PyTorch's autograd in double precision on the small models of the other goldens.

    python3 tests/goldens/make_gradients.py --goldens tests/goldens --out tests/goldens/gradients

Each case is a file: `input.NAME`, the inputs (a few samples of those in the model's golden.safetensors), and for every
tensor of the checkpoint and every floating-point input `gradient.NAME` (F64): the length of its gradient, the sums of
its elements under eight fixed patterns of signs, and the error of PyTorch's in float32 (relative L2; a gradient that is
0 but for rounding is compared with the largest one). So files are small, and a difference shows in the sums with its
length: sign j of element i is bit j of SplitMix64's i-th number. The loss is half the sum of the squares of all
outputs. Runs on a CPU in a minute. Needs PyTorch, diffusers, transformers and safetensors; nothing is computed in less
than double precision, as in the scripts that made the models.
"""

import argparse
import contextlib
import json
import os

import numpy
import torch
from safetensors.torch import load_file, save_file
from torch.nn.attention import SDPBackend, sdpa_kernel

import diffusers.models.embeddings as embeddings
import diffusers.models.transformers.transformer_flux as flux
from diffusers import AutoencoderKL, AutoencoderTiny, FluxTransformer2DModel, UNet2DConditionModel, UNet2DModel
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection, T5Config, T5EncoderModel

from make_flux import double_position_embedding, double_rotary, double_timestep_embedding
from make_text_encoders import InDouble

PATTERNS = 8


def signs(count):
    """The patterns of signs for that many elements. [PATTERNS, count]"""
    with numpy.errstate(over="ignore"):
        state = numpy.arange(1, count + 1, dtype=numpy.uint64) * numpy.uint64(0x9E3779B97F4A7C15)
        state = (state ^ (state >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
        state ^= state >> numpy.uint64(31)
    bits = (state[None, :] >> numpy.arange(PATTERNS, dtype=numpy.uint64)[:, None]) & numpy.uint64(1)
    return torch.from_numpy(1 - 2 * bits.astype(numpy.float64))


def condensed(gradient, error):
    flat = gradient.flatten()
    return torch.cat([flat.norm()[None], signs(flat.numel()) @ flat, error[None]])


@contextlib.contextmanager
def true_double():
    """Of a double model diffusers builds sinusoids and rotations in float32."""
    replaced = [(embeddings, "get_timestep_embedding", double_timestep_embedding),
                (flux.FluxPosEmbed, "forward", double_position_embedding), (flux, "apply_rotary_emb", double_rotary)]
    kept = [(owner, name, getattr(owner, name)) for owner, name, _ in replaced]
    try:
        for owner, name, function in replaced:
            setattr(owner, name, function)
        torch.set_default_dtype(torch.float64)
        with sdpa_kernel(SDPBackend.MATH), InDouble():
            yield
    finally:
        torch.set_default_dtype(torch.float32)
        for owner, name, function in kept:
            setattr(owner, name, function)


def unet(model, given):
    added = {name: given.pop(name) for name in ("text_embeds", "time_ids") if name in given}
    return [model(**given, **({"added_cond_kwargs": added} if added else {}), return_dict=False)[0]]


def transformer(model, given):
    return [model(**given, return_dict=False)[0]]


def encode(model, given):
    encoded = model.encode(given["image"])
    if isinstance(model, AutoencoderTiny):
        return [encoded.latents]
    return [encoded.latent_dist.mean, encoded.latent_dist.logvar]


def decode(model, given):
    return [model.decode(given["latents"]).sample]


def t5(model, given):
    return [model(**given).last_hidden_state]


def clip(model, given):
    result = model(**given)
    return [result.last_hidden_state, result["text_embeds" if isinstance(model, CLIPTextModelWithProjection) else "pooler_output"]]


def opened(kind, folder):
    """The model of a folder, and its checkpoint's tensors."""
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    if kind in (T5EncoderModel, CLIPTextModel, CLIPTextModelWithProjection):
        config.pop("architectures")
        model = kind((T5Config if kind is T5EncoderModel else CLIPTextConfig)(**config, attn_implementation="eager"))
        weights = load_file(os.path.join(folder, "model.safetensors"))
        table = weights.get("shared.weight", weights.get("encoder.embed_tokens.weight"))
        tied = {"shared.weight": table, "encoder.embed_tokens.weight": table} if table is not None else {}
        model.load_state_dict({**weights, **tied})
    else:
        model = kind.from_config(config)
        weights = load_file(os.path.join(folder, "diffusion_pytorch_model.safetensors"))
        model.load_state_dict(weights)
    return model.double().eval(), weights


# name: class, folder, function, its inputs, samples
CASES = {
    "unet-sd15": (UNet2DConditionModel, "unets/sd15", unet, ("sample", "timestep", "encoder_hidden_states"), 2),
    "unet-sd2": (UNet2DConditionModel, "unets/sd2", unet, ("sample", "timestep", "encoder_hidden_states"), 2),
    "unet-sdxl": (UNet2DConditionModel, "unets/sdxl", unet,
                  ("sample", "timestep", "encoder_hidden_states", "text_embeds", "time_ids"), 2),
    "unet-pixel": (UNet2DModel, "unets/pixel", unet, ("sample", "timestep"), 2),
    "unet-pixel-scale-shift": (UNet2DModel, "unets/pixel-scale-shift", unet, ("sample", "timestep"), 2),
    "t5": (T5EncoderModel, "text/t5", t5, ("input_ids", "attention_mask"), 2),
    "t5-relu": (T5EncoderModel, "text/t5-relu", t5, ("input_ids",), 2),
    "clip-l": (CLIPTextModel, "text/clip-l", clip, ("input_ids",), 2),
    "clip-g": (CLIPTextModelWithProjection, "text/clip-g", clip, ("input_ids",), 3),
    "flux": (FluxTransformer2DModel, "flux/tiny-guidance", transformer,
             ("hidden_states", "encoder_hidden_states", "pooled_projections", "timestep", "img_ids", "txt_ids", "guidance"), None),
    "vae-encode": (AutoencoderKL, "vae/stable-diffusion", encode, ("image",), 1),
    "vae-decode": (AutoencoderKL, "vae/stable-diffusion", decode, ("latents",), 1),
    "vae-tiny-encode": (AutoencoderTiny, "vae/tiny", encode, ("image",), 1),
    "vae-tiny-decode": (AutoencoderTiny, "vae/tiny", decode, ("latents",), 1),
}


def gradients_of(case, goldens, dtype, context):
    """The inputs, the loss, and the gradients of the checkpoint's tensors and of the inputs, in that dtype."""
    kind, folder, run, names, samples = case
    model, weights = opened(kind, os.path.join(goldens, folder))
    model = model.to(dtype)
    golden = load_file(os.path.join(goldens, folder, "golden.safetensors"))
    inputs = {name: golden[name][:samples].clone() for name in names}
    given = {name: tensor.to(dtype).requires_grad_() if tensor.is_floating_point() else tensor for name, tensor in inputs.items()}
    with context:
        loss = sum(output.square().sum() / 2 for output in run(model, dict(given)))
        loss.backward()
    parameters = dict(model.named_parameters(remove_duplicate=False))
    tensors = {**{name: parameters[name] for name in sorted(weights)}, **given}
    return inputs, loss.detach(), {name: tensor.grad.double() for name, tensor in tensors.items() if tensor.grad is not None}


def make_case(name, goldens, out):
    inputs, loss, gradients = gradients_of(CASES[name], goldens, torch.float64, true_double())
    single = gradients_of(CASES[name], goldens, torch.float32, contextlib.nullcontext())[2]
    largest = max(gradient.norm() for gradient in gradients.values())
    scale = lambda gradient: largest if gradient.norm() < 1e-12 * largest else gradient.norm()  # noqa: E731
    errors = {given: (single[given] - gradient).norm() / scale(gradient) for given, gradient in gradients.items()}
    error = max(errors.values())
    if not error < 1e-3:
        raise SystemExit(f"{name}: PyTorch in float32 is {error:.2e} from the golden, expected less than 1e-3")
    tensors = {"input." + given: tensor for given, tensor in inputs.items()}
    tensors |= {"gradient." + given: condensed(gradient, errors[given]) for given, gradient in gradients.items()}
    tensors["loss"] = loss[None]
    for key, tensor in tensors.items():
        if tensor.is_floating_point() and not torch.isfinite(tensor).all():
            raise SystemExit(f"{name}: {key} is not finite")
    path = os.path.join(out, name + ".safetensors")
    save_file(tensors, path)
    print(f"{name}: loss {loss.item():.6g}, {len(gradients)} gradients, float32 PyTorch within {error:.2e}, "
          f"{os.path.getsize(path)} bytes", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--goldens", required=True, help="tests/goldens, with the models")
    parser.add_argument("--out", required=True, help="folder to write the files in")
    args = parser.parse_args()
    torch.set_num_threads(1)
    os.makedirs(args.out, exist_ok=True)
    for name in CASES:
        make_case(name, args.goldens, args.out)


if __name__ == "__main__":
    main()
