#!/usr/bin/env python3
"""How far a forward pass of Qwen-Image's transformer is from fp32, for Headroom and for diffusers, on equal random
weights and inputs.

    python3 bench/peers/qwen_error.py --headroom build/release/headroom --folder out/qwen-random --save error.json

Writes a checkpoint of random weights in bf16 (41 GB) and one set of inputs into --folder, takes diffusers in fp32 (the
same weights, widened) as the reference, and measures the relative L2 distance of diffusers in bf16, diffusers with FP8
matmuls and Headroom with each of --switches. Needs a GPU with 100 GB, PyTorch, diffusers and safetensors.
"""

import argparse
import json
import pathlib

import torch
from safetensors.torch import save_file

import flux_peer
import peer_result
import qwen_shapes
import qwen_torch
from network_error import Errors

SHARD_BYTES = 4 << 30


def write_checkpoint(folder, config, model):
    """In shards with their index, each copied from the device by itself."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")
    shards = [{}]
    for name, value in model.state_dict().items():
        if sum(x.nbytes for x in shards[-1].values()) + value.nbytes > SHARD_BYTES and shards[-1]:
            shards.append({})
        shards[-1][name] = value
    index = {}
    for number, shard in enumerate(shards):
        file = f"diffusion_pytorch_model-{number + 1:05}-of-{len(shards):05}.safetensors"
        save_file({name: value.cpu().contiguous() for name, value in shard.items()}, folder / file)
        index |= dict.fromkeys(shard, file)
    (folder / "diffusion_pytorch_model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": index}), encoding="utf-8")


def positions(tokens, text_tokens):
    """(frame, row, column) of each token of a square image, whose middle is at 0, and of a text, which goes on
    behind it on all axes.
    """
    image = torch.zeros(tokens, tokens, 3)
    image[..., 1] = torch.arange(tokens)[:, None] - (tokens - tokens // 2)
    image[..., 2] = torch.arange(tokens)[None, :] - (tokens - tokens // 2)
    text = tokens // 2 + torch.arange(text_tokens)
    return {"img_ids": image.reshape(-1, 3), "txt_ids": text[:, None].expand(-1, 3).float().contiguous()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--headroom", required=True, help="the program")
    parser.add_argument("--folder", required=True, type=pathlib.Path, help="where the checkpoint goes (41 GB)")
    parser.add_argument("--switches", nargs="+", default=["lossless", "lossless,fp8"])
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda", help="of PyTorch's side; cpu for a trial without FP8")
    parser.add_argument("--config", type=pathlib.Path, help="another configuration than the published one, for a trial")
    parser.add_argument("--tokens", type=int, default=64, help="image tokens down and across")
    parser.add_argument("--text-tokens", type=int, default=256)
    parser.add_argument("--layers", type=int, help="fewer blocks than all 60")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--save", required=True, help="JSON file to write")
    args = parser.parse_args()

    args.config = json.loads(args.config.read_text(encoding="utf-8")) if args.config else qwen_shapes.TRANSFORMER
    if args.layers:
        args.config = args.config | {"num_layers": args.layers}
    torch.set_float32_matmul_precision("highest")
    args.size, args.batch, args.guided_by = (args.tokens, args.tokens), 1, 0
    model = qwen_torch.random_network(args.config, args.device, torch.bfloat16, args.seed)
    write_checkpoint(args.folder, args.config, model)
    inputs = qwen_torch.random_inputs(args, args.device, torch.bfloat16, torch.Generator().manual_seed(args.seed))
    inputs["timestep"].fill_(0.5)  # 1000 times this is a whole number in bf16, which diffusers rounds it to
    inputs_path = args.folder / "inputs.safetensors"
    save_file({name: value.float().cpu().contiguous() for name, value in inputs.items()} | positions(args.tokens, args.text_tokens),
              inputs_path)

    module = qwen_torch.AtOneSize(model, args.tokens, args.tokens)

    def forward(attention):
        model.set_attention_backend(attention)
        dtype = next(model.parameters()).dtype
        with torch.inference_mode():
            return module(**{name: value.to(dtype) for name, value in inputs.items()})[0].double()

    on_gpu = args.device == "cuda"
    model.float()  # tensor by tensor; every value stays
    reference = forward("_native_efficient" if on_gpu else "native")
    model.to(torch.bfloat16)
    errors = Errors(args.save, peer_result.forward_subject("qwen-image", args.tokens**2, 1, args.text_tokens), reference)
    attention = "_native_cudnn" if on_gpu else "native"
    errors.add_pytorch(["bf16", "cudnn attention"], forward(attention))
    if on_gpu:
        flux_peer.quantize_fp8(model.transformer_blocks)
        errors.add_pytorch(["bf16", "fp8", "cudnn attention"], forward(attention))
    del model, module
    torch.cuda.empty_cache()
    errors.add_headroom(args.headroom, str(args.folder), args.switches, str(inputs_path), "sample")


if __name__ == "__main__":
    main()
