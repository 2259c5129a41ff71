#!/usr/bin/env python3
"""Times in PyTorch, raw trials kept, a forward pass of diffusers' Flux3Transformer2DModel, with references too, or the
language half of the text encoder of FLUX.3 [klein], which is transformers' Qwen3.

    python3 bench/peers/flux3_torch.py transformer --device cuda --dtype bf16 --attention _native_cudnn --compile-blocks --graph \\
        --size 64x64 --reference 64x64 --text-tokens 80 --rounds 4 --beside "build/release/headroom bench flux-3-image-klein-base \\
        --random-weights 0 --device cuda --opt lossless --token-rows 64 --token-columns 64 --reference-rows 64 --reference-columns 64 \\
        --text-tokens 80 --out headroom-{round}.json" --save pytorch-{round}.json

Random weights, as Headroom's stand-ins are. Queries, keys and values are of one matmul in the transformer, and norms of
queries and keys have weights in fp32, as from_pretrained() keeps them. The text encoder gives the states of eight
layers side by side; layers above the last of them are left out, and no token is masked. Everything else is as in
flux_torch.py. Needs PyTorch, diffusers and numpy, and transformers for the text encoder.
"""

import argparse

import torch

import flux_peer
import flux_torch
import peer_result
from qwen_torch import size_of
from rounds import add_arguments, parse, save_rounds

TRANSFORMER = {"in_channels": 128, "cond_in_channels": 128, "num_layers": 5, "num_single_layers": 28, "attention_head_dim": 128,
               "num_attention_heads": 24, "joint_attention_dim": 20480, "mlp_ratio": 3.0, "axes_dims_rope": [32, 32, 32, 32]}
STACKED_LAYERS = [4, 8, 12, 16, 20, 24, 28, 32]
TEXT_ENCODER = {"vocab_size": 151936, "hidden_size": 2560, "intermediate_size": 9728, "num_hidden_layers": STACKED_LAYERS[-1],
                "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "rms_norm_eps": 1e-6, "rope_theta": 5e6}
INPUT_SETS = 2
POSITION_SCALE = 0.5


def random_transformer(args, device, dtype):
    from diffusers import Flux3Transformer2DModel
    with torch.device("meta"):
        model = Flux3Transformer2DModel.from_config(TRANSFORMER | {"num_single_layers": args.layers or TRANSFORMER["num_single_layers"]})
    model = flux_peer.fill(model.to(dtype).to_empty(device=device).eval(), args.seed)
    for name, module in model.named_modules():
        if name.endswith((".norm_q", ".norm_k")):
            module.float()
    flux_peer.merge_qkv(model)
    if args.fp8:
        flux_peer.quantize_fp8(*model.mode_blocks.values(), model.txt_mode_blocks, model.single_transformer_blocks)
    model.set_attention_backend(args.attention)
    if args.compile_blocks:
        flux_peer.compile_blocks(model, args.compile_mode)
    return model


def grid(size, place, device):
    """[rows * columns, 4]: (t, h, w, l) of the tokens of a picture"""
    rows, columns = size
    ids = torch.zeros(rows, columns, 4)
    ids[..., 1] = POSITION_SCALE * torch.arange(rows)[:, None]
    ids[..., 2] = POSITION_SCALE * torch.arange(columns)[None, :]
    ids[..., 3] = place
    return ids.reshape(-1, 4).to(device)


def transformer_inputs(args, device, dtype, generator):
    draw = lambda *shape: torch.randn(args.batch, *shape, generator=generator).to(device, dtype)  # noqa: E731
    image, text = grid(args.size, 0, device), torch.zeros(args.text_tokens, 4, device=device)
    text[:, 3] = torch.arange(args.text_tokens)
    inputs = {"hidden_states": draw(len(image), TRANSFORMER["in_channels"]),
              "encoder_hidden_states": draw(args.text_tokens, TRANSFORMER["joint_attention_dim"]),
              "timestep": torch.rand(args.batch, generator=generator).to(device, dtype), "img_ids": image, "txt_ids": text}
    if args.reference:
        inputs["image_cond_ids"] = grid(args.reference, -1, device)
        inputs["image_cond_hidden_states"] = draw(len(inputs["image_cond_ids"]), TRANSFORMER["cond_in_channels"])
    return inputs


class StackedStates(torch.nn.Module):
    """States after some layers side by side, [batch, tokens, layers * width]."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, return_dict=False):
        states = self.model.embed_tokens(input_ids)
        positions = torch.arange(input_ids.shape[1], device=input_ids.device)[None]
        rotation = self.model.rotary_emb(states, positions)
        kept = []
        for number, layer in enumerate(self.model.layers, 1):
            states = layer(states, attention_mask=None, position_embeddings=rotation)
            if number in STACKED_LAYERS:
                kept.append(states)
        return (torch.cat(kept, dim=-1),)


def random_text_encoder(args, device, dtype):
    from transformers import Qwen3Config
    from transformers.models.qwen3.modeling_qwen3 import Qwen3Model
    config = Qwen3Config(**TEXT_ENCODER | {"num_hidden_layers": args.layers or TEXT_ENCODER["num_hidden_layers"]})
    config._attn_implementation = "sdpa"
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    with torch.device(device):
        model = Qwen3Model(config)
    torch.set_default_dtype(before)
    model = flux_peer.fill(model.eval(), args.seed)
    if args.compile_blocks:
        torch._dynamo.config.cache_size_limit = 64
        for layer in model.layers:
            layer.compile(fullgraph=True, dynamic=False, mode=args.compile_mode)
    return StackedStates(model)


def text_inputs(args, device, dtype, generator):
    del dtype
    return {"input_ids": torch.randint(TEXT_ENCODER["vocab_size"], (args.batch, args.text_tokens), generator=generator).to(device)}


def subject_of(args):
    """The work, as `headroom bench` names it."""
    if args.part == "text_encoder":
        request = {"pass": "stacked-states", "batch": args.batch, "text_tokens": args.text_tokens}
        return {"kind": "model", "name": "text_encoder", "request": request}
    rows, columns = args.size
    reference_rows, reference_columns = args.reference or (0, 0)
    return peer_result.forward_subject("flux-3-image-klein-base", rows * columns, args.batch, args.text_tokens,
                                       reference_rows * reference_columns)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("part", choices=["transformer", "text_encoder"])
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--dtype", choices=list(flux_peer.DTYPES), default="bf16")
    parser.add_argument("--attention", default="native", help="of the transformer: diffusers' name of a backend, such as _native_cudnn")
    parser.add_argument("--fp8", action="store_true", help="of the transformer: matmuls of tokens in the blocks in FP8, scales by row")
    parser.add_argument("--compile-blocks", action="store_true", help="each kind of block compiled once")
    parser.add_argument("--compile-mode", default="default", help="torch.compile's mode, such as max-autotune-no-cudagraphs")
    parser.add_argument("--graph", action="store_true", help="also captured in a CUDA Graph and replayed")
    parser.add_argument("--size", type=size_of, default=(64, 64), metavar="ROWSxCOLUMNS", help="image tokens down and across")
    parser.add_argument("--reference", type=size_of, metavar="ROWSxCOLUMNS", help="tokens of a picture that is edited")
    parser.add_argument("--text-tokens", type=int, default=80)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--layers", type=int, help="fewer joint blocks or layers, for a trial")
    add_arguments(parser, trials=8)
    args = parse(parser)
    if args.graph and args.device != "cuda":
        parser.error("--graph needs --device cuda")
    if args.part == "text_encoder" and (args.fp8 or args.reference or args.attention != "native"):
        parser.error("--fp8, --reference and --attention are for the transformer")
    device, dtype = torch.device(args.device), flux_peer.DTYPES[args.dtype]
    generator = torch.Generator().manual_seed(args.seed)
    is_text = args.part == "text_encoder"
    rows, columns = (1, args.text_tokens) if is_text else args.size
    # What flux_torch.make_forms() and result_of() ask of their own arguments.
    as_flux = argparse.Namespace(**vars(args) | {"reference": (0, 0)}, engine="pytorch", compile=False, first_block_cache=None,
                                 merge_qkv=not is_text, tf32=False, freeze=False, model=None, gguf=None, steps=0)
    as_flux.attention = args.attention.strip("_").replace("native_", "")
    make, draw = (random_text_encoder, text_inputs) if is_text else (random_transformer, transformer_inputs)
    with torch.inference_mode():
        module = make(args, device, dtype)
        sets = [draw(args, device, dtype, generator) for _ in range(INPUT_SETS)]
        forms = flux_torch.make_forms(as_flux, module, sets, rows * columns)
        subject = subject_of(args)
        size = (rows, columns, args.batch)
        save_rounds(args, forms,
                    lambda number: [flux_torch.time_forward(as_flux, size, subject, form, sets, number) for form in forms])


if __name__ == "__main__":
    main()
