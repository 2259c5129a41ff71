#!/usr/bin/env python3
"""Times steps of training by `headroom train` and by PyTorch's torch.compile, in turns on one GPU.

    python3 bench/peers/train_torch.py --program build/release/headroom --works gpt-125m:32 gpt-350m:16 --rounds 3 --save gpt.json
    python3 bench/peers/train_torch.py --program build/release/headroom --works fashion-flux:512 --data FASHION_MNIST_DIR --save flux.json

Equal work: products in bf16 with weights, moments and the update in f32, AdamW fused, and the loss read once a turn.
GPT-2 is of the same sizes, with 1,024 tokens and no clipping; it is written here, so that PyTorch is all it needs.
fashion-flux is that of bench/train_fashion_flux.py, with clipping and running means, and needs diffusers. A turn is at
least --seconds of steps of each side, so that the card is at its power limit. PyTorch compiles once, before the first
turn.
"""

import argparse
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import time

import torch
import torch.nn.functional as F
from torch import nn

SIZES = {  # layers, width, heads
    "gpt-125m": (12, 768, 12), "gpt-350m": (24, 1024, 16), "gpt-1.3b": (24, 2048, 16),
}
FASHION_FLUX = "fashion-flux"
BENCH = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
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
    """A model that stays compiled between turns. Derived classes have a step(), which returns the loss."""

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


class TorchGpt(TorchSide):
    def __init__(self, size, batch, how):
        torch.manual_seed(0)
        self.batch = batch
        model = Gpt(*SIZES[size]).cuda()
        if how == "model":
            self.loss = torch.compile(model)
        else:
            for block in model.blocks:
                block.compile()
            self.loss = model
        decayed = [p for p in model.parameters() if p.dim() > 1]
        others = [p for p in model.parameters() if p.dim() == 1]
        self.optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.01}, {"params": others, "weight_decay": 0}],
                                           lr=1e-4, fused=True)

    def step(self):
        tokens = torch.randint(0, VOCABULARY, (self.batch, TOKENS + 1), device="cuda")
        with torch.autocast("cuda", torch.bfloat16):
            loss = self.loss(tokens)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss


class TorchFashionFlux(TorchSide):
    """What bench/train_fashion_flux.py does in a step."""

    def __init__(self, folder, batch):
        sys.path.insert(0, BENCH)
        import train_fashion_flux as flux
        from diffusers import FluxTransformer2DModel

        self.flux, self.batch, self.number = flux, batch, 0
        torch.manual_seed(0)
        torch.set_float32_matmul_precision("high")
        torch.backends.cuda.enable_cudnn_sdp(False)  # as there
        device = torch.device("cuda")
        images, self.labels = flux.load_split(folder, "train", device)
        self.tokens = flux.to_tokens(images)
        new = lambda: [FluxTransformer2DModel.from_config(flux.MODEL_CONFIG).to(device), flux.PromptTable().to(device)]  # noqa: E731
        self.model, self.prompts = new()
        self.ids = (flux.image_ids(flux.GRID, flux.GRID).to(device), torch.zeros(flux.TEXT_TOKENS, 3, device=device))
        self.generator = torch.Generator(device).manual_seed(0)
        self.compiled = flux.compile_checked(self.model, self.prompts, self.ids, self.draw(), "model")
        flux.initialize(self.model)
        self.averages = flux.Ema(new(), [self.model, self.prompts])
        self.optimizer = torch.optim.AdamW(flux.parameter_groups(self.model, self.prompts, 0.01), lr=1e-3, betas=(0.9, 0.99), fused=True)

    def draw(self):
        pick = torch.randint(0, len(self.tokens), (self.batch,), device="cuda", generator=self.generator)
        drop = torch.rand(self.batch, device="cuda", generator=self.generator) < 0.1
        index = torch.where(drop, torch.full_like(pick, self.flux.NULL_PROMPT), self.labels[pick])
        noise = torch.randn(self.batch, self.flux.GRID**2, 4, device="cuda", generator=self.generator)
        return self.tokens[pick], index, self.flux.draw_sigmas(self.batch, torch.device("cuda"), self.generator), noise

    def step(self):
        loss = self.flux.velocity_loss(self.compiled, self.prompts, self.ids, *self.draw())
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.averages.live, 1.0, foreach=True)
        self.optimizer.step()
        self.number += 1
        self.averages.update(self.number)
        return loss.detach()


class HeadroomSide:
    """A program that is started for each turn."""

    def __init__(self, program, name, config, folder):
        self.program, self.folder = program, folder
        self.config = os.path.join(folder, f"{name}.json")
        with open(self.config, "w", encoding="utf-8") as file:
            json.dump(config, file)

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
        return {"ms": sum(times) / len(times), "loss": loss, "seconds": time.perf_counter() - began, "memory": result.get("memory")}


def config_of(name, batch, folder, data):
    if name == FASHION_FLUX:
        with open(os.path.join(BENCH, "train_fashion_flux.json"), encoding="utf-8") as file:
            config = json.load(file)
        config["data"] |= {part: os.path.join(data, f"train-{part}-idx{rank}-ubyte.gz") for part, rank in (("images", 3), ("labels", 1))}
        return {key: value for key, value in config.items() if key != "validation"} | {"batch": batch, "checkpoints": {"every": 0}}
    return {"model": name, "data": os.path.join(folder, "tokens.bin"), "tokens": TOKENS, "batch": batch, "steps": 100000,
            "precision": "bf16", "optimizer": {"clip": 0}, "schedule": {"kind": "constant", "learning_rate": 1e-4}}


def write_tokens(path, count):
    """llm.c's format, version 1."""
    draw = random.Random(0)
    with open(path, "wb") as file:
        file.write(struct.pack("<256i", 20240520, 1, count, *[0] * 253))
        file.write(struct.pack(f"<{count}H", *(draw.randrange(VOCABULARY) for _ in range(count))))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--program", required=True, help="the program headroom")
    parser.add_argument("--works", nargs="+", default=["gpt-125m:32", "gpt-350m:16", "gpt-1.3b:8"], metavar="NAME:BATCH")
    parser.add_argument("--data", metavar="DIR", help="Fashion-MNIST, for fashion-flux")
    parser.add_argument("--compile", choices=["model", "blocks"], default="model",
                        help="of a GPT: whole, or its blocks alone, which takes less time for deep ones")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5, help="of steps of a side in a turn, at least")
    parser.add_argument("--save", required=True, help="JSON file to write")
    args = parser.parse_args()
    works = [entry.rsplit(":", 1) for entry in args.works]
    for name, _ in works:
        if name not in SIZES and name != FASHION_FLUX:
            parser.error(f"there is no work {name}, expected one of {', '.join([*SIZES, FASHION_FLUX])}")
    if args.data is None and any(name == FASHION_FLUX for name, _ in works):
        parser.error("fashion-flux needs --data")
    found = []
    with tempfile.TemporaryDirectory() as folder:
        write_tokens(os.path.join(folder, "tokens.bin"), 600000)
        for name, batch in ((name, int(batch)) for name, batch in works):
            ours = HeadroomSide(args.program, name, config_of(name, batch, folder, args.data), folder)
            peer = TorchFashionFlux(args.data, batch) if name == FASHION_FLUX else TorchGpt(name, batch, args.compile)
            compiled_s = peer.run(0)["seconds"]
            torch.cuda.reset_peak_memory_stats()
            turns, steps = [], 20
            for number in range(args.rounds):
                sides = {}
                for side in ("peer", "ours") if number % 2 == 0 else ("ours", "peer"):
                    sides[side] = peer.run(args.seconds) if side == "peer" else ours.run(steps)
                steps = max(20, int(args.seconds * 1e3 / sides["ours"]["ms"]) + 1)
                turns.append(sides)
                print(f"{name}, batch {batch}, turn {number}: headroom {sides['ours']['ms']:.2f} ms, torch.compile "
                      f"{sides['peer']['ms']:.2f} ms, ratio {sides['peer']['ms'] / sides['ours']['ms']:.3f}", flush=True)
            found.append({"work": name, "batch": batch, "compiled_s": compiled_s, "turns": turns,
                          "compiled": args.compile, "peer_bytes": torch.cuda.max_memory_allocated(), "torch": torch.__version__,
                          "gpu": torch.cuda.get_device_name()})
            with open(args.save, "w", encoding="utf-8") as file:
                json.dump({"schema": "headroom.training-turns/1", "results": found}, file, indent=1)
            del peer
            torch.cuda.empty_cache()
            torch._dynamo.reset()


if __name__ == "__main__":
    main()
