#!/usr/bin/env python3
"""What it takes to open models of full size from one file, against the folders with the same networks: time and peak
memory of `headroom plan`, which reads no weight, in alternating processes, and of `headroom inspect`.

    python3 bench/open_files.py build/release/headroom bench/results/cpu/open_files.jsonl

FLUX.1-dev is the transformer alone, 23.8 GB in bf16; SDXL has all networks, 6.9 GB in f16. The files are sparse: all
weights are zeros and take no disk. The first line is of the machine, each further one of a model. Needs PyTorch,
diffusers, transformers and gguf.
"""

import argparse
import json
import os
import pathlib
import shlex
import statistics
import struct
import subprocess
import sys
import tempfile
import time

import torch
from diffusers import AutoencoderKL, UNet2DConditionModel
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path += [str(ROOT / "bench/peers"), str(ROOT / "tests/goldens")]

import flux_files  # noqa: E402
import flux_shapes  # noqa: E402
import make_single_files as authors  # noqa: E402
import unet_shapes  # noqa: E402

ROUNDS = 15
GOLDEN = ROOT / "tests/goldens/pipelines/sdxl"


def write_sparse(path, shapes, dtype):
    """A safetensors file of these tensors, 16 bits each, without its data."""
    entries, offset = {}, 0
    for name, shape in shapes.items():
        size = 2 * torch.Size(shape).numel()
        entries[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [offset, offset + size]}
        offset += size
    header = json.dumps(entries).encode()
    header += b" " * (-len(header) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.truncate(8 + len(header) + offset)


def shapes_of(tensors):
    return {name: tuple(tensor.shape) for name, tensor in tensors.items()}


def write_part(folder, config, shapes, dtype):
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    is_of_diffusers = "_class_name" in config
    write_sparse(folder / ("diffusion_pytorch_model.safetensors" if is_of_diffusers else "model.safetensors"), shapes, dtype)


def flux(folder):
    """The file and the folder of the transformer."""
    config = flux_shapes.transformer("dev")
    with torch.device("meta"):
        from diffusers import FluxTransformer2DModel
        model = FluxTransformer2DModel.from_config(config)
    write_part(folder / "flux" / "transformer", config, shapes_of(model.state_dict()), "BF16")
    write_sparse(folder / "flux1-dev.safetensors", flux_files.shapes(config), "BF16")
    return [str(folder / "flux1-dev.safetensors")], [str(folder / "flux" / "transformer")]


def sdxl(folder):
    """The file and the folder of all networks, with the tokenizers of a small model."""
    vae = flux_shapes.VAE | {"latent_channels": 4, "scaling_factor": 0.13025, "shift_factor": None, "use_quant_conv": True,
                             "use_post_quant_conv": True}
    big = flux_shapes.CLIP | {"architectures": ["CLIPTextModelWithProjection"], "hidden_act": "gelu", "hidden_size": 1280,
                              "intermediate_size": 5120, "num_attention_heads": 20, "num_hidden_layers": 32, "projection_dim": 1280}
    with torch.device("meta"):
        parts = {"unet": (unet_shapes.SDXL, UNet2DConditionModel.from_config(unet_shapes.SDXL)),
                 "vae": (vae, AutoencoderKL.from_config(vae)),
                 "text_encoder": (flux_shapes.CLIP, CLIPTextModel(CLIPTextConfig(**flux_shapes.CLIP))),
                 "text_encoder_2": (big, CLIPTextModelWithProjection(CLIPTextConfig(**big)))}
    tensors = {role: dict(model.named_parameters()) for role, (_, model) in parts.items()}
    for role in ("text_encoder", "text_encoder_2"):  # as in published files
        tensors[role] = {name if name.startswith("text_") else f"text_model.{name}": value for name, value in tensors[role].items()}
    for role, (config, _) in parts.items():
        write_part(folder / "sdxl" / role, config, shapes_of(tensors[role]), "F16")
    index = json.loads((GOLDEN / "model_index.json").read_text())
    (folder / "sdxl" / "model_index.json").write_text(json.dumps(index))
    for role in ("tokenizer", "tokenizer_2", "scheduler"):
        (folder / "sdxl" / role).symlink_to(GOLDEN / role)
    named = authors.with_prefix("model.diffusion_model.",
                                {authors.unet_name(name, unet_shapes.SDXL): value for name, value in tensors["unet"].items()})
    named |= authors.with_prefix("first_stage_model.", authors.vae_tensors(tensors["vae"], vae))
    named |= authors.with_prefix("conditioner.embedders.0.transformer.", tensors["text_encoder"])
    named |= authors.with_prefix("conditioner.embedders.1.model.", authors.open_clip_tensors(tensors["text_encoder_2"], False))
    write_sparse(folder / "sd_xl_base_1.0.safetensors", shapes_of(named), "F16")
    tokenizers = [f"--part={role}={GOLDEN / role}" for role in ("tokenizer", "tokenizer_2")]
    return [str(folder / "sd_xl_base_1.0.safetensors"), *tokenizers], [str(folder / "sdxl")]


# Run by a small interpreter of its own: a process begins with the peak of the one that starts it.
MEASURE = """
import json, os, sys, time
began = time.perf_counter()
child = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)])
_, status, used = os.wait4(child, 0)
wall = time.perf_counter() - began
print(json.dumps([status, {"wall_s": wall, "cpu_s": used.ru_utime + used.ru_stime, "peak_bytes": used.ru_maxrss * 1024}]))
"""


def run(command):
    """Wall and CPU seconds and peak bytes of a process."""
    measured = subprocess.run([sys.executable, "-S", "-c", MEASURE, *command], check=True, capture_output=True, text=True)
    status, figures = json.loads(measured.stdout)
    if status != 0:
        raise SystemExit(f"{shlex.join(command)} failed: {measured.stderr}")
    return figures


def rounded(figures):
    return {name: [round(value, 4) if isinstance(value, float) else value for value in values] for name, values in figures.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("headroom", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    args = parser.parse_args()
    headroom = str(args.headroom.resolve())
    lines = [{"cpus": os.cpu_count(), "rounds": ROUNDS, "headroom": os.popen(f"{shlex.quote(headroom)} --version").read().split("\n")[0]}]
    with tempfile.TemporaryDirectory() as scratch:
        for name, make in (("SDXL", sdxl), ("FLUX.1-dev", flux)):
            file, folder = make(pathlib.Path(scratch))
            commands = {"file": [headroom, "plan", *file, "--quiet"], "folder": [headroom, "plan", *folder, "--quiet"],
                        "inspect": [headroom, "inspect", file[0]]}
            trials = {side: [] for side in commands}
            for number in range(ROUNDS + 1):
                for side in list(commands) if number % 2 else reversed(commands):
                    trial = run(commands[side])
                    if number > 0:  # the first reads the program
                        trials[side].append(trial)
            line = {"model": name, "file_bytes": os.path.getsize(file[0])}
            for side, taken in trials.items():
                line[side] = rounded({key: [one[key] for one in taken] for key in taken[0]})
            of = {side: {key: statistics.median(values) for key, values in line[side].items()} for side in trials}
            line["file_over_folder"] = {key: round(of["file"][key] / of["folder"][key], 4) for key in of["file"]}
            line["inspect_median_s"] = round(of["inspect"]["wall_s"], 4)
            print(name, line["file_over_folder"], "inspect", line["inspect_median_s"], "s", of, flush=True)
            lines.append(line)
    args.out.write_text("".join(json.dumps(line) + "\n" for line in lines))


if __name__ == "__main__":
    main()
