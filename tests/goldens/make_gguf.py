#!/usr/bin/env python3
"""Makes the goldens of GGUF files with `gguf` (PyPI): what its writer writes, and the values that it reads from blocks.

    python3 tests/goldens/make_gguf.py --out tests/goldens/gguf

blocks.gguf: a tensor [BLOCKS, elements of a block] in each format of FORMATS, called by its name, whose blocks have random
bytes and the scales of SCALES; and metadata of every type.

blocks.safetensors: the values of those tensors in F32, as gguf.quants.dequantize gives them.

scales.json: by format

    at     the places in a block of its numbers in f16, the scale and for some the minimum
    sum    of 65,536 blocks, one for each bit pattern of a scale (`blocks_of_all_scales`): a sum of all bits of their values
           (`checksum`), in hexadecimal; every NaN counts as 7fc00000

Runs on a CPU in seconds. Needs gguf, numpy and safetensors.
"""

import argparse
import json
from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type
from safetensors.numpy import save_file

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
BLOCKS = 8
# Of the first blocks: subnormal ones, the smallest normal one, the largest, infinity and NaN. The last blocks have ordinary ones.
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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(1)
    tensors = {name: random_blocks(name, generator) for name in FORMATS}
    write_blocks(out, tensors)
    save_file({name: values_of(name, blocks) for name, blocks in tensors.items()}, out / "blocks.safetensors")
    scales = {name: {"at": places, "sum": f"{checksum(values_of(name, blocks_of_all_scales(name))):016x}"}
              for name, places in FORMATS.items()}
    (out / "scales.json").write_text(json.dumps(scales, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
