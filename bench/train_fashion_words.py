#!/usr/bin/env python3
"""Trains the text encoders of models/fashion-flux, a small CLIP and a small T5: it then draws what words ask for.

    python3 bench/train_fashion_words.py --model models/fashion-flux

The transformer was trained with a learned table of prompts, a row for each class and one for the empty prompt
(bench/train_fashion_flux.py). Here both encoders learn to give those rows for words: CLIP's pooled state a row of
`pooled_projections`, T5's states a row of `encoder_hidden_states`; the transformer stays as it is. The texts are those
of fashion_words/prompts.py, and the tokenizers are made from them. Written are a pipeline's folders tokenizer/,
text_encoder/, tokenizer_2/ and text_encoder_2/, the prompts in generation_config.json, and text_encoders.json with what
was measured. Needs PyTorch, safetensors, regex, and Debian's package sentencepiece; a CPU is enough.
"""

import argparse
import collections
import math
import pathlib
import platform
import time

import torch
from safetensors.torch import load_file, save_file

from fashion_words import prompts
from fashion_words.encoders import ClipText, T5Text
from fashion_words.tokenizers import T5_TOKENS, ClipTokenizer, T5Tokenizer
from json_files import read_json, write_json

WARMUP_STEPS = 100
LAST_RATE = 0.005  # of the first


def labels_of(texts):
    return torch.tensor([prompt.label for prompt in texts])


def relative_errors(states, rows):
    """|state - row| / |row| of each text. [texts]"""
    return (states - rows).flatten(1).norm(dim=1) / rows.flatten(1).norm(dim=1)


def encode_all(encoder, ids):
    with torch.no_grad():
        return torch.cat([encoder.forward(part) for part in ids.split(500)])


def train(name, encoder, ids, labels, rows, steps, lr, args):
    """Mean squared error relative to the variance of the table's rows; the rate warms up and falls as a cosine."""
    parameters = list(encoder.tensors.values())
    optimizer = torch.optim.Adam(parameters, betas=(0.9, 0.99))
    generator = torch.Generator().manual_seed(args.seed)
    variance, began, window = rows.var(0).mean(), time.process_time(), 0.0
    curve = {"step": [], "loss": []}
    for step in range(steps):
        cosine = 0.5 * (1 + math.cos(math.pi * step / steps))
        rate = lr * min(1, (step + 1) / WARMUP_STEPS) * (LAST_RATE + (1 - LAST_RATE) * cosine)
        for group in optimizer.param_groups:
            group["lr"] = rate
        pick = torch.randint(len(ids), (args.batch,), generator=generator)
        loss = (encoder.forward(ids[pick]) - rows[labels[pick]]).square().mean() / variance
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        window += loss.item()
        if (step + 1) % 100 == 0:
            curve["step"].append(step + 1)
            curve["loss"].append(float(f"{window / 100:.4g}"))
            print(f"{name} step {step + 1} of {steps}: loss {window / 100:.3g}, "
                  f"{time.process_time() - began:.0f} s of CPU time", flush=True)
            window = 0.0
    return {"parameters": sum(p.numel() for p in parameters), "training_texts": len(ids), "loss_curve": curve,
            "cpu_seconds": round(time.process_time() - began, 1)}


def measured(encoder, tokenizer, texts, rows):
    """How near to their rows the texts come, and how many are nearest to their own."""
    ids, labels = torch.tensor(tokenizer.encode([prompt.text for prompt in texts])), labels_of(texts)
    states = encode_all(encoder, ids)
    nearest = torch.cdist(states.flatten(1), rows.flatten(1)).argmin(1)
    errors = relative_errors(states, rows[labels])
    wrong = sorted({prompt.text for prompt, label in zip(texts, nearest) if prompt.label != label})
    return {"texts": len(texts), "right": round((nearest == labels).float().mean().item(), 4),
            "relative_error": {"median": round(errors.median().item(), 5), "mean": round(errors.mean().item(), 5),
                               "highest": round(errors.max().item(), 5)}, "wrong": wrong[:20]}


def save_encoder(encoder, folder):
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "config.json", encoder.config)
    save_file({name: tensor.detach() for name, tensor in encoder.tensors.items()}, folder / "model.safetensors",
              metadata={"format": "pt"})


def clip_encoder(texts, corpus, args, generator):
    tokenizer = ClipTokenizer.learn(corpus, args.clip_merges)
    return tokenizer, ClipText(tokenizer.vocabulary, generator), texts


def t5_encoder(texts, corpus, args, generator):
    """It reads T5_TOKENS tokens: a text whose name lies beyond them is not trained on."""
    tokenizer = T5Tokenizer.learn(corpus, args.t5_pieces)
    heads = tokenizer.encode_bare([prompt.head for prompt in texts])
    seen = [prompt for prompt, head in zip(texts, heads) if len(head) < T5_TOKENS]
    return tokenizer, T5Text(len(tokenizer.pieces()), generator), seen


Part = collections.namedtuple("Part", "table make tokenizer steps lr")
PARTS = {  # as a pipeline names them
    "text_encoder": Part("pooled_projections", clip_encoder, "tokenizer", 4000, 4e-3),
    "text_encoder_2": Part("encoder_hidden_states", t5_encoder, "tokenizer_2", 4500, 3e-3),
}


def distil(name, args, table, texts, corpus, tests):
    """Trains a part, writes its folders, and returns what text_encoders.json says of it."""
    part = PARTS[name]
    steps, rows = args.steps or part.steps, table[part.table]
    tokenizer, encoder, seen = part.make(texts, corpus, args, torch.Generator().manual_seed(args.seed))
    ids = torch.tensor(tokenizer.encode([prompt.text for prompt in seen]))
    report = {
        "recipe": {
            "objective": f"mean squared error to the rows of {part.table}, relative to their variance",
            "optimizer": "Adam, betas (0.9, 0.99)", "learning_rate": part.lr,
            "schedule": f"{WARMUP_STEPS} linear warm-up steps, with a cosine to {LAST_RATE:.1%}",
            "gradient_clip": 1.0, "batch": args.batch, "steps": steps, "precision": "fp32", "seed": args.seed,
        },
        "vocabulary": encoder.config["vocab_size"],
        **train(name, encoder, ids, labels_of(seen), rows, steps, part.lr, args),
        "threads": args.threads,
        "versions": {"python": platform.python_version(), "torch": torch.__version__},
        "tests": {test: measured(encoder, tokenizer, held, rows) for test, held in tests.items()},
    }
    tokenizer.save(args.model / part.tokenizer)
    save_encoder(encoder, args.model / name)
    return report


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", type=pathlib.Path, required=True, help="the model's folder, which is written to")
    parser.add_argument("--table", type=pathlib.Path, help="the table of prompts (MODEL/prompts.safetensors)")
    parser.add_argument("--parts", default=",".join(PARTS), help="which encoders to train")
    parser.add_argument("--texts", type=int, default=3000, help="training texts a label")
    parser.add_argument("--held", type=int, default=300, help="texts a label in each test")
    parser.add_argument("--clip-merges", type=int, default=500)
    parser.add_argument("--t5-pieces", type=int, default=600)
    parser.add_argument("--steps", type=int, help="of training, instead of each encoder's own number")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)

    table = load_file(args.table or args.model / "prompts.safetensors")
    grammar = prompts.Grammar(args.seed)
    texts, tests = grammar.train(args.texts, args.seed + 1), grammar.tests(args.held, args.seed + 2)
    corpus = [prompt.text for prompt in grammar.train(1000, args.seed + 3, spoils=0.0)]
    tests["what the demonstration draws"] = [prompts.Prompt(text, text, i) for i, text in enumerate(prompts.DRAWN)]
    tests["the empty prompt"] = [prompts.Prompt("", "", prompts.NO_GARMENT)]
    path = args.model / "text_encoders.json"
    report = read_json(path) if path.exists() else {}
    for name in args.parts.split(","):
        report[name] = distil(name, args, table, texts, corpus, tests)
        for test, result in report[name]["tests"].items():
            print(f"{name}, {test}: {result}", flush=True)
    write_json(path, report)
    generation = read_json(args.model / "generation_config.json")
    generation.update(prompts=prompts.DRAWN, max_sequence_length=T5_TOKENS)
    write_json(args.model / "generation_config.json", generation)


if __name__ == "__main__":
    main()
