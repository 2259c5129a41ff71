#!/usr/bin/env python3
"""Makes the goldens of training: what PyTorch's AdamW and gradients make of weights, in double precision.

    python3 tests/goldens/make_training.py --text tests/goldens/text --out tests/goldens/train

adamw.json: weights and moments after each update by given gradients, with rates from a table, and clipping by the
global norm. gpt2.safetensors: GPT-2 of the folder text/gpt2 after STEPS steps of two micro-batches each: `tokens`
[steps, micro-batches, batch, tokens + 1], `losses` (the mean over all tokens of a step), `norms` (before clipping), and
the weights at the end under their names. Needs PyTorch and transformers.
flow.safetensors: a tiny FLUX and its table of prompts, trained by flow matching for STEPS steps: `start.NAME`, the
weights at the beginning; of every step `images` (pixels in patches, u8), `prompts` (rows of the table), `sigmas` and
`noise`, `losses` and `norms`; the weights at the end under their names, and `average.NAME`, their running means. Needs
diffusers.
"""

import argparse
import json
import os

import torch
from safetensors.torch import load_file, save_file

from diffusers import FluxTransformer2DModel
from transformers import GPT2Config, GPT2LMHeadModel

from make_gradients import true_double

BETAS, EPSILON, DECAY, CLIP = (0.9, 0.95), 1e-8, 0.1, 1.0
RATES = [2e-3, 4e-3, 3e-3, 1e-3]
STEPS, MICRO, BATCH, TOKENS = 4, 2, 3, 9
FLUX = dict(patch_size=1, in_channels=4, num_layers=1, num_single_layers=1, attention_head_dim=8, num_attention_heads=2,
            joint_attention_dim=6, pooled_projection_dim=5, guidance_embeds=False, axes_dims_rope=[2, 2, 4])
SIDE, TEXT, CLASSES, AVERAGE = 3, 2, 3, 0.25  # tokens of a side, tokens of a prompt


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


def train_flow(model, named, averages, images, prompts, sigmas, noise, image_ids):
    states, pooled = named["prompts.encoder_hidden_states"], named["prompts.pooled_projections"]
    optimizer = optimizer_of(list(named.values()))
    losses, norms = [], []
    for step in range(STEPS):
        x, e, s = images[step] / 127.5 - 1, noise[step], sigmas[step]
        velocity = model(hidden_states=(1 - s[:, None, None]) * x + s[:, None, None] * e, encoder_hidden_states=states[prompts[step]],
                         pooled_projections=pooled[prompts[step]], timestep=s, img_ids=image_ids.reshape(-1, 3),
                         txt_ids=torch.zeros(TEXT, 3), return_dict=False)[0]
        loss = torch.nn.functional.mse_loss(velocity, e - x)
        loss.backward()
        losses.append(loss.item())
        norms.append(update(optimizer, list(named.values()), RATES[step]))
        share = 1 - min(AVERAGE, (2 + step) / (11 + step))
        for name, weight in named.items():
            averages[name] += share * (weight.detach() - averages[name])
    return losses, norms


def make_flow(out):
    torch.manual_seed(9)
    model = FluxTransformer2DModel.from_config(FLUX).double().train()
    draw = torch.Generator().manual_seed(10)
    for weight in model.parameters():  # so that no gradient is 0, as behind a modulation of 0
        weight.data = (torch.randn(weight.shape, generator=draw) * 0.2 + (weight.ndim == 1)).float().double()
    states = torch.nn.Parameter(torch.randn(CLASSES + 1, TEXT, FLUX["joint_attention_dim"], generator=draw).float().double())
    pooled = torch.nn.Parameter(torch.randn(CLASSES + 1, FLUX["pooled_projection_dim"], generator=draw).float().double())
    named = {"prompts.encoder_hidden_states": states, "prompts.pooled_projections": pooled, **dict(model.named_parameters())}
    tensors = {f"start.{name}": weight.detach().float() for name, weight in named.items()}
    averages = {name: weight.detach().clone() for name, weight in named.items()}
    images = torch.randint(256, (STEPS, BATCH, SIDE * SIDE, 4), generator=draw, dtype=torch.uint8)
    prompts = torch.randint(CLASSES + 1, (STEPS, BATCH), generator=draw)
    sigmas = torch.rand(STEPS, BATCH, generator=draw).float()
    noise = torch.randn(STEPS, BATCH, SIDE * SIDE, 4, generator=draw).float()
    image_ids = torch.zeros(SIDE, SIDE, 3)
    image_ids[..., 1], image_ids[..., 2] = torch.arange(SIDE)[:, None], torch.arange(SIDE)[None, :]
    with true_double():
        losses, norms = train_flow(model, named, averages, images.double(), prompts, sigmas.double(), noise.double(), image_ids)
    tensors |= {name: weight.detach().clone() for name, weight in named.items()}
    tensors |= {f"average.{name}": average for name, average in averages.items()}
    tensors |= {"images": images, "prompts": prompts, "sigmas": sigmas, "noise": noise, "losses": torch.tensor(losses, dtype=torch.float64),
                "norms": torch.tensor(norms, dtype=torch.float64)}
    save_file(tensors, os.path.join(out, "flow.safetensors"), metadata={"config": json.dumps(FLUX | {"_class_name": "FluxTransformer2DModel"})})
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
    make_flow(args.out)


if __name__ == "__main__":
    main()
