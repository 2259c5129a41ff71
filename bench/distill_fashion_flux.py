#!/usr/bin/env python3
"""Distils models/fashion-flux, 28 steps of two passes each, into models/fashion-flux-turbo: 1 to 4 steps of one pass.

    python3 bench/distill_fashion_flux.py --teacher models/fashion-flux --out models/fashion-flux-turbo --minutes 3

Every call trains one more piece, from the averaged weights that the last one left in --out (the first: the teacher's),
on paths of its own, and writes --out anew. Needs PyTorch with CUDA, diffusers, safetensors, numpy and matplotlib, and
no data set: the teacher makes the training set. Three stages:

    paths     the guided teacher follows its flow from noise to an image, in --path-steps steps of second order
    train     the student learns to say at a few noise levels of each path where the path ends
    evaluate  10,000 images at 1 to 4 steps against the teacher's: samples.png, loss.png, numbers in training.json

A student's velocity v at x with noise level sigma means the image x - sigma v, so that one step from any level
ends there, and Euler's method in 1 to 4 steps goes through the levels that were trained. Guidance is in the paths, so
that the student needs none. It first learns from the states of the paths; after --own-after of the training from those
that it reaches itself by Euler's method, as when it draws: the image that it should find is still the end of the path
that began at the same noise.
"""

import argparse
import dataclasses
import math
import os
import platform
import shutil
import time

import torch
from safetensors.torch import load_file, save_file
from torch import nn

from json_files import read_json, write_json
from train_fashion_flux import (GRID, LABELS, MODEL_CONFIG, NULL_PROMPT, SCHEDULER_CONFIG, TEXT_TOKENS,
                                feature_statistics, frechet_distance, image_ids, judge_all, to_images)

WEIGHTS = os.path.join("transformer", "diffusion_pytorch_model.safetensors")
BATCH = 2000  # of a forward pass without gradients: always the same, so that it is compiled once
PARTS = 12  # of the time from noise to image: 1 to 4 steps end at whole ones
EVALUATION_SEED = 300  # the noise that training.json of the teacher was measured with
KEPT_FILES = ("model_index.json", "labels.json", "prompts.safetensors", "text_encoders.json", "classifier",
              "text_encoder", "text_encoder_2", "tokenizer", "tokenizer_2")


def noise_level(part, shift):
    """sigma after so many twelfths of the time, as FlowMatchEulerDiscreteScheduler shifts it."""
    even = 1 - part / PARTS
    return shift * even / (1 + (shift - 1) * even)


def noise_levels(steps, shift):
    """steps + 1 values, from 1 to 0"""
    return [noise_level(PARTS * i / steps, shift) for i in range(steps + 1)]


# ---- networks


class Network:
    """diffusers' FluxTransformer2DModel with the table of prompts before it.

    Its forward pass is FluxTransformer2DModel.forward, but for the timestep, which that rounds to the dtype of the
    hidden states: in bf16 to a multiple of 4 of 1,000.
    """

    def __init__(self, model, table):
        self.model = model
        parameter = next(model.parameters())
        self.dtype, device = parameter.dtype, parameter.device
        self.states = table["encoder_hidden_states"].to(device, self.dtype)
        self.pooled = table["pooled_projections"].to(device, self.dtype)
        with torch.no_grad():
            self.rotary = model.pos_embed(torch.cat([torch.zeros(TEXT_TOKENS, 3), image_ids(GRID, GRID)]).to(device))

    def __call__(self, x, sigma, prompts):
        """x [n, 256, 4], sigma [n], prompts [n] -> velocity [n, 256, 4], fp32"""
        hidden = self.model.x_embedder(x.to(self.dtype))  # [n, 256, 192]
        context = self.model.context_embedder(self.states[prompts])  # [n, 16, 192]
        embedding = self.model.time_text_embed(sigma * 1000, self.pooled[prompts])  # [n, 192]
        for block in [*self.model.transformer_blocks, *self.model.single_transformer_blocks]:
            context, hidden = block(hidden_states=hidden, encoder_hidden_states=context, temb=embedding,
                                    image_rotary_emb=self.rotary)
        return self.model.proj_out(self.model.norm_out(hidden, embedding)).float()

    def at(self, x, sigma, prompts):
        return self(x, torch.full((len(x),), sigma, device=x.device), prompts)


def make_model(weights, device, dtype=torch.float32, compiled=False):
    from diffusers import FluxTransformer2DModel

    model = FluxTransformer2DModel.from_config(MODEL_CONFIG).to(device, dtype)
    model.load_state_dict({name: t.to(dtype) for name, t in weights.items()})
    if compiled:
        model.compile_repeated_blocks(fullgraph=True, dynamic=False)
    return model


def set_up_compiler():
    """See train_fashion_flux.py: reductions of two directions fused in a backward pass may be wrong, so that is off."""
    import torch._dynamo.config as dynamo
    import torch._inductor.config as inductor

    inductor.triton.mix_order_reduction = False
    # Both kinds of block share the code that is compiled, for the teacher in bf16 and for the student's training.
    dynamo.recompile_limit = 64


def autocast(device):
    return torch.autocast(device.type, torch.bfloat16)


# ---- sampling


@torch.no_grad()
def draw(velocity, levels, noise):
    """Euler's method from noise through the levels. [n, 256, 4]"""
    x = noise
    for sigma, following in zip(levels[:-1], levels[1:]):
        x = x + (following - sigma) * velocity(x, sigma)
    return x


@torch.no_grad()
def follow(velocity, levels, noise, kept=()):
    """The flow by the method of Adams and Bashforth, second order and one velocity a step.

    The states at the levels of `kept` [n, kept, 256, 4] and the image [n, 256, 4], in fp16.
    """
    x, last_v, last_sigma, states = noise, None, None, []
    for index, (sigma, following) in enumerate(zip(levels[:-1], levels[1:])):
        if index in kept:
            states.append(x.half())
        v, step = velocity(x, sigma), following - sigma
        bend = 0 if last_v is None else (v - last_v) / (sigma - last_sigma)
        x = x + step * v + step * step / 2 * bend
        last_v, last_sigma = v, sigma
    return torch.stack(states, 1) if states else None, x.half()


def guided(network, prompts, scale):
    null = torch.full_like(prompts, NULL_PROMPT)

    def velocity(x, sigma):
        both = network.at(torch.cat([x, x]), sigma, torch.cat([prompts, null]))
        conditional, unconditional = both.chunk(2)
        return unconditional + scale * (conditional - unconditional)

    return velocity


def unguided(network, prompts):
    return lambda x, sigma: network.at(x, sigma, prompts)


# ---- the teacher's paths


@dataclasses.dataclass
class Paths:
    parts: list  # of the states, in twelfths of the time
    states: torch.Tensor  # [n, parts, 256, 4], fp16; those of part 0 are the noise
    images: torch.Tensor  # [n, 256, 4], fp16: their ends
    labels: torch.Tensor  # [n]


def make_paths(teacher, count, parts, args, seed):
    """Paths of evenly many labels. count is a multiple of half a BATCH, since guidance needs two passes."""
    device = teacher.states.device
    generator = torch.Generator(device).manual_seed(seed)
    levels = noise_levels(args.path_steps, args.shift)
    kept = [part * args.path_steps // PARTS for part in parts]
    found = []
    for _ in range(count // (BATCH // 2)):
        labels = torch.arange(BATCH // 2, device=device) % len(LABELS)
        noise = torch.randn(BATCH // 2, GRID * GRID, 4, device=device, generator=generator)
        found.append((*follow(guided(teacher, labels, args.guidance), levels, noise, kept), labels))
    return Paths(parts, *(torch.cat(column) for column in zip(*found)))


# ---- training


def rollout_states(student, noise, labels, shift):
    """What the student's own steps reach, for 2, 3 and 4 of them: [(part, state [n, 256, 4])]"""
    velocity, reached = unguided(student, labels), []
    first = velocity(noise, 1.0)
    for steps in (2, 3, 4):
        levels, x, v = noise_levels(steps, shift), noise, first
        for i in range(1, steps):
            x = x + (levels[i] - levels[i - 1]) * v
            reached.append((PARTS * i // steps, x))
            if i + 1 < steps:
                v = velocity(x, levels[i])
    return reached


@torch.no_grad()
def training_pool(paths, copy, generator, args):
    """States of BATCH paths, each with its level, label and image, shuffled: the noise, and at the other levels the
    paths' own or, with a copy of the student, those that it reaches."""
    pick = torch.randint(len(paths.labels), (BATCH,), device=generator.device, generator=generator)
    labels, states = paths.labels[pick], paths.states[pick].float()
    entries = [(0, states[:, 0])] * 2  # every image begins there
    if copy is None:
        entries += [(part, states[:, index]) for index, part in enumerate(paths.parts) if part > 0]
    else:
        entries += rollout_states(copy, states[:, 0], labels, args.shift)
    x = torch.cat([x for _, x in entries])
    sigma = torch.cat([torch.full((BATCH,), noise_level(part, args.shift), device=x.device) for part, _ in entries])
    order = torch.randperm(len(x), device=x.device, generator=generator)
    row = order % BATCH
    return x[order], sigma[order], labels[row], paths.images[pick][row].float()


def velocity_errors(network, x, sigma, labels, images):
    """Mean square of each state's velocity less the one that leads to its image. [n]"""
    wanted = (x - images) / sigma[:, None, None]
    return (network(x, sigma, labels) - wanted).square().mean((1, 2))


def pseudo_huber(squares, width):
    return (squares + width * width).sqrt().mean() - width


def check_compiled(student, eager, batch, args):
    """The compiled student's gradients against the eager one's, since a wrong one would pass unseen."""
    gradients = []
    for network in (student, eager):
        with autocast(batch[0].device):
            squares = velocity_errors(network, *batch)
        pseudo_huber(squares, args.huber).backward()
        gradients.append(torch.cat([p.grad.flatten().double() for p in network.model.parameters()]))
        network.model.zero_grad(set_to_none=True)
    error = ((gradients[0] - gradients[1]).norm() / gradients[1].norm()).item()
    print(f"compiled gradients are within {error:.2e} of the eager ones", flush=True)
    if not error < 0.05:
        raise SystemExit(f"compiled gradients differ from the eager ones by {error:.2e}, expected under 5e-2")


def learning_rate(args, step, progress):
    return args.lr * min(1.0, (step + 1) / args.warmup) * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * progress)))


def train(args, paths, start, table, device, seed):
    """One piece. Returns the averaged weights and what training.json says of it."""
    torch.set_float32_matmul_precision("high")
    student = Network(make_model(start, device, compiled=args.compile).train(), table)
    copy = Network(make_model(start, device, torch.bfloat16, args.compile).eval().requires_grad_(False), table)
    average = [p.detach().clone() for p in student.model.parameters()]
    live = list(student.model.parameters())
    groups = [{"params": [p for p in live if p.ndim >= 2], "weight_decay": 0.01},
              {"params": [p for p in live if p.ndim < 2], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=args.lr, betas=(0.9, 0.99), fused=device.type == "cuda")
    generator = torch.Generator(device).manual_seed(seed)

    def batches():
        while True:
            with torch.no_grad():
                for mine, its in zip(copy.model.parameters(), live):
                    mine.copy_(its)
            pool = training_pool(paths, copy if progress >= args.own_after else None, generator, args)
            for i in range(0, len(pool[0]) - args.batch + 1, args.batch):
                yield tuple(t[i : i + args.batch] for t in pool)

    step, progress = 0, 0.0
    source = batches()
    if args.compile:
        check_compiled(student, Network(make_model(start, device).train(), table), next(source), args)
    curve = {"step": [], "loss": [], "learning_rate": []}
    window, norms, every = torch.zeros((), device=device), torch.zeros((), device=device), args.log_every
    began = time.time()
    while progress < 1:
        rate = learning_rate(args, step, progress)
        for group in optimizer.param_groups:
            group["lr"] = rate
        with autocast(device):
            squares = velocity_errors(student, *next(source))
        loss = pseudo_huber(squares, args.huber)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        norms += nn.utils.clip_grad_norm_(live, 1.0, foreach=True)
        optimizer.step()
        step += 1
        with torch.no_grad():
            torch._foreach_lerp_(average, [p.detach() for p in live], 1 - min(args.ema, (1 + step) / (10 + step)))
        window += loss.detach()
        if step % every == 0:
            curve["step"].append(step)
            curve["loss"].append(round(window.item() / every, 6))
            curve["learning_rate"].append(rate)
            if step % (10 * every) == 0:
                print(f"step {step} loss {curve['loss'][-1]:.5f} gradient {norms.item() / every:.3f} lr {rate:.2e} "
                      f"{time.time() - began:.1f} s", flush=True)
            if not math.isfinite(curve["loss"][-1]):
                raise SystemExit(f"the loss is {curve['loss'][-1]} at step {step}")
            window.zero_()
            norms.zero_()
        progress = step / args.steps if args.steps else (time.time() - began) / (60 * args.minutes)
    if device.type == "cuda":
        torch.cuda.synchronize()
    seconds = time.time() - began
    names = [name for name, _ in student.model.named_parameters()]
    print(f"{step} steps in {seconds:.1f} s", flush=True)
    return dict(zip(names, average)), {
        "steps": step, "seconds": round(seconds, 1), "ms_per_step": round(seconds * 1e3 / step, 3),
        "paths": len(paths.labels), "seed": seed, "learning_rate": args.lr, "own_states_after": args.own_after,
        "loss_curve": curve,
    }


# ---- evaluation


def score(judge_weights, reference, images, labels):
    """Accuracy, in all and by class, and the Frechet distance, as the teacher's training.json has them."""
    images = images.float().clamp(-1, 1)
    right = judge_all(judge_weights, images)[0].argmax(1) == labels
    by_class = [round(right[labels == label].float().mean().item(), 4) for label in range(len(LABELS))]
    return {"images": len(images), "accuracy": round(right.float().mean().item(), 4),
            "frechet": round(frechet_distance(feature_statistics(judge_weights, images), reference), 5),
            "accuracy_by_class": by_class}


class Trial:
    """The same noise and labels for every network that is measured: labels in turn, as many images of each."""

    def __init__(self, folder, images, device):
        part = os.path.join(folder, "classifier")
        self.judge = {n: t.to(device) for n, t in load_file(os.path.join(part, "model.safetensors")).items()}
        statistics = load_file(os.path.join(part, "reference_stats.safetensors"))
        self.reference = (statistics["mean"], statistics["covariance"])
        self.labels = torch.arange(len(LABELS), device=device).repeat_interleave(images // len(LABELS))
        generator = torch.Generator().manual_seed(EVALUATION_SEED)
        self.noise = torch.randn(len(self.labels), GRID * GRID, 4, generator=generator).to(device)

    def images(self, sample, batch):
        """sample(noise, labels) -> tokens. [n, 1, 32, 32]"""
        parts = [sample(self.noise[i : i + batch], self.labels[i : i + batch])
                 for i in range(0, len(self.labels), batch)]
        return to_images(torch.cat(parts))

    def score(self, images):
        return score(self.judge, self.reference, images, self.labels)


def measure_teacher(trial, teacher, folder):
    """The teacher as its files say: Euler, with its guidance and its shift of the levels."""
    own = read_json(os.path.join(folder, "generation_config.json"))
    steps, scale = own["num_inference_steps"], own["guidance_scale"]
    levels = noise_levels(steps, math.exp(SCHEDULER_CONFIG["base_shift"]))
    images = trial.images(lambda noise, labels: draw(guided(teacher, labels, scale), levels, noise), BATCH // 2)
    return {"weights": "bf16, computed in bf16", "sampler": "euler", "steps": steps, "guidance_scale": scale,
            **trial.score(images)}


def student_images(trial, network, steps, args):
    levels = noise_levels(steps, args.shift)
    return trial.images(lambda noise, labels: draw(unguided(network, labels), levels, noise), BATCH)


def draw_pictures(args, by_steps, training):
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    # The first four images of every class, in 4, 2 and 1 steps from the same noise.
    shown, each = (4, 2, 1), 4
    blocks = [by_steps[steps].reshape(len(LABELS), -1, 32, 32)[:, :each] for steps in shown]
    rows = torch.cat(blocks, 1).float().clamp(-1, 1).cpu()  # [class, column, y, x]
    columns = rows.shape[1]
    grid = rows.permute(0, 2, 1, 3).reshape(len(LABELS) * 32, columns * 32).numpy()
    figure, axes = plt.subplots(figsize=(columns * 0.8 + 1.2, len(LABELS) * 0.8 + 0.3), dpi=120)
    axes.imshow(grid, cmap="gray", vmin=-1, vmax=1, interpolation="nearest")
    axes.set_yticks([32 * i + 16 for i in range(len(LABELS))], LABELS)
    axes.set_xticks([32 * each * (i + 0.5) for i in range(len(shown))],
                    [f"{steps} step{'s' if steps > 1 else ''}" for steps in shown])
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    for i in range(1, len(shown)):
        axes.axvline(32 * each * i - 0.5, color="#e45756", linewidth=1.2)
    for spine in axes.spines.values():
        spine.set_visible(False)
    figure.tight_layout()
    figure.savefig(os.path.join(args.out, "samples.png"))
    figure, axes = plt.subplots(figsize=(8, 4.2), dpi=120)
    done = 0
    for index, piece in enumerate(training["pieces"]):
        curve = piece["loss_curve"]
        axes.plot([done + step for step in curve["step"]], curve["loss"], linewidth=0.8, label=f"piece {index + 1}")
        done += piece["steps"]
    axes.set_xlabel("step")
    axes.set_ylabel("pseudo-Huber loss of the velocity")
    axes.set_yscale("log")
    axes.grid(alpha=0.3, which="both")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(os.path.join(args.out, "loss.png"))


def evaluate(args, trial, teacher_row, table, device):
    """Judges the weights in --out, as shipped: rounded to fp16, computed in fp32."""
    began = time.time()
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
    model = make_model(load_file(os.path.join(args.out, WEIGHTS)), device).eval().requires_grad_(False)
    network = Network(model, table)
    by_steps = {steps: student_images(trial, network, steps, args) for steps in (4, 3, 2, 1)}
    report = {"weights": "fp16-rounded, computed in fp32 (no TF32)", "sampler": "euler", "guidance_scale": 1.0,
              "noise_seed": EVALUATION_SEED,
              "steps": {str(steps): trial.score(images) for steps, images in by_steps.items()},
              "teacher": teacher_row}
    report["seconds"] = round(time.time() - began, 1)
    training = read_json(os.path.join(args.out, "training.json"))
    training["evaluation"] = report
    write_json(os.path.join(args.out, "training.json"), training)
    draw_pictures(args, by_steps, training)
    for name, row in [*report["steps"].items(), ("teacher", teacher_row)]:
        print(f"{name}: accuracy {row['accuracy']}, Frechet {row['frechet']}, by class {row['accuracy_by_class']}",
              flush=True)


# ---- the command


def save_student(args, weights):
    """What ships together with the teacher's own files: weights in fp16, the scheduler and how to draw."""
    for part in ("transformer", "scheduler"):
        os.makedirs(os.path.join(args.out, part), exist_ok=True)
    for name in KEPT_FILES:
        source, target = os.path.join(args.teacher, name), os.path.join(args.out, name)
        if os.path.isdir(source):
            shutil.copytree(source, target, dirs_exist_ok=True)
        else:
            shutil.copyfile(source, target)
    save_file({name: t.detach().half().cpu().contiguous() for name, t in weights.items()},
              os.path.join(args.out, WEIGHTS), metadata={"format": "pt"})
    shutil.copyfile(os.path.join(args.teacher, "transformer", "config.json"),
                    os.path.join(args.out, "transformer", "config.json"))
    write_json(os.path.join(args.out, "scheduler", "scheduler_config.json"),
               {"_class_name": SCHEDULER_CONFIG["_class_name"], "num_train_timesteps": 1000, "shift": args.shift,
                "use_dynamic_shifting": False})
    generation = read_json(os.path.join(args.teacher, "generation_config.json"))
    generation.update({"description": "fashion-flux distilled to 1 to 4 steps without guidance", "guidance_scale": 1.0,
                       "num_inference_steps": 4})
    write_json(os.path.join(args.out, "generation_config.json"), generation)


def describe(args, weights, pieces, device):
    import diffusers

    return {
        "recipe": {
            "objective": "pseudo-Huber distance, image by image, of the velocity from the one that leads to the end of "
                         "the teacher's path",
            "huber_width": args.huber, "shift": args.shift, "levels_in_twelfths": list(args.levels),
            "paths": f"{args.path_steps} steps of Adams and Bashforth, second order, guidance {args.guidance}",
            "states": "those of the paths, then those that the student reaches by Euler's method in 2, 3 and 4 steps",
            "optimizer": "AdamW, betas (0.9, 0.99), weight decay 0.01 on matrices",
            "schedule": f"each piece {args.warmup} linear warm-up steps, with a cosine to 1%",
            "gradient_clip": 1.0, "ema_decay": args.ema, "precision": "bf16 autocast over fp32 weights",
            "batch": args.batch,
        },
        "parameters": sum(t.numel() for t in weights.values()),
        "steps": sum(piece["steps"] for piece in pieces),
        "seconds": round(sum(piece["seconds"] for piece in pieces), 1),
        "hardware": torch.cuda.get_device_name() if device.type == "cuda" else platform.processor(),
        "versions": {"python": platform.python_version(), "torch": torch.__version__,
                     "diffusers": diffusers.__version__},
        "pieces": pieces,
    }


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--teacher", required=True, help="the model folder to distil")
    parser.add_argument("--out", required=True, help="model folder to write; goes on from its weights when it has some")
    parser.add_argument("--minutes", type=float, default=3, help="training time of this piece, paths not counted")
    parser.add_argument("--steps", type=int, help="fixed number of steps instead of --minutes (as training.json says)")
    parser.add_argument("--paths", type=int, default=16000, help="made for this piece, a multiple of 1,000")
    parser.add_argument("--path-steps", type=int, default=24, help="a multiple of 12")
    parser.add_argument("--guidance", type=float, default=1.35, help="of the paths")
    parser.add_argument("--shift", type=float, default=math.exp(SCHEDULER_CONFIG["base_shift"]))
    parser.add_argument("--levels", type=int, nargs="+", default=[0, 3, 4, 6, 8, 9], help="in twelfths of the time")
    parser.add_argument("--own-after", type=float, default=0.4, help="share of the training on the paths' own states")
    parser.add_argument("--huber", type=float, default=0.05, help="where the loss turns from square to absolute")
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--lr", type=float, default=6e-4)
    parser.add_argument("--warmup", type=int, default=100, help="steps")
    parser.add_argument("--ema", type=float, default=0.998)
    parser.add_argument("--images", type=int, default=10000, help="of the evaluation")
    parser.add_argument("--log-every", type=int, default=20, help="steps")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction, default=True)
    return parser.parse_args()


def main():
    args = parse_arguments()
    device = torch.device(args.device)
    if args.compile:
        set_up_compiler()
    if device.type == "cuda":
        torch.backends.cuda.enable_cudnn_sdp(False)  # see train_fashion_flux.py
    table = load_file(os.path.join(args.teacher, "prompts.safetensors"))
    teacher_weights = load_file(os.path.join(args.teacher, WEIGHTS))
    kept = os.path.join(args.out, WEIGHTS)
    pieces, start = [], teacher_weights
    if os.path.exists(kept):
        start, pieces = load_file(kept), read_json(os.path.join(args.out, "training.json"))["pieces"]
    began = time.time()
    model = make_model(teacher_weights, device, torch.bfloat16, args.compile).eval().requires_grad_(False)
    teacher = Network(model, table)
    paths = make_paths(teacher, args.paths, args.levels, args, seed=1000 + len(pieces))
    print(f"{len(paths.labels)} paths in {time.time() - began:.1f} s", flush=True)
    weights, piece = train(args, paths, start, table, device, seed=len(pieces))
    save_student(args, weights)
    write_json(os.path.join(args.out, "training.json"), describe(args, weights, [*pieces, piece], device))
    trial = Trial(args.teacher, args.images, device)
    evaluate(args, trial, measure_teacher(trial, teacher, args.teacher), table, device)


if __name__ == "__main__":
    main()
