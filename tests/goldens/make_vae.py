#!/usr/bin/env python3
"""Makes the goldens of autoencoders: small models, inputs, and diffusers' outputs in double precision.

Of AutoencoderKL, AutoencoderKLFlux2, AutoencoderTiny and AutoencoderKLQwenImage.

    python3 tests/goldens/make_vae.py --out tests/goldens/vae

Each case is a folder with config.json, diffusion_pytorch_model.safetensors (F32, random) and golden.safetensors:
`image` and `latents` in F32, and in F64 `mean`, `logvar` and `decoded`, of AutoencoderKL the same in tiles
(`mean_tiled` ...), of FLUX.2's `normalized`, of the tiny one `encoded` and `decoded`, and for each `*_bf16_error`: how
far diffusers in bf16 is from it (relative L2, with weights and inputs rounded to bf16). Runs on a CPU in seconds. Needs
PyTorch, diffusers and safetensors. While a golden is computed, every operation PyTorch dispatches is watched, as in
make_flux.py, and casts to float32 go to float64.
"""

import argparse
import os

import torch
from safetensors.torch import save_file
from torch.nn.attention import SDPBackend, sdpa_kernel

from diffusers import AutoencoderKL, AutoencoderKLFlux2, AutoencoderKLQwenImage, AutoencoderTiny

from make_text_encoders import InDouble
from random_weights import randomize, round_weights

SHARED = dict(in_channels=3, out_channels=3, layers_per_block=2, norm_num_groups=4, sample_size=32,
              down_block_types=["DownEncoderBlock2D"] * 4, up_block_types=["UpDecoderBlock2D"] * 4)
# As FLUX.1's and as Stable Diffusion's: latent channels, 1x1 convolutions next to the latents. Sizes are odd on
# purpose. The tiny one has another width on each side, and another number of blocks at each size.
CASES = {
    "flux": dict(kind=AutoencoderKL,
                 config=dict(SHARED, latent_channels=6, block_out_channels=[8, 8, 16, 16], shift_factor=0.1159, scaling_factor=0.3611,
                             use_quant_conv=False, use_post_quant_conv=False), image=(4, 45, 37), latents=(3, 5, 7), seed=21),
    "stable-diffusion": dict(kind=AutoencoderKL, config=dict(SHARED, latent_channels=4, block_out_channels=[8, 16, 24, 24]),
                             image=(8, 37, 44), latents=(4, 7, 6), seed=22),
    "tiny": dict(kind=AutoencoderTiny,
                 config=dict(latent_channels=5, encoder_block_out_channels=[12] * 3, decoder_block_out_channels=[20] * 3,
                             num_encoder_blocks=[1, 3, 2], num_decoder_blocks=[2, 3, 1], scaling_factor=0.5),
                 image=(4, 45, 37), latents=(3, 9, 7), seed=23),
    # Levels of other widths, one with a convolution along time, which an image does not need.
    "qwen-image": dict(kind=AutoencoderKLQwenImage,
                       config=dict(base_dim=4, z_dim=5, dim_mult=[1, 2, 1], num_res_blocks=1, temperal_downsample=[False, True],
                                   latents_mean=[-0.4, 0.1, 0.3, 0, 0.7], latents_std=[1.5, 2, 0.8, 1, 1.2]),
                       image=(2, 27, 22), latents=(3, 5, 7), seed=24),
    # A smaller decoder, and statistics of packed latents, which its passes do not read.
    "flux2": dict(kind=AutoencoderKLFlux2,
                  config=dict(SHARED, latent_channels=6, layers_per_block=1, block_out_channels=[4, 8, 8, 8],
                              decoder_block_out_channels=[4, 4, 8, 8]), image=(1, 48, 37), latents=(3, 5, 7), seed=25),
}


def passes(model, image, latents):
    """What the model gives: the large one whole and in tiles."""
    if isinstance(model, AutoencoderKLQwenImage):  # of one frame
        distribution = model.encode(image[:, :, None]).latent_dist
        results = {"mean": distribution.mean, "logvar": distribution.logvar, "decoded": model.decode(latents[:, :, None]).sample}
        return {name: result[:, :, 0] for name, result in results.items()}
    if isinstance(model, AutoencoderTiny):
        return {"encoded": model.encode(image).latents, "decoded": model.decode(latents).sample}
    results = {}
    for suffix, tiled in (("", False), ("_tiled", True)):
        model.enable_tiling() if tiled else model.disable_tiling()
        distribution = model.encode(image).latent_dist
        results |= {"mean" + suffix: distribution.mean, "logvar" + suffix: distribution.logvar,
                    "decoded" + suffix: model.decode(latents).sample}
    if isinstance(model, AutoencoderKLFlux2):  # as pipelines scale latents for the denoiser, by patches of 2 x 2
        mean, variance = (stat.reshape(1, -1, 1, 1) for stat in (model.bn.running_mean, model.bn.running_var))
        packed = torch.nn.functional.pixel_unshuffle(results["mean"], 2)
        results["normalized"] = torch.nn.functional.pixel_shuffle((packed - mean) / torch.sqrt(variance + model.config.batch_norm_eps), 2)
    return results


def make_case(folder, case):
    generator = torch.Generator().manual_seed(case["seed"])
    config = case["config"]
    model = case["kind"].from_config(config).eval()
    randomize(model, generator)
    round_weights(model)
    model.save_config(folder)
    save_file({name: tensor.contiguous() for name, tensor in model.state_dict().items()},
              os.path.join(folder, "diffusion_pytorch_model.safetensors"), metadata={"format": "pt"})
    batch, height, width = case["image"]
    image = 2 * torch.rand(batch, 3, height, width, generator=generator) - 1
    batch, height, width = case["latents"]
    latents = torch.randn(batch, config.get("latent_channels") or config["z_dim"], height, width, generator=generator)

    tensors = {"image": image, "latents": latents}
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
        with InDouble():
            golden = passes(model.double(), image.double(), latents.double())
        single = passes(model.float(), image, latents)
        narrow = passes(model.bfloat16(), image.bfloat16(), latents.bfloat16())
    error = lambda result, name: ((result[name].double() - golden[name]).norm() / golden[name].norm()).item()  # noqa: E731
    for name, tensor in golden.items():
        if tensor.dtype != torch.float64 or not torch.isfinite(tensor).all():
            raise SystemExit(f"{folder}: {name} is {tensor.dtype} and must be finite float64")
        if not error(single, name) < 1e-4:
            raise SystemExit(f"{folder}: float32 diffusers is {error(single, name):.2e} from {name}")
        tensors[name] = tensor.contiguous()
        tensors[name + "_bf16_error"] = torch.tensor([error(narrow, name)], dtype=torch.float64)
        print(f"{os.path.basename(folder)} {name} {list(tensor.shape)}: rms {tensor.square().mean().sqrt().item():.4f}, diffusers "
              f"within {error(single, name):.2e} in fp32, {error(narrow, name):.2e} in bf16", flush=True)
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
