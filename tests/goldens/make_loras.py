#!/usr/bin/env python3
"""Makes the goldens of LoRA files: small adapters of FLUX in the forms they come in, and what diffusers makes of them.

    python3 tests/goldens/make_loras.py --folder tests/goldens/pipelines/flux-dev --out tests/goldens/lora

`--folder` is what make_flux_pipelines.py has made: the adapters fit its transformer and its CLIP. Random, and written:

    peft.safetensors      diffusers' own names; ranks and alphas in the header (lora_adapter_metadata); F32
    alphas.safetensors    the same with alphas as tensors (network_alphas), and modules outside the blocks
    kohya.safetensors     sd-scripts' names, one product for queries, keys and values, once in blocks (split_qkv); F16
    ends.safetensors      sd-scripts' names of what is outside the blocks
    mixture.safetensors   diffusers' names as sd-scripts writes names (OneTrainer)
    comfy.safetensors     FLUX's original names under diffusion_model and text_encoders; BF16
    xlabs.safetensors     XLabs' names: processors of attention
    bfl.safetensors       FLUX's original names as Black Forest Labs writes them: biases, and scales of norms; BF16
    cases.json            by name: which files are applied with which weights
    expected.safetensors  `<case>.<part>:<param>`, all that the case changes, F64: of a matrix [n, k] its product with
                          `probe.<k>` [k, 2], of a vector itself; `<case>.sample` F64: what the transformer then makes
                          of `input.*` F32

A fused weight is W + sum over files of weight * alpha / rank * B A, in double precision, where diffusers' conversions
(loaders/lora_conversion_utils.py, their sizes replaced by those of this transformer) say what A, B and W are. Where
peft is installed, FluxPipeline.load_lora_weights and fuse_lora fuse the same files in float32, and the script fails
where that is more than 1e-6 off; what of the files they cannot fuse is said. Runs on a CPU in seconds. Needs PyTorch,
diffusers, transformers and safetensors. The committed files are by PyTorch 2.11, diffusers 0.40 and transformers 5.17
(both in development, August 2026), held against peft 0.20.1, and against peft 0.21.2 with diffusers 0.42.1.

Alphas that differ by module come from the formula above and not from diffusers, which keeps them for FLUX, but under
sd-scripts' names of Stable Diffusion gives projections in attention the most common one (0.42.1): make_adapters.py has
such a file, held against peft alone.
"""

import argparse
import inspect
import json
import re
import sys
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import diffusers.loaders.lora_conversion_utils as conversion
from diffusers import FluxPipeline, FluxTransformer2DModel

from make_flux import run_double

CASES = {
    "peft": [("peft", 1.0)], "alphas": [("alphas", 0.5)], "kohya": [("kohya", 1.0)], "ends": [("ends", 1.25)],
    "mixture": [("mixture", 0.9)], "comfy": [("comfy", 1.0)], "xlabs": [("xlabs", -0.8)], "bfl": [("bfl", 1.0)],
    "two": [("peft", 0.75), ("kohya", -0.5)],
}
# What diffusers drops of these files, or puts elsewhere, on the way from the conversion to the model.
NOT_FUSED = {"ends": "diffusers converts these names without the prefix that it then asks for"}
# What fuse_lora makes something else of in the form of Black Forest Labs: see updates_of().
SWAPPED = "transformer.norm_out.linear"
# Modules of CLIP that diffusers 0.40 does not find in transformers 5, unless the header says their rank.
CLIP_NAMES = ("text_encoder", "lora_te")
CLIP_LAYER = "text_model.encoder.layers.{}"
FUSED_TOLERANCE = 1e-6


class Draw:
    """Factors of products, as training leaves them: products of the size of the weights'."""

    def __init__(self, seed, dtype=torch.float32):
        self.generator = torch.Generator().manual_seed(seed)
        self.dtype = dtype
        self.tensors = {}

    def normal(self, *shape):
        return torch.randn(*shape, generator=self.generator)

    def add(self, name, rank, n, k, alpha=None, suffixes=("lora_A", "lora_B"), blocks=1):
        """Factors of an [n, k] matrix; with `blocks`, a block of rows reads only its own part of the rank."""
        up = 0.5 * self.normal(n, rank)
        if blocks > 1:
            rows = torch.arange(n)[:, None] // (n // blocks)
            up *= rows == torch.arange(rank)[None] // (rank // blocks)
        self.tensors[f"{name}.{suffixes[0]}.weight"] = (self.normal(rank, k) / k**0.5).to(self.dtype)
        self.tensors[f"{name}.{suffixes[1]}.weight"] = up.to(self.dtype)
        if alpha is not None:
            self.tensors[f"{name}.alpha"] = torch.tensor(alpha, dtype=self.dtype)

    def vector(self, name, size, around=0.0, deviation=0.1):
        self.tensors[name] = (around + deviation * self.normal(size)).to(self.dtype)


class Sizes:
    def __init__(self, config, clip):
        self.dim = config["num_attention_heads"] * config["attention_head_dim"]
        self.head = config["attention_head_dim"]
        self.mlp = 4 * self.dim
        self.channels = config["in_channels"]
        self.text = config["joint_attention_dim"]
        self.pooled = config["pooled_projection_dim"]
        self.doubles, self.singles = config["num_layers"], config["num_single_layers"]
        self.clip, self.clip_mlp = clip["hidden_size"], clip["intermediate_size"]


def make_peft(s):
    draw = Draw(1)
    for name, n, k, rank in [("attn.to_q", s.dim, s.dim, 4), ("attn.to_k", s.dim, s.dim, 2),
                             ("attn.add_v_proj", s.dim, s.dim, 4), ("attn.to_out.0", s.dim, s.dim, 4),
                             ("ff.net.0.proj", s.mlp, s.dim, 4), ("ff_context.net.2", s.dim, s.mlp, 3),
                             ("norm1.linear", 6 * s.dim, s.dim, 4)]:
        draw.add(f"transformer.transformer_blocks.0.{name}", rank, n, k)
    for name, n, k, rank in [("attn.to_q", s.dim, s.dim, 4), ("attn.to_k", s.dim, s.dim, 2),
                             ("proj_mlp", s.mlp, s.dim, 4), ("proj_out", s.dim, s.dim + s.mlp, 4)]:
        draw.add(f"transformer.single_transformer_blocks.1.{name}", rank, n, k)
    layer = "text_encoder." + CLIP_LAYER.format(1)
    names = ("lora_linear_layer.down", "lora_linear_layer.up")
    draw.add(f"{layer}.self_attn.q_proj", 2, s.clip, s.clip, suffixes=names)
    draw.add(f"{layer}.mlp.fc1", 2, s.clip_mlp, s.clip, suffixes=names)
    metadata = {
        "transformer.r": 4, "transformer.lora_alpha": 6,
        "transformer.rank_pattern": {"attn.to_k": 2, "^transformer_blocks.0.ff_context.net.2": 3},
        "transformer.alpha_pattern": {"transformer_blocks.0.attn.to_q": 1.5, "attn.to_k": 3},
        "transformer.target_modules": ["attn.to_q", "attn.to_k", "attn.add_v_proj", "attn.to_out.0", "ff.net.0.proj",
                                       "ff_context.net.2", "norm1.linear", "proj_mlp", "proj_out"],
        "text_encoder.r": 2, "text_encoder.lora_alpha": 5, "text_encoder.target_modules": ["q_proj", "fc1"],
    }
    return draw.tensors, {"lora_adapter_metadata": json.dumps(metadata, indent=2, sort_keys=True), "format": "pt"}


def make_alphas(s):
    draw = Draw(2)
    for name, rank, n, k, alpha in [("transformer_blocks.1.attn.to_v", 2, s.dim, s.dim, 1.0),
                                    ("transformer_blocks.1.attn.to_add_out", 4, s.dim, s.dim, 4.0),
                                    ("single_transformer_blocks.0.attn.to_v", 2, s.dim, s.dim, 6.0),
                                    ("single_transformer_blocks.0.norm.linear", 2, 3 * s.dim, s.dim, 1.0),
                                    ("x_embedder", 2, s.dim, s.channels, 3.0),
                                    ("context_embedder", 2, s.dim, s.text, 1.0),
                                    ("norm_out.linear", 2, 2 * s.dim, s.dim, 1.0),
                                    ("time_text_embed.guidance_embedder.linear_2", 2, s.dim, s.dim, 1.0)]:
        draw.add("transformer." + name, rank, n, k, alpha)
    draw.add("text_encoder." + CLIP_LAYER.format(0) + ".self_attn.v_proj", 2, s.clip, s.clip)
    return draw.tensors, {"format": "pt"}


KOHYA = ("lora_down", "lora_up")


def make_kohya(s):
    draw = Draw(3, torch.float16)
    add = lambda name, *rest, **named: draw.add("lora_unet_" + name, *rest, suffixes=KOHYA, **named)  # noqa: E731
    add("double_blocks_0_img_attn_qkv", 3, 3 * s.dim, s.dim, 1.5)
    add("double_blocks_0_txt_attn_qkv", 6, 3 * s.dim, s.dim, 3.0, blocks=3)
    for stream in ("img", "txt"):
        add(f"double_blocks_0_{stream}_attn_proj", 2, s.dim, s.dim, 1.0)
        add(f"double_blocks_0_{stream}_mlp_0", 2, s.mlp, s.dim, 4.0)
        add(f"double_blocks_0_{stream}_mlp_2", 2, s.dim, s.mlp, 1.0)
        add(f"double_blocks_0_{stream}_mod_lin", 2, 6 * s.dim, s.dim)
    add("single_blocks_1_linear1", 4, 3 * s.dim + s.mlp, s.dim, 1.0)
    add("single_blocks_1_linear2", 2, s.dim, s.dim + s.mlp, 0.5)
    add("single_blocks_1_modulation_lin", 2, 3 * s.dim, s.dim, 2.0)
    layer = "lora_te1_text_model_encoder_layers_0_"
    for name, n, k, alpha in [("self_attn_q_proj", s.clip, s.clip, 1.0), ("self_attn_out_proj", s.clip, s.clip, 4.0),
                              ("mlp_fc2", s.clip, s.clip_mlp, 1.0)]:
        draw.add(layer + name, 2, n, k, alpha, suffixes=KOHYA)
    return draw.tensors, {"ss_network_dim": "4", "ss_network_alpha": "1.0"}


def make_ends(s):
    draw = Draw(4)
    for name, n, k, alpha in [("img_in", s.dim, s.channels, 1.0), ("txt_in", s.dim, s.text, 3.0),
                              ("time_in_in_layer", s.dim, 256, 1.0), ("time_in_out_layer", s.dim, s.dim, 1.0),
                              ("vector_in_in_layer", s.dim, s.pooled, 1.0), ("vector_in_out_layer", s.dim, s.dim, 4.0),
                              ("guidance_in_in_layer", s.dim, 256, 1.0), ("guidance_in_out_layer", s.dim, s.dim, 1.0),
                              ("final_layer_linear", s.channels, s.dim, None),
                              ("final_layer_adaLN_modulation_1", 2 * s.dim, s.dim, None)]:
        draw.add("lora_unet_" + name, 2, n, k, alpha, suffixes=KOHYA)
    return draw.tensors, {}


def make_mixture(s):
    draw = Draw(5)
    for name in ["transformer_blocks_1_attn_to_q", "transformer_blocks_1_attn_to_out_0",
                 "transformer_blocks_0_attn_add_k_proj", "single_transformer_blocks_1_attn_to_v"]:
        draw.add("lora_transformer_" + name, 2, s.dim, s.dim, 1.0, suffixes=KOHYA)
    draw.add("lora_te1_text_model_encoder_layers_1_mlp_fc1", 2, s.clip_mlp, s.clip, 3.0, suffixes=KOHYA)
    return draw.tensors, {}


def make_comfy(s):
    draw = Draw(6, torch.bfloat16)
    draw.add("diffusion_model.double_blocks.1.img_attn.qkv", 2, 3 * s.dim, s.dim, 1.0, suffixes=KOHYA)
    draw.add("diffusion_model.double_blocks.1.txt_mlp.0", 2, s.mlp, s.dim, 1.0, suffixes=KOHYA)
    draw.add("diffusion_model.single_blocks.0.linear1", 2, 3 * s.dim + s.mlp, s.dim, 4.0, suffixes=KOHYA)
    draw.add("text_encoders.clip_l.transformer." + CLIP_LAYER.format(1) + ".self_attn.k_proj", 2, s.clip, s.clip, 1.0,
             suffixes=KOHYA)
    return draw.tensors, {}


def make_xlabs(s):
    draw = Draw(7)
    names = ("down", "up")
    for stream in (1, 2):
        draw.add(f"double_blocks.1.processor.qkv_lora{stream}", 3, 3 * s.dim, s.dim, suffixes=names)
        draw.add(f"double_blocks.1.processor.proj_lora{stream}", 2, s.dim, s.dim, suffixes=names)
    draw.add("single_blocks.0.processor.qkv_lora", 2, 3 * s.dim, s.dim, suffixes=names)
    draw.add("single_blocks.0.processor.proj_lora", 2, s.dim, s.dim + s.mlp, suffixes=names)
    return draw.tensors, {}


def make_bfl(s):
    draw = Draw(8, torch.bfloat16)

    def add(name, n, k):
        draw.add(name, 2, n, k)
        draw.vector(f"{name}.lora_B.bias", n)

    for part, k in [("time_in", 256), ("vector_in", s.pooled), ("guidance_in", 256)]:
        add(f"{part}.in_layer", s.dim, k)
        add(f"{part}.out_layer", s.dim, s.dim)
    add("img_in", s.dim, s.channels)
    add("txt_in", s.dim, s.text)
    add("final_layer.linear", s.channels, s.dim)
    add("final_layer.adaLN_modulation.1", 2 * s.dim, s.dim)
    for i in range(s.doubles):
        for stream in ("img", "txt"):
            block = f"double_blocks.{i}.{stream}_"
            add(block + "mod.lin", 6 * s.dim, s.dim)
            add(block + "attn.qkv", 3 * s.dim, s.dim)
            add(block + "attn.proj", s.dim, s.dim)
            add(block + "mlp.0", s.mlp, s.dim)
            add(block + "mlp.2", s.dim, s.mlp)
            for norm in ("query_norm", "key_norm"):
                draw.vector(f"{block}attn.norm.{norm}.scale", s.head, around=1.0)
    for i in range(s.singles):
        block = f"single_blocks.{i}."
        add(block + "modulation.lin", 3 * s.dim, s.dim)
        add(block + "linear1", 3 * s.dim + s.mlp, s.dim)
        add(block + "linear2", s.dim, s.dim + s.mlp)
        for norm in ("query_norm", "key_norm"):
            draw.vector(f"{block}norm.{norm}.scale", s.head, around=1.0)
    # diffusers copies a bias of lora_A to all products that share it; there is none in files that are known.
    return draw.tensors, {}


MAKERS = {"peft": make_peft, "alphas": make_alphas, "kohya": make_kohya, "ends": make_ends, "mixture": make_mixture,
          "comfy": make_comfy, "xlabs": make_xlabs, "bfl": make_bfl}


def use_sizes(s):
    """Gives diffusers' conversions the sizes of this transformer in place of FLUX.1's, which they have as numbers."""
    for name in ("_convert_kohya_flux_lora_to_diffusers", "_convert_bfl_flux_control_lora_to_diffusers"):
        source = inspect.getsource(getattr(conversion, name))
        for of_flux, ours in [("[3072, 3072, 3072, 12288]", f"[{s.dim}, {s.dim}, {s.dim}, {s.mlp}]"),
                              ("inner_dim = 3072", f"inner_dim = {s.dim}"),
                              ("num_layers = 19", f"num_layers = {s.doubles}"),
                              ("num_single_layers = 38", f"num_single_layers = {s.singles}")]:
            source = source.replace(of_flux, ours)
        if "3072" in source:
            sys.exit(f"{name} knows sizes that are not replaced")
        exec(compile(source, conversion.__file__, "exec"), conversion.__dict__)  # noqa: S102
    import diffusers.loaders.lora_pipeline as pipeline
    for name in ("_convert_kohya_flux_lora_to_diffusers", "_convert_bfl_flux_control_lora_to_diffusers"):
        setattr(pipeline, name, getattr(conversion, name))


def pattern_value(patterns, module, otherwise):
    """As peft: the first key that is the module or the end of it."""
    for key, value in patterns.items():
        if re.match(rf"(.*\.)?({key})$", module):
            return value
    return otherwise


def updates_of(path):
    """What a file changes at weight 1: by `<part>.<module>.<weight or bias>` what is added, and what replaces."""
    tensors = {name: tensor.double() for name, tensor in load_file(str(path)).items()}
    with safe_open(str(path), "pt") as file:
        metadata = json.loads((file.metadata() or {}).get("lora_adapter_metadata", "{}"))
    if any(".lora_down.weight" in name for name in tensors):
        tensors = conversion._convert_kohya_flux_lora_to_diffusers(tensors)
    elif any("processor" in name for name in tensors):
        tensors = conversion._convert_xlabs_flux_lora_to_diffusers(tensors)
    elif any("query_norm.scale" in name for name in tensors):
        tensors = conversion._convert_bfl_flux_control_lora_to_diffusers(tensors)
        # It swaps the halves of both factors; but those of A are halves of the rank, which B's columns do not follow.
        tensors[SWAPPED + ".lora_A.weight"] = conversion.swap_scale_shift(tensors[SWAPPED + ".lora_A.weight"])
    parts = ("transformer.", "text_encoder.")
    tensors = {name if name.startswith(parts) else "transformer." + name: tensor for name, tensor in tensors.items()}
    names = [("to_q_lora.", "q_proj."), ("to_k_lora.", "k_proj."), ("to_v_lora.", "v_proj."),
             ("to_out_lora.", "out_proj."), (".lora_linear_layer.", "."), (".down.weight", ".lora_A.weight"),
             (".up.weight", ".lora_B.weight")]
    added, replaced = {}, {}
    for name in list(tensors):
        if name.startswith("text_encoder."):
            plain = name
            for old, new in names:
                plain = plain.replace(old, new)
            tensors[plain] = tensors.pop(name)
    used = set()
    for name, down in tensors.items():
        if not name.endswith(".lora_A.weight"):
            continue
        module = name.removesuffix(".lora_A.weight")
        part, inner = module.split(".", 1)
        up, rank = tensors[f"{module}.lora_B.weight"], down.shape[0]
        alpha = tensors.get(f"{module}.alpha")
        scale = (alpha.item() if alpha is not None else rank) / rank
        if f"{part}.r" in metadata:
            scale = pattern_value(metadata.get(f"{part}.alpha_pattern", {}), inner, metadata[f"{part}.lora_alpha"])
            scale /= pattern_value(metadata.get(f"{part}.rank_pattern", {}), inner, metadata[f"{part}.r"])
        added[f"{module}.weight"] = scale * up @ down
        used |= {name, f"{module}.lora_B.weight", f"{module}.alpha", f"{module}.lora_B.bias"}
        if f"{module}.lora_B.bias" in tensors:
            added[f"{module}.bias"] = scale * tensors[f"{module}.lora_B.bias"]
    for name in tensors.keys() - used:
        if "norm" not in name:
            sys.exit(f"{path}: {name} is not used")
        replaced[name] = tensors[name]
    return added, replaced


def fuse(weights, out, files):
    """The weights that the files change, by `<part>.<param>`, in double precision."""
    fused = {}
    for file, weight in files:
        added, replaced = updates_of(out / f"{file}.safetensors")
        for name, update in added.items():
            fused[name] = fused.get(name, weights[name].double()) + weight * update
        fused |= replaced
    return fused


def fuse_by_peft(folder, out, files):
    """The same by load_lora_weights and fuse_lora, in float32."""
    from transformers import CLIPTextModel

    transformer = FluxTransformer2DModel.from_pretrained(str(folder / "transformer"))
    pipeline = FluxPipeline(scheduler=None, vae=None, tokenizer=None, text_encoder_2=None, tokenizer_2=None,
                            text_encoder=CLIPTextModel.from_pretrained(str(folder / "text_encoder")),
                            transformer=transformer)
    for file, _ in files:
        path = out / f"{file}.safetensors"
        if file == "peft":  # the header is read of files alone
            pipeline.load_lora_weights(str(out), weight_name=path.name, adapter_name=file)
        else:  # of 16-bit factors peft keeps 16 bits of the product
            tensors = {name: tensor.float() for name, tensor in load_file(str(path)).items()
                       if not name.startswith(CLIP_NAMES)}
            pipeline.load_lora_weights(tensors, adapter_name=file)
    names = [file for file, _ in files]
    pipeline.set_adapters(names, [weight for _, weight in files])
    pipeline.fuse_lora(components=["transformer", "text_encoder"], adapter_names=names)
    found = {}
    for part in ("transformer", "text_encoder"):
        for name, tensor in getattr(pipeline, part).state_dict().items():
            name = name.replace(".base_layer", "")
            if part == "text_encoder" and not name.startswith("text_model."):
                name = "text_model." + name
            found[f"{part}.{name}"] = tensor.double()
    return found


def check_by_peft(case, fused, folder, out):
    """What fuse_lora makes of the case in addition to `fused`: a sentence, and whether that is the same."""
    try:
        import peft
    except ImportError as error:
        return f"not held against fuse_lora: {error}", True
    if case in NOT_FUSED:
        return f"not held against fuse_lora: {NOT_FUSED[case]}", True
    found = fuse_by_peft(folder, out, CASES[case])
    names = [name for name in fused if case == "peft" or name.startswith("transformer.")]
    if case == "bfl":
        names.remove(SWAPPED + ".weight")
    error, worst = max(((found[name] - fused[name]).abs().max().item(), name) for name in names)
    return (f"fuse_lora of peft {peft.__version__} within {error:.1e} ({worst}, {len(names)} of {len(fused)} params)",
            error <= FUSED_TOLERANCE)


def make_inputs(s):
    draw = Draw(9)
    ids = torch.zeros(6, 3)
    ids[:, 1], ids[:, 2] = torch.arange(6) // 3, torch.arange(6) % 3
    return {"hidden_states": draw.normal(1, 6, s.channels), "encoder_hidden_states": draw.normal(1, 4, s.text),
            "pooled_projections": draw.normal(1, s.pooled), "timestep": torch.tensor([0.75]),
            "guidance": torch.tensor([3.5]), "img_ids": ids, "txt_ids": torch.zeros(4, 3)}


def run_transformer(folder, fused, inputs):
    model = FluxTransformer2DModel.from_pretrained(str(folder / "transformer")).double()
    ours = {name.removeprefix("transformer."): tensor for name, tensor in fused.items()
            if name.startswith("transformer.")}
    left = model.load_state_dict(ours, strict=False)
    if left.unexpected_keys:
        sys.exit(f"the transformer has no {left.unexpected_keys}")
    return run_double(model.eval(), inputs)


def read_weights(folder):
    weights = {}
    for part in ("transformer", "text_encoder"):
        for file in sorted((folder / part).glob("*.safetensors")):
            weights |= {f"{part}.{name}": tensor for name, tensor in load_file(str(file)).items()}
    return weights


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--folder", required=True, type=Path, help="the pipeline that the adapters are for")
    parser.add_argument("--out", required=True, type=Path, help="folder to write")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    config = lambda part: json.loads((args.folder / part / "config.json").read_text())  # noqa: E731
    sizes = Sizes(config("transformer"), config("text_encoder"))
    use_sizes(sizes)
    for name, maker in MAKERS.items():
        tensors, metadata = maker(sizes)
        save_file({key: tensor.contiguous() for key, tensor in tensors.items()}, str(args.out / f"{name}.safetensors"),
                  metadata=metadata or None)
    cases = {case: [{"file": f"{file}.safetensors", "weight": weight} for file, weight in files]
             for case, files in CASES.items()}
    (args.out / "cases.json").write_text(
        "{\n" + ",\n".join(f"  {json.dumps(case)}: {json.dumps(files)}" for case, files in cases.items()) + "\n}\n")

    weights, inputs = read_weights(args.folder), make_inputs(sizes)
    expected = {f"input.{name}": tensor for name, tensor in inputs.items()}
    probe, all_fused = torch.Generator().manual_seed(10), {}
    for case, files in CASES.items():
        fused = fuse(weights, args.out, files)
        for name, tensor in fused.items():
            if tensor.shape != weights[name].shape or not torch.isfinite(tensor).all():
                sys.exit(f"{case}: {name} is {list(tensor.shape)}, expected finite {list(weights[name].shape)}")
            key = f"{case}.{name.replace('.', ':', 1)}"
            if tensor.ndim == 1:
                expected[key] = tensor
                continue
            columns = tensor.shape[1]
            if f"probe.{columns}" not in expected:
                expected[f"probe.{columns}"] = torch.randn(columns, 2, generator=probe, dtype=torch.float64)
            expected[key] = tensor @ expected[f"probe.{columns}"]
        expected[f"{case}.sample"] = run_transformer(args.folder, fused, inputs)
        change = max(((tensor - weights[name].double()).norm() / weights[name].double().norm()).item()
                     for name, tensor in fused.items())
        print(f"{case}: {len(fused)} params, changed by up to {change:.2f} of their norm", flush=True)
        all_fused[case] = fused
    save_file({name: tensor.contiguous() for name, tensor in expected.items()}, str(args.out / "expected.safetensors"))
    print(f"{sum(file.stat().st_size for file in args.out.iterdir())} bytes", flush=True)

    failed = []
    for case, fused in all_fused.items():
        sentence, is_same = check_by_peft(case, fused, args.folder, args.out)
        print(f"{case}: {sentence}", flush=True)
        failed += [] if is_same else [case]
    if failed:
        sys.exit(f"fuse_lora makes something else of {', '.join(failed)}")


if __name__ == "__main__":
    main()
