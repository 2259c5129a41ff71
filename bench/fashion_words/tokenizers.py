"""The two tokenizers of a FLUX pipeline, made from the training prompts: CLIP's byte-pair encoding, and T5's unigrams.

Written in the formats of transformers. T5's needs the programs spm_train, spm_encode and spm_export_vocab (Debian's
package sentencepiece).
"""

import collections
import functools
import json
import pathlib
import subprocess
import tempfile
import unicodedata

import regex

from json_files import write_json

CLIP_TOKENS = 32
T5_TOKENS = 16
BEGIN, END = "<|startoftext|>", "<|endoftext|>"
WORDS = regex.compile(r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+")


# ---- CLIP


def byte_alphabet():
    """A printable character for each byte, as in GPT-2."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    moved = [byte for byte in range(256) if byte not in printable]
    return {**{byte: chr(byte) for byte in printable}, **{byte: chr(0x100 + i) for i, byte in enumerate(moved)}}


ALPHABET = byte_alphabet()


def words_of(text):
    """The text's words, each a tuple of symbols for its bytes, the last marked as the end of the word."""
    text = regex.sub(r"\s+", " ", unicodedata.normalize("NFC", text)).lower()
    for word in WORDS.findall(text):
        symbols = [ALPHABET[byte] for byte in word.encode()]
        yield (*symbols[:-1], symbols[-1] + "</w>")


def joined(symbols, pair):
    """The symbols with every such pair made one."""
    result, at = [], 0
    while at < len(symbols):
        step = 2 if symbols[at : at + 2] == pair else 1
        result.append("".join(symbols[at : at + step]))
        at += step
    return tuple(result)


class ClipTokenizer:
    def __init__(self, merges):
        self.ranks = {pair: rank for rank, pair in enumerate(merges)}
        letters = [ALPHABET[byte] for byte in sorted(ALPHABET, key=lambda byte: ord(ALPHABET[byte]))]
        pieces = letters + [letter + "</w>" for letter in letters] + ["".join(pair) for pair in merges] + [BEGIN, END]
        self.vocabulary = {piece: i for i, piece in enumerate(pieces)}
        self.encode_word = functools.lru_cache(maxsize=None)(self.encode_word)

    @classmethod
    def learn(cls, texts, count):
        """Joins the pair that is most frequent in the texts, and of those the first by name, `count` times at most."""
        words = collections.Counter(word for text in texts for word in words_of(text))
        merges = []
        while len(merges) < count:
            pairs = collections.Counter()
            for word, times in words.items():
                for pair in zip(word, word[1:]):
                    pairs[pair] += times
            if not pairs:
                break
            merges.append(min(pairs, key=lambda pair: (-pairs[pair], pair)))
            words = collections.Counter({joined(word, merges[-1]): times for word, times in words.items()})
        return cls(merges)

    def encode_word(self, word):
        while len(word) > 1:
            pair = min(zip(word, word[1:]), key=lambda pair: self.ranks.get(pair, len(self.ranks)))
            if pair not in self.ranks:
                break
            word = joined(word, pair)
        return [self.vocabulary[symbol] for symbol in word]

    def encode(self, texts):
        """Ids between those of the begin and the end, which also fills up to CLIP_TOKENS."""
        begin, end = self.vocabulary[BEGIN], self.vocabulary[END]
        rows = []
        for text in texts:
            ids = [i for word in words_of(text) for i in self.encode_word(word)][: CLIP_TOKENS - 2]
            rows.append([begin, *ids] + [end] * (CLIP_TOKENS - 1 - len(ids)))
        return rows

    def save(self, folder):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "vocab.json").write_text(json.dumps(self.vocabulary, ensure_ascii=False) + "\n", encoding="utf-8")
        merges = "\n".join(" ".join(pair) for pair in self.ranks)
        (folder / "merges.txt").write_text(f"#version: 0.2\n{merges}\n", encoding="utf-8")
        roles = {"bos_token": BEGIN, "eos_token": END, "unk_token": END, "pad_token": END}
        write_json(folder / "special_tokens_map.json", roles)
        write_json(folder / "tokenizer_config.json",
                   {"tokenizer_class": "CLIPTokenizer", "model_max_length": CLIP_TOKENS, **roles})


# ---- T5


def normalization_rules():
    """SentencePiece's table of what becomes what: capitals become small letters, and all white space spaces."""
    rules = {ord(small.upper()): ord(small) for small in map(chr, range(0x61, 0xFF)) if len(small.upper()) == 1}
    rules = {upper: small for upper, small in rules.items() if upper != small and upper < 0x100}
    rules.update({space: 0x20 for space in (0x9, 0xA, 0xB, 0xC, 0xD, 0xA0, 0x2003, 0x2009, 0x202F)})
    rules.update({0x2018: ord("'"), 0x2019: ord("'")})
    return "".join(f"{code:X}\t{becomes:X}\n" for code, becomes in sorted(rules.items()))


class T5Tokenizer:
    def __init__(self, model):
        self.model = model  # the bytes of spiece.model

    @classmethod
    def learn(cls, texts, count):
        with tempfile.TemporaryDirectory() as folder:
            at = pathlib.Path(folder)
            (at / "prompts.txt").write_text("".join(text + "\n" for text in texts if text), encoding="utf-8")
            (at / "rules.tsv").write_text(normalization_rules())
            subprocess.run(["spm_train", "--input=prompts.txt", "--model_prefix=spiece", f"--vocab_size={count}",
                            "--hard_vocab_limit=false", "--character_coverage=1", "--normalization_rule_tsv=rules.tsv",
                            "--pad_id=0", "--eos_id=1", "--unk_id=2", "--bos_id=-1", "--num_threads=1",
                            "--minloglevel=2"], check=True, cwd=at)
            return cls((at / "spiece.model").read_bytes())

    def pieces(self):
        with tempfile.TemporaryDirectory() as folder:
            at = pathlib.Path(folder)
            (at / "spiece.model").write_bytes(self.model)
            subprocess.run(["spm_export_vocab", "--model=spiece.model", "--output=pieces.txt"], check=True, cwd=at,
                           stdout=subprocess.DEVNULL)
            return [line.split("\t")[0] for line in (at / "pieces.txt").read_text(encoding="utf-8").splitlines()]

    def encode_bare(self, texts):
        """The ids of what is in the texts, however many."""
        with tempfile.NamedTemporaryFile() as file:
            file.write(self.model)
            file.flush()
            lines = subprocess.run(["spm_encode", f"--model={file.name}", "--output_format=id"], check=True,
                                   input="".join(text + "\n" for text in texts), stdout=subprocess.PIPE,
                                   encoding="utf-8").stdout.split("\n")[:-1]
        if len(lines) != len(texts):
            raise SystemExit(f"spm_encode gave {len(lines)} lines for {len(texts)} texts")
        return [[int(i) for i in line.split()] for line in lines]

    def encode(self, texts):
        """Ids, </s>, and <pad> up to T5_TOKENS."""
        return [(row[: T5_TOKENS - 1] + [1] + [0] * T5_TOKENS)[:T5_TOKENS] for row in self.encode_bare(texts)]

    def save(self, folder):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "spiece.model").write_bytes(self.model)
        roles = {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
        write_json(folder / "special_tokens_map.json", roles)
        write_json(folder / "tokenizer_config.json",
                   {"tokenizer_class": "T5Tokenizer", "model_max_length": T5_TOKENS, "extra_ids": 0,
                    "additional_special_tokens": [], **roles})
