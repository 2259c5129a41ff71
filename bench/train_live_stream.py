#!/usr/bin/env python3
"""Trains models/live-ink, a small LiveStreamUNet that prints a video in five inks, on videos that live_ink.py makes.

    python3 bench/train_live_stream.py --out models/live-ink --minutes 3

Every call trains one more piece, from the averaged weights that the last one left in --out (the first: random ones), on
clips of its own, and writes --out anew. Needs PyTorch with CUDA and safetensors, and no data set. Three stages:

    clips     made from seeds, with what the teacher, a formula, makes of each frame
    train     the network follows clips frame by frame, as a stream does: it sees the camera's noise, what it showed itself and its memory
    evaluate  clips that it has not seen, at 1, 2 and 4 steps: numbers in training.json, samples.png

A frame is trained at two levels of noise: where there is nothing but noise, which one step begins and ends with, and at
a random one below, mostly from the frame that the first call found, as the next of several steps has it. What is shown
is the blend of either. The teacher sees frames without noise, so that the network has to learn to take it out: from its
neighbours in space, and in time by what it keeps.
"""

import argparse
import math
import os
import platform
import sys
import time

import torch
from safetensors.torch import load_file, save_file
from torch import nn

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "goldens"))

import live_ink
from json_files import read_json, write_json
from live_stream_unet import ALPHAS_CUMPROD, TRAIN_TIMESTEPS, LiveStreamUNet, Stream
from png_files import write_png

CONFIG = {"_class_name": "LiveStreamUNet", "sample_size": 64, "in_channels": 9, "out_channels": 3,
          "block_out_channels": [32, 48, 96, 128], "layers_per_block": 1,
          "down_block_types": ["DownBlock2D", "DownBlock2D", "DownBlock2D", "AttnDownBlock2D"],
          "up_block_types": ["AttnUpBlock2D", "UpBlock2D", "UpBlock2D", "UpBlock2D"], "attention_head_dim": 32,
          "resnet_time_scale_shift": "scale_shift", "norm_num_groups": 8, "norm_eps": 1e-5,
          "memory_frames": 8, "memory_dim": 128}
GENERATION_CONFIG = {"description": "frames of live video printed in five inks, 64x64, in 1 step or more", "num_inference_steps": 1,
                     "teacher": {"name": "ink", "camera_noise": 0.03, "frames": 64}}
WEIGHTS = "diffusion_pytorch_model.safetensors"
CLIP = 24  # frames of a clip in training
SIDE = CONFIG["sample_size"]
LAST = TRAIN_TIMESTEPS - 1
JUDGED_SEEDS = 1  # clips from here on are for evaluation alone
TRAINED_SEEDS = 1_000_000
JUDGED_NOISE = GENERATION_CONFIG["teacher"]["camera_noise"]
LOSSES = ("first", "second", "shown", "motion")


# ---- clips


@torch.no_grad()
def make_clips(count, first_seed, frames, device, at_once=64):
    """Scenes and what the teacher makes of them, in 8 bits: two of [count, frames, 3, side, side]."""
    found = []
    for begin in range(0, count, at_once):
        seeds = torch.arange(first_seed + begin, first_seed + min(begin + at_once, count), device=device)
        scene = (live_ink.scenes(seeds, 0, frames, SIDE) * 255).round()
        found.append((scene.byte(), (live_ink.ink(scene / 255) * 255).round().byte()))
    return tuple(torch.cat(column) for column in zip(*found))


# ---- training


class Roll(nn.Module):
    """A few frames of streams, and how far what is shown is from what the teacher makes of them."""

    def __init__(self, model):
        super().__init__()
        self.model = model
        self.register_buffer("alpha", ALPHAS_CUMPROD.sqrt(), persistent=False)
        self.register_buffer("sigma", (1 - ALPHAS_CUMPROD).sqrt(), persistent=False)

    def denoise(self, sample, time, frame, previous, memory, position):
        """A call: the frame that it finds in `sample`, fp32, and its features."""
        dtype = frame.dtype
        v, features = self.model(sample.to(dtype), frame, previous.to(dtype), memory, position, time.float())
        alpha, sigma = self.alpha[time][:, None, None, None], self.sigma[time][:, None, None, None]
        return alpha * sample - sigma * v.float(), features

    def forward(self, frames, wanted, noise, shown, wanted_before, memory, position, has_before):
        """Frames and `wanted` [b, frames, 3, h, w], and what a stream keeps. Losses [4] in the order of LOSSES, and
        what it keeps next.
        """
        dtype, batch, device = frames.dtype, frames.shape[0], frames.device
        totals = torch.zeros(len(LOSSES), device=device)
        last = torch.full((batch,), LAST, device=device)
        for index in range(frames.shape[1]):
            frame, target = frames[:, index], wanted[:, index]
            first, features = self.denoise(noise, last, frame, shown, memory, position)
            time = torch.randint(20, LAST, (batch,), device=device)
            is_own, shows_first = (torch.rand(2, batch, 1, 1, 1, device=device) < 0.7).unbind()
            alpha, sigma = self.alpha[time][:, None, None, None], self.sigma[time][:, None, None, None]
            sample = alpha * torch.where(is_own, first.detach(), target) + sigma * noise
            second, second_features = self.denoise(sample, time, frame, shown, memory, position)
            found = torch.where(shows_first, first, second)
            features = torch.where(shows_first[:, 0], features, second_features)
            before = shown
            shown = self.model.temporal_blend(found.to(dtype), frame, before.to(dtype)).float()
            moved = (shown - before) - (target - wanted_before)
            totals = totals + torch.stack([(first - target).square().mean(), (second - target).square().mean(),
                                           (shown - target).square().mean(), has_before * moved.square().mean()])
            memory, position = self.model.memory.write(features, memory, position)
            wanted_before, has_before = target, torch.ones_like(has_before)
        return totals / frames.shape[1], shown, wanted_before, memory, position


class Trainer:
    """Streams of `batch` clips at a time, `chunk` frames a step; what they keep goes on from step to step, without
    gradients.
    """

    def __init__(self, model, args, device):
        self.model, self.args, self.device = model, args, device
        self.roll = Roll(model).to(device)
        self.dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
        frame = (args.batch, 3, SIDE, SIDE)
        memory = (args.batch, CONFIG["memory_frames"], CONFIG["memory_dim"])

        def zeros(*shape, dtype=torch.float32):
            return torch.zeros(shape, dtype=dtype, device=device)

        self.frames = zeros(args.batch, args.chunk, *frame[1:], dtype=self.dtype)
        self.wanted = zeros(args.batch, args.chunk, *frame[1:])
        self.noise, self.shown, self.wanted_before = zeros(*frame), zeros(*frame), zeros(*frame)
        self.memory, self.has_before = zeros(*memory, dtype=self.dtype), zeros()
        self.position = torch.zeros((), dtype=torch.int64, device=device)
        self.losses = zeros(len(LOSSES))
        self.weights = torch.tensor([1.0, 1.0, 1.0, args.motion], device=device)
        self.graph = None

    def forward_backward(self):
        # Names as the module has them; products in bf16, of weights that are kept in fp32.
        params = {name: p.to(self.dtype) for name, p in self.roll.named_parameters()}
        losses, *kept = torch.func.functional_call(
            self.roll, params, (self.frames, self.wanted, self.noise, self.shown, self.wanted_before, self.memory,
                                self.position, self.has_before))
        (losses * self.weights).sum().backward()
        with torch.no_grad():
            for mine, next_one in zip((self.shown, self.wanted_before, self.memory, self.position), kept):
                mine.copy_(next_one)
            self.has_before.fill_(1)
            self.losses.copy_(losses)

    def capture(self):
        """Records a step's forward and backward pass as one CUDA graph, since launches would take longer than the
        work.
        """
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self.model.zero_grad(set_to_none=True)
                self.forward_backward()
        torch.cuda.current_stream().wait_stream(stream)
        self.model.zero_grad(set_to_none=True)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.forward_backward()
        self.graph = graph

    def begin(self, first):
        """Streams that begin at these frames, in [-1, 1]."""
        self.shown.copy_(first)
        self.noise.normal_()
        self.memory.zero_()
        self.position.zero_()
        self.has_before.zero_()

    def step(self, frames, wanted):
        self.frames.copy_(frames)
        self.wanted.copy_(wanted)
        if self.graph is not None:
            self.graph.replay()
        else:
            self.model.zero_grad(set_to_none=True)
            self.forward_backward()
        return self.losses


def batches(clips, trainer, args, generator):
    """Chunks of random clips in their order, each with the camera's noise drawn anew; clips are mirrored and turned
    in time.
    """
    scenes, inks = clips
    while True:
        pick = torch.randint(len(scenes), (args.batch,), device=generator.device, generator=generator)
        clean, wanted = scenes[pick].float() / 255, inks[pick].float() / 127.5 - 1
        if torch.rand((), generator=generator, device=generator.device) < 0.5:
            clean, wanted = clean.flip(1), wanted.flip(1)
        if torch.rand((), generator=generator, device=generator.device) < 0.5:
            clean, wanted = clean.flip(4), wanted.flip(4)
        deviation = args.most_noise * torch.rand(args.batch, 1, 1, 1, 1, device=generator.device, generator=generator)
        frames = live_ink.camera(clean, deviation, generator) * 2 - 1
        trainer.begin(frames[:, 0])
        for begin in range(0, CLIP, args.chunk):
            yield frames[:, begin : begin + args.chunk], wanted[:, begin : begin + args.chunk]


def learning_rate(args, step, progress):
    return args.lr * min(1.0, (step + 1) / args.warmup) * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * progress)))


def train(args, clips, model, save, device, seed):
    """One piece. Returns the averaged weights and what training.json says of it. `save` is given weights every
    minute.
    """
    model.train()
    live = list(model.parameters())
    names = [name for name, _ in model.named_parameters()]
    average = [p.detach().clone() for p in live]
    groups = [{"params": [p for p in live if p.ndim >= 2], "weight_decay": 0.01},
              {"params": [p for p in live if p.ndim < 2], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=args.lr, betas=(0.9, 0.99), fused=device.type == "cuda")
    generator = torch.Generator(device).manual_seed(seed)
    torch.manual_seed(seed)
    trainer = Trainer(model, args, device)
    source = batches(clips, trainer, args, generator)
    if args.graph:
        frames, wanted = next(source)
        trainer.frames.copy_(frames)
        trainer.wanted.copy_(wanted)
        trainer.capture()
        source = batches(clips, trainer, args, generator)
    step, progress, saved = 0, 0.0, time.time()
    curve = {"step": [], "learning_rate": [], **{name: [] for name in LOSSES}}
    window, norms, every = torch.zeros(len(LOSSES), device=device), torch.zeros((), device=device), args.log_every
    began = time.time()
    while progress < 1:
        rate = learning_rate(args, step, progress)
        for group in optimizer.param_groups:
            group["lr"] = rate
        window += trainer.step(*next(source))
        norms += nn.utils.clip_grad_norm_(live, 1.0, foreach=True)
        optimizer.step()
        step += 1
        with torch.no_grad():
            torch._foreach_lerp_(average, [p.detach() for p in live], 1 - min(args.ema, (1 + step) / (10 + step)))
        if step % every == 0:
            row = [round(value, 6) for value in (window / every).tolist()]
            for name, value in zip(LOSSES, row):
                curve[name].append(value)
            curve["step"].append(step)
            curve["learning_rate"].append(rate)
            print(f"step {step} " + " ".join(f"{name} {value:.5f}" for name, value in zip(LOSSES, row))
                  + f" gradient {norms.item() / every:.3f} lr {rate:.2e} {time.time() - began:.1f} s", flush=True)
            if not all(math.isfinite(value) for value in row):
                raise SystemExit(f"the losses are {row} at step {step}")
            window.zero_()
            norms.zero_()
            if time.time() - saved > 60:
                save(dict(zip(names, average)))
                saved = time.time()
        progress = step / args.steps if args.steps else (time.time() - began) / (60 * args.minutes)
    if device.type == "cuda":
        torch.cuda.synchronize()
    seconds = time.time() - began
    print(f"{step} steps in {seconds:.1f} s", flush=True)
    return dict(zip(names, average)), {
        "steps": step, "seconds": round(seconds, 1), "ms_per_step": round(seconds * 1e3 / step, 3),
        "clips": len(clips[0]), "seed": seed, "learning_rate": args.lr, "loss_curve": curve,
    }


# ---- evaluation


@torch.no_grad()
def stream(model, frames, noise, steps):
    """What is shown of frames in [0, 1], in 8 bits. [clips, frames, 3, h, w]"""
    seen = frames * 2 - 1
    live = Stream(model, seen[:, 0], noise, steps)
    shown = torch.stack([live.frame(seen[:, index]) for index in range(frames.shape[1])], dim=1)
    return ((shown / 2 + 0.5) * 255).round() / 255


def interval(values):
    """Mean and its 95% interval over clips."""
    mean, error = values.mean().item(), 1.96 * values.std().item() / math.sqrt(len(values))
    return {"mean": round(mean, 4), "low": round(mean - error, 4), "high": round(mean + error, 4),
            "worst": round(values.min().item(), 4), "best": round(values.max().item(), 4)}


def evaluate(args, device):
    """Judges the weights in --out, as shipped: rounded to fp16, computed in fp32."""
    began = time.time()
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_tf32 = False
    model = LiveStreamUNet(CONFIG).to(device).eval()
    model.load_state_dict({name: t.float() for name, t in load_file(os.path.join(args.out, WEIGHTS)).items()})
    scenes, inks = (t.float() / 255 for t in make_clips(args.judged, JUDGED_SEEDS, args.judged_frames, device))
    generator = torch.Generator(device).manual_seed(0)
    seen = live_ink.camera(scenes, JUDGED_NOISE, generator)
    noise = torch.randn(args.judged, 3, SIDE, SIDE, device=device, generator=generator)
    own = live_ink.flicker(seen)
    report = {"weights": "fp16-rounded, computed in fp32 (no TF32)", "clips": args.judged, "frames": args.judged_frames,
              "first_seed": JUDGED_SEEDS, "camera_noise": JUDGED_NOISE,
              "flicker": {"scene": interval(live_ink.flicker(scenes)), "camera": interval(own),
                          "teacher": interval(live_ink.flicker(inks))},
              "teacher_on_camera": {"psnr": interval(live_ink.psnr(live_ink.ink(seen), inks)),
                                    "flicker_to_camera": interval(live_ink.flicker(live_ink.ink(seen)) / own)},
              "steps": {}}
    sheet = []
    for steps in (1, 2, 4):
        shown = stream(model, seen, noise, steps)
        by_frame = -10 * (shown - inks).square().mean((0, 2, 3, 4)).log10()
        report["steps"][str(steps)] = {
            "psnr": interval(live_ink.psnr(shown, inks)),
            "flicker_to_camera": interval(live_ink.flicker(shown) / own),
            "flicker_to_scene": interval(live_ink.flicker(shown) / live_ink.flicker(scenes)),
            "psnr_by_frame": [round(value, 2) for value in by_frame.tolist()]}
        row = report["steps"][str(steps)]
        print(f"{steps} steps: PSNR {row['psnr']}, flicker {row['flicker_to_camera']} of the camera's, "
              f"{row['flicker_to_scene']} of the scene's", flush=True)
        if steps == 1:
            for clip in range(min(4, args.judged)):
                middle = [k for k in (8, 20, 32) if k < args.judged_frames]
                sheet.append(torch.cat([t[clip, k] for k in middle for t in (seen, shown, inks)], dim=2))
    write_png(os.path.join(args.out, "samples.png"), torch.cat(sheet, dim=1))
    report["seconds"] = round(time.time() - began, 1)
    training = read_json(os.path.join(args.out, "training.json"))
    training["evaluation"] = report
    write_json(os.path.join(args.out, "training.json"), training)


# ---- the command


def save_weights(args, weights):
    path = os.path.join(args.out, WEIGHTS)
    save_file({name: t.detach().half().cpu().contiguous() for name, t in weights.items()}, path + ".part",
              metadata={"format": "pt"})
    os.replace(path + ".part", path)


def save_settings(args):
    os.makedirs(args.out, exist_ok=True)
    for name, config in (("config.json", CONFIG), ("generation_config.json", GENERATION_CONFIG)):
        write_json(os.path.join(args.out, name), config)


def describe(args, model, pieces, device):
    return {
        "recipe": {
            "objective": "mean square distance from the teacher's frame of what the first call finds, of what a second at a random level "
                         "finds, and of what is shown; and of how it changes from what the teacher's does",
            "motion_weight": args.motion, "own_states": 0.7, "camera_noise": f"deviations evenly from 0 to {args.most_noise}",
            "clips": f"{CLIP} frames, gradients through {args.chunk} of them",
            "optimizer": "AdamW, betas (0.9, 0.99), weight decay 0.01 on matrices",
            "schedule": f"each piece {args.warmup} linear warm-up steps, with a cosine to 1%",
            "gradient_clip": 1.0, "ema_decay": args.ema, "precision": "bf16 over fp32 weights", "batch": args.batch,
        },
        "parameters": sum(p.numel() for p in model.parameters()),
        "steps": sum(piece["steps"] for piece in pieces),
        "seconds": round(sum(piece["seconds"] for piece in pieces), 1),
        "hardware": torch.cuda.get_device_name() if device.type == "cuda" else platform.processor(),
        "versions": {"python": platform.python_version(), "torch": torch.__version__},
        "pieces": pieces,
    }


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", required=True, help="model folder to write; goes on from its weights when it has some")
    parser.add_argument("--minutes", type=float, default=3, help="training time of this piece, clips not counted")
    parser.add_argument("--steps", type=int, help="fixed number of steps instead of --minutes (as training.json says)")
    parser.add_argument("--clips", type=int, default=8192, help="made for this piece")
    parser.add_argument("--batch", type=int, default=48, help="clips at a time")
    parser.add_argument("--chunk", type=int, default=4, help=f"frames that gradients go through, a divisor of {CLIP}")
    parser.add_argument("--motion", type=float, default=0.5, help="weight of the loss of what changes between frames")
    parser.add_argument("--most-noise", type=float, default=0.06, help="of the camera, as a deviation")
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--warmup", type=int, default=100, help="steps")
    parser.add_argument("--ema", type=float, default=0.998)
    parser.add_argument("--judged", type=int, default=64, help="clips of the evaluation")
    parser.add_argument("--judged-frames", type=int, default=GENERATION_CONFIG["teacher"]["frames"], help="of each")
    parser.add_argument("--log-every", type=int, default=50, help="steps")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--graph", action=argparse.BooleanOptionalAction, default=True, help="record a step as one CUDA graph")
    return parser.parse_args()


def main():
    args = parse_arguments()
    if CLIP % args.chunk:
        raise SystemExit(f"--chunk is {args.chunk}, expected a divisor of {CLIP}")
    device = torch.device(args.device)
    torch.set_float32_matmul_precision("high")
    if device.type == "cuda":
        torch.backends.cudnn.benchmark = True
        torch.backends.cuda.enable_cudnn_sdp(False)  # see train_fashion_flux.py
    torch.manual_seed(0)
    model, pieces = LiveStreamUNet(CONFIG).to(device), []
    if os.path.exists(os.path.join(args.out, WEIGHTS)):
        model.load_state_dict({name: t.float() for name, t in load_file(os.path.join(args.out, WEIGHTS)).items()})
        pieces = read_json(os.path.join(args.out, "training.json"))["pieces"]
    save_settings(args)
    began = time.time()
    clips = make_clips(args.clips, TRAINED_SEEDS * (1 + len(pieces)), CLIP, device)
    if device.type == "cuda":
        torch.cuda.synchronize()
    print(f"{args.clips} clips in {time.time() - began:.1f} s", flush=True)
    weights, piece = train(args, clips, model, lambda average: save_weights(args, average), device, seed=len(pieces))
    save_weights(args, weights)
    write_json(os.path.join(args.out, "training.json"), describe(args, model, [*pieces, piece], device))
    evaluate(args, device)


if __name__ == "__main__":
    main()
