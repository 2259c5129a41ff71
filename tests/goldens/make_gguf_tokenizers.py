#!/usr/bin/env python3
"""make_gguf_tokenizers.py [--out FOLDER]: writes tests/goldens/text/qwen2/tokenizer.gguf and t5/tokenizer.gguf.

They are the tokenizers next to them as
llama.cpp's converter (convert_hf_to_gguf.py) stores them: get_vocab_base() for byte pairs, the set_vocab() of T5Model
for pieces. As there, the vocabulary is filled up to the rows of the text encoder with unused tokens, and of T5 these
are also the extra ids. The ids of the same strings are those of the tokenizers (make_tokens.py).

Needs gguf, sentencepiece and protobuf. The committed files are by gguf 0.19.
"""

import argparse
import json
import pathlib

import gguf
from sentencepiece import SentencePieceProcessor, sentencepiece_model_pb2

TEXT = pathlib.Path(__file__).resolve().parent / "text"
SPARE = 5
Type = gguf.TokenType


def byte_pairs_of(folder):
    """Ids by piece, added tokens by id, and merges."""
    if (folder / "tokenizer.json").exists():
        whole = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
        merges = [" ".join(merge) for merge in whole["model"]["merges"]]
        return whole["model"]["vocab"], {token["id"]: token for token in whole["added_tokens"]}, merges
    config = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    lines = (folder / "merges.txt").read_text(encoding="utf-8").splitlines()
    return (json.loads((folder / "vocab.json").read_text(encoding="utf-8")),
            {int(number): token for number, token in config["added_tokens_decoder"].items()},
            [line for line in lines if line and not line.startswith("#version")])


def add_byte_pairs(writer, folder):
    vocabulary, added, merges = byte_pairs_of(folder)
    by_id = {number: token for token, number in vocabulary.items()}
    tokens, types = [], []
    for number in range(max([*by_id, *added]) + 1 + SPARE):
        if number in added:
            special = added[number]["special"]
            tokens.append(added[number]["content"] if special else added[number]["content"].replace("\u2581", " "))
            types.append(Type.CONTROL if special else Type.USER_DEFINED)
        else:
            tokens.append(by_id.get(number, f"[PAD{number}]"))
            types.append(Type.NORMAL if number in by_id else Type.UNUSED)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges(merges)
    writer.add_eos_token_id(tokens.index("<|im_end|>"))
    writer.add_pad_token_id(tokens.index("<|endoftext|>"))
    writer.add_add_bos_token(False)


def add_pieces(writer, folder):
    model = sentencepiece_model_pb2.ModelProto()
    model.ParseFromString((folder / "spiece.model").read_bytes())
    processor = SentencePieceProcessor()
    processor.LoadFromFile(str(folder / "spiece.model"))
    tokens, scores, types = [], [], []
    rows = processor.vocab_size() + 128
    for number in range(rows):
        if number >= processor.vocab_size():
            tokens.append(f"[PAD{number}]")
            scores.append(-10000.0)
            types.append(Type.UNUSED)
            continue
        tokens.append(processor.IdToPiece(number))
        scores.append(processor.GetScore(number))
        types.append(Type.UNKNOWN if processor.IsUnknown(number) else Type.CONTROL if processor.IsControl(number) else
                     Type.UNUSED if processor.IsUnused(number) else Type.BYTE if processor.IsByte(number) else Type.NORMAL)
    writer.add_tokenizer_model("t5")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(tokens)
    writer.add_token_scores(scores)
    writer.add_token_types(types)
    writer.add_add_space_prefix(model.normalizer_spec.add_dummy_prefix)
    writer.add_remove_extra_whitespaces(model.normalizer_spec.remove_extra_whitespaces)
    if model.normalizer_spec.precompiled_charsmap:
        writer.add_precompiled_charsmap(model.normalizer_spec.precompiled_charsmap)
    writer.add_eos_token_id(processor.eos_id())
    writer.add_pad_token_id(processor.pad_id())
    writer.add_unk_token_id(processor.unk_id())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=pathlib.Path, default=TEXT)
    out = parser.parse_args().out
    for name, arch, add in (("qwen2", "qwen2vl", add_byte_pairs), ("t5", "t5encoder", add_pieces)):
        (out / name).mkdir(parents=True, exist_ok=True)
        writer = gguf.GGUFWriter(out / name / "tokenizer.gguf", arch)
        add(writer, TEXT / name)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.close()


if __name__ == "__main__":
    main()
