#!/usr/bin/env python3
"""Times a forward pass of diffusers' QwenImageTransformer2DModel in PyTorch, raw trials kept, for each of several
sizes.

    python3 bench/peers/qwen_torch.py --device cuda --dtype bf16 --attention _native_cudnn --real-rope --compile-blocks --graph \\
        --size 83x83 --text-tokens 256 --rounds 6 --beside "build/release/headroom bench qwen-image --random-weights 0 \\
        --device cuda --opt lossless --token-rows 83 --token-columns 83 --text-tokens 256 --out headroom-{round}.json" \\
        --save pytorch-{round}.json

Random weights, as Headroom's stand-ins are. The text has no mask: diffusers' pipeline drops one that is all ones.
--real-rope turns queries and keys by real tables in place of complex ones, which torch.compile cannot fuse. --fp8
computes the matmuls of tokens in the blocks in FP8 with a scale for each row, as torchao does, few rows filled up to as
many as cuBLASLt runs. --guided-by N times classifier-free guidance as diffusers' pipeline has it: a pass of the prompt,
one of a negative prompt of N tokens, and their combination. Everything else is as in flux_torch.py. Needs PyTorch,
diffusers and numpy.
"""

import argparse

import torch

from diffusers import QwenImageTransformer2DModel
from diffusers.models.transformers import transformer_qwenimage

import flux_peer
import flux_torch
import peer_result
import qwen_shapes
from rounds import add_arguments, parse, save_rounds

INPUT_SETS = 2


class AtOneSize(torch.nn.Module):
    """The model with the image's size fixed, so that its inputs are tensors alone."""

    def __init__(self, model, rows, columns):
        super().__init__()
        self.model, self.shapes = model, [[(1, rows, columns)]]

    def forward(self, hidden_states, encoder_hidden_states, timestep, return_dict=False):
        return self.model(hidden_states=hidden_states, encoder_hidden_states=encoder_hidden_states, timestep=timestep,
                          img_shapes=self.shapes, return_dict=return_dict)


class Guided(torch.nn.Module):
    """Two passes of AtOneSize, and the guided prediction, each token as long as the prompt's own."""

    def __init__(self, one, scale=4.0):
        super().__init__()
        self.one, self.scale = one, scale

    def forward(self, hidden_states, encoder_hidden_states, negative_hidden_states, timestep, return_dict=False):
        prompted = self.one(hidden_states, encoder_hidden_states, timestep, return_dict)[0]
        negative = self.one(hidden_states, negative_hidden_states, timestep, return_dict)[0]
        guided = negative + self.scale * (prompted - negative)
        return (guided * (torch.norm(prompted, dim=-1, keepdim=True) / torch.norm(guided, dim=-1, keepdim=True)),)


class RealTables(torch.nn.Module):
    """The model's positions as [tokens, pairs, 2]: cosine and sine of each angle."""

    def __init__(self, embed):
        super().__init__()
        self.embed = embed

    def forward(self, *args, **kwargs):
        return tuple(torch.view_as_real(table).contiguous() for table in self.embed(*args, **kwargs))


def turn(x, table, use_real=True, use_real_unbind_dim=-1):
    """apply_rotary_emb_qwen() with such a table; x [batch, tokens, heads, width]."""
    del use_real, use_real_unbind_dim
    cosine, sine = table[None, :, None, :, 0], table[None, :, None, :, 1]
    even, odd = x.float().unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack([even * cosine - odd * sine, even * sine + odd * cosine], dim=-1).flatten(-2).type_as(x)


def use_real_tables(model):
    model.pos_embed = RealTables(model.pos_embed)
    transformer_qwenimage.apply_rotary_emb_qwen = turn


def random_network(config, device, dtype, seed):
    with torch.device("meta"):
        model = QwenImageTransformer2DModel.from_config(config)
    # plain tensors, lost on "meta"
    rope = QwenImageTransformer2DModel.from_config(config | {"num_layers": 0}).pos_embed
    model = model.to(dtype).to_empty(device=device)
    model.pos_embed = rope
    return flux_peer.fill(model.eval(), seed)


def random_model(args, device, dtype):
    model = random_network(args.config, device, dtype, args.seed)
    if args.fp8:
        flux_peer.quantize_fp8(model.transformer_blocks)
        least = flux_peer.settle_rows(model, dtype, device)
        print("least rows of FP8 matmuls, by outputs x inputs:", {f"{n}x{k}": rows for (n, k), rows in least.items()}, flush=True)
    model.set_attention_backend(args.attention)
    if args.real_rope:
        use_real_tables(model)
    if args.compile_blocks:
        flux_peer.compile_blocks(model, args.compile_mode)
    return model


def random_inputs(args, device, dtype, generator):
    rows, columns = args.size
    draw = lambda *shape: torch.randn(*shape, generator=generator).to(device, dtype)  # noqa: E731
    inputs = {"hidden_states": draw(args.batch, rows * columns, args.config["in_channels"]),
              "encoder_hidden_states": draw(args.batch, args.text_tokens, args.config["joint_attention_dim"]),
              "timestep": torch.rand(args.batch, generator=generator).to(device, dtype)}
    if args.guided_by:
        inputs["negative_hidden_states"] = draw(args.batch, args.guided_by, args.config["joint_attention_dim"])
    return inputs


def size_of(text):
    """ROWSxCOLUMNS"""
    numbers = tuple(int(n) for n in text.split("x"))
    if len(numbers) != 2 or min(numbers) < 1:
        raise ValueError(text)
    return numbers


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--dtype", choices=list(flux_peer.DTYPES), default="bf16")
    parser.add_argument("--attention", default="native", help="diffusers' name of a backend, such as _native_cudnn or _native_flash")
    parser.add_argument("--real-rope", action="store_true", help="real tables of positions in place of complex ones")
    parser.add_argument("--fp8", action="store_true", help="matmuls of tokens in the blocks in FP8, scales by row")
    parser.add_argument("--compile-blocks", action="store_true", help="diffusers' compile_repeated_blocks")
    parser.add_argument("--compile-mode", default="default", help="torch.compile's mode, such as max-autotune-no-cudagraphs")
    parser.add_argument("--graph", action="store_true", help="also captured in a CUDA Graph and replayed")
    parser.add_argument("--size", type=size_of, default=(83, 83), metavar="ROWSxCOLUMNS", help="image tokens down and across")
    parser.add_argument("--text-tokens", type=int, default=256)
    parser.add_argument("--guided-by", type=int, default=0, metavar="TOKENS", help="also a pass of a negative prompt, and the combination")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--layers", type=int, default=qwen_shapes.TRANSFORMER["num_layers"], help="fewer, for a trial")
    add_arguments(parser, trials=8)
    args = parse(parser)
    if args.graph and args.device != "cuda":
        parser.error("--graph needs --device cuda")
    args.config = qwen_shapes.TRANSFORMER | {"num_layers": args.layers}
    device, dtype = torch.device(args.device), flux_peer.DTYPES[args.dtype]
    generator = torch.Generator().manual_seed(args.seed)
    rows, columns = args.size
    # What flux_torch.make_forms() and result_of() ask of their own arguments.
    as_flux = argparse.Namespace(**vars(args), engine="pytorch", compile=False, first_block_cache=None, merge_qkv=False, tf32=False,
                                 freeze=False, model=None, gguf=None, steps=0)
    as_flux.attention = "real tables, " * args.real_rope + args.attention.strip("_").replace("native_", "")
    with torch.inference_mode():
        module = AtOneSize(random_model(args, device, dtype), rows, columns)
        if args.guided_by:
            module = Guided(module)
        sets = [random_inputs(args, device, dtype, generator) for _ in range(INPUT_SETS)]
        forms = flux_torch.make_forms(as_flux, module, sets, rows * columns)
        subject = peer_result.forward_subject("qwen-image", rows * columns, args.batch, args.text_tokens, 0)
        if args.guided_by:
            subject["request"] |= {"negative_text_tokens": args.guided_by, "true_cfg_scale": 4.0}
        size = (rows, columns, args.batch)
        save_rounds(args, forms,
                    lambda number: [flux_torch.time_forward(as_flux, size, subject, form, sets, number) for form in forms])


if __name__ == "__main__":
    main()
