#!/usr/bin/env python3
"""Writes LoRA files of FLUX.1's shapes, rank 16 on all products of attention and MLPs, random, in bf16 under diffusers'
names.

    python3 bench/peers/lora_stand_in.py out/loras a b

leaves a.safetensors and b.safetensors of 131 MB each in the folder. Needs a GPU, PyTorch and safetensors.
"""

import argparse
import pathlib

import torch
from safetensors.torch import save_file

WIDTH, HIDDEN, RANK = 3072, 12288, 16
DOUBLE_BLOCKS, SINGLE_BLOCKS = 19, 38


def products():
    """The name of each product, and its shape [out, in]."""
    for block in range(DOUBLE_BLOCKS):
        path = f"transformer.transformer_blocks.{block}"
        for name in ("to_q", "to_k", "to_v", "add_q_proj", "add_k_proj", "add_v_proj", "to_out.0", "to_add_out"):
            yield f"{path}.attn.{name}", (WIDTH, WIDTH)
        for mlp in ("ff", "ff_context"):
            yield f"{path}.{mlp}.net.0.proj", (HIDDEN, WIDTH)
            yield f"{path}.{mlp}.net.2", (WIDTH, HIDDEN)
    for block in range(SINGLE_BLOCKS):
        path = f"transformer.single_transformer_blocks.{block}"
        for name in ("to_q", "to_k", "to_v"):
            yield f"{path}.attn.{name}", (WIDTH, WIDTH)
        yield f"{path}.proj_mlp", (HIDDEN, WIDTH)
        yield f"{path}.proj_out", (WIDTH, WIDTH + HIDDEN)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("names", nargs="+")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    for seed, name in enumerate(args.names):
        generator = torch.Generator("cuda").manual_seed(seed)

        def draw(rows, columns, scale):
            return (scale * torch.randn(rows, columns, generator=generator, device="cuda")).bfloat16().cpu()

        tensors = {}
        for product, (outputs, inputs) in products():
            tensors[f"{product}.lora_A.weight"] = draw(RANK, inputs, inputs**-0.5)
            tensors[f"{product}.lora_B.weight"] = draw(outputs, RANK, 0.02)
        save_file(tensors, args.folder / f"{name}.safetensors")


if __name__ == "__main__":
    main()
