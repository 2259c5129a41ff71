#!/usr/bin/env python3
"""Writes FLUX.1-dev's transformer with random weights as one file in its authors' names, as its users have it: in
blocks (GGUF) or in 8-bit floats with a scale for each matrix, as ComfyUI writes them.

    python3 bench/peers/flux_files.py Q4_K out/flux-dev.gguf
    python3 bench/peers/flux_files.py fp8 out/flux-dev.safetensors

Weights have the standard deviation 0.02 of Headroom's stand-ins. Needs PyTorch, and takes a GPU if there is one.
"""

import argparse
import json
import struct
from pathlib import Path

import torch

import flux_shapes

F32, Q4_K = 0, 12  # GGUF's numbers of types
ALIGNMENT = 32
DEVIATION = 0.02
LARGEST_INPUT = 16.0  # that the scale of activations keeps, of no calibration
E4M3_MAX = 448.0


def shapes(config):
    """The names and extents of a transformer's tensors."""
    heads = config["attention_head_dim"]
    width = heads * config["num_attention_heads"]
    found = {}

    def linear(name, columns, rows):
        found[f"{name}.weight"], found[f"{name}.bias"] = (rows, columns), (rows,)

    linear("img_in", config["in_channels"], width)
    linear("txt_in", config["joint_attention_dim"], width)
    for name, columns in (("time_in", 256), ("vector_in", config["pooled_projection_dim"]), ("guidance_in", 256)):
        linear(f"{name}.in_layer", columns, width)
        linear(f"{name}.out_layer", width, width)
    for i in range(config["num_layers"]):
        for stream in ("img", "txt"):
            block = f"double_blocks.{i}.{stream}_"
            linear(block + "mod.lin", width, 6 * width)
            linear(block + "attn.qkv", width, 3 * width)
            linear(block + "attn.proj", width, width)
            linear(block + "mlp.0", width, 4 * width)
            linear(block + "mlp.2", 4 * width, width)
            found[block + "attn.norm.query_norm.scale"] = found[block + "attn.norm.key_norm.scale"] = (heads,)
    for i in range(config["num_single_layers"]):
        block = f"single_blocks.{i}."
        linear(block + "modulation.lin", width, 3 * width)
        linear(block + "linear1", width, 7 * width)
        linear(block + "linear2", 5 * width, width)
        found[block + "norm.query_norm.scale"] = found[block + "norm.key_norm.scale"] = (heads,)
    linear("final_layer.adaLN_modulation.1", width, 2 * width)
    linear("final_layer.linear", width, config["in_channels"])
    return found


def vector(name, shape, generator):
    mean = 1.0 if name.endswith(".scale") else 0.0
    return mean + DEVIATION * torch.randn(shape, generator=generator, device=generator.device)


def bytes_of(tensor):
    return tensor.contiguous().view(torch.uint8).cpu().numpy().tobytes()


def q4_k_blocks(shape, generator):
    """Blocks of 256 elements d s (q - 7.5): the minimum of each group of 32 is 7.5 times its scale."""
    device, count = generator.device, shape[0] * shape[1] // 256
    draw = lambda low, high, *extents: torch.randint(low, high, extents, generator=generator, device=device, dtype=torch.uint8)  # noqa: E731
    scale = draw(32, 64, count, 8)
    packed = torch.empty(count, 12, dtype=torch.uint8, device=device)
    packed[:, 0:4] = packed[:, 4:8] = scale[:, :4] | (scale[:, 4:] >> 4 << 6)
    packed[:, 8:12] = (scale[:, 4:] & 15) | (scale[:, 4:] & 15) << 4
    d = DEVIATION / (48 * 4.61)
    head = torch.tensor([d, 7.5 * d], dtype=torch.float16, device=device).view(torch.uint8)
    return bytes_of(torch.cat([head.expand(count, 4), packed, draw(0, 256, count, 128)], dim=1))


def write_gguf(path, tensors, generator):
    text = lambda value: struct.pack("<Q", len(value)) + value.encode()  # noqa: E731
    header = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), 1) + text("general.architecture") + struct.pack("<I", 8) + text("flux")
    offset = 0
    for name, shape in tensors.items():
        is_packed = len(shape) == 2 and shape[1] % 256 == 0
        size = torch.Size(shape).numel() // 256 * 144 if is_packed else torch.Size(shape).numel() * 4
        header += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *reversed(shape), Q4_K if is_packed else F32, offset)
        offset += size + -size % ALIGNMENT
    with open(path, "wb") as file:
        file.write(header + bytes(-len(header) % ALIGNMENT))
        for name, shape in tensors.items():
            is_packed = len(shape) == 2 and shape[1] % 256 == 0
            data = q4_k_blocks(shape, generator) if is_packed else bytes_of(vector(name, shape, generator))
            file.write(data + bytes(-len(data) % ALIGNMENT))


def fp8_matrix(shape, generator):
    """Elements in E4M3, their scale, by which five standard deviations are the largest number, and that of
    activations.
    """
    elements = torch.randn(shape, generator=generator, device=generator.device) * (E4M3_MAX / 5)
    scales = struct.pack("<f", 5 * DEVIATION / E4M3_MAX), struct.pack("<f", LARGEST_INPUT / E4M3_MAX)
    return bytes_of(elements.clamp(-E4M3_MAX, E4M3_MAX).to(torch.float8_e4m3fn)), *scales


def write_fp8(path, tensors, generator):
    entries, offset = {}, 0

    def add(name, dtype, shape, width):
        nonlocal offset
        size = torch.Size(shape).numel() * width
        entries[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [offset, offset + size]}
        offset += size

    is_block = lambda name, shape: len(shape) == 2 and "_blocks." in name  # noqa: E731
    for name, shape in tensors.items():
        if is_block(name, shape):
            add(name, "F8_E4M3", shape, 1)
            add(name + "_scale", "F32", (), 4)
            add(name.removesuffix("weight") + "input_scale", "F32", (), 4)
        else:
            add(name, "BF16", shape, 2)
    header = json.dumps(entries).encode()
    header += b" " * (-len(header) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        for name, shape in tensors.items():
            if is_block(name, shape):
                for part in fp8_matrix(shape, generator):
                    file.write(part)
            else:
                file.write(bytes_of(vector(name, shape, generator).to(torch.bfloat16)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("form", choices=["Q4_K", "fp8"])
    parser.add_argument("out", type=Path)
    args = parser.parse_args()
    generator = torch.Generator("cuda" if torch.cuda.is_available() else "cpu").manual_seed(0)
    write = write_gguf if args.form == "Q4_K" else write_fp8
    write(args.out, shapes(flux_shapes.transformer("dev")), generator)


if __name__ == "__main__":
    main()
