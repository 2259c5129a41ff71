#!/usr/bin/env python3
"""Times steps of GPT training by `headroom train` and by PyTorch's torch.compile, in turns on one GPU.

    python3 bench/peers/train_torch.py --program build/release/headroom --sizes gpt-125m:32 gpt-350m:16 --rounds 3 --save gpt.json

Equal work: GPT-2 of the same sizes, 1,024 tokens, products in bf16 with weights, moments and the update in f32, AdamW fused, no clipping,
and the loss read once a turn. A turn is at least --seconds of steps of each side, so that the card is at its power limit. PyTorch compiles
once, before the first turn. Only PyTorch is needed: the model is written here.
"""

import argparse
import json
import os
import random
import struct
import subprocess
import tempfile
import time

import torch
import torch.nn.functional as F
from torch import nn

SIZES = {  # layers, width, heads
    "gpt-125m": (12, 768, 12), "gpt-350m": (24, 1024, 16), "gpt-1.3b": (24, 2048, 16),
}
VOCABULARY = 50304
TOKENS = 1024
SKIPPED = 3  # steps of a turn, which load and record


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.c_fc, self.c_out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        q, k, v = (part.unflatten(2, (self.heads, -1)).transpose(1, 2) for part in self.c_attn(self.ln_1(x)).chunk(3, 2))
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.c_proj(attended.transpose(1, 2).flatten(2))
        return x + self.c_out(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, layers, width, heads):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCABULARY, width), nn.Embedding(TOKENS, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens):
        x = self.wte(tokens[:, :-1]) + self.wpe.weight
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.ln_f(x), self.wte.weight)
        return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


class TorchSide:
    """A model that stays compiled between turns."""

    def __init__(self, size, batch):
        torch.manual_seed(0)
        self.batch = batch
        self.model = Gpt(*SIZES[size]).cuda()
        self.loss = torch.compile(self.model)
        decayed = [p for p in self.model.parameters() if p.dim() > 1]
        others = [p for p in self.model.parameters() if p.dim() == 1]
        self.optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.01}, {"params": others, "weight_decay": 0}],
                                           lr=1e-4, fused=True)
        self.compiled_s = self.run(0)["seconds"]

    def step(self):
        tokens = torch.randint(0, VOCABULARY, (self.batch, TOKENS + 1), device="cuda")
        with torch.autocast("cuda", torch.bfloat16):
            loss = self.loss(tokens)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss

    def run(self, seconds):
        """Milliseconds of a step, over steps of at least that many seconds."""
        began = time.perf_counter()
        for _ in range(SKIPPED):
            loss = self.step()
        torch.cuda.synchronize()
        start, steps = time.perf_counter(), 0
        while time.perf_counter() - start < seconds:
            for _ in range(10):
                loss = self.step()
            steps += 10
            torch.cuda.synchronize()
        ms = (time.perf_counter() - start) / max(1, steps) * 1e3
        return {"ms": ms, "loss": loss.item(), "seconds": time.perf_counter() - began}


class HeadroomSide:
    """A program that is started for each turn."""

    def __init__(self, program, size, batch, folder):
        self.program, self.folder = program, folder
        self.config = os.path.join(folder, f"{size}.json")
        with open(self.config, "w", encoding="utf-8") as file:
            json.dump({"model": size, "data": os.path.join(folder, "tokens.bin"), "tokens": TOKENS, "batch": batch, "steps": 100000,
                       "precision": "bf16", "optimizer": {"clip": 0}, "schedule": {"kind": "constant", "learning_rate": 1e-4}}, file)

    def run(self, steps):
        began = time.perf_counter()
        saved = os.path.join(self.folder, "steps.json")
        with tempfile.TemporaryDirectory(dir=self.folder) as out:
            subprocess.run([self.program, "train", self.config, "--out", out, "--steps", str(steps + SKIPPED), "--device", "cuda",
                            "--save", saved, "-q"], check=True)
            with open(os.path.join(out, "log.jsonl"), encoding="utf-8") as file:
                loss = json.loads(file.readlines()[-1])["loss"]
        with open(saved, encoding="utf-8") as file:
            result = json.load(file)["results"][0]
        times = next(series["time"] for series in result["trials"] if series["what"] == "step")
        return {"ms": sum(times) / len(times), "loss": loss, "seconds": time.perf_counter() - began,
                "bytes": result.get("memory", {}).get("device_peak_bytes")}


def write_tokens(path, count):
    """llm.c's format, version 1."""
    draw = random.Random(0)
    with open(path, "wb") as file:
        file.write(struct.pack("<256i", 20240520, 1, count, *[0] * 253))
        file.write(struct.pack(f"<{count}H", *(draw.randrange(VOCABULARY) for _ in range(count))))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--program", required=True, help="the program headroom")
    parser.add_argument("--sizes", nargs="+", default=["gpt-125m:32", "gpt-350m:16", "gpt-1.3b:8"], metavar="NAME:BATCH")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5, help="of steps of a side in a turn, at least")
    parser.add_argument("--save", required=True, help="JSON file to write")
    args = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    found = []
    with tempfile.TemporaryDirectory() as folder:
        write_tokens(os.path.join(folder, "tokens.bin"), 600000)
        for entry in args.sizes:
            size, batch = entry.split(":")
            ours, peer = HeadroomSide(args.program, size, int(batch), folder), TorchSide(size, int(batch))
            torch.cuda.reset_peak_memory_stats()
            turns, steps = [], 20
            for number in range(args.rounds):
                sides = {}
                for side in ("peer", "ours") if number % 2 == 0 else ("ours", "peer"):
                    sides[side] = peer.run(args.seconds) if side == "peer" else ours.run(steps)
                steps = max(20, int(args.seconds * 1e3 / sides["ours"]["ms"]) + 1)
                turns.append(sides)
                print(f"{size}, batch {batch}, turn {number}: headroom {sides['ours']['ms']:.2f} ms, torch.compile "
                      f"{sides['peer']['ms']:.2f} ms, ratio {sides['peer']['ms'] / sides['ours']['ms']:.3f}", flush=True)
            found.append({"model": size, "batch": int(batch), "tokens": TOKENS, "compiled_s": peer.compiled_s, "turns": turns,
                          "peer_bytes": torch.cuda.max_memory_allocated(), "torch": torch.__version__,
                          "gpu": torch.cuda.get_device_name()})
            with open(args.save, "w", encoding="utf-8") as file:
                json.dump({"schema": "headroom.training-turns/1", "results": found}, file, indent=1)
            del peer
            torch.cuda.empty_cache()
            torch._dynamo.reset()


if __name__ == "__main__":
    main()
