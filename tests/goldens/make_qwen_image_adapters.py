#!/usr/bin/env python3
"""Makes the goldens of adapters of Qwen-Image: spellings of their files, and peft's merged weights in double.

Also images of distilled adapters, by diffusers.

    python3 tests/goldens/make_qwen_image_adapters.py --folder tests/goldens/pipelines/qwen-image --out tests/goldens/qwen_image_adapters

`--folder` is what make_qwen_image_pipelines.py has made: the adapters fit its transformer. Random factors, and written:

    diffusers.safetensors         `transformer.`, ranks and alphas in the header; F32
    lightning.safetensors         Lightning's: names without a prefix, lora_down, lora_up and alpha; BF16
    lightning-named.safetensors   its later ones: lora_A.default and lora_B.default, without alphas; BF16
    comfy.safetensors             `diffusion_model.`, lora_down, lora_up and alpha; BF16
    ai-toolkit.safetensors        `diffusion_model.`, lora_A and lora_B; BF16
    kohya.safetensors             `lora_unet_`, with underscores, and alpha; F16
    lycoris.safetensors           `lycoris_`, with underscores, and alpha; F16
    peft/                         as peft's save_pretrained writes it; F32
    cases.json                    by name: which files are applied with which weights
    expected.safetensors          `<case>.<part>:<param>` F64, all that the case changes, times `probe.<k>` [k, 2]; and
    of `lightning` with 8
                                  and 4 steps, under the scheduler that its authors give and without guidance,
                                  `steps-<n>.sigmas` F64, `noise` and `latents` F32, after the prompt "a red fox"

The files that diffusers reads by itself (_convert_non_diffusers_qwen_lora_to_diffusers) must give it the same products
of factors. Runs on a CPU in seconds. Needs PyTorch, transformers, diffusers, peft and safetensors. The committed files
are by PyTorch 2.15.0, diffusers 0.42.1, transformers 5.24.0 and peft 0.21.2.
"""

import argparse
import copy
import json
import math
import sys
import tempfile
from pathlib import Path

import torch
from diffusers import FlowMatchEulerDiscreteScheduler, QwenImageTransformer2DModel
from diffusers.loaders.lora_conversion_utils import _convert_non_diffusers_qwen_lora_to_diffusers
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file
from torch.nn.attention import SDPBackend, sdpa_kernel

from make_flux_pipelines import pipelines_in_double
from make_qwen_image_pipelines import CASES as PIPELINES
from make_qwen_image_pipelines import load, run
from make_text_encoders import InDouble
from make_tokens import write
from tiny_qwen_image_folder import write_folder

BLOCK = "transformer_blocks.0."
MODULES = [BLOCK + name for name in (
    "attn.to_q", "attn.to_k", "attn.to_v", "attn.to_out.0", "attn.add_q_proj", "attn.add_k_proj", "attn.add_v_proj", "attn.to_add_out",
    "img_mlp.net.0.proj", "img_mlp.net.2", "txt_mlp.net.0.proj", "txt_mlp.net.2", "img_mod.1", "txt_mod.1")]
ENDS = ["img_in", "txt_in", "time_text_embed.timestep_embedder.linear_1", "norm_out.linear", "proj_out"]
RANK = 2
# By name: the prefix, whether dots are underscores, the suffixes of the two factors, the alpha (none: as large as the
# rank), dtype, modules.
STYLES = {
    "diffusers": ("transformer.", False, ("lora_A", "lora_B"), 3, torch.float32, MODULES + ENDS),
    "lightning": ("", False, ("lora_down", "lora_up"), 1, torch.bfloat16, MODULES),
    "lightning-named": ("", False, ("lora_A.default", "lora_B.default"), None, torch.bfloat16, MODULES),
    "comfy": ("diffusion_model.", False, ("lora_down", "lora_up"), 5, torch.bfloat16, MODULES),
    "ai-toolkit": ("diffusion_model.", False, ("lora_A", "lora_B"), None, torch.bfloat16, MODULES),
    "kohya": ("lora_unet_", True, ("lora_down", "lora_up"), 1, torch.float16, MODULES + ENDS),
    "lycoris": ("lycoris_", True, ("lora_down", "lora_up"), 3, torch.float16, MODULES + ENDS),
    "peft": ("base_model.model.", False, ("lora_A", "lora_B"), 3, torch.float32, MODULES),
}
# diffusers converts these, if they have alphas; the others it reads as they are, or not at all.
CONVERTED = ("lightning", "comfy", "ai-toolkit")
CASES = {name: [(name, 1.0)] for name in STYLES} | {"weighted": [("lightning", 0.75), ("kohya", -0.5)]}
# What the authors of Lightning give with their files: a shift of 3 at every size, and no terminal.
LIGHTNING = dict(base_image_seq_len=256, base_shift=math.log(3), invert_sigmas=False, max_image_seq_len=8192, max_shift=math.log(3),
                 num_train_timesteps=1000, shift=1.0, shift_terminal=None, stochastic_sampling=False, time_shift_type="exponential",
                 use_beta_sigmas=False, use_dynamic_shifting=True, use_exponential_sigmas=False, use_karras_sigmas=False)
STEPS = (8, 4)


def add_adapters(transformer, names):
    """The transformer with adapters of those names, whose factors are those of the files."""
    wrapped = None
    for name in names:
        _, _, _, alpha, dtype, modules = STYLES[name]
        config = LoraConfig(r=RANK, lora_alpha=RANK if alpha is None else alpha, target_modules=modules)
        if wrapped is None:
            wrapped = get_peft_model(copy.deepcopy(transformer), config, adapter_name=name)
        else:
            wrapped.add_adapter(name, config)
        wrapped = wrapped.double()
        generator = torch.Generator().manual_seed(200 + list(STYLES).index(name))
        for key, parameter in sorted(wrapped.named_parameters()):
            if name in key.split("."):
                parameter.data = (0.5 * torch.randn(parameter.shape, generator=generator)).to(dtype).double()
    return wrapped


def factors_of(wrapped, name):
    """(module, A, B) of the adapter, as its file holds them."""
    dtype = STYLES[name][4]
    for path, module in sorted(wrapped.base_model.model.named_modules()):
        if name in getattr(module, "lora_A", {}):
            yield path, module.lora_A[name].weight.detach().to(dtype), module.lora_B[name].weight.detach().to(dtype)


def save(wrapped, name, out):
    prefix, flat, (down, up), alpha, dtype, _ = STYLES[name]
    tensors, metadata = {}, {"format": "pt"}
    for path, a, b in factors_of(wrapped, name):
        module = prefix + (path.replace(".", "_") if flat else path)
        tensors[f"{module}.{down}.weight"], tensors[f"{module}.{up}.weight"] = a.contiguous(), b.contiguous()
        if alpha is not None and name not in ("diffusers", "peft"):
            tensors[f"{module}.alpha"] = torch.tensor(float(alpha)).to(dtype)
    if name == "diffusers":
        metadata["lora_adapter_metadata"] = json.dumps({"transformer.r": RANK, "transformer.lora_alpha": alpha})
    if name == "peft":
        (out / name).mkdir(exist_ok=True)
        write(out / name / "adapter_config.json", {"peft_type": "LORA", "r": RANK, "lora_alpha": alpha, "use_rslora": False,
                                                   "init_lora_weights": True, "target_modules": STYLES[name][5]}, indent=2)
        save_file(tensors, str(out / name / "adapter_model.safetensors"), metadata=metadata)
    else:
        save_file(tensors, str(out / f"{name}.safetensors"), metadata=metadata)
    if name not in CONVERTED:
        return
    theirs = _convert_non_diffusers_qwen_lora_to_diffusers({key: tensor.double() for key, tensor in tensors.items()})
    scale = (RANK if alpha is None else alpha) / RANK
    for path, a, b in factors_of(wrapped, name):
        product = theirs[f"transformer.{path}.lora_B.weight"] @ theirs[f"transformer.{path}.lora_A.weight"]
        if not torch.allclose(product, scale * b.double() @ a.double(), rtol=1e-9, atol=1e-9):
            sys.exit(f"{name}: diffusers makes another product of {path}")


def merge(wrapped, weights):
    """All params after merging, in double precision."""
    for name, weight in weights:
        for module in wrapped.modules():
            if hasattr(module, "set_scale"):
                module.set_scale(name, weight)
    wrapped.base_model.merge_adapter([name for name, _ in weights])
    return {name.replace(".base_layer", ""): tensor for name, tensor in wrapped.base_model.model.state_dict().items() if "lora_" not in name}


def make_images(merged, expected):
    """Distilled requests of the whole pipeline, in double precision."""
    case = PIPELINES["qwen-image"]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "qwen-image"
        encoder = write_folder(folder, case).eval()
        weights = {key: tensor.clone() for key, tensor in encoder.state_dict().items()}
        for steps in STEPS:
            noise = torch.randn(1, 12, 4 * case["vae"]["z_dim"], generator=torch.Generator().manual_seed(steps))
            encoder.float().load_state_dict(weights)
            with pipelines_in_double():
                pipeline = load(folder, encoder, torch.float64)
                pipeline.transformer.load_state_dict(merged)
                pipeline.scheduler = FlowMatchEulerDiscreteScheduler(**LIGHTNING)
                with InDouble():
                    made = run(pipeline, dict(prompt=["a red fox"], height=24, width=32, num_inference_steps=steps, true_cfg_scale=1.0),
                               noise.double())
            print(f"{steps} steps: levels {[round(level, 4) for level in made['sigmas'].tolist()]}", flush=True)
            expected |= {f"steps-{steps}.noise": noise, f"steps-{steps}.sigmas": made["sigmas"].double(),
                         f"steps-{steps}.latents": made["latents"].float()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--folder", required=True, type=Path, help="the pipeline that the adapters are for")
    parser.add_argument("--out", required=True, type=Path, help="folder to write")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    transformer = QwenImageTransformer2DModel.from_pretrained(str(args.folder / "transformer")).double()
    base = {name: tensor.clone() for name, tensor in transformer.state_dict().items()}
    probe, expected = torch.Generator().manual_seed(91), {}
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
        for case, weights in CASES.items():
            wrapped = add_adapters(transformer, [name for name, _ in weights])
            if case in STYLES:
                save(wrapped, case, args.out)
            merged = merge(wrapped, weights)
            changed = {name: tensor for name, tensor in merged.items() if not torch.equal(base[name], tensor)}
            for name, tensor in changed.items():
                if f"probe.{tensor.shape[1]}" not in expected:
                    expected[f"probe.{tensor.shape[1]}"] = torch.randn(tensor.shape[1], 2, generator=probe, dtype=torch.float64)
                expected[f"{case}.transformer:{name}"] = tensor @ expected[f"probe.{tensor.shape[1]}"]
            print(f"{case}: {len(changed)} params", flush=True)
            if case == "lightning":
                make_images(merged, expected)
    save_file({name: tensor.contiguous() for name, tensor in expected.items()}, str(args.out / "expected.safetensors"))
    file_of = lambda name: f"{name}/adapter_model.safetensors" if name == "peft" else f"{name}.safetensors"  # noqa: E731
    (args.out / "cases.json").write_text("{\n" + ",\n".join(
        f"  {json.dumps(case)}: " + json.dumps([{"file": file_of(name), "weight": weight} for name, weight in weights])
        for case, weights in CASES.items()) + "\n}\n")
    print(f"{sum(file.stat().st_size for file in args.out.rglob('*') if file.is_file())} bytes", flush=True)


if __name__ == "__main__":
    main()
