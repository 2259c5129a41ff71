"""Writes the seed files of safetensors_fuzz into tests/fuzz/safetensors: run it without arguments, anywhere.

Files called valid_* are valid; every other one shows one kind of damage, which its name tells.
"""

import pathlib
import struct

FOLDER = pathlib.Path(__file__).parent / "safetensors"


def entry(dtype="U8", shape="[4]", offsets="[0,4]"):
    return f'{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}}}'


def one(dtype="U8", shape="[4]", offsets="[0,4]"):
    return f'{{"a":{entry(dtype, shape, offsets)}}}'


def two(first, second):
    return f'{{"a":{entry(offsets=first)},"b":{entry(offsets=second)}}}'


def file(header, data=4, length=None):
    raw = header if isinstance(header, bytes) else header.encode()
    return struct.pack("<Q", len(raw) if length is None else length) + raw + bytes(range(1, data + 1))


SEEDS = {
    "valid_empty": file("{}", 0),
    "valid_padded": file(one() + "    "),
    "valid_scalar": file(one("F32", "[]")),
    "valid_zero_size": file(f'{{"a":{entry()},"z":{entry("F64", "[0,3]", "[4,4]")}}}'),
    "valid_rank_8": file(one(shape="[1,1,1,1,1,1,1,4]")),
    "valid_two": file(two("[0,4]", "[4,8]"), 8),
    "valid_out_of_order": file(two("[4,8]", "[0,4]"), 8),
    "valid_unaligned": file(f'{{"a":{entry("U8", "[1]", "[0,1]")},"b":{entry("F32", "[1]", "[1,5]")}}}', 5),
    "valid_metadata": file('{"__metadata__":{"format":"pt"},"a":' + entry() + "}"),
    "valid_unicode_name": file('{"caf\u00e9\\n":' + entry() + "}"),
    "valid_bf16": file(one("BF16", "[2,1]")),
    "valid_f8": file(one("F8_E4M3", "[2,2]")),
    "valid_bool": file(one("BOOL")),
    "valid_i16_not_read": file(one("I16", "[2]")),
    "valid_f4_not_read": file(one("F4", "[2,4]")),
    "valid_f6_and_u8": file(f'{{"a":{entry("F6_E2M3", "[4]", "[0,3]")},"b":{entry("U8", "[1]", "[3,4]")}}}'),
    "valid_metadata_null": file('{"__metadata__":null,"a":' + entry() + "}"),
    "nothing": b"",
    "seven_bytes": b"1234567",
    "length_zero": file("", 0),
    "length_too_long": file("{}", 0, length=3),
    "length_huge": file("{}", 0, length=2**64 - 1),
    "length_over_limit": file("{}", 0, length=100_000_001),
    "length_signed_overflow": file("{}", 0, length=2**63),
    "truncated_header": file(one())[:30],
    "truncated_data": file(one(), 3),
    "trailing_data": file(one(), 5),
    "leading_space": file(" " + one()),
    "array": file("[]", 0),
    "two_documents": file("{}{}", 0),
    "nul_after_object": file(b"{}\0\0", 0),
    "not_utf8": file(b'{"\xff":' + entry().encode() + b"}"),
    "lone_surrogate": file('{"\\ud800":' + entry() + "}"),
    "deep_arrays": file('{"a":' + "[" * 200 + "]" * 200 + "}", 0),
    "deep_objects": file('{"a":' * 150 + "1" + "}" * 150, 0),
    "duplicate_tensor": file(f'{{"a":{entry()},"a":{entry()}}}'),
    "duplicate_dtype": file('{"a":{"dtype":"U8","dtype":"I8","shape":[4],"data_offsets":[0,4]}}'),
    "entry_not_object": file('{"a":7}', 0),
    "entry_without_shape": file('{"a":{"dtype":"U8","data_offsets":[0,4]}}'),
    "entry_with_extra": file('{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4],"x":1}}'),
    "dtype_unknown": file(one("F5")),
    "dtype_f4_half_byte": file(one("F4", "[7]")),
    "dtype_number": file('{"a":{"dtype":1,"shape":[4],"data_offsets":[0,4]}}'),
    "shape_negative": file(one(shape="[-4]")),
    "shape_float": file(one(shape="[4.0]")),
    "shape_overflow": file(one(shape="[4294967296,4294967296,4294967296]")),
    "shape_overflow_with_zero": file(one(shape="[4611686018427387904,4,0]", offsets="[0,0]"), 0),
    "shape_beyond_64_bits": file(one(shape="[99999999999999999999]")),
    "shape_rank_9": file(one(shape="[1,1,1,1,1,1,1,1,4]")),
    "offsets_reversed": file(one(offsets="[4,0]")),
    "offsets_beyond_file": file(one(shape="[99]", offsets="[0,99]")),
    "offsets_disagree": file(one(shape="[3]")),
    "offsets_three": file(one(offsets="[0,4,4]")),
    "offsets_overflow": file(one(offsets="[18446744073709551612,18446744073709551615]")),
    "overlap": file(two("[0,4]", "[3,7]"), 7),
    "overlap_equal": file(two("[0,4]", "[0,4]"), 4),
    "hole": file(two("[0,4]", "[5,9]"), 9),
    "hole_at_begin": file(one(offsets="[1,5]"), 5),
    "empty_inside": file(f'{{"a":{entry()},"z":{entry("U8", "[0]", "[2,2]")}}}'),
    "metadata_not_object": file('{"__metadata__":3}', 0),
    "metadata_twice": file('{"__metadata__":null,"__metadata__":{}}', 0),
    "metadata_nested": file('{"__metadata__":{"k":{"dtype":"U8"}}}', 0),
    "entry_of_many_values": file('{"a":[' + "0," * 300 + "0]}", 0),
    "metadata_not_strings": file('{"__metadata__":{"k":3}}', 0),
    "number_overflow": file('{"a":1e999}', 0),
}

if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, content in SEEDS.items():
        (FOLDER / name).write_bytes(content)
