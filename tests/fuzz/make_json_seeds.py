"""Writes the seed files of json_fuzz into tests/fuzz/json: run it without arguments, anywhere.

Files called valid_* are valid; every other one shows one kind of damage, which its name tells.
"""

import pathlib

FOLDER = pathlib.Path(__file__).parent / "json"

SEEDS = {
    "valid_config": b'{"_class_name": "X", "sizes": [1, -2, 0.5, 1e-7], "flag": true, "none": null, "inner": {"a": {}}}\n',
    "valid_numbers": b"[0, -0, -0.0, 18446744073709551615, -9223372036854775808, 1e308, 5e-324]",
    "valid_text": b'["caf\xc3\xa9", "\\u00e9\\ud83d\\ude42\\n\\"\\\\", "\xe2\x80\xa8\xf0\x9f\x99\x82"]',
    "valid_same_key_apart": b'[{"a": 1}, {"a": {"a": 2}}]',
    "valid_nested": b"[" * 100 + b"]" * 100,
    "nothing": b"",
    "nested_too_deep": b"[" * 101 + b"]" * 101,
    "objects_too_deep": b'{"a":' * 101,
    "key_repeated": b'{"a": 1, "b": {"c": 1, "c": 2}}',
    "key_repeated_and_strange": b'{"\\n\\u2028\xe2\x82\xac": 1, "\\n\\u2028\xe2\x82\xac": 2}',
    "nul_after_document": b"{}\0\0",
    "two_documents": b"{} {}",
    "trailing_comma": b"[1,]",
    "not_a_number": b"[NaN]",
    "number_overflow": b'{"a": 1e999}',
    "not_utf8": b'"\xff\xe2\x82"',
    "lone_surrogate": b'"\\ud800"',
    "valid_byte_order_mark": b"\xef\xbb\xbf{}",
    "truncated": b'{"a": [1, {"b": "c',
    "control_character": b'"a\nb"',
    "comment": b"[1 /* one */]",
}

if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, content in SEEDS.items():
        (FOLDER / name).write_bytes(content)
