#!/usr/bin/env python3
"""Writes a folder of Qwen-Image's published shapes without weights, to time whole requests with random ones.

    python3 bench/peers/qwen_stand_in.py out/qwen-image
    build/release/headroom run out/qwen-image --random-weights 0 --prompt "the image" --opt fast --out image.png

--lora also writes lora.safetensors: rank 16 on all matmuls of attention and MLPs, random, in bf16. That needs PyTorch
and safetensors. The tokenizer is the small one of tests/goldens/pipelines, whose ids this text encoder knows too.
Images are noise.
"""

import argparse
import json
import pathlib
import shutil

import qwen_shapes

GOLDEN = pathlib.Path(__file__).resolve().parents[2] / "tests/goldens/pipelines/qwen-image"
RANK = 16


def matmuls(config):
    """The name of each, and its shape [out, in]."""
    width = config["num_attention_heads"] * config["attention_head_dim"]
    for block in range(config["num_layers"]):
        path = f"transformer.transformer_blocks.{block}"
        for name in ("to_q", "to_k", "to_v", "add_q_proj", "add_k_proj", "add_v_proj", "to_out.0", "to_add_out"):
            yield f"{path}.attn.{name}", (width, width)
        for mlp in ("img_mlp", "txt_mlp"):
            yield f"{path}.{mlp}.net.0.proj", (4 * width, width)
            yield f"{path}.{mlp}.net.2", (width, 4 * width)


def write_lora(path, config):
    import torch
    from safetensors.torch import save_file
    device = "cuda" if torch.cuda.is_available() else "cpu"
    generator = torch.Generator(device).manual_seed(0)

    def draw(rows, columns, scale):
        return (scale * torch.randn(rows, columns, generator=generator, device=device)).bfloat16().cpu()

    tensors = {}
    for name, (outputs, inputs) in matmuls(config):
        tensors[f"{name}.lora_A.weight"] = draw(RANK, inputs, inputs**-0.5)
        tensors[f"{name}.lora_B.weight"] = draw(outputs, RANK, 0.02)
    save_file(tensors, path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--lora", action="store_true", help="also write a LoRA file")
    parser.add_argument("--like", type=pathlib.Path, metavar="FOLDER", help="with the sizes of this folder's networks, for a trial")
    args = parser.parse_args()
    args.folder.mkdir(parents=True)
    shutil.copy(GOLDEN / "model_index.json", args.folder)
    for part in ("scheduler", "tokenizer"):
        shutil.copytree(GOLDEN / part, args.folder / part)
    configs = {"transformer": qwen_shapes.TRANSFORMER, "vae": qwen_shapes.VAE, "text_encoder": qwen_shapes.TEXT}
    for part in configs:
        if args.like:
            configs[part] = json.loads((args.like / part / "config.json").read_text(encoding="utf-8"))
        (args.folder / part).mkdir()
        (args.folder / part / "config.json").write_text(json.dumps(configs[part], indent=2) + "\n", encoding="utf-8")
    if args.lora:
        write_lora(args.folder / "lora.safetensors", configs["transformer"])


if __name__ == "__main__":
    main()
