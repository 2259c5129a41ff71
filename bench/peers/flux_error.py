#!/usr/bin/env python3
"""How far a forward pass of FLUX.1-dev is from fp32, for Headroom and for diffusers, on equal random weights and
inputs.

    python3 bench/peers/flux_error.py --headroom build/release/headroom --folder out/flux-random --save error.json

Writes a checkpoint of random weights in bf16 (24 GB) and one set of inputs into --folder, takes diffusers in fp32 (the
same weights, widened) as the reference, and measures the relative L2 distance of diffusers in bf16, diffusers with FP8
products and Headroom with each of --switches. Needs a GPU with 80 GB, PyTorch, diffusers and safetensors.
"""

import argparse
import copy
import json
import os

import torch
from safetensors.torch import save_file
from torch.nn.attention import SDPBackend, sdpa_kernel

import flux_peer
import flux_shapes
import peer_result
from network_error import Errors


def forward(model, inputs, dtype):
    inputs = {name: value if name.endswith("_ids") else value.to(dtype) for name, value in inputs.items()}
    with torch.inference_mode():
        return model(**inputs, return_dict=False)[0].double()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--headroom", required=True, help="the program")
    parser.add_argument("--folder", required=True, help="where the checkpoint goes (24 GB)")
    parser.add_argument("--switches", nargs="+", default=["baseline", "lossless", "lossless,fp8"])
    parser.add_argument("--tokens", type=int, default=64, help="image tokens down and across")
    parser.add_argument("--text-tokens", type=int, default=512)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--save", required=True, help="JSON file to write")
    args = parser.parse_args()

    os.makedirs(args.folder, exist_ok=True)
    model = flux_peer.random_model("cuda", torch.bfloat16, args.seed)
    with open(os.path.join(args.folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(flux_shapes.transformer("dev"), file, indent=1)
    save_file({name: value.cpu() for name, value in model.state_dict().items()},
              os.path.join(args.folder, "diffusion_pytorch_model.safetensors"))
    generator = torch.Generator().manual_seed(args.seed)
    inputs = flux_peer.random_inputs(flux_shapes.transformer("dev"), args.tokens, args.tokens, 1, args.text_tokens, "cuda",
                                     torch.bfloat16, generator)
    # 1000 times these are whole numbers in bf16, which diffusers rounds them to: all see the same time and guidance.
    inputs["timestep"].fill_(0.5)
    inputs["guidance"].fill_(4.0)
    inputs_path = os.path.join(args.folder, "inputs.safetensors")
    save_file({name: value.float().cpu().contiguous() for name, value in inputs.items()}, inputs_path)

    torch.set_float32_matmul_precision("highest")
    outputs = {}
    with sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION):  # cuDNN has none in fp32
        reference_model = copy.deepcopy(model).float()
        reference = forward(reference_model, inputs, torch.float32)
        del reference_model
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        outputs["bf16, cudnn attention"] = forward(model, inputs, torch.bfloat16)
        flux_peer.merge_qkv(model)
        flux_peer.quantize_fp8(model.transformer_blocks, model.single_transformer_blocks)
        outputs["bf16, fp8, cudnn attention, merged QKV"] = forward(model, inputs, torch.bfloat16)
    del model
    torch.cuda.empty_cache()

    errors = Errors(args.save, peer_result.forward_subject("flux-dev", args.tokens**2, 1, args.text_tokens), reference)
    for applied, output in outputs.items():
        errors.add_pytorch(applied.split(", "), output)
    errors.add_headroom(args.headroom, args.folder, args.switches, inputs_path, "sample")


if __name__ == "__main__":
    main()
