#!/usr/bin/env python3
"""Makes the goldens of the transformers of FLUX.3 and FLUX.2: small models, inputs, and diffusers' outputs in double.

    python3 tests/goldens/make_flux3.py --out tests/goldens/flux3

Each case is a folder with config.json, diffusion_pytorch_model.safetensors (F32, random) and golden.safetensors: in F32
the inputs under diffusers' argument names, `sample` in F64, and `sample_bf16_error`, how far diffusers in bf16 is from
it (relative L2). Runs on a CPU in seconds. Needs PyTorch, diffusers and safetensors.

A double model in diffusers is not double throughout: it casts times, and queries and keys before their norms, to
float32. While a golden is computed, such casts go to float64, and an operation that returns another floating-point
dtype stops the script.
"""

import argparse
import math
import os

import torch
from safetensors.torch import save_file
from torch.nn.attention import SDPBackend, sdpa_kernel

from diffusers import Flux2Transformer2DModel, Flux3Transformer2DModel

from make_text_encoders import InDouble
from random_weights import randomize, round_weights

# Sizes are odd on purpose: axes of unequal sizes, images that are not square, references of two sizes, other channels
# than the image's.
SMALL = dict(in_channels=12, cond_in_channels=10, num_layers=2, num_single_layers=2, attention_head_dim=12, num_attention_heads=2,
             joint_attention_dim=14, timestep_channels=16, mlp_ratio=1.5, axes_dims_rope=[2, 4, 4, 2], rope_theta=10000)
CASES = {
    "base": dict(kind=Flux3Transformer2DModel, config=SMALL, rows=5, columns=7, text_tokens=9, references=[], timestep=[0.7342, 0.0581], seed=71),
    "base-references": dict(kind=Flux3Transformer2DModel, config=dict(SMALL, num_layers=1), rows=3, columns=4, text_tokens=6,
                            references=[(5, 3), (2, 4)], timestep=[0.5021], seed=72),
    "distilled": dict(kind=Flux3Transformer2DModel, config=dict(SMALL, num_layers=1, flow_map=True), rows=4, columns=3, text_tokens=7,
                      references=[(2, 3)], timestep=[0.8137, 0.3019], target=[0.7142, 0.0], seed=73),
    "flux2-klein": dict(kind=Flux2Transformer2DModel,
                        config=dict(in_channels=12, num_layers=1, num_single_layers=2, attention_head_dim=12, num_attention_heads=2,
                                    joint_attention_dim=14, timestep_guidance_channels=16, mlp_ratio=1.5, axes_dims_rope=[2, 4, 4, 2],
                                    rope_theta=2000, guidance_embeds=False),
                        rows=5, columns=7, text_tokens=9, references=[], timestep=[0.7342, 0.0581], seed=74),
    "flux2-guidance": dict(kind=Flux2Transformer2DModel,
                           config=dict(in_channels=6, out_channels=10, num_layers=1, num_single_layers=1, attention_head_dim=8,
                                       num_attention_heads=2, joint_attention_dim=18, timestep_guidance_channels=16, mlp_ratio=3.0,
                                       axes_dims_rope=[2, 2, 2, 2], rope_theta=2000, guidance_embeds=True),
                           rows=2, columns=3, text_tokens=5, references=[], timestep=[0.9137], guidance=[3.5], seed=75),
}


def positions(rows, columns, scale=1.0, l=0):
    row, column = torch.meshgrid(torch.arange(rows) * scale, torch.arange(columns) * scale, indexing="ij")
    zero = torch.zeros_like(row, dtype=torch.float32)
    return torch.stack([zero, row.float(), column.float(), zero + l], dim=-1).reshape(-1, 4)


def make_inputs(case, generator):
    config, batch = case["config"], len(case["timestep"])
    scale = 0.5 if case["kind"] is Flux3Transformer2DModel else 1.0
    text = torch.zeros(case["text_tokens"], 4)
    text[:, 3] = torch.arange(case["text_tokens"])
    inputs = {"hidden_states": torch.randn(batch, case["rows"] * case["columns"], config["in_channels"], generator=generator),
              "encoder_hidden_states": torch.randn(batch, case["text_tokens"], config["joint_attention_dim"], generator=generator),
              "timestep": torch.tensor(case["timestep"]), "img_ids": positions(case["rows"], case["columns"], scale), "txt_ids": text}
    if case["references"]:
        ids = torch.cat([positions(*size, scale, -(1 + i)) for i, size in enumerate(case["references"])])
        inputs |= {"image_cond_ids": ids, "image_cond_hidden_states": torch.randn(batch, len(ids), config["cond_in_channels"], generator=generator)}
    for name, key in (("target_timestep", "target"), ("guidance", "guidance")):
        if key in case:
            inputs[name] = torch.tensor(case[key])
    return inputs


def calm_times(model):
    """Quietens the fast waves of times and guidance, as training does: 734.2 is 736 in bf16, and must mean the same."""
    for name, module in model.named_modules():
        if name.endswith(("timestep_embedder", "guidance_embedder")):
            waves = module.linear_1.weight.shape[1] // 2
            frequency = torch.exp(-math.log(10000) * torch.arange(waves) / waves).repeat(2)  # cosines, then sines
            module.linear_1.weight.data /= 1 + (100 * frequency) ** 2


def make_case(folder, case):
    generator = torch.Generator().manual_seed(case["seed"])
    model = case["kind"].from_config(case["config"]).eval()
    randomize(model, generator)
    calm_times(model)
    round_weights(model)
    model.save_config(folder)
    weights = {name: tensor.clone().contiguous() for name, tensor in model.state_dict().items()}
    save_file(weights, os.path.join(folder, "diffusion_pytorch_model.safetensors"), metadata={"format": "pt"})
    inputs = make_inputs(case, generator)

    def run(dtype):
        given = {name: tensor if name.endswith("ids") else tensor.to(dtype) for name, tensor in inputs.items()}
        if dtype == torch.float64:
            given = {name: tensor.double() for name, tensor in given.items()}
        return model.to(dtype)(**given, return_dict=False)[0]

    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
        single = run(torch.float32)
        narrow = run(torch.bfloat16)
        model.double().load_state_dict(weights)
        with InDouble():
            golden = run(torch.float64)
    if golden.dtype != torch.float64 or not torch.isfinite(golden).all():
        raise SystemExit(f"{folder}: sample is {golden.dtype} and must be finite float64")
    error = lambda result: ((result.double() - golden).norm() / golden.norm()).item()  # noqa: E731
    if not error(single) < 1e-5:
        raise SystemExit(f"{folder}: float32 diffusers is {error(single):.2e} from sample")
    print(f"{os.path.basename(folder)} {list(golden.shape)}: rms {golden.square().mean().sqrt().item():.4f}, diffusers within "
          f"{error(single):.2e} in fp32, {error(narrow):.2e} in bf16", flush=True)
    save_file({**inputs, "sample": golden.contiguous(), "sample_bf16_error": torch.tensor([error(narrow)], dtype=torch.float64)},
              os.path.join(folder, "golden.safetensors"))


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
