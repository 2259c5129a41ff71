#!/usr/bin/env python3
"""Makes the goldens of adapters: small ones of each kind, and the merged weights by peft and LyCORIS.

    python3 tests/goldens/make_adapters.py --folder tests/goldens/pipelines/sd-1.5 --out tests/goldens/adapters

`--folder` is what make_stable_diffusion.py has made: the adapters fit its U-Net and its text encoder. Random factors,
and written:

    <name>/adapter_model.safetensors, adapter_config.json    as peft's save_pretrained writes them
    <name>.safetensors                                       as LyCORIS names tensors (`lycoris_...`)
    cases.json                by name: which files are applied with which weights
    expected.safetensors      `<case>.<part>:<param>` F64: all that the case changes, seen as a matrix [n, k], times
                              `probe.<k>` [k, 2]

    ranks, ranks-of-text      rank_pattern and alpha_pattern, a rank and an alpha of their own for some modules; F32
    ranks-as-kohya            the same as sd-scripts names tensors, with tensors of alphas, I64 where they are integers
    rslora                    alpha over the root of the rank; F16
    dora                      norms of outputs, of linear layers and convolutions
    loha, loha-flat           of convolutions with a core (Tucker decomposition) and as flat matrices
    lokr-factors, -whole      with both matrices in factors and cores, and whole
    lycoris-locon, -loha      with cores (use_tucker); F16
    lycoris-lokr              filters in factors without a core
    lycoris-lokr-whole        whole matrices, whose alpha counts for nothing
    lycoris-dora-out, -in     dora_scale of outputs, of inputs; lycoris-lokr-dora of outputs

The libraries merge in double precision: the base and the factors are widened from what the files hold. A weight is
peft's set_scale, so that of a DoRA it scales the product before norms are taken; LyCORIS is asked for weight 1 alone,
and for what its forward pass computes with. Runs on a CPU
in seconds. Needs PyTorch, diffusers, transformers, safetensors, peft and lycoris-lora. The committed files are by
PyTorch 2.15.0, diffusers 0.42.1, transformers 5.24.0, peft 0.21.2 and lycoris-lora 4.1.3.
"""

import argparse
import copy
import json
from pathlib import Path

import torch
from lycoris.modules.locon import LoConModule
from lycoris.modules.loha import LohaModule
from lycoris.modules.lokr import LokrModule
from peft import LoHaConfig, LoKrConfig, LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import CLIPTextModel

from diffusers import UNet2DConditionModel

BLOCK = "mid_block.attentions.0.transformer_blocks.0."
LINEAR = [BLOCK + "attn1.to_q", BLOCK + "attn2.to_k", BLOCK + "ff.net.0.proj"]
CONVOLUTIONS = ["up_blocks.0.resnets.0.conv1", "up_blocks.0.resnets.0.conv_shortcut", "down_blocks.0.downsamplers.0.conv"]
MODULES = LINEAR + CONVOLUTIONS

PEFT = {
    "ranks": (LoraConfig(r=2, lora_alpha=5, target_modules=MODULES, rank_pattern={"attn2.to_k": 3, "conv1": 1},
                        alpha_pattern={"attn1.to_q": 1.5, "conv1": 3, "^down_blocks.0.downsamplers.0.conv": 4}),
             "unet", torch.float32),
    "ranks-of-text": (LoraConfig(r=2, lora_alpha=3, target_modules=["layers.0.self_attn.q_proj", "layers.1.mlp.fc1"],
                                alpha_pattern={"fc1": 5}), "text_encoder", torch.float32),
    "rslora": (LoraConfig(r=3, lora_alpha=2, target_modules=MODULES, use_rslora=True), "unet", torch.float16),
    "dora": (LoraConfig(r=2, lora_alpha=3, target_modules=MODULES, use_dora=True), "unet", torch.float32),
    "loha": (LoHaConfig(r=2, alpha=3, target_modules=MODULES, use_effective_conv2d=True,
                        alpha_pattern={"conv1": 5}), "unet", torch.float32),
    "loha-flat": (LoHaConfig(r=2, alpha=1, target_modules=CONVOLUTIONS), "unet", torch.float32),
    "lokr-factors": (LoKrConfig(r=1, alpha=2, target_modules=MODULES, decompose_both=True, use_effective_conv2d=True,
                                rank_pattern={"conv1": 2}), "unet",
             torch.float32),
    "lokr-whole": (LoKrConfig(r=32, alpha=24, target_modules=MODULES), "unet", torch.float32),
}
LYCORIS = {
    "lycoris-locon": (LoConModule, dict(lora_dim=2, alpha=1, use_tucker=True), torch.float16),
    "lycoris-loha": (LohaModule, dict(lora_dim=2, alpha=3, use_tucker=True), torch.float16),
    "lycoris-lokr": (LokrModule, dict(lora_dim=1, alpha=2, decompose_both=True), torch.float32),
    "lycoris-lokr-whole": (LokrModule, dict(lora_dim=32, alpha=7), torch.float32),
    "lycoris-dora-out": (LoConModule, dict(lora_dim=2, alpha=3, weight_decompose=True, wd_on_out=True), torch.float32),
    "lycoris-dora-in": (LoConModule, dict(lora_dim=2, alpha=3, weight_decompose=True, wd_on_out=False), torch.float32),
    "lycoris-lokr-dora": (LokrModule, dict(lora_dim=1, alpha=2, decompose_both=True, weight_decompose=True,
                                           wd_on_out=True), torch.float32),
}
# peft's with weights other than 1; several are applied one after the other.
WEIGHTED = {"dora-weighted": [("dora", 0.6)], "lora-and-dora": [("ranks", 0.5), ("dora", 0.75), ("rslora", -0.4)]}


# The factors of "ranks" under other names: the weights are to be the same.
KOHYA = "ranks-as-kohya"


def draw(generator, tensor, dtype, name):
    """Random numbers that the file's dtype holds; magnitudes are near those that are there."""
    noise = torch.randn(tensor.shape, generator=generator, dtype=torch.float64)
    is_magnitude = "magnitude" in name or "dora_scale" in name
    value = tensor.double() * (1 + 0.2 * noise) if is_magnitude else 0.5 * noise
    return value.to(dtype).double()


def file_of(name):
    return f"{name}/adapter_model.safetensors" if name in PEFT else f"{name}.safetensors"


def add_adapter(model, names, seeds):
    """The model with adapters of those names, their parameters drawn."""
    wrapped = get_peft_model(copy.deepcopy(model), PEFT[names[0]][0], adapter_name=names[0]).double()
    for name in names[1:]:
        wrapped.add_adapter(name, PEFT[name][0])
    wrapped = wrapped.double()
    for name, seed in zip(names, seeds):
        generator = torch.Generator().manual_seed(seed)
        for key, parameter in sorted(wrapped.named_parameters()):
            if name in key.split("."):
                parameter.data = draw(generator, parameter.data, PEFT[name][2], key)
    return wrapped


def merge_by_peft(wrapped, weights):
    """All params by name after merging, in double precision."""
    for name, weight in weights:
        for module in wrapped.modules():
            if hasattr(module, "set_scale"):
                module.set_scale(name, weight)
    wrapped.base_model.merge_adapter([name for name, _ in weights])
    return {name.replace(".base_layer", ""): tensor for name, tensor in wrapped.base_model.model.state_dict().items()
            if not any(mark in name for mark in ("lora_", "hada_", "lokr_"))}


def save_as_kohya(wrapped, name, path):
    """The same factors as sd-scripts writes them, with alphas that differ by module, as integers where they are (its
    svd_merge_lora.py writes I64)."""
    tensors = {}
    for module_name, module in wrapped.base_model.model.named_modules():
        if name not in getattr(module, "lora_A", {}):
            continue
        flat, alpha = "lora_unet_" + module_name.replace(".", "_"), module.lora_alpha[name]
        tensors[flat + ".lora_down.weight"] = module.lora_A[name].weight.to(PEFT[name][2]).contiguous()
        tensors[flat + ".lora_up.weight"] = module.lora_B[name].weight.to(PEFT[name][2]).contiguous()
        tensors[flat + ".alpha"] = torch.tensor(alpha)
    save_file(tensors, str(path))


def save_peft(wrapped, name, out):
    wrapped.save_pretrained(str(out / name), selected_adapters=[name])
    if (out / name / name).exists():  # adapters that are not called "default" get a folder of their own
        for file in (out / name / name).iterdir():
            file.rename(out / name / file.name)
        (out / name / name).rmdir()
    (out / name / "README.md").unlink(missing_ok=True)
    path = out / name / "adapter_model.safetensors"
    tensors = {key: tensor.to(PEFT[name][2]).contiguous() for key, tensor in load_file(str(path)).items()}
    save_file(tensors, str(path), metadata={"format": "pt"})
    config = out / name / "adapter_config.json"
    values = json.loads(config.read_text())
    values["target_modules"] = sorted(values["target_modules"])  # a set
    values["base_model_name_or_path"] = None
    config.write_text(json.dumps(values, indent=2, sort_keys=True) + "\n")


def weight_of(module, generator):
    """The weight of the module's forward pass. get_merged_weight() of LoHa and LoKr applies the scale twice."""
    is_locon = isinstance(module, LoConModule)
    update = module.get_diff_weight(1.0, module.org_weight.shape)[0] if is_locon else module.get_weight(module.shape)
    weight = module.org_weight + update
    if module.wd:
        weight = module.apply_weight_decompose(weight)
    original = module.org_module[0]
    x = torch.randn((2, *([weight.shape[1]] if weight.dim() == 2 else [weight.shape[1], 5, 5])), generator=generator,
                    dtype=torch.float64)
    with torch.no_grad():
        theirs = module(x)
        ours = (torch.nn.functional.linear(x, weight, original.bias) if weight.dim() == 2 else
                torch.nn.functional.conv2d(x, weight, original.bias, original.stride, original.padding))
        if not torch.allclose(theirs, ours, rtol=1e-6, atol=1e-6):
            raise SystemExit(f"{module.lora_name}: its forward pass computes with another weight")
    return weight.detach()


def make_lycoris(unet, name, seed, out):
    """Writes the file, and gives back the weights by name."""
    kind, arguments, dtype = LYCORIS[name]
    generator, tensors, merged = torch.Generator().manual_seed(seed), {}, {}
    for path in MODULES:
        flat = "lycoris_" + path.replace(".", "_")
        module = kind(flat, copy.deepcopy(unet.get_submodule(path)), 1.0, **arguments).double()
        for key, parameter in sorted(module.named_parameters()):
            if "org_module" not in key:
                parameter.data = draw(generator, parameter.data, dtype, key)
        merged[path + ".weight"] = weight_of(module, generator)
        for key, tensor in module.custom_state_dict().items():
            tensors[f"{flat}.{key}"] = tensor.detach().to(dtype).contiguous()
    save_file(tensors, str(out / f"{name}.safetensors"))
    return merged


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--folder", required=True, type=Path, help="the pipeline that the adapters are for")
    parser.add_argument("--out", required=True, type=Path, help="folder to write")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    models = {"unet": UNet2DConditionModel.from_pretrained(str(args.folder / "unet")).double(),
              "text_encoder": CLIPTextModel.from_pretrained(str(args.folder / "text_encoder")).double()}
    checkpoints = {part: {name: tensor.double() for file in (args.folder / part).glob("*.safetensors")
                          for name, tensor in load_file(str(file)).items()} for part in models}
    seeds = {name: 100 + i for i, name in enumerate([*PEFT, *LYCORIS])}

    cases = {name: [(name, 1.0)] for name in [*PEFT, *LYCORIS]} | WEIGHTED
    cases |= {KOHYA: [("ranks", 1.0)]}
    probe, expected = torch.Generator().manual_seed(90), {}
    for case, files in cases.items():
        names = [name for name, _ in files]
        part = PEFT[names[0]][1] if names[0] in PEFT else "unet"
        if names[0] in PEFT:
            wrapped = add_adapter(models[part], names, [seeds[name] for name in names])
            if case in PEFT:
                save_peft(wrapped, case, args.out)
            if case == KOHYA:
                save_as_kohya(wrapped, names[0], args.out / f"{KOHYA}.safetensors")
            merged = merge_by_peft(wrapped, files)
        else:
            merged = make_lycoris(models[part], case, seeds[case], args.out)
        changed = 0
        for name, tensor in merged.items():
            if part == "text_encoder" and name not in checkpoints[part]:
                name = "text_model." + name  # transformers 5 leaves it out
            base = checkpoints[part].get(name)
            if base is None or torch.equal(base, tensor.double()):
                continue
            matrix = tensor.double().flatten(1)
            if f"probe.{matrix.shape[1]}" not in expected:
                expected[f"probe.{matrix.shape[1]}"] = torch.randn(matrix.shape[1], 2, generator=probe,
                                                                   dtype=torch.float64)
            expected[f"{case}.{part}:{name}"] = matrix @ expected[f"probe.{matrix.shape[1]}"]
            changed += 1
        print(f"{case}: {changed} params", flush=True)
    save_file({name: tensor.contiguous() for name, tensor in expected.items()},
              str(args.out / "expected.safetensors"))
    cases[KOHYA] = [(KOHYA, 1.0)]
    (args.out / "cases.json").write_text("{\n" + ",\n".join(
        f"  {json.dumps(case)}: " + json.dumps([{"file": file_of(name), "weight": weight} for name, weight in files])
        for case, files in cases.items()) + "\n}\n")
    print(f"{sum(file.stat().st_size for file in args.out.rglob('*') if file.is_file())} bytes", flush=True)


if __name__ == "__main__":
    main()
