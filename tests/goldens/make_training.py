#!/usr/bin/env python3
"""Makes the goldens of training: what PyTorch's AdamW and gradients make of weights, in double precision.

    python3 tests/goldens/make_training.py --text tests/goldens/text --out tests/goldens/train

adamw.json: weights and moments after each update by given gradients, with rates from a table, and clipping by the global norm.
gpt2.safetensors: GPT-2 of the folder text/gpt2 after STEPS steps of two micro-batches each: `tokens` [steps, micro-batches, batch, tokens + 1],
`losses` (the mean over all tokens of a step), `norms` (before clipping), and the weights at the end under their names. Needs PyTorch and
transformers.
"""

import argparse
import json
import os

import torch
from safetensors.torch import load_file, save_file

from transformers import GPT2Config, GPT2LMHeadModel

BETAS, EPSILON, DECAY, CLIP = (0.9, 0.95), 1e-8, 0.1, 1.0
RATES = [2e-3, 4e-3, 3e-3, 1e-3]
STEPS, MICRO, BATCH, TOKENS = 4, 2, 3, 9


def optimizer_of(weights):
    """Matrices decay, vectors do not."""
    groups = [{"params": [w for w in weights if w.ndim >= 2], "weight_decay": DECAY},
              {"params": [w for w in weights if w.ndim < 2], "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=1.0, betas=BETAS, eps=EPSILON)


def update(optimizer, weights, rate):
    norm = torch.nn.utils.clip_grad_norm_(weights, CLIP)
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.step()
    optimizer.zero_grad()
    return norm.item()


def make_adamw(out):
    draw = torch.Generator().manual_seed(7)
    weights = [torch.nn.Parameter(torch.randn(shape, generator=draw)) for shape in [(2, 3), (4,)]]
    optimizer = optimizer_of(weights)
    case = {"betas": BETAS, "epsilon": EPSILON, "weight_decay": DECAY, "clip": CLIP, "rates": RATES,
            "weights": [w.flatten().tolist() for w in weights], "steps": []}
    for step, rate in enumerate(RATES):
        for weight in weights:  # below the limit once, above it else
            weight.grad = torch.randn(weight.shape, generator=draw) * (0.1 if step == 1 else 2)
        gradients = [w.grad.flatten().tolist() for w in weights]
        norm = update(optimizer, weights, rate)
        states = [optimizer.state[w] for w in weights]
        case["steps"].append({"gradients": gradients, "norm": norm, "weights": [w.flatten().tolist() for w in weights],
                              "first": [s["exp_avg"].flatten().tolist() for s in states],
                              "second": [s["exp_avg_sq"].flatten().tolist() for s in states]})
    with open(os.path.join(out, "adamw.json"), "w", encoding="utf-8") as file:
        json.dump(case, file, indent=1)
        file.write("\n")


def make_gpt2(text, out):
    with open(os.path.join(text, "gpt2", "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    model = GPT2LMHeadModel(GPT2Config(**config, attn_implementation="eager", attn_pdrop=0.0, embd_pdrop=0.0, resid_pdrop=0.0))
    model.load_state_dict(load_file(os.path.join(text, "gpt2", "model.safetensors")), strict=False)
    model.double().train()
    weights = list(model.parameters())
    optimizer = optimizer_of(weights)
    draw = torch.Generator().manual_seed(8)
    tokens = torch.randint(config["vocab_size"], (STEPS, MICRO, BATCH, TOKENS + 1), generator=draw)
    losses, norms = [], []
    for step in range(STEPS):
        total = 0.0
        for part in tokens[step]:
            logits = model(input_ids=part[:, :-1]).logits
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), part[:, 1:].flatten(), reduction="sum")
            (loss / (MICRO * BATCH * TOKENS)).backward()
            total += loss.item() / (MICRO * BATCH * TOKENS)
        losses.append(total)
        norms.append(update(optimizer, weights, RATES[step]))
    tensors = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    tensors |= {"tokens": tokens, "losses": torch.tensor(losses), "norms": torch.tensor(norms)}
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and tensor.dtype != torch.float64:
            raise SystemExit(f"{name} is {tensor.dtype}")
    save_file(tensors, os.path.join(out, "gpt2.safetensors"))
    print(f"losses {losses}, norms {norms}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--text", required=True, help="the folder of the goldens of text, which has gpt2")
    parser.add_argument("--out", required=True, help="folder to write")
    args = parser.parse_args()
    torch.set_default_dtype(torch.float64)
    os.makedirs(args.out, exist_ok=True)
    make_adamw(args.out)
    make_gpt2(args.text, args.out)


if __name__ == "__main__":
    main()
