#!/usr/bin/env python3
"""Makes the FLUX goldens: small models, inputs, and what diffusers computes from them in true double precision.

    python3 tests/goldens/make_flux.py --out tests/goldens/flux
    python3 tests/goldens/make_flux.py --out tests/goldens/flux --cases fashion-flux \\
        --fashion-model models/fashion-flux --data FASHION_MNIST_DIR

Each case is a folder with golden.safetensors: the inputs under diffusers' argument names, in F32, and `sample`, the
model's output in F64. The tiny cases also hold their own config.json and diffusion_pytorch_model.safetensors (F32,
random); fashion-flux uses the weights in models/fashion-flux. Runs on a CPU in seconds. Needs PyTorch, diffusers and
safetensors.

A double model in diffusers is not double throughout. What this script replaces, and why:

    get_timestep_embedding     builds its frequencies with a float32 arange and casts the timestep with .float()
    FluxPosEmbed.forward       casts the position ids with .float(), and rounds cos and sin to float32 at the end
    apply_rotary_emb           rotates in float32: x.float() * cos + ...

The rest follows the dtype of the model: linear layers, LayerNorm, RMSNorm, GELU, SiLU, and attention, which is held to
PyTorch's math implementation. None of that is taken on trust: while the golden is computed, every operation PyTorch
dispatches is watched, and one that returns a floating-point tensor other than float64 stops the script.
"""

import argparse
import gzip
import json
import math
import os

import torch
from safetensors.torch import load_file, save_file
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import diffusers.models.embeddings as embeddings
import diffusers.models.transformers.transformer_flux as flux
from diffusers import FluxTransformer2DModel

from random_weights import randomize, round_weights

# Sizes are odd on purpose (3 heads of 20, 35 image tokens, 9 text tokens, unequal RoPE axes), so that a kernel that
# only handles full vectors, or a swapped pair of axes, does not pass.
TINY_CASES = {
    "tiny-guidance": dict(
        config=dict(patch_size=1, in_channels=12, out_channels=None, num_layers=1, num_single_layers=1,
                    attention_head_dim=20, num_attention_heads=3, joint_attention_dim=28, pooled_projection_dim=22,
                    guidance_embeds=True, axes_dims_rope=[4, 6, 10]),
        rows=5, columns=7, text_tokens=9, timestep=[0.7342, 0.0581], guidance=[3.5, 1.27], seed=11),
    "tiny-no-double": dict(
        config=dict(patch_size=1, in_channels=8, out_channels=None, num_layers=0, num_single_layers=3,
                    attention_head_dim=32, num_attention_heads=2, joint_attention_dim=20, pooled_projection_dim=16,
                    guidance_embeds=False, axes_dims_rope=[8, 12, 12]),
        rows=3, columns=6, text_tokens=7, timestep=[0.9137, 0.3019], guidance=None, seed=12),
    "tiny-no-single": dict(
        config=dict(patch_size=1, in_channels=6, out_channels=10, num_layers=2, num_single_layers=0,
                    attention_head_dim=16, num_attention_heads=3, joint_attention_dim=18, pooled_projection_dim=14,
                    guidance_embeds=False, axes_dims_rope=[4, 4, 8]),
        rows=6, columns=4, text_tokens=5, timestep=[0.5023, 1.0], guidance=None, seed=13),
}


# ---- diffusers in true double precision


def double_timestep_embedding(timesteps, embedding_dim, flip_sin_to_cos=False, downscale_freq_shift=1, scale=1,
                              max_period=10000):
    """Sinusoids of exp(-ln(max_period) i / (half - downscale_freq_shift)) t, as [sin, cos] or flipped."""
    half = embedding_dim // 2
    if embedding_dim != 2 * half:
        raise ValueError(f"embedding_dim is {embedding_dim}, expected an even number")
    index = torch.arange(half, dtype=torch.float64)
    frequency = torch.exp(-math.log(max_period) * index / (half - downscale_freq_shift))
    angle = scale * timesteps.double()[:, None] * frequency
    parts = [angle.cos(), angle.sin()] if flip_sin_to_cos else [angle.sin(), angle.cos()]
    return torch.cat(parts, dim=-1)


def double_position_embedding(self, ids):
    """cos and sin of position / theta^(2 i / d) for each axis, every value twice in a row. Two of [tokens, head_dim]"""
    angles = []
    for axis, dim in enumerate(self.axes_dim):
        frequency = self.theta ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
        angles.append(torch.outer(ids[:, axis].double(), frequency).repeat_interleave(2, dim=1))
    angle = torch.cat(angles, dim=-1)
    return angle.cos(), angle.sin()


def double_rotary(x, freqs_cis, use_real=True, use_real_unbind_dim=-1, sequence_dim=2):
    """Rotates neighbouring pairs (x0, x1) -> (x0 cos - x1 sin, x1 cos + x0 sin). x [batch, tokens, heads, head_dim]"""
    if not (use_real and use_real_unbind_dim == -1 and sequence_dim == 1):
        raise ValueError("this script only knows the rotation as FLUX calls it")
    cos, sin = (table[None, :, None, :] for table in freqs_cis)
    even, odd = x.unflatten(-1, (-1, 2)).unbind(-1)
    return x * cos + torch.stack([-odd, even], dim=-1).flatten(-2) * sin


class OnlyDouble(TorchDispatchMode):
    """Raises at the first operation that returns a floating-point tensor other than float64."""

    def __torch_dispatch__(self, function, types, arguments=(), kwargs=None):
        result = function(*arguments, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor) and leaf.is_floating_point() and leaf.dtype != torch.float64:
                raise RuntimeError(f"{function} returned {leaf.dtype}, expected float64")
        return result


def run_double(model, inputs):
    """The golden: model and inputs in double, with the replacements above in force. Leaves diffusers as it was."""
    replaced = [(embeddings, "get_timestep_embedding", double_timestep_embedding),
                (flux.FluxPosEmbed, "forward", double_position_embedding),
                (flux, "apply_rotary_emb", double_rotary)]
    kept = [(owner, name, getattr(owner, name)) for owner, name, _ in replaced]
    model = model.double()
    inputs = {name: tensor.double() for name, tensor in inputs.items()}
    try:
        for owner, name, function in replaced:
            setattr(owner, name, function)
        with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), OnlyDouble():
            return model(**inputs, return_dict=False)[0]
    finally:
        for owner, name, function in kept:
            setattr(owner, name, function)
        model.float()


def run_single(model, inputs):
    """diffusers untouched, in float32: what the golden must agree with to float32's accuracy."""
    with torch.no_grad():
        return model.float()(**inputs, return_dict=False)[0]


# ---- the cases


def position_ids(rows, columns):
    """(0, row, column) for each image token, as FLUX's pipeline makes them. [rows * columns, 3]"""
    row, column = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    return torch.stack([torch.zeros_like(row), row, column], dim=-1).reshape(-1, 3).float()


def tiny_case(folder, case):
    generator = torch.Generator().manual_seed(case["seed"])
    config = case["config"]
    model = FluxTransformer2DModel.from_config(config).eval()
    randomize(model, generator)
    round_weights(model)
    image_tokens, batch = case["rows"] * case["columns"], len(case["timestep"])
    inputs = {
        "hidden_states": torch.randn(batch, image_tokens, config["in_channels"], generator=generator),
        "encoder_hidden_states": torch.randn(batch, case["text_tokens"], config["joint_attention_dim"],
                                             generator=generator),
        "pooled_projections": torch.randn(batch, config["pooled_projection_dim"], generator=generator),
        "timestep": torch.tensor(case["timestep"]),
        "img_ids": position_ids(case["rows"], case["columns"]),
        "txt_ids": torch.zeros(case["text_tokens"], 3),
    }
    if case["guidance"]:
        inputs["guidance"] = torch.tensor(case["guidance"])
    model.save_config(folder)
    save_file({name: tensor.contiguous() for name, tensor in model.state_dict().items()},
              os.path.join(folder, "diffusion_pytorch_model.safetensors"), metadata={"format": "pt"})
    return model, inputs


def fashion_case(model_folder, data_folder):
    """Two test images on their way to noise: the first trouser at sigma 0.73, the first bag (null prompt) at 0.21."""
    with open(os.path.join(model_folder, "transformer/config.json"), encoding="utf-8") as file:
        model = FluxTransformer2DModel.from_config(json.load(file)).eval()
    weights = load_file(os.path.join(model_folder, "transformer/diffusion_pytorch_model.safetensors"))
    model.load_state_dict({name: tensor.float() for name, tensor in weights.items()})
    prompts = load_file(os.path.join(model_folder, "prompts.safetensors"))
    with gzip.open(os.path.join(data_folder, "t10k-labels-idx1-ubyte.gz"), "rb") as file:
        labels = list(file.read()[8:])
    with gzip.open(os.path.join(data_folder, "t10k-images-idx3-ubyte.gz"), "rb") as file:
        pixels = torch.frombuffer(bytearray(file.read()[16:]), dtype=torch.uint8).reshape(-1, 28, 28)
    picked = pixels[[labels.index(1), labels.index(8)]]
    images = torch.nn.functional.pad(picked, (2, 2, 2, 2)).float() / 127.5 - 1  # [2, 32, 32]
    tokens = images.reshape(2, 16, 2, 16, 2).permute(0, 1, 3, 2, 4).reshape(2, 256, 4)
    sigma = torch.tensor([0.7300913, 0.2113249])
    noise = torch.randn(2, 256, 4, generator=torch.Generator().manual_seed(14))
    prompt = torch.tensor([1, 10])
    return model, {
        "hidden_states": (1 - sigma[:, None, None]) * tokens + sigma[:, None, None] * noise,
        "encoder_hidden_states": prompts["encoder_hidden_states"][prompt],
        "pooled_projections": prompts["pooled_projections"][prompt],
        "timestep": sigma,
        "img_ids": position_ids(16, 16),
        "txt_ids": torch.zeros(prompts["encoder_hidden_states"].shape[1], 3),
    }


def make_case(folder, model, inputs):
    sample = run_double(model, inputs)
    if sample.dtype != torch.float64 or not torch.isfinite(sample).all():
        raise SystemExit(f"{folder}: the golden is {sample.dtype} and must be finite float64")
    single = run_single(model, inputs).double()
    error = ((single - sample).norm() / sample.norm()).item()
    if not error < 1e-4:
        raise SystemExit(f"{folder}: float32 diffusers is {error:.2e} from the golden, expected less than 1e-4")
    tensors = {name: tensor.contiguous() for name, tensor in inputs.items()}
    save_file({**tensors, "sample": sample.contiguous()}, os.path.join(folder, "golden.safetensors"))
    bytes_ = sum(os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder))
    print(f"{os.path.basename(folder)}: sample {list(sample.shape)}, rms {sample.square().mean().sqrt().item():.4f}, "
          f"float32 diffusers within {error:.2e}, folder {bytes_} bytes", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", required=True, help="folder to write the case folders in")
    parser.add_argument("--cases", default=",".join(TINY_CASES), help="comma-separated; default: %(default)s")
    parser.add_argument("--fashion-model", help="model folder, for the case fashion-flux")
    parser.add_argument("--data", help="folder with Fashion-MNIST's .gz files, for the case fashion-flux")
    args = parser.parse_args()
    for name in args.cases.split(","):
        folder = os.path.join(args.out, name)
        os.makedirs(folder, exist_ok=True)
        if name == "fashion-flux":
            if not (args.fashion_model and args.data):
                parser.error("the case fashion-flux needs --fashion-model and --data")
            make_case(folder, *fashion_case(args.fashion_model, args.data))
        elif name in TINY_CASES:
            make_case(folder, *tiny_case(folder, TINY_CASES[name]))
        else:
            parser.error(f"--cases: {name!r} is not fashion-flux or one of {', '.join(TINY_CASES)}")


if __name__ == "__main__":
    main()
