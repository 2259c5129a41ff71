#!/usr/bin/env python3
"""Writes a folder of FLUX.1's published shapes, to time whole requests with random weights.

    python3 bench/peers/flux_stand_in.py dev out/flux-dev
    build/release/headroom run out/flux-dev --random-weights 0 --prompt "a red fox in snow" --opt fast --out fox.png

It has no weights unless --weights writes some, 34 GB in bf16, for what reading them takes: that needs a GPU, PyTorch,
diffusers, transformers and safetensors. KIND is dev, schnell or kontext. The tokenizers are the small ones of
tests/goldens/pipelines, whose ids these text encoders know too. Images are noise.
"""

import argparse
import json
import pathlib
import shutil

import flux_shapes

GOLDENS = pathlib.Path(__file__).resolve().parents[2] / "tests/goldens/pipelines"


def write_weights(folder, kind, seed, without):
    """Checkpoints in bf16 for the networks, under the names that diffusers and transformers give their tensors."""
    import torch
    from safetensors.torch import save_file

    import component_torch
    import flux_peer
    device, dtype = torch.device("cuda"), torch.bfloat16
    makers = {
        "text_encoder": ("model", lambda: component_torch.random_text_encoder("text_encoder", device, dtype, seed)),
        "text_encoder_2": ("model", lambda: component_torch.random_text_encoder("text_encoder_2", device, dtype, seed)),
        "transformer": ("diffusion_pytorch_model", lambda: flux_peer.random_model(device, dtype, seed, kind)),
        "vae": ("diffusion_pytorch_model", lambda: component_torch.random_vae(device, dtype, seed)),
    }
    for part, (name, make) in makers.items():
        if part in without:
            continue
        tensors = {key: value.cpu().contiguous() for key, value in make().named_parameters()}  # what is shared, once
        save_file(tensors, folder / part / f"{name}.safetensors", metadata={"format": "pt"})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=["dev", "schnell", "kontext"])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--weights", type=int, metavar="SEED", help="also write random weights")
    parser.add_argument("--without", nargs="+", default=[], metavar="PART", help="parts that get none")
    args = parser.parse_args()
    golden = GOLDENS / f"flux-{args.kind}"
    args.folder.mkdir(parents=True)
    shutil.copy(golden / "model_index.json", args.folder)
    for part in ("scheduler", "tokenizer", "tokenizer_2"):
        shutil.copytree(golden / part, args.folder / part)
    configs = {"transformer": flux_shapes.transformer(args.kind), "vae": flux_shapes.VAE, "text_encoder": flux_shapes.CLIP,
               "text_encoder_2": flux_shapes.T5}
    for part, config in configs.items():
        (args.folder / part).mkdir()
        (args.folder / part / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    if args.weights is not None:
        write_weights(args.folder, args.kind, args.weights, args.without)


if __name__ == "__main__":
    main()
