"""Writes the seed files of gguf_fuzz into tests/fuzz/gguf: run it without arguments, anywhere.

Files called valid_* are valid; every other one shows one kind of damage, which its name tells.
"""

import itertools
import pathlib
import struct

FOLDER = pathlib.Path(__file__).parent / "gguf"
U8, I8, U16, I16, U32, I32, F32, BOOL, TEXT, ARRAY, U64, I64, F64 = range(13)
PACKED = {U8: "<B", I8: "<b", U16: "<H", I16: "<h", U32: "<I", I32: "<i", F32: "<f", BOOL: "<B", U64: "<Q", I64: "<q", F64: "<d"}


def text(value, length=None):
    raw = value if isinstance(value, bytes) else value.encode()
    return struct.pack("<Q", len(raw) if length is None else length) + raw


def array(kind, values, count=None):
    """Values are packed already where they are bytes."""
    head = struct.pack("<IQ", kind, len(values) if count is None else count)
    return head + b"".join(value if isinstance(value, bytes) else struct.pack(PACKED[kind], value) for value in values)


def entry(key, kind, value):
    return text(key) + struct.pack("<I", kind) + (value if isinstance(value, bytes) else struct.pack(PACKED[kind], value))


def tensor(name="a", extents=(4,), kind=0, offset=0, rank=None):
    return (text(name) + struct.pack("<I", len(extents) if rank is None else rank) + struct.pack(f"<{len(extents)}Q", *extents)
            + struct.pack("<IQ", kind, offset))


def file(tensors=(), metadata=(), data=0, version=3, counts=None, alignment=32, magic=b"GGUF"):
    tensor_count, metadata_count = counts or (len(tensors), len(metadata))
    raw = magic + struct.pack("<IQQ", version, tensor_count, metadata_count) + b"".join(metadata) + b"".join(tensors)
    if data:
        raw += b"\0" * (-len(raw) % alignment) + bytes(i % 251 for i in range(data))
    return raw


def one(data=16, **arguments):
    return file([tensor(**arguments)], data=data)


SIZES = {2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 10: (256, 84), 11: (256, 110), 12: (256, 144),
         13: (256, 176), 14: (256, 210), 17: (256, 74), 20: (32, 18), 23: (256, 136), 30: (1, 2), 1: (1, 2), 39: (32, 17)}
OFFSETS = dict(zip(SIZES, itertools.accumulate((-(-size // 32) * 32 for _, size in SIZES.values()), initial=0)))

SEEDS = {
    "valid_empty": file(),
    "valid_version_2": one()[:4] + struct.pack("<I", 2) + one()[8:],
    "valid_one": one(),
    "valid_scalar": one(extents=()),
    "valid_zero_size": one(extents=(0, 3), data=0),
    "valid_rank_4": one(extents=(2, 2, 1, 1)),
    "valid_trailing_data": one(data=20),
    "valid_all_formats": file([tensor(f"t{kind}", (SIZES[kind][0],), kind, OFFSETS[kind]) for kind in SIZES], data=2000),
    "valid_alignment_1": file([tensor(), tensor("b", (1,), 0, 17)], [entry("general.alignment", U32, 1)], 21, alignment=1),
    "valid_alignment_1024": file([tensor()], [entry("general.alignment", U32, 1024)], 16, alignment=1024),
    "valid_gap": file([tensor(), tensor("b", (4,), 0, 64)], data=80),
    "valid_scalars": file(metadata=[entry(f"k{kind}", kind, 1) for kind in PACKED]),
    "valid_text": file(metadata=[entry("general.architecture", TEXT, text("flux"))]),
    "valid_arrays": file(metadata=[entry(f"k{kind}", ARRAY, array(kind, [1, 0, 1])) for kind in PACKED]),
    "valid_texts": file(metadata=[entry("tokens", ARRAY, array(TEXT, [text("a"), text(""), text("bc")]))]),
    "valid_nested": file(metadata=[entry("n", ARRAY, array(ARRAY, [array(TEXT, [text("a")]), array(U8, [1, 2])]))]),
    "valid_orig_shape": file([tensor("c", (16,))], [entry("comfy.gguf.orig_shape.c", ARRAY, array(I32, [2, 2, 2, 2]))], 64),
    "valid_split": file(metadata=[entry("split.no", U16, 1), entry("split.count", U16, 3)]),
    "nothing": b"",
    "seven_bytes": b"GGUF\3\0\0",
    "other_magic": file(magic=b"GGML"),
    "version_0": file(version=0),
    "version_1": file(version=1),
    "version_4": file(version=4),
    "big_endian": file(version=0x03000000),
    "tensors_1e9": file(counts=(10**9, 0)),
    "metadata_1e9": file(counts=(0, 10**9)),
    "counts_huge": file(counts=(2**64 - 1, 2**64 - 1)),
    "more_tensors_than_bytes": file([tensor()], counts=(9, 0)),
    "key_2_to_60": file(metadata=[text("k", 2**60) + b"\0" * 16]),
    "text_2_to_60": file(metadata=[entry("k", TEXT, text("v", 2**60))]),
    "text_too_long": file(metadata=[entry("k", TEXT, text("v", 2))]),
    "type_13": file(metadata=[entry("k", 13, b"\0" * 8)]),
    "bool_2": file(metadata=[entry("k", BOOL, 2)]),
    "array_too_long": file(metadata=[entry("k", ARRAY, array(U64, [1], 2))]),
    "array_2_to_61": file(metadata=[entry("k", ARRAY, array(U64, [1], 2**61))]),
    "array_of_13": file(metadata=[entry("k", ARRAY, array(13, [b"\0" * 8]))]),
    "nested_5": file(metadata=[entry("k", ARRAY, array(ARRAY, [b""]) * 4 + array(U8, [1]))]),
    "duplicate_key": file(metadata=[entry("k", U8, 1), entry("k", U8, 1)]),
    "duplicate_tensor": file([tensor(), tensor(offset=32)], data=48),
    "alignment_0": file([tensor()], [entry("general.alignment", U32, 0)], 16),
    "alignment_48": file([tensor()], [entry("general.alignment", U32, 48)], 16),
    "alignment_u64": file([tensor()], [entry("general.alignment", U64, 32)], 16),
    "split_beyond": file(metadata=[entry("split.no", U16, 3), entry("split.count", U16, 3)]),
    "rank_5": one(extents=(1, 1, 1, 1, 1)),
    "rank_huge": one(rank=2**32 - 1),
    "extent_2_to_63": one(extents=(2**63,)),
    "shape_overflow": one(extents=(2**32, 2**32, 2**32)),
    "shape_overflow_with_zero": one(extents=(0, 2**40, 2**40)),
    "type_unknown": one(kind=77),
    "part_of_a_block": one(extents=(33,), kind=8, data=100),
    "scalar_in_blocks": one(extents=(), kind=8, data=100),
    "offset_unaligned": one(offset=16, data=64),
    "offset_beyond_file": one(offset=64),
    "offset_huge": one(offset=2**64 - 32),
    "truncated_data": one(data=15),
    "truncated_header": one(data=0)[:-4],
    "overlap": file([tensor(extents=(16,)), tensor("b", offset=32)], data=64),
    "orig_shape_other": file([tensor("c", (16,))], [entry("comfy.gguf.orig_shape.c", ARRAY, array(I32, [2, 2]))], 64),
    "orig_shape_negative": file([tensor("c", (16,))], [entry("comfy.gguf.orig_shape.c", ARRAY, array(I32, [-4, -4]))], 64),
    "orig_shape_text": file([tensor("c", (16,))], [entry("comfy.gguf.orig_shape.c", TEXT, text("16"))], 64),
}

if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, content in SEEDS.items():
        (FOLDER / name).write_bytes(content)
