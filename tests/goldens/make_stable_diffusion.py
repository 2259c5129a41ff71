#!/usr/bin/env python3
"""Makes the goldens of Stable Diffusion's pipelines: small folders, requests, and diffusers' images in double.

    python3 tests/goldens/make_stable_diffusion.py --out tests/goldens/pipelines

sd-1.5, sd-2.1 and sdxl are folders as diffusers writes them (tiny_stable_diffusion_folder.py), random, in F16, with

    requests.json         by name: the arguments that the pipeline is called with, the seed of its noise; of a picture
                          its height and width; `scheduler` in place of the folder's; `lora` that is added to the U-Net
    lora.safetensors      of sd-1.5: low-rank factors under sd-scripts' names, of linear layers and convolutions; F16
    expected.safetensors  by `<request>.<name>`, of that request:

        noise [images, 4, rows, columns]               F32; the loop begins with it, scaled as the scheduler asks, or
                                                       with it on the picture's latents
        ids, ids_2 [images, 77]                        I64
        encoder_hidden_states [images, 77, width]      F32; of prompts
        negative_hidden_states                         F32; of negative prompts, where the request is guided
        text_embeds [images, width]                    F32; of SDXL
        timesteps [calls]                              F64; as the U-Net is given them
        latents [images, 4, rows, columns]             F32; at the end
        image [images, 3, height, width]               F32; decoded, unclamped
        reference [height, width, 3], reference_resized  U8: the picture, and what is encoded of it
        fp32_error [1]                                 F64; of diffusers' latents in float32 (relative L2)

A picture's latents are the mean of their distribution, of which diffusers' pipelines draw. Runs on a CPU in a minute.
Needs PyTorch, transformers, diffusers, safetensors and Pillow; where peft is installed, load_lora_weights and fuse_lora
must fuse what is fused here. The committed files are by PyTorch 2.11, diffusers 0.40 and transformers 5.17 (both in
development, August 2026).

A double pipeline is not double throughout: models, schedulers and the image processor cast to float32. While a golden
is computed, such casts go to float64, and an operation that returns another floating-point dtype stops the script. What
a scheduler has made before in float32 (alphas, levels, timesteps) is taken as it is.
"""

import argparse
import json
import sys
from pathlib import Path

import diffusers
import diffusers.image_processor as image_processor
import numpy as np
import PIL.Image
import torch
import transformers
from diffusers import AutoencoderKL, UNet2DConditionModel
from diffusers.models.autoencoders.vae import DiagonalGaussianDistribution
from safetensors.torch import load_file, save_file
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import _disable_current_modes
from transformers import CLIPTextModel, CLIPTextModelWithProjection, CLIPTokenizer

from make_flux_pipelines import DoubleNumpy, picture, spy
from make_text_encoders import InDouble
from tiny_stable_diffusion_folder import write, write_folder

END = "<|endoftext|>"
FOX = "A red fox in the snow, golden hour!"
ACCENTS = "Ein süßer  Käfer auf der ÉLAN-Tu\u0308r,\tŁódź & Ёлка: ½ price !! 👍"
LONG = ("A very long description of a small harbour at dawn, with fishing boats in red and green, nets that dry on the "
        "quay, gulls over the water, an old man who mends a sail, and behind them all the white houses of the town, "
        "their windows still dark, under a sky of pale gold; highly detailed, 8k, by nobody in particular")
BETAS = dict(beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear", num_train_timesteps=1000,
             trained_betas=None)
PNDM = dict(_class_name="PNDMScheduler", **BETAS, clip_sample=False, set_alpha_to_one=False, skip_prk_steps=True,
            steps_offset=1)
DDIM = dict(_class_name="DDIMScheduler", **BETAS, clip_sample=False, set_alpha_to_one=False, steps_offset=1,
            prediction_type="v_prediction")
EULER = dict(_class_name="EulerDiscreteScheduler", **BETAS, interpolation_type="linear", prediction_type="epsilon",
             steps_offset=1, timestep_spacing="leading", use_karras_sigmas=False)
TURBO = dict(EULER, timestep_spacing="trailing", sigma_max=None, sigma_min=None, timestep_type="discrete",
             rescale_betas_zero_snr=False)
DPM = dict(_class_name="DPMSolverMultistepScheduler", **BETAS, prediction_type="v_prediction", steps_offset=1,
           timestep_spacing="leading", algorithm_type="dpmsolver++", solver_order=2)
SAFETY = dict(feature_extractor=["transformers", "CLIPImageProcessor"], requires_safety_checker=True,
              safety_checker=["stable_diffusion", "StableDiffusionSafetyChecker"])

CASES = {
    "sd-1.5": dict(
        pipeline="StableDiffusionPipeline", seed=71, scheduler=PNDM, index=SAFETY,
        encoders=[dict(padding=END, hidden_size=20, intermediate_size=36, num_attention_heads=2, num_hidden_layers=2,
                       hidden_act="quick_gelu")],
        unet=dict(block_out_channels=[8, 16], down_block_types=["CrossAttnDownBlock2D", "DownBlock2D"],
                  up_block_types=["UpBlock2D", "CrossAttnUpBlock2D"], attention_head_dim=2, cross_attention_dim=20,
                  layers_per_block=1, norm_num_groups=4, sample_size=6),
        vae=dict(block_out_channels=[4, 4, 8, 8], down_block_types=["DownEncoderBlock2D"] * 4,
                 up_block_types=["UpDecoderBlock2D"] * 4, sample_size=512, scaling_factor=0.18215),
        requests={
            "plms": dict(prompt=[FOX, LONG], height=32, width=48, num_inference_steps=6, guidance_scale=7.5, seed=1),
            "negative": dict(prompt=[ACCENTS], negative_prompt=["blurry, 8k"], height=48, width=32,
                             num_inference_steps=2, guidance_scale=3.0, seed=2),
            "one_step": dict(prompt=[""], height=16, width=16, num_inference_steps=1, guidance_scale=1.0, seed=3),
            "image": dict(prompt=[FOX, ACCENTS], negative_prompt=["", LONG], reference=(61, 47), strength=0.6,
                          num_inference_steps=5, guidance_scale=7.5, seed=4, scheduler=EULER),
            "lora": dict(prompt=[FOX], height=32, width=32, num_inference_steps=3, guidance_scale=7.5, seed=5,
                         lora=0.8)}),
    "sd-2.1": dict(
        pipeline="StableDiffusionPipeline", seed=72, scheduler=DDIM, index=dict(SAFETY, safety_checker=[None, None]),
        encoders=[dict(padding="!", hidden_size=24, intermediate_size=40, num_attention_heads=3, num_hidden_layers=3,
                       hidden_act="gelu")],
        unet=dict(block_out_channels=[8, 16], down_block_types=["CrossAttnDownBlock2D", "DownBlock2D"],
                  up_block_types=["UpBlock2D", "CrossAttnUpBlock2D"], attention_head_dim=[2, 4],
                  cross_attention_dim=24, layers_per_block=1, norm_num_groups=4, sample_size=8,
                  use_linear_projection=True),
        vae=dict(block_out_channels=[8, 8], down_block_types=["DownEncoderBlock2D"] * 2,
                 up_block_types=["UpDecoderBlock2D"] * 2, sample_size=768, scaling_factor=0.18215),
        requests={
            "ddim_v": dict(prompt=[FOX, LONG], negative_prompt=["blurry!", ""], height=16, width=24,
                           num_inference_steps=4, guidance_scale=7.5, seed=6),
            "turbo_1": dict(prompt=[ACCENTS, FOX], height=16, width=16, num_inference_steps=1, guidance_scale=0.0,
                            seed=7, scheduler=TURBO),
            "turbo_4": dict(prompt=[LONG], height=16, width=8, num_inference_steps=4, guidance_scale=0.0, seed=8,
                            scheduler=TURBO),
            "image": dict(prompt=[FOX], reference=(17, 20), strength=0.8, num_inference_steps=6, guidance_scale=2.0,
                          seed=9, scheduler=DPM),
            "image_turbo": dict(prompt=[FOX], reference=(16, 16), strength=0.5, num_inference_steps=2,
                                guidance_scale=0.0, seed=10, scheduler=TURBO)}),
    "sdxl": dict(
        pipeline="StableDiffusionXLPipeline", seed=73, scheduler=EULER,
        index=dict(feature_extractor=[None, None], force_zeros_for_empty_prompt=True, image_encoder=[None, None]),
        encoders=[dict(padding=END, hidden_size=20, intermediate_size=36, num_attention_heads=2, num_hidden_layers=3,
                       hidden_act="quick_gelu"),
                  dict(padding="!", hidden_size=28, intermediate_size=44, num_attention_heads=2, num_hidden_layers=3,
                       hidden_act="gelu", projection_dim=18, eos_token_id=2)],  # 2 as published: the highest id ends
        unet=dict(block_out_channels=[4, 8, 8],
                  down_block_types=["DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"],
                  up_block_types=["CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"],
                  attention_head_dim=[1, 2, 4], transformer_layers_per_block=[1, 1, 2], cross_attention_dim=48,
                  layers_per_block=1, norm_num_groups=4, sample_size=8, use_linear_projection=True,
                  addition_embed_type="text_time", addition_time_embed_dim=8,
                  projection_class_embeddings_input_dim=18 + 6 * 8),
        vae=dict(block_out_channels=[8, 8], down_block_types=["DownEncoderBlock2D"] * 2,
                 up_block_types=["UpDecoderBlock2D"] * 2, sample_size=1024, scaling_factor=0.13025, force_upcast=True),
        requests={
            "zeros": dict(prompt=[FOX, LONG], height=16, width=24, num_inference_steps=4, guidance_scale=5.0, seed=11),
            "negative": dict(prompt=[ACCENTS], prompt_2=["oil painting!"], negative_prompt=["blurry!"],
                             negative_prompt_2=[LONG], height=24, width=16, num_inference_steps=3, guidance_scale=6.0,
                             seed=12),
            "empty_negative": dict(prompt=[FOX], negative_prompt=[""], height=8, width=8, num_inference_steps=2,
                                   guidance_scale=5.0, seed=13),
            "turbo": dict(prompt=[FOX], height=16, width=16, num_inference_steps=1, guidance_scale=0.0, seed=14,
                          scheduler=TURBO),
            "image": dict(prompt=[FOX], negative_prompt=["blurry"], reference=(17, 26), strength=0.6,
                          num_inference_steps=5, guidance_scale=5.0, seed=15)}),
}


def make_lora(unet, seed=81):
    """Factors for some modules of each kind; convolutions of 3x3 as LyCORIS and sd-scripts write them."""
    generator = torch.Generator().manual_seed(seed)
    block = "mid_block.attentions.0.transformer_blocks.0."
    # diffusers finds no alphas of projections in attention, and takes those that most modules have.
    modules = {block + "attn1.to_q": (3, 1.0), block + "attn1.to_out.0": (2, 1.0), block + "attn2.to_k": (4, 1.0),
               block + "ff.net.0.proj": (2, 2.0), "mid_block.attentions.0.proj_in": (2, 1.0),
               "down_blocks.0.attentions.0.transformer_blocks.0.attn2.to_v": (2, 1.0),
               "up_blocks.1.attentions.1.proj_out": (3, 3.0), "up_blocks.0.resnets.0.conv1": (2, 1.0),
               "up_blocks.0.resnets.0.conv_shortcut": (2, 2.0), "down_blocks.0.downsamplers.0.conv": (2, 2.0),
               "up_blocks.0.upsamplers.0.conv": (2, 1.0), "mid_block.resnets.1.time_emb_proj": (2, 1.0)}
    tensors = {}
    for module, (rank, alpha) in modules.items():
        weight = unet.get_submodule(module).weight
        n, k, *kernel = weight.shape
        name = "lora_unet_" + module.replace(".", "_")
        down = torch.randn(rank, k, *kernel, generator=generator) / weight[0].numel()**0.5
        up = 0.5 * torch.randn(n, rank, *[1] * len(kernel), generator=generator)
        tensors |= {name + ".lora_down.weight": down.half(), name + ".lora_up.weight": up.half()}
        tensors[name + ".alpha"] = torch.tensor(alpha).half()
    return tensors


def add_lora(unet, tensors, weight):
    """W + weight alpha / rank B A."""
    modules = {"lora_unet_" + name.replace(".", "_"): module for name, module in unet.named_modules()}
    for key in tensors:
        if not key.endswith(".lora_down.weight"):
            continue
        name = key.removesuffix(".lora_down.weight")
        base = modules[name].weight
        down, up = tensors[key].to(base.dtype), tensors[name + ".lora_up.weight"].to(base.dtype)
        product = tensors[name + ".alpha"].item() / down.shape[0] * up.flatten(1) @ down.flatten(1)
        base.data = base.data + weight * product.reshape(base.shape)


def load(folder, case, request, dtype):
    """The pipeline of the request, but for its class what from_pretrained would give."""
    part = lambda kind, name: kind.from_pretrained(str(folder / name)).to(dtype).eval()  # noqa: E731
    is_xl = "XL" in case["pipeline"]
    config = request.get("scheduler", case["scheduler"])
    kind = case["pipeline"]
    if "reference" in request:
        kind = kind.replace("Pipeline", "Img2ImgPipeline")
    parts = dict(scheduler=getattr(diffusers, config["_class_name"]).from_config(config),
                 tokenizer=CLIPTokenizer.from_pretrained(str(folder / "tokenizer")),
                 text_encoder=part(CLIPTextModel, "text_encoder"), unet=part(UNet2DConditionModel, "unet"),
                 vae=part(AutoencoderKL, "vae"))
    if "lora" in request:
        add_lora(parts["unet"], load_file(str(folder / "lora.safetensors")), request["lora"])
    if is_xl:
        parts |= dict(tokenizer_2=CLIPTokenizer.from_pretrained(str(folder / "tokenizer_2")),
                      text_encoder_2=part(CLIPTextModelWithProjection, "text_encoder_2"), add_watermarker=False)
    else:
        parts |= dict(safety_checker=None, feature_extractor=None, requires_safety_checker=False)
    pipeline = getattr(diffusers, kind)(**parts)
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def widen(scheduler):
    """Makes double of what the scheduler has made in float32, now and whenever it has chosen its timesteps."""
    def double():
        for name, value in vars(scheduler).items():
            if isinstance(value, torch.Tensor) and value.dtype == torch.float32:
                setattr(scheduler, name, value.double())

    chosen = scheduler.set_timesteps

    def set_timesteps(*arguments, **named):
        with _disable_current_modes():
            chosen(*arguments, **named)
            double()

    double()
    scheduler.set_timesteps = set_timesteps


def run(pipeline, request, noise):
    """All that the pipeline computes on its way to the image."""
    module = sys.modules[type(pipeline).__module__]
    dtype = pipeline.unet.dtype
    texts = [spy(pipeline.text_encoder, "forward")]
    if hasattr(pipeline, "text_encoder_2"):
        texts.append(spy(pipeline.text_encoder_2, "forward"))
    steps, decoded, latents = spy(pipeline.unet, "forward"), spy(pipeline.vae, "decode"), []
    resized = spy(pipeline.image_processor, "resize")
    arguments = {name: value for name, value in request.items()
                 if name not in ("seed", "reference", "scheduler", "lora")}
    kept = DiagonalGaussianDistribution.sample, module.randn_tensor
    DiagonalGaussianDistribution.sample = lambda self, generator=None: self.mode()
    module.randn_tensor = lambda shape, **named: noise.to(dtype)
    if "reference" in request:
        reference = picture(request["reference"])
        arguments["image"] = [PIL.Image.fromarray(reference)] * len(request["prompt"])
    try:
        pipeline(**arguments, generator=torch.Generator().manual_seed(0), callback_on_step_end=lambda _, step, time,
                 state: latents.append(state["latents"]) or {})
    finally:
        DiagonalGaussianDistribution.sample, module.randn_tensor = kept

    first = steps[0][1]
    images = len(request["prompt"])
    result = {"timesteps": torch.stack([torch.as_tensor(step[0][1]).double() for step in steps]),
              "encoder_hidden_states": first["encoder_hidden_states"][-images:], "latents": latents[-1],
              "image": decoded[0][2][0]}
    for i, calls in enumerate(texts):
        given = calls[0][0][0] if calls[0][0] else calls[0][1]["input_ids"]
        result["ids" + ("_2" if i > 0 else "")] = given
    if len(steps[0][0][0]) > images:
        result["negative_hidden_states"] = first["encoder_hidden_states"][:images]
    if (added := first["added_cond_kwargs"]) is not None:
        result["text_embeds"] = added["text_embeds"][-images:]
    if "reference" in request:
        result |= {"reference": torch.from_numpy(reference),
                   "reference_resized": torch.from_numpy(np.array(resized[0][2]))}
    return result


def run_double(folder, case, request, noise):
    pipeline = load(folder, case, request, torch.float64)
    widen(pipeline.scheduler)
    torch.set_default_dtype(torch.float64)
    image_processor.np = DoubleNumpy()
    try:
        with InDouble():
            return run(pipeline, request, noise)
    finally:
        image_processor.np = np
        torch.set_default_dtype(torch.float32)


def latents_shape(case, request):
    scale = 2 ** (len(case["vae"]["block_out_channels"]) - 1)
    height, width = request["reference"] if "reference" in request else (request["height"], request["width"])
    return len(request["prompt"]), 4, height // scale, width // scale


def make_request(folder, case, request):
    noise = torch.randn(latents_shape(case, request), generator=torch.Generator().manual_seed(request["seed"]))
    single = run(load(folder, case, request, torch.float32), request, noise)
    golden = run_double(folder, case, request, noise)

    def error(name):
        return ((single[name].double() - golden[name]).norm() / golden[name].norm().clamp(min=1e-30)).item()

    tensors = {"noise": noise, "fp32_error": torch.tensor([error("latents")], dtype=torch.float64)}
    for name, tensor in golden.items():
        if tensor.is_floating_point():
            if tensor.dtype != torch.float64 or not torch.isfinite(tensor).all():
                sys.exit(f"{folder}: {name} is {tensor.dtype} and must be finite float64")
            if not error(name) < 1e-4:
                sys.exit(f"{folder}: float32 diffusers is {error(name):.2e} from {name}")
        elif tensor.dtype == torch.int64 and not torch.equal(tensor, single[name]):
            sys.exit(f"{folder}: {name} differs in float32")
        tensors[name] = tensor.float() if tensor.is_floating_point() and name != "timesteps" else tensor
    image, ids = golden["image"], golden["ids"]
    print(f"  {list(image.shape)}: timesteps {golden['timesteps'].tolist()}, rms of latents "
          f"{golden['latents'].square().mean().sqrt().item():.3f}, of pixels {image.square().mean().sqrt().item():.3f}, "
          f"clamped {(image.abs() > 1).double().mean().item():.3f}; float32 within {error('latents'):.1e}; ids "
          f"{ids[0, :12].tolist()}...{ids[0, -2:].tolist()}", flush=True)
    return {name: tensor.contiguous().clone() for name, tensor in tensors.items()}


def check_lora(folder, case):
    """Holds add_lora() against diffusers' own way, where that can be had."""
    try:
        import peft  # noqa: F401
    except ImportError:
        print("  peft is not installed: what load_lora_weights makes of lora.safetensors is not compared", flush=True)
        return
    request = case["requests"]["plms"]
    theirs, ours = (load(folder, case, request, torch.float64) for _ in range(2))
    theirs.load_lora_weights(str(folder), weight_name="lora.safetensors")
    theirs.fuse_lora(lora_scale=0.8)
    theirs.unload_lora_weights()
    add_lora(ours.unet, load_file(str(folder / "lora.safetensors")), 0.8)
    fused, changed = dict(theirs.unet.named_parameters()), 0
    for name, parameter in ours.unet.named_parameters():
        error = ((fused[name] - parameter).norm() / parameter.norm()).item()
        print(f"  {name}: {error:.1e} from fuse_lora", flush=True) if error > 1e-6 else None
        changed += error > 1e-6
    print(f"  fuse_lora of diffusers fuses the same, but for {changed} weights", flush=True)
    if changed:
        sys.exit(1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", required=True, type=Path, help="folder to write the case folders in")
    parser.add_argument("--cases", default=",".join(CASES), help="comma-separated; default: %(default)s")
    args = parser.parse_args()
    for library in (diffusers, transformers):  # each says at length what a request truncates
        library.utils.logging.set_verbosity_error()
    for name in args.cases.split(","):
        case, folder = CASES[name], args.out / name
        print(name, flush=True)
        folder.mkdir(parents=True)
        with torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
            write_folder(folder, case)
            write(folder / "requests.json", case["requests"])
            if any("lora" in request for request in case["requests"].values()):
                unet = UNet2DConditionModel.from_pretrained(str(folder / "unet"))
                save_file(make_lora(unet), str(folder / "lora.safetensors"))
            expected = {}
            for request, arguments in case["requests"].items():
                made = make_request(folder, case, arguments)
                expected |= {f"{request}.{of}": tensor for of, tensor in made.items()}
        save_file(expected, str(folder / "expected.safetensors"))
        if (folder / "lora.safetensors").exists():
            check_lora(folder, case)
        print(f"  {sum(file.stat().st_size for file in folder.rglob('*') if file.is_file())} bytes", flush=True)


if __name__ == "__main__":
    main()
