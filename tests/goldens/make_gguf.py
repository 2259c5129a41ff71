#!/usr/bin/env python3
"""Makes the goldens of GGUF files with `gguf` (PyPI): what its writer writes, and the values that it reads from blocks.

    python3 tests/goldens/make_gguf.py --out tests/goldens/gguf

blocks.gguf: a tensor [BLOCKS, elements of a block] in each format of FORMATS, called by its name, whose blocks have
random bytes and the scales of SCALES; and metadata of every type.

blocks.safetensors: the values of those tensors in F32, as gguf.quants.dequantize gives them.

scales.json: by format

    at     the places in a block of its numbers in f16, the scale and for some the minimum
    sum    of 65,536 blocks, one for each bit pattern of a scale (`blocks_of_all_scales`): a sum of all bits of their
           values (`checksum`), in hexadecimal; every NaN counts as 7fc00000

packed.json: for the formats of PACKED, a sum of all bytes (`checksum_of_bytes`) of the blocks that gguf.quants.quantize
makes of `values_to_pack`.

clip-packed: a tiny CLIP text encoder whose weights are in a GGUF file, in several formats (`CLIP_FORMATS`) under the
names of transformers, as its author's converter would keep them. clip: the same network in a safetensors file, with the
values that gguf.quants.dequantize gives in F32, and others as they are stored.

Runs on a CPU in seconds. Needs gguf, numpy, PyTorch and safetensors.
"""

import argparse
import json
from pathlib import Path

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as Type
from safetensors.numpy import save_file
from safetensors.torch import save_file as save_torch_file

# Format: places in a block of its numbers in f16.
FORMATS = {
    "F32": [],
    "F16": [0],
    "BF16": [],
    "Q4_0": [0],
    "Q4_1": [0, 2],
    "Q5_0": [0],
    "Q5_1": [0, 2],
    "Q8_0": [0],
    "Q2_K": [80, 82],
    "Q3_K": [108],
    "Q4_K": [0, 2],
    "Q5_K": [0, 2],
    "Q6_K": [208],
    "IQ4_NL": [0],
    "IQ4_XS": [0],
}
PACKED = ["Q8_0", "Q4_0"]  # gguf packs others by other rules, or not at all
BLOCKS = 8
# By the end of a name; others are in F32. The rows of the last have whole blocks of 256.
CLIP_FORMATS = {
    "token_embedding.weight": "F16",
    "position_embedding.weight": "BF16",
    "q_proj.weight": "Q8_0",
    "k_proj.weight": "Q4_0",
    "v_proj.weight": "Q5_1",
    "out_proj.weight": "Q4_1",
    "fc1.weight": "Q5_0",
    "fc2.weight": "Q4_K",
}
CLIP_CONFIG = {
    "architectures": ["CLIPTextModel"],
    "vocab_size": 48,
    "hidden_size": 32,
    "intermediate_size": 256,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "max_position_embeddings": 12,
    "hidden_act": "quick_gelu",
    "eos_token_id": 47,
}
# Of the first blocks: subnormal ones, the smallest normal one, the largest, infinity and NaN. The last blocks have
# ordinary ones.
SCALES = [0x0001, 0x83FF, 0x0400, 0xFBFF, 0x7C00, 0x7E01, 0x2C5A, 0x9D17]
MASK = (1 << 64) - 1


def set_scales(blocks, places, scales):
    """Sets each number in f16; the minimum of a block is the scale of the one before it."""
    for shift, place in enumerate(places):
        blocks[:, place : place + 2] = np.roll(scales, shift).astype("<u2").reshape(-1, 1).view(np.uint8)


def random_blocks(name, generator):
    _, size = gguf.GGML_QUANT_SIZES[Type[name]]
    blocks = generator.integers(0, 256, (BLOCKS, size), dtype=np.uint8)
    set_scales(blocks, FORMATS[name], np.array(SCALES))
    return blocks


def blocks_of_all_scales(name):
    """65,536 blocks whose bytes are a formula of their place, and whose scale is their number."""
    _, size = gguf.GGML_QUANT_SIZES[Type[name]]
    mixed = np.arange(65536 * size, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    blocks = (mixed >> np.uint64(56)).astype(np.uint8).reshape(65536, size)
    set_scales(blocks, FORMATS[name], np.arange(65536))
    return blocks


def values_of(name, blocks):
    with np.errstate(all="ignore"):
        return np.ascontiguousarray(gguf.quants.dequantize(blocks, Type[name]), dtype=np.float32)


def checksum(values):
    """The sum of the bits of value i times 2 i + 1, modulo 2^64."""
    flat = values.reshape(-1)
    bits = np.where(np.isnan(flat), np.uint32(0x7FC00000), flat.view(np.uint32)).astype(np.uint64)
    return int((bits * (np.arange(bits.size, dtype=np.uint64) * np.uint64(2) + np.uint64(1))).sum(dtype=np.uint64)) & MASK


def values_to_pack():
    """4096 blocks of 32 numbers, which are a formula of their place, from 2^-31 to 2^8; every 64th block is zeros."""
    mixed = np.arange(4096 * 32, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    values = ((mixed >> np.uint64(40)).astype(np.int64) - (1 << 23)).astype(np.float32).reshape(4096, 32)
    block = np.arange(4096)
    exponents = (block % 40 - 31 - 23).astype(np.float32).reshape(-1, 1)
    return np.where((block % 64 != 63).reshape(-1, 1), values * np.exp2(exponents), np.float32(0)).astype(np.float32)


def checksum_of_bytes(blocks):
    """The sum of byte i times 2 i + 1, modulo 2^64."""
    flat = blocks.reshape(-1).astype(np.uint64)
    return int((flat * (np.arange(flat.size, dtype=np.uint64) * np.uint64(2) + np.uint64(1))).sum(dtype=np.uint64)) & MASK


def write_blocks(out, tensors):
    writer = gguf.GGUFWriter(out / "blocks.gguf", "golden")
    writer.add_uint8("type.u8", 200)
    writer.add_int8("type.i8", -100)
    writer.add_uint16("type.u16", 60000)
    writer.add_int16("type.i16", -30000)
    writer.add_uint32("type.u32", 4000000000)
    writer.add_int32("type.i32", -2000000000)
    writer.add_float32("type.f32", 0.1)
    writer.add_bool("type.bool", True)
    writer.add_string("type.string", "a \u00e9 \"b\"\n")
    writer.add_uint64("type.u64", (1 << 64) - 1)
    writer.add_int64("type.i64", -(1 << 63))
    writer.add_float64("type.f64", 0.1)
    writer.add_array("type.integers", [-1, 2, 3])
    writer.add_array("type.texts", ["one", "", "three"])
    for name, blocks in tensors.items():
        writer.add_tensor(name, blocks, raw_dtype=Type[name])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def clip_shapes():
    wide, inner = CLIP_CONFIG["hidden_size"], CLIP_CONFIG["intermediate_size"]
    shapes = {
        "embeddings.token_embedding.weight": (CLIP_CONFIG["vocab_size"], wide),
        "embeddings.position_embedding.weight": (CLIP_CONFIG["max_position_embeddings"], wide),
        "final_layer_norm.weight": (wide,),
        "final_layer_norm.bias": (wide,),
    }
    layer = "encoder.layers.0."
    for norm in "layer_norm1", "layer_norm2":
        shapes |= {f"{layer}{norm}.weight": (wide,), f"{layer}{norm}.bias": (wide,)}
    for module, rows, columns in [("self_attn.q_proj", wide, wide), ("self_attn.k_proj", wide, wide), ("self_attn.v_proj", wide, wide),
                                  ("self_attn.out_proj", wide, wide), ("mlp.fc1", inner, wide), ("mlp.fc2", wide, inner)]:
        shapes |= {f"{layer}{module}.weight": (rows, columns), f"{layer}{module}.bias": (rows,)}
    return {f"text_model.{name}": shape for name, shape in shapes.items()}


def pack(values, name, generator):
    """In a format that gguf can write; otherwise random blocks with small scales."""
    try:
        return gguf.quants.quantize(values, Type[name])
    except NotImplementedError:
        elements, size = gguf.GGML_QUANT_SIZES[Type[name]]
        blocks = generator.integers(0, 256, (values.size // elements, size), dtype=np.uint8)
        set_scales(blocks, FORMATS[name], generator.uniform(1e-4, 4e-4, len(blocks)).astype(np.float16).view(np.uint16))
        return blocks.reshape(values.shape[0], -1)


def write_clip(out, generator):
    writer, plain = gguf.GGUFWriter(out / "clip-packed" / "clip.gguf", "clip"), {}
    for name, shape in clip_shapes().items():
        is_gain = len(shape) == 1 and name.endswith(".weight")
        values = (generator.normal(0, 0.15, shape) + is_gain).astype(np.float32)
        kind = next((kind for end, kind in CLIP_FORMATS.items() if name.endswith(end)), "F32")
        packed = pack(values, kind, generator)
        writer.add_tensor(name, packed, raw_dtype=Type[kind])
        if kind == "F16":
            plain[name] = torch.from_numpy(packed)
        else:
            exact = torch.from_numpy(values_of(kind, packed).reshape(shape))
            plain[name] = exact.bfloat16() if kind == "BF16" else exact
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    save_torch_file(plain, out / "clip" / "model.safetensors")
    for folder in "clip-packed", "clip":
        (out / folder / "config.json").write_text(json.dumps(CLIP_CONFIG, indent=2) + "\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    out = parser.parse_args().out
    for folder in out / "clip-packed", out / "clip":
        folder.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(1)
    tensors = {name: random_blocks(name, generator) for name in FORMATS}
    write_blocks(out, tensors)
    save_file({name: values_of(name, blocks) for name, blocks in tensors.items()}, out / "blocks.safetensors")
    scales = {name: {"at": places, "sum": f"{checksum(values_of(name, blocks_of_all_scales(name))):016x}"}
              for name, places in FORMATS.items()}
    write_clip(out, generator)
    packed = {name: f"{checksum_of_bytes(gguf.quants.quantize(values_to_pack(), Type[name])):016x}" for name in PACKED}
    (out / "packed.json").write_text(json.dumps(packed, indent=2) + "\n", encoding="utf-8")
    (out / "scales.json").write_text(json.dumps(scales, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
