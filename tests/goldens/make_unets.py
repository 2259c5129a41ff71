#!/usr/bin/env python3
"""Makes the goldens of UNet2DConditionModel and UNet2DModel: small models, inputs, and diffusers' outputs in double.

    python3 tests/goldens/make_unets.py --out tests/goldens/unets

Each case is a folder with config.json, diffusion_pytorch_model.safetensors (F16, random) and golden.safetensors: the
inputs under diffusers' argument names in F32, in F64 `out_sample`, and `bf16_error`, `bf16_error_cuda` and
`fp16_error_cuda`: how far diffusers in that precision is from it on the CPU and on the GPU (relative L2). Runs in
seconds. Needs PyTorch, a GPU, diffusers and safetensors. While a golden is computed, every operation PyTorch dispatches
is watched, as in make_flux.py.
"""

import argparse
import contextlib
import copy
import math
import os

import torch
from safetensors.torch import save_file
from torch.nn.attention import SDPBackend, sdpa_kernel

import diffusers.models.embeddings as embeddings
from diffusers import UNet2DConditionModel, UNet2DModel

from make_flux import OnlyDouble, double_timestep_embedding

# Sizes are small and odd on purpose: three levels of 10x14 latents are 10, 5, 3 and 14, 7, 4, so that upsampling goes
# to the skip's size. Batches are large enough for errors in 16 bits to be compared: of one sample they differ by a
# third from rounding to rounding.
CONDITION_CASES = {
    # Stable Diffusion 1.5's: as many heads on every level, projections stored as 1x1 convolutions, no attention on the
    # last level.
    "sd15": dict(config=dict(block_out_channels=[8, 16, 16], layers_per_block=1, attention_head_dim=2, cross_attention_dim=12,
                             down_block_types=["CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D"],
                             up_block_types=["UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D"]),
                 batch=6, size=(10, 14), tokens=7, times=(1, 999), seed=31),
    # 2.1's: heads by level, linear projections; padding below and on the right, which drops the last row of an odd
    # size.
    "sd2": dict(config=dict(block_out_channels=[8, 16], layers_per_block=2, attention_head_dim=[1, 2], cross_attention_dim=20,
                            use_linear_projection=True, upcast_attention=True, downsample_padding=0,
                            down_block_types=["CrossAttnDownBlock2D", "DownBlock2D"],
                            up_block_types=["UpBlock2D", "CrossAttnUpBlock2D"]),
                batch=7, size=(9, 12), tokens=9, times=(1, 999), seed=32),
    # SDXL's: no attention on the first level, several transformers on others, pooled text and sizes.
    "sdxl": dict(config=dict(block_out_channels=[8, 8, 16], layers_per_block=1, attention_head_dim=[1, 2, 2], cross_attention_dim=10,
                             transformer_layers_per_block=[1, 1, 2], use_linear_projection=True, addition_embed_type="text_time",
                             addition_time_embed_dim=6, projection_class_embeddings_input_dim=46,
                             down_block_types=["DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"],
                             up_block_types=["CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"]),
                 batch=14, size=(6, 8), tokens=5, times=(1, 999), text=10, time_ids=6, seed=33),
}
PIXEL_CASES = {
    # DDPM's: sines first, frequencies up to the last one, padding below and on the right, attention below the first
    # level.
    "pixel": dict(config=dict(block_out_channels=[8, 8, 16], layers_per_block=1, attention_head_dim=4, downsample_padding=0,
                              flip_sin_to_cos=False, freq_shift=1, norm_eps=1e-6,
                              down_block_types=["DownBlock2D", "AttnDownBlock2D", "DownBlock2D"],
                              up_block_types=["UpBlock2D", "AttnUpBlock2D", "UpBlock2D"]),
                  batch=6, size=(12, 8), times=(1, 999), seed=34),
    # Score-based: Fourier features of the noise level, time as scale and shift, one head, a middle that is not normed.
    "pixel-scale-shift": dict(config=dict(block_out_channels=[8, 16], layers_per_block=1, attention_head_dim=None,
                                          resnet_time_scale_shift="scale_shift", time_embedding_type="fourier", center_input_sample=True,
                                          down_block_types=["AttnDownBlock2D", "DownBlock2D"],
                                          up_block_types=["UpBlock2D", "AttnUpBlock2D"]),
                              batch=6, size=(6, 10), times=(0.05, 20), seed=35),
}


def randomize(model, generator):
    """Weights of 1/sqrt(fan_in), biases of 0.1, gains around 1, all of them numbers of float16."""
    for name, parameter in sorted(model.named_parameters()):
        draw = torch.randn(parameter.shape, generator=generator)
        if parameter.ndim >= 2:
            draw = draw / math.sqrt(parameter[0].numel())
        elif name.endswith("bias"):
            draw = 0.1 * draw
        else:
            draw = 1 + 0.2 * draw
        parameter.data = draw.half().float()


def run(model, inputs, dtype, device="cpu"):
    """The model's output in that precision. Times and sizes stay in float32 or wider, as pipelines have them."""
    times = torch.promote_types(dtype, torch.float32)
    given = {name: tensor.to(device, times if name in ("timestep", "time_ids") else dtype) for name, tensor in inputs.items()}
    added = {name: given.pop(name) for name in ("text_embeds", "time_ids") if name in given}
    if added:
        given["added_cond_kwargs"] = added
    with torch.no_grad():
        return model.to(device, dtype)(**given, return_dict=False)[0].cpu()


@contextlib.contextmanager
def true_double():
    """Of a double model diffusers builds the sinusoids in float32."""
    kept = embeddings.get_timestep_embedding
    embeddings.get_timestep_embedding = double_timestep_embedding
    try:
        with sdpa_kernel(SDPBackend.MATH), OnlyDouble():
            yield
    finally:
        embeddings.get_timestep_embedding = kept


def inputs_of(config, case, generator):
    batch, (low, high) = case["batch"], case["times"]
    inputs = {"sample": torch.randn(batch, config["in_channels"], *case["size"], generator=generator),
              "timestep": low + (high - low) * torch.rand(batch, generator=generator)}
    if "tokens" in case:
        inputs["encoder_hidden_states"] = torch.randn(batch, case["tokens"], config["cross_attention_dim"], generator=generator)
    if "time_ids" in case:
        inputs["text_embeds"] = torch.randn(batch, case["text"], generator=generator)
        inputs["time_ids"] = torch.randint(0, 1025, (batch, case["time_ids"]), generator=generator).float()
    return inputs


def make_case(folder, kind, case):
    generator = torch.Generator().manual_seed(case["seed"])
    channels = 4 if kind is UNet2DConditionModel else 3
    config = dict(in_channels=channels, out_channels=channels, norm_num_groups=4, sample_size=8, **case["config"])
    model = kind.from_config(config).eval()
    randomize(model, generator)
    model.save_config(folder)
    save_file({name: tensor.half().contiguous() for name, tensor in model.state_dict().items()},
              os.path.join(folder, "diffusion_pytorch_model.safetensors"), metadata={"format": "pt"})
    inputs = inputs_of(config, case, generator)

    with true_double():
        golden = run(model, inputs, torch.float64)
    if golden.dtype != torch.float64 or not torch.isfinite(golden).all():
        raise SystemExit(f"{folder}: the golden is {golden.dtype} and must be finite float64")
    error = lambda sample: ((sample.double() - golden).norm() / golden.norm()).item()  # noqa: E731
    single = error(run(model.float(), inputs, torch.float32))
    if not single < 1e-4:
        raise SystemExit(f"{folder}: float32 diffusers is {single:.2e} from the golden, expected less than 1e-4")
    errors = {}
    for name, dtype, device in (("bf16_error", torch.bfloat16, "cpu"), ("bf16_error_cuda", torch.bfloat16, "cuda"),
                                ("fp16_error_cuda", torch.float16, "cuda")):
        # a copy, since bfloat16 rounds the weights
        errors[name] = error(run(copy.deepcopy(model), inputs, dtype, device))
    tensors = {name: tensor.contiguous() for name, tensor in inputs.items()}
    tensors |= {name: torch.tensor([value], dtype=torch.float64) for name, value in errors.items()}
    save_file({**tensors, "out_sample": golden.contiguous()}, os.path.join(folder, "golden.safetensors"))
    bytes_ = sum(os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder))
    said = ", ".join(f"{name} {value:.2e}" for name, value in errors.items())
    print(f"{os.path.basename(folder)}: out_sample {list(golden.shape)}, rms {golden.square().mean().sqrt().item():.4f}, float32 "
          f"{single:.2e}, {said}, folder {bytes_} bytes", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", required=True, help="folder to write the case folders in")
    args = parser.parse_args()
    torch.set_num_threads(1)  # of what is this small
    for kind, cases in ((UNet2DConditionModel, CONDITION_CASES), (UNet2DModel, PIXEL_CASES)):
        for name, case in cases.items():
            folder = os.path.join(args.out, name)
            os.makedirs(folder, exist_ok=True)
            make_case(folder, kind, case)


if __name__ == "__main__":
    main()
