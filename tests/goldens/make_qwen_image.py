#!/usr/bin/env python3
"""Makes the goldens of Qwen-Image's transformer: small models, inputs, and diffusers' outputs in double precision.

    python3 tests/goldens/make_qwen_image.py --out tests/goldens/qwen_image

Each case is a folder with config.json, diffusion_pytorch_model.safetensors (F32, random) and golden.safetensors: in F32
the inputs under diffusers' argument names, but `img_ids` [image tokens, 3] and `txt_ids` [text tokens, 3] for the
positions that it computes from img_shapes; `sample` in F64; and `sample_bf16_error`, how far diffusers in bf16 is from
it (relative L2). Runs on a CPU in seconds. Needs PyTorch, diffusers and safetensors.

A double model in diffusers is not double throughout: it casts times and rotated queries to float32. While a golden is
computed, such casts go to float64, and an operation that returns another floating-point dtype stops the script. Rotary
tables are float32 from the start, and are computed again.
"""

import argparse
import os

import torch
from safetensors.torch import save_file
from torch.nn.attention import SDPBackend, sdpa_kernel

from diffusers import QwenImageTransformer2DModel
from diffusers.models.transformers.transformer_qwenimage import QwenEmbedRope

from make_text_encoders import InDouble
from random_weights import randomize, round_weights

# Images that are not square, with odd sides, so that rows and columns have other numbers below zero than above it.
CASES = {
    "odd": dict(config=dict(in_channels=12, out_channels=3, num_layers=2, attention_head_dim=6, num_attention_heads=3,
                            joint_attention_dim=14, axes_dims_rope=[2, 2, 2]),
                rows=5, columns=7, text_tokens=9, timestep=[0.7342, 0.0581], seed=61),
    "wide": dict(config=dict(in_channels=8, out_channels=2, num_layers=1, attention_head_dim=10, num_attention_heads=2,
                             joint_attention_dim=17, axes_dims_rope=[2, 4, 4]),
                 rows=2, columns=9, text_tokens=4, timestep=[0.9137], seed=62),
}


def positions(rows, columns, text_tokens):
    """(frame, row, column) of image tokens, around 0, and of text tokens, which go on behind the larger side."""
    row, column = torch.meshgrid(torch.arange(rows) - (rows - rows // 2), torch.arange(columns) - (columns - columns // 2), indexing="ij")
    image = torch.stack([torch.zeros_like(row), row, column], dim=-1).reshape(-1, 3)
    text = max(rows // 2, columns // 2) + torch.arange(text_tokens)
    return image.float(), text[:, None].expand(-1, 3).float()


def double_positions(axes):
    """A QwenEmbedRope whose tables are complex128. It is another object, because these keep what they have computed."""
    embedding = QwenEmbedRope(theta=10000, axes_dim=axes, scale_rope=True)

    def table(index):
        angles = [torch.outer(index, embedding.theta ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)) for dim in axes]
        angle = torch.cat(angles, dim=1)
        return torch.polar(torch.ones_like(angle), angle)

    places = torch.arange(4096, dtype=torch.float64)
    embedding.pos_freqs, embedding.neg_freqs = table(places), table(places - 4096)
    return embedding


def make_case(folder, case):
    generator = torch.Generator().manual_seed(case["seed"])
    config, batch = case["config"], len(case["timestep"])
    model = QwenImageTransformer2DModel.from_config(config).eval()
    randomize(model, generator)
    round_weights(model)
    model.save_config(folder)
    weights = {name: tensor.clone().contiguous() for name, tensor in model.state_dict().items()}
    save_file(weights, os.path.join(folder, "diffusion_pytorch_model.safetensors"), metadata={"format": "pt"})
    rows, columns, text_tokens = case["rows"], case["columns"], case["text_tokens"]
    inputs = {"hidden_states": torch.randn(batch, rows * columns, config["in_channels"], generator=generator),
              "encoder_hidden_states": torch.randn(batch, text_tokens, config["joint_attention_dim"], generator=generator),
              "timestep": torch.tensor(case["timestep"])}
    image_ids, text_ids = positions(rows, columns, text_tokens)

    def run(dtype):
        given = {name: tensor.to(dtype) for name, tensor in inputs.items()}
        return model.to(dtype)(**given, img_shapes=[[(1, rows, columns)]] * batch, return_dict=False)[0]

    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
        single = run(torch.float32)
        narrow = run(torch.bfloat16)
        model.double().load_state_dict(weights)
        model.pos_embed = double_positions(config["axes_dims_rope"])
        with InDouble():
            golden = run(torch.float64)
    if golden.dtype != torch.float64 or not torch.isfinite(golden).all():
        raise SystemExit(f"{folder}: sample is {golden.dtype} and must be finite float64")
    error = lambda result: ((result.double() - golden).norm() / golden.norm()).item()  # noqa: E731
    if not error(single) < 1e-5:
        raise SystemExit(f"{folder}: float32 diffusers is {error(single):.2e} from sample")
    print(f"{os.path.basename(folder)} {list(golden.shape)}: rms {golden.square().mean().sqrt().item():.4f}, diffusers within "
          f"{error(single):.2e} in fp32, {error(narrow):.2e} in bf16", flush=True)
    save_file({**inputs, "img_ids": image_ids, "txt_ids": text_ids.contiguous(), "sample": golden.contiguous(),
               "sample_bf16_error": torch.tensor([error(narrow)], dtype=torch.float64)}, os.path.join(folder, "golden.safetensors"))


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
