#!/usr/bin/env python3
"""Times a forward pass of diffusers' ZImageTransformer2DModel in PyTorch, raw trials kept.

    python3 bench/peers/z_image_torch.py --device cuda --dtype bf16 --attention _native_cudnn --compile-blocks --graph --size 64x64 \\
        --text-tokens 256 --rounds 4 --beside "build/release/headroom bench z-image --random-weights 0 --device cuda --opt lossless \\
        --token-rows 64 --token-columns 64 --text-tokens 256 --out headroom-{round}.json" --save pytorch-{round}.json

Random weights, as Headroom's stand-ins are. Queries, keys and values are of one matmul, and so are the two of a gated
feed-forward layer with --merge-gates. Queries and keys are turned by real tables in place of complex ones, which
torch.compile cannot fuse. --fp8 computes the matmuls of tokens in the blocks in FP8 with a scale for each row.
Everything else is as in flux_torch.py. Needs PyTorch, diffusers and numpy.
"""

import argparse

import torch

from diffusers import ZImageTransformer2DModel
from diffusers.models.attention_dispatch import dispatch_attention_fn

import flux_peer
import flux_torch
import peer_result
from qwen_torch import size_of
from rounds import add_arguments, parse, save_rounds

TRANSFORMER = {"in_channels": 16, "dim": 3840, "n_layers": 30, "n_refiner_layers": 2, "n_heads": 30, "n_kv_heads": 30, "norm_eps": 1e-5,
               "qk_norm": True, "cap_feat_dim": 2560, "rope_theta": 256.0, "t_scale": 1000.0, "axes_dims": [32, 48, 48],
               "axes_lens": [1536, 512, 512]}
PATCH = 2
INPUT_SETS = 2


class RealTables:
    """The model's positions as [tokens, pairs, 2]: cosine and sine of each angle."""

    def __init__(self, embed):
        self.embed = embed

    def __call__(self, ids):
        return torch.view_as_real(self.embed(ids)).contiguous()


def turn(x, table):
    """x [batch, tokens, heads, width] by such a table with a batch."""
    cosine, sine = table[:, :, None, :, 0], table[:, :, None, :, 1]
    even, odd = x.float().unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack([even * cosine - odd * sine, even * sine + odd * cosine], dim=-1).flatten(-2).type_as(x)


class Processor:
    """diffusers' ZSingleStreamAttnProcessor with one matmul for queries, keys and values, and real tables."""

    _attention_backend = None
    _parallel_config = None

    def __call__(self, attn, hidden_states, encoder_hidden_states=None, attention_mask=None, freqs_cis=None):
        del encoder_hidden_states
        query, key, value = (x.unflatten(-1, (attn.heads, -1)) for x in attn.to_qkv(hidden_states).chunk(3, dim=-1))
        query, key = turn(attn.norm_q(query), freqs_cis), turn(attn.norm_k(key), freqs_cis)
        context = dispatch_attention_fn(query, key, value, attn_mask=attention_mask, dropout_p=0.0, is_causal=False,
                                        backend=self._attention_backend)
        return attn.to_out[0](context.flatten(2, 3))


class MergedGates(torch.nn.Module):
    """A gated feed-forward layer with one matmul for gate and factor."""

    def __init__(self, layer):
        super().__init__()
        self.w13, self.w2 = joined(layer.w1, layer.w3), layer.w2

    def forward(self, x):
        gate, factor = self.w13(x).chunk(2, dim=-1)
        return self.w2(torch.nn.functional.silu(gate) * factor)


def joined(*linears):
    """One matmul for several without biases, which give up their weights."""
    first = linears[0].weight
    rows = sum(linear.weight.shape[0] for linear in linears)
    one = torch.nn.Linear(first.shape[1], rows, bias=False, dtype=first.dtype, device=first.device)
    one.weight = torch.nn.Parameter(torch.cat([linear.weight for linear in linears]), requires_grad=False)
    for linear in linears:
        linear.weight = None
    return one


class OneImage(torch.nn.Module):
    """The model on tensors of one image and one text in place of lists."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, hidden_states, encoder_hidden_states, timestep, return_dict=False):
        sample = self.model(list(hidden_states), timestep, list(encoder_hidden_states), return_dict=return_dict)[0]
        return (torch.stack(sample),)


def random_model(args, device, dtype):
    with torch.device("meta"):
        model = ZImageTransformer2DModel.from_config(TRANSFORMER | {"n_layers": args.layers or TRANSFORMER["n_layers"]})
    model = flux_peer.fill(model.to(dtype).to_empty(device=device).eval(), args.seed)
    model.rope_embedder = RealTables(model.rope_embedder)
    blocks = [*model.noise_refiner, *model.context_refiner, *model.layers]
    for block in blocks:
        block.attention.to_qkv = joined(block.attention.to_q, block.attention.to_k, block.attention.to_v)
        del block.attention.to_q, block.attention.to_k, block.attention.to_v
        block.attention.set_processor(Processor())
        if args.merge_gates:
            block.feed_forward = MergedGates(block.feed_forward)
    if args.fp8:
        flux_peer.quantize_fp8(*(part for block in blocks for part in (block.attention, block.feed_forward)))
        flux_peer.settle_rows(model, dtype, device)
    model.set_attention_backend(args.attention)
    if args.compile_blocks:
        flux_peer.compile_blocks(model, args.compile_mode)
    return OneImage(model)


def random_inputs(args, device, dtype, generator):
    rows, columns = args.size
    draw = lambda *shape: torch.randn(*shape, generator=generator).to(device, dtype)  # noqa: E731
    return {"hidden_states": draw(args.batch, TRANSFORMER["in_channels"], 1, rows * PATCH, columns * PATCH),
            "encoder_hidden_states": draw(args.batch, args.text_tokens, TRANSFORMER["cap_feat_dim"]),
            "timestep": torch.rand(args.batch, generator=generator).to(device, dtype)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--dtype", choices=list(flux_peer.DTYPES), default="bf16")
    parser.add_argument("--attention", default="native", help="diffusers' name of a backend, such as _native_cudnn or _native_flash")
    parser.add_argument("--merge-gates", action="store_true", help="one matmul for gate and factor of a feed-forward layer")
    parser.add_argument("--fp8", action="store_true", help="matmuls of tokens in the blocks in FP8, scales by row")
    parser.add_argument("--compile-blocks", action="store_true", help="diffusers' compile_repeated_blocks")
    parser.add_argument("--compile-mode", default="default", help="torch.compile's mode, such as max-autotune-no-cudagraphs")
    parser.add_argument("--graph", action="store_true", help="also captured in a CUDA Graph and replayed")
    parser.add_argument("--size", type=size_of, default=(64, 64), metavar="ROWSxCOLUMNS", help="image tokens down and across")
    parser.add_argument("--text-tokens", type=int, default=256)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--layers", type=int, help="fewer, for a trial")
    add_arguments(parser, trials=8)
    args = parse(parser)
    if args.graph and args.device != "cuda":
        parser.error("--graph needs --device cuda")
    device, dtype = torch.device(args.device), flux_peer.DTYPES[args.dtype]
    generator = torch.Generator().manual_seed(args.seed)
    rows, columns = args.size
    # What flux_torch.make_forms() and result_of() ask of their own arguments.
    as_flux = argparse.Namespace(**vars(args) | {"reference": (0, 0)}, engine="pytorch", compile=False, first_block_cache=None,
                                 merge_qkv=True, tf32=False, freeze=False, model=None, gguf=None, steps=0)
    as_flux.attention = "real tables, " + "merged gates, " * args.merge_gates + args.attention.strip("_").replace("native_", "")
    with torch.inference_mode():
        module = random_model(args, device, dtype)
        sets = [random_inputs(args, device, dtype, generator) for _ in range(INPUT_SETS)]
        forms = flux_torch.make_forms(as_flux, module, sets, rows * columns)
        subject = peer_result.forward_subject("z-image", rows * columns, args.batch, args.text_tokens, 0)
        size = (rows, columns, args.batch)
        save_rounds(args, forms,
                    lambda number: [flux_torch.time_forward(as_flux, size, subject, form, sets, number) for form in forms])


if __name__ == "__main__":
    main()
