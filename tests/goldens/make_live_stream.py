#!/usr/bin/env python3
"""Makes the LiveStreamUNet goldens: small models, inputs, and outputs of live_stream_unet.py in double precision.

    python3 tests/goldens/make_live_stream.py --out tests/goldens/live_stream

Each case is a folder with config.json, diffusion_pytorch_model.safetensors (F32, random) and golden.safetensors: the
inputs of the passes in F32, and in F64 what they give, `prediction`, `features`, `blended` and `next_memory` (with
`next_position`); then a stream of a few frames, `frames` [frames, b, c, h, w] and `noise`, and what is shown of it in
two steps a frame, `shown`. For each `*_bf16_error` and `*_fp16_error` say how far PyTorch in these is from it (relative
L2, with weights and inputs rounded). Runs on a CPU in seconds. Needs PyTorch, diffusers (for what it shares with the
other scripts) and safetensors. While a golden is computed, every operation PyTorch dispatches is watched, as in
make_flux.py.
"""

import argparse
import copy
import json
import os

import torch
from safetensors.torch import save_file
from torch.nn.attention import SDPBackend, sdpa_kernel

from live_stream_unet import LiveStreamUNet, Stream
from make_flux import OnlyDouble
from random_weights import randomize, round_weights

STEPS = 2  # of a frame of the stream
# Widths of odd factors, unequal sides; a memory of its own for each image, and one for all; levels with and without
# attention.
CASES = {
    "three-levels": dict(
        config=dict(sample_size=16, in_channels=9, out_channels=3, block_out_channels=[8, 12, 24], layers_per_block=1,
                    down_block_types=["DownBlock2D", "AttnDownBlock2D", "AttnDownBlock2D"],
                    up_block_types=["AttnUpBlock2D", "AttnUpBlock2D", "UpBlock2D"], attention_head_dim=4,
                    norm_num_groups=4, norm_eps=1e-5, memory_frames=5, memory_dim=10),
        size=(2, 12, 20), streams=2, position=3, seed=41),
    "two-layers": dict(
        config=dict(sample_size=24, in_channels=6, out_channels=2, block_out_channels=[6, 18], layers_per_block=2,
                    down_block_types=["DownBlock2D", "DownBlock2D"], up_block_types=["UpBlock2D", "UpBlock2D"],
                    attention_head_dim=6, norm_num_groups=3, norm_eps=1e-6, memory_frames=3, memory_dim=7),
        size=(3, 14, 10), streams=1, position=0, seed=42),
}


def passes(model, inputs, noise, frames, dtype):
    """What each pass gives, and the stream. The timestep and the position stay as they are."""
    given = {name: tensor.to(dtype) for name, tensor in inputs.items() if name not in ("timestep", "position")}
    time = inputs["timestep"].to(torch.float64 if dtype == torch.float64 else torch.float32)
    position, noise, frames = inputs["position"].long(), noise.to(dtype), frames.to(dtype)
    prediction, features = model(given["sample"], given["frame"], given["previous"], given["memory"], position, time)
    blended = model.temporal_blend(given["denoised"], given["frame"], given["previous"])
    memory, next_position = model.memory.write(given["features_in"], given["memory"], position)
    stream = Stream(model, frames[0], noise, STEPS)
    shown = torch.stack([stream.frame(frame) for frame in frames])
    return dict(prediction=prediction, features=features, blended=blended, next_memory=memory, shown=shown), next_position


def make_case(folder, case):
    generator = torch.Generator().manual_seed(case["seed"])
    config = case["config"]
    model = LiveStreamUNet(config).eval()
    randomize(model, generator)
    round_weights(model)
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump({"_class_name": "LiveStreamUNet", **config}, file, indent=2)
        file.write("\n")
    save_file({name: tensor.contiguous() for name, tensor in model.state_dict().items()},
              os.path.join(folder, "diffusion_pytorch_model.safetensors"), metadata={"format": "pt"})

    batch, height, width = case["size"]
    levels, channels = len(config["block_out_channels"]), config["out_channels"]
    shape = (batch, channels, height, width)
    frame_like = lambda: 2 * torch.rand(shape, generator=generator) - 1  # noqa: E731
    memory = torch.randn(case["streams"], config["memory_frames"], config["memory_dim"], generator=generator)
    features = torch.randn(case["streams"], (height >> levels - 1) * (width >> levels - 1), config["block_out_channels"][-1],
                           generator=generator)
    inputs = dict(sample=torch.randn(shape, generator=generator), frame=frame_like(), previous=frame_like(), memory=memory,
                  position=torch.tensor(case["position"], dtype=torch.int32),
                  timestep=torch.tensor([734.0, 58.0, 999.0][:batch]), denoised=frame_like(), features_in=features)
    noise = torch.randn(shape, generator=generator)
    frames = torch.stack([frame_like() for _ in range(config["memory_frames"] + 1)])  # once round the ring

    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
        double = copy.deepcopy(model).double()
        with OnlyDouble():
            golden, next_position = passes(double, inputs, noise, frames, torch.float64)
        runs = {name: passes(copy.deepcopy(model).to(dtype), inputs, noise, frames, dtype)[0]
                for name, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16), ("fp16", torch.float16))}
    tensors = {**inputs, "noise": noise, "frames": frames, "next_position": next_position.to(torch.int32)}
    for name, tensor in golden.items():
        if tensor.dtype != torch.float64 or not torch.isfinite(tensor).all():
            raise SystemExit(f"{folder}: {name} is {tensor.dtype} and must be finite float64")
        errors = {dtype: ((result[name].double() - tensor).norm() / tensor.norm()).item() for dtype, result in runs.items()}
        if not errors["fp32"] < 1e-5:
            raise SystemExit(f"{folder}: float32 PyTorch is {errors['fp32']:.2e} from {name}")
        tensors[name] = tensor.contiguous()
        for narrow in ("bf16", "fp16"):
            tensors[f"{name}_{narrow}_error"] = torch.tensor([errors[narrow]], dtype=torch.float64)
        print(f"{os.path.basename(folder)} {name} {list(tensor.shape)}: rms {tensor.square().mean().sqrt().item():.4f}, PyTorch within "
              + ", ".join(f"{error:.2e} in {dtype}" for dtype, error in errors.items()), flush=True)
    save_file(tensors, os.path.join(folder, "golden.safetensors"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", required=True, help="folder to write the case folders in")
    args = parser.parse_args()
    for name, case in CASES.items():
        folder = os.path.join(args.out, name)
        os.makedirs(folder, exist_ok=True)
        make_case(folder, case)


if __name__ == "__main__":
    main()
