#!/usr/bin/env python3
"""Makes the ids of 2,000 prompts of Qwen-Image by the library `tokenizers`, with the vocabulary of make_tokens.py.

    python3 tests/goldens/make_prompt_ids.py --out tests/goldens/text/qwen2

    prompts.json      `parts`, and `prompts`: of each, the numbers of the parts that it is put together from
    prompt_ids.json   of each, how many ids it has, and their FNV-1a hash of 64 bits, over four bytes an id, lowest
    first

Prompts are put together at random: words, Chinese, emoji that several code points are joined to, spaces and line ends,
special tokens as text and things like them, and pieces of the template; every other one stands in the template. The
committed files are by tokenizers 0.23.3.
"""

import argparse
import json
import random
from pathlib import Path

from tokenizers import Tokenizer

from tiny_qwen_image_folder import BEFORE

AFTER = "<|im_end|>\n<|im_start|>assistant\n"
PARTS = [
    BEFORE, AFTER, "<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|vision_start|><|image_pad|><|vision_end|>", "<|im_start|", "|im_end|>", "< |im_end| >",
    "<|IM_END|>", "<|im_start|>system\n", "user\n", "assistant", "<think>", "</think>\n\n", "<tool_call>", "{}", "{0}", "\\n", "%s",
    " ", "  ", "   ", "\n", "\n\n", "\r\n", "\t", " \n ", "\u3000", "\u00a0", "\u200b", "\ufeff", ",", ", ", ".", "!", "?!", "...", "—", "：", "，", "。", "、", "「", "」",
    "a photo of a red fox", "An astronaut", " riding", " a horse", "on Mars", "it's", "THEY'VE", "I'll", "don't", "'s", "8k", "1328x1328", "3.14", "50%", "$19.99", "Nr. 7",
    "一只红色的狐狸", "坐在雪地里", "水墨画", "霓虹灯牌上写着", "“通义千问”", "超清，4K，电影级构图", "東京タワー", "ネオン", "눈 위의 여우", "красная лиса", "fenêtre", "e\u0301te\u0301", "Größe", "ﬁne", "½", "Å",
    "🦊", "👩‍👩‍👧‍👦", "👍🏽", "🏳️‍🌈", "🇩🇪🇫🇷", "☕️", "1️⃣", "🫠", "❤", "\u2764\ufe0f", "\U0001f9d1\u200d\U0001f680", "𝒳", "\u0301", "ก็", "क्षि", "ﷺ", "\u0000", "\ufffd", "𠮷",
]


def make_prompts(count):
    draw = random.Random(41)
    before, after = 0, 1
    prompts = [[i] for i in range(len(PARTS))]
    while len(prompts) < count:
        parts = [draw.randrange(2, len(PARTS)) for _ in range(draw.choice([1, 2, 2, 3, 3, 4, 5, 6, 8]))]
        prompt = [before, *parts, after] if len(prompts) % 2 == 0 else parts
        if prompt not in prompts:
            prompts.append(prompt)
    return prompts


def fnv1a(ids):
    value = 0xCBF29CE484222325
    for id in ids:
        for byte in id.to_bytes(4, "little"):
            value = (value ^ byte) * 0x100000001B3 % 2 ** 64
    return value


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tokenizer", type=Path, default=Path(__file__).parent / "text/qwen2/tokenizer.json")
    parser.add_argument("--out", required=True, type=Path, help="folder to write the files in")
    args = parser.parse_args()
    tokenizer = Tokenizer.from_file(str(args.tokenizer))
    prompts = make_prompts(2000)
    ids = [tokenizer.encode("".join(PARTS[i] for i in prompt)).ids for prompt in prompts]
    args.out.mkdir(parents=True, exist_ok=True)
    row = lambda value: json.dumps(value, separators=(",", ":"))  # noqa: E731
    lines = lambda values: ",\n".join(row(value) for value in values)  # noqa: E731
    (args.out / "prompts.json").write_text(f'{{"parts": [\n{lines(PARTS)}\n],\n"prompts": [\n{lines(prompts)}\n]}}\n')
    (args.out / "prompt_ids.json").write_text(f"[\n{lines([[len(of_one), f'{fnv1a(of_one):016x}'] for of_one in ids])}\n]\n")
    print(f"{len(prompts)} prompts, {sum(map(len, ids))} ids, {len(set(map(tuple, ids)))} of them different")


if __name__ == "__main__":
    main()
