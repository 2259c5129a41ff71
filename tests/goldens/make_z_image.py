#!/usr/bin/env python3
"""Makes the golden of Z-Image's transformer: a small model, inputs, and diffusers' outputs in double precision.

    python3 tests/goldens/make_z_image.py --out tests/goldens/z_image

Each case is a folder with config.json, diffusion_pytorch_model.safetensors (F32, random) and golden.safetensors: in F32
`hidden_states`
[batch, image tokens, 4 channels], the 2x2 patches latent by latent that diffusers cuts from an image,
`encoder_hidden_states`, `timestep`, and `img_ids` [image tokens, 3] for the positions that it computes from the image's
size; `sample` in F64, patches likewise; and `sample_bf16_error`, how far diffusers in bf16 is from it (relative L2).
Runs on a CPU in seconds. Needs PyTorch, diffusers and safetensors.

A double model in diffusers is not double throughout: it casts times and rotated queries to float32. While a golden is
computed, such casts go to float64, and an operation that returns another floating-point dtype stops the script. Rotary
tables are float32 from the start, and are computed again.
"""

import argparse
import math
import os

import torch
from safetensors.torch import save_file
from torch.nn.attention import SDPBackend, sdpa_kernel

from diffusers import ZImageTransformer2DModel

from make_text_encoders import InDouble
from random_weights import randomize, round_weights

# Neither the tokens of the image nor those of the text are a multiple of 32.
CASES = {
    "odd": dict(config=dict(in_channels=3, dim=30, n_layers=2, n_refiner_layers=2, n_heads=3, n_kv_heads=3, cap_feat_dim=14,
                            axes_dims=[2, 4, 4], axes_lens=[128, 32, 32]),
                rows=5, columns=7, text_tokens=9, timestep=[0.7342, 0.0581], seed=71),
}


def calm_times(model):
    """Quietens the fast waves of times, as training does: 735.2 is 736 in bf16, and must mean the same."""
    frequency = torch.exp(-math.log(10000) * torch.arange(128) / 128).repeat(2)  # cosines, then sines
    weight = model.t_embedder.mlp[0].weight
    # 1 MiB that compresses to an eighth
    weight.data = torch.round(64 * weight.data / (1 + (100 * frequency) ** 2)) / 64


def with_double_positions(model):
    """Rotary tables in complex128."""
    embedder, tables = model.rope_embedder, []
    for dim, places in zip(embedder.axes_dims, embedder.axes_lens):
        angle = torch.outer(torch.arange(places, dtype=torch.float64), embedder.theta ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim))
        tables.append(torch.polar(torch.ones_like(angle), angle))
    embedder.freqs_cis = tables
    return model


def to_patches(image):
    """[channels, 1, height, width] -> [tokens, 4 channels]"""
    channels, _, height, width = image.shape
    return image.view(channels, height // 2, 2, width // 2, 2).permute(1, 3, 2, 4, 0).reshape(-1, 4 * channels)


def from_patches(patches, rows, columns):
    channels = patches.shape[1] // 4
    image = patches.view(rows, columns, 2, 2, channels).permute(4, 0, 2, 1, 3)
    return image.reshape(channels, 1, 2 * rows, 2 * columns)


def make_case(folder, case):
    generator = torch.Generator().manual_seed(case["seed"])
    config, batch = case["config"], len(case["timestep"])
    model = ZImageTransformer2DModel.from_config(config).eval()
    randomize(model, generator)
    calm_times(model)
    round_weights(model)
    model.save_config(folder)
    weights = {name: tensor.clone().contiguous() for name, tensor in model.state_dict().items()}
    save_file(weights, os.path.join(folder, "diffusion_pytorch_model.safetensors"), metadata={"format": "pt"})
    rows, columns = case["rows"], case["columns"]
    inputs = {"hidden_states": torch.randn(batch, rows * columns, 4 * config["in_channels"], generator=generator),
              "encoder_hidden_states": torch.randn(batch, case["text_tokens"], config["cap_feat_dim"], generator=generator),
              "timestep": torch.tensor(case["timestep"])}
    row, column = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    image_ids = torch.stack([torch.zeros_like(row), row, column], dim=-1).reshape(-1, 3).float()

    def run(dtype):
        images = [from_patches(tokens, rows, columns) for tokens in inputs["hidden_states"].to(dtype)]
        made = model.to(dtype)(images, inputs["timestep"].to(dtype), list(inputs["encoder_hidden_states"].to(dtype)), return_dict=False)[0]
        return torch.stack([to_patches(image) for image in made])

    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
        single = run(torch.float32)
        narrow = run(torch.bfloat16)
        with_double_positions(model.double()).load_state_dict(weights)
        with InDouble():
            golden = run(torch.float64)
    if golden.dtype != torch.float64 or not torch.isfinite(golden).all():
        raise SystemExit(f"{folder}: sample is {golden.dtype} and must be finite float64")
    error = lambda result: ((result.double() - golden).norm() / golden.norm()).item()  # noqa: E731
    if not error(single) < 1e-5:
        raise SystemExit(f"{folder}: float32 diffusers is {error(single):.2e} from sample")
    print(f"{os.path.basename(folder)} {list(golden.shape)}: rms {golden.square().mean().sqrt().item():.4f}, diffusers within "
          f"{error(single):.2e} in fp32, {error(narrow):.2e} in bf16", flush=True)
    save_file({**inputs, "img_ids": image_ids, "sample": golden.contiguous(),
               "sample_bf16_error": torch.tensor([error(narrow)], dtype=torch.float64)}, os.path.join(folder, "golden.safetensors"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", required=True, help="folder to write the case folders in")
    args = parser.parse_args()
    for name, case in CASES.items():
        folder = os.path.join(args.out, name)
        os.makedirs(folder, exist_ok=True)
        make_case(folder, case)


if __name__ == "__main__":
    main()
