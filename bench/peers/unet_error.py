#!/usr/bin/env python3
"""How far a pass of a U-Net is from fp32, for Headroom and for diffusers, on equal random weights and inputs.

    python3 bench/peers/unet_error.py sd-turbo-unet --headroom build/release/headroom --folder out/unet-random --save error.json

Writes a checkpoint of random weights in fp16 and one set of inputs into --folder, takes diffusers in fp32 (the same
weights, widened) as the reference, and measures the relative L2 distance of diffusers in fp16 and bf16, channels-last,
and of Headroom with each of --switches. Needs a GPU, PyTorch, diffusers and safetensors.
"""

import argparse
import copy
import json
import os

import torch
from safetensors.torch import save_file

from component_torch import TEXT_TOKENS, UNETS, random_image_network
from network_error import Errors


def draw(config, batch, side, seed):
    """Inputs that fp16 holds exactly, under diffusers' names."""
    generator = torch.Generator().manual_seed(seed)
    normal = lambda *shape: torch.randn(batch, *shape, generator=generator).half().float().cuda()  # noqa: E731
    inputs = {"sample": normal(config["in_channels"], side, side), "timestep": torch.full((batch,), 981.0).cuda()}
    if "cross_attention_dim" in config:
        inputs["encoder_hidden_states"] = normal(TEXT_TOKENS, config["cross_attention_dim"])
    if "addition_time_embed_dim" in config:
        inputs["text_embeds"] = normal(1280)
        inputs["time_ids"] = torch.tensor([[1024.0, 1024, 0, 0, 1024, 1024]] * batch).cuda()
    return inputs


def forward(model, inputs, dtype):
    given = {name: tensor if name in ("timestep", "time_ids") else tensor.to(dtype) for name, tensor in inputs.items()}
    added = {name: given.pop(name) for name in ("text_embeds", "time_ids") if name in given}
    if added:
        given["added_cond_kwargs"] = added
    with torch.inference_mode():
        return copy.deepcopy(model).to(dtype)(**given, return_dict=False)[0].double()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("network", choices=list(UNETS))
    parser.add_argument("--headroom", required=True, help="the program")
    parser.add_argument("--folder", required=True, help="where the checkpoint goes")
    parser.add_argument("--switches", nargs="+", default=["baseline", "fp16", "lossless,fp16", "lossless,bf16", "lossless,fp16,fp8"])
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--save", required=True, help="JSON file to write")
    args = parser.parse_args()

    os.makedirs(args.folder, exist_ok=True)
    kind, config = UNETS[args.network]
    model = random_image_network(kind, config, "cuda", torch.float16, args.seed)
    with open(os.path.join(args.folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file, indent=1)
    save_file({name: value.cpu().contiguous() for name, value in model.state_dict().items()},
              os.path.join(args.folder, "diffusion_pytorch_model.safetensors"))
    side = config["sample_size"]
    inputs = draw(config, args.batch, side, args.seed)
    inputs_path = os.path.join(args.folder, "inputs.safetensors")
    save_file({name: value.cpu().contiguous() for name, value in inputs.items()}, inputs_path)

    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
    outputs = {name: forward(model, inputs, dtype)
               for name, dtype in (("fp32", torch.float32), ("fp16", torch.float16), ("bf16", torch.bfloat16))}
    del model
    torch.cuda.empty_cache()
    pixels = side * (1 if args.network == "pixel-unet" else 8)
    subject = {"kind": "model", "name": args.network,
               "request": {"pass": "forward", "batch": args.batch, "height": pixels, "width": pixels}}
    errors = Errors(args.save, subject, outputs.pop("fp32"))
    for applied, output in outputs.items():
        errors.add_pytorch([applied, "channels-last"], output)
    errors.add_headroom(args.headroom, args.folder, args.switches, inputs_path, "out_sample")


if __name__ == "__main__":
    main()
