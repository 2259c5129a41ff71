#!/usr/bin/env python3
"""Makes the goldens of models in one file: those of tests/goldens/pipelines under their authors' names.

    python3 tests/goldens/make_single_files.py --out tests/goldens/single_files

sd-1.5.safetensors, sd-2.1.safetensors, sdxl.safetensors: U-Net, autoencoder and text encoders of the folders of that
name, as CompVis and Stability AI publish them (LDM's and OpenCLIP's names), with tensors that nothing reads: constants
of the schedule, a moving average, position indices, and in sd-2.1 a further layer of the text encoder.

flux-dev.safetensors, flux-schnell.safetensors: the transformers of these folders as Black Forest Labs publish them,
without a prefix. ae.safetensors: flux-dev's autoencoder.

flux-dev.gguf: the transformer with ComfyUI's metadata; matrices whose rows have whole blocks in Q8_0, all others in
F32.

z-image.safetensors: the transformer of z-image as its authors publish it, with a norm that nothing reads.
z-image-ae.safetensors: its autoencoder in the names of FLUX.1's.

flux2-klein.safetensors, flux3.safetensors: the transformers of flux2-klein and flux3-distilled as Black Forest Labs
publish them, the latter with a tensor of a head of training.

t5.gguf, qwen2.5-vl.gguf, qwen3.gguf: the text encoders of flux-dev, qwen-image and z-image in F32 under llama.cpp's
names, by the table of its own converter (gguf.get_tensor_name_map), with their tokenizers (make_gguf_tokenizers.py).

Names are written by the rules of the published conversions. diffusers' own readers of single files
(loaders/single_file_utils.py) must give the tensors of the folder for every network, to the bit, or the script stops.

Runs on a CPU in seconds. Needs PyTorch, diffusers, transformers, safetensors and gguf. The committed files are by
PyTorch 2.15, diffusers 0.42 and gguf 0.19.
"""

import argparse
import inspect
import json
import re
from pathlib import Path

import gguf
import make_gguf_tokenizers
import torch
from diffusers.loaders import single_file_utils as published
from gguf import GGMLQuantizationType as Type
from safetensors.torch import load_file, save_file

PIPELINES = Path(__file__).parent / "pipelines"
Q8_BLOCK = 32


def tensors_in(folder):
    tensors = {}
    for path in sorted(folder.glob("*.safetensors")):
        tensors |= load_file(path)
    return tensors


def config_of(folder):
    return json.loads((folder / "config.json").read_text())


def rename(name, rules):
    for pattern, replacement in rules:
        name = re.sub(pattern, replacement, name)
    return name


RESNET = [(r"\.norm1\.", ".in_layers.0."), (r"\.conv1\.", ".in_layers.2."), (r"\.time_emb_proj\.", ".emb_layers.1."),
          (r"\.norm2\.", ".out_layers.0."), (r"\.conv2\.", ".out_layers.3."), (r"\.conv_shortcut\.", ".skip_connection.")]


def unet_name(name, config):
    """LDM numbers input blocks and output blocks; each holds a resnet, a transformer and a change of size."""
    layers, levels = config["layers_per_block"], len(config["block_out_channels"])
    ends = {"time_embedding.linear_1": "time_embed.0", "time_embedding.linear_2": "time_embed.2",
            "add_embedding.linear_1": "label_emb.0.0", "add_embedding.linear_2": "label_emb.0.2",
            "conv_in": "input_blocks.0.0", "conv_norm_out": "out.0", "conv_out": "out.2"}
    module, end = name.rsplit(".", 1)
    if module in ends:
        return f"{ends[module]}.{end}"
    if match := re.match(r"mid_block\.(resnets|attentions)\.(\d)(\..*)", name):
        kind, index, rest = match.groups()
        place = 1 if kind == "attentions" else 2 * int(index)
        return f"middle_block.{place}" + (rename(rest, RESNET) if kind == "resnets" else rest)
    side, level, kind, index, rest = re.match(r"(down|up)_blocks\.(\d+)\.(\w+)\.(\d+)(\..*)", name).groups()
    level, index = int(level), int(index)
    if side == "down":
        if kind == "downsamplers":
            return f"input_blocks.{(level + 1) * (layers + 1)}.0.op{rest.removeprefix('.conv')}"
        block = f"input_blocks.{level * (layers + 1) + index + 1}"
    else:
        if kind == "upsamplers":
            attends = config["up_block_types"][level].startswith("CrossAttn")
            return f"output_blocks.{level * (layers + 1) + layers}.{2 if attends else 1}{rest}"
        block = f"output_blocks.{level * (layers + 1) + index}"
    assert level < levels
    return f"{block}.0" + rename(rest, RESNET) if kind == "resnets" else f"{block}.1{rest}"


def vae_tensors(tensors, config):
    levels = len(config["block_out_channels"])
    attention = [(r"\.group_norm\.", ".norm."), (r"\.to_q\.", ".q."), (r"\.to_k\.", ".k."), (r"\.to_v\.", ".v."),
                 (r"\.to_out\.0\.", ".proj_out.")]
    rules = [(r"mid_block\.resnets\.0\.", "mid.block_1."), (r"mid_block\.resnets\.1\.", "mid.block_2."),
             (r"mid_block\.attentions\.0\.", "mid.attn_1."), (r"down_blocks\.(\d+)\.resnets\.(\d+)", r"down.\1.block.\2"),
             (r"down_blocks\.(\d+)\.downsamplers\.0", r"down.\1.downsample"),
             (r"up_blocks\.(\d+)\.resnets\.(\d+)", lambda m: f"up.{levels - 1 - int(m[1])}.block.{m[2]}"),
             (r"up_blocks\.(\d+)\.upsamplers\.0", lambda m: f"up.{levels - 1 - int(m[1])}.upsample"),
             (r"conv_norm_out", "norm_out"), (r"conv_shortcut", "nin_shortcut")]
    named = {}
    for name, tensor in tensors.items():
        theirs = rename(name, rules)
        if ".attn_1." in theirs:
            theirs = rename(theirs, attention)
            if theirs.endswith("weight") and ".norm." not in theirs:
                tensor = tensor[:, :, None, None]
        named[theirs] = tensor
    return named


def open_clip_tensors(tensors, has_further_layer):
    named = {}
    if has_further_layer:
        last = max(int(m[1]) for name in tensors if (m := re.search(r"layers\.(\d+)\.", name)))
        tensors = tensors | {name.replace(f"layers.{last}.", f"layers.{last + 1}."): tensor + 1
                             for name, tensor in tensors.items() if f"layers.{last}." in name}
    rules = [(r"text_model\.embeddings\.token_embedding\.", "token_embedding."),
             (r"text_model\.embeddings\.position_embedding\.weight", "positional_embedding"),
             (r"text_model\.final_layer_norm\.", "ln_final."),
             (r"text_model\.encoder\.layers\.", "transformer.resblocks."), (r"layer_norm(\d)", r"ln_\1"),
             (r"\.fc1\.", ".c_fc."), (r"\.fc2\.", ".c_proj."), (r"self_attn\.out_proj", "attn.out_proj")]
    for name, tensor in tensors.items():
        if match := re.match(r"(.*)self_attn\.q_proj\.(weight|bias)", name):
            parts = [tensors[name.replace("q_proj", f"{part}_proj")] for part in "qkv"]
            named[rename(match[1], rules) + f"attn.in_proj_{match[2]}"] = torch.cat(parts)
        elif name == "text_projection.weight":
            named["text_projection"] = tensor.T.contiguous()
        elif not re.search(r"self_attn\.[kv]_proj", name):
            named[rename(name, rules)] = tensor
    return named


def flux_tensors(tensors):
    named = {}
    streams = {"img": ("attn.to_q attn.to_k attn.to_v", "attn.to_out.0", "attn.norm_", "ff", "norm1"),
               "txt": ("attn.add_q_proj attn.add_k_proj attn.add_v_proj", "attn.to_add_out", "attn.norm_added_", "ff_context",
                       "norm1_context")}
    ends = {"img_in": "x_embedder", "txt_in": "context_embedder", "final_layer.linear": "proj_out"}
    for theirs, ours in (("time_in", "timestep"), ("vector_in", "text"), ("guidance_in", "guidance")):
        ends |= {f"{theirs}.{layer}_layer": f"time_text_embed.{ours}_embedder.linear_{i}" for i, layer in ((1, "in"), (2, "out"))}
    modules = {theirs: [ours] for theirs, ours in ends.items()}
    count = lambda prefix: 1 + max(int(name.split(".")[1]) for name in tensors if name.startswith(prefix))  # noqa: E731
    for i in range(count("transformer_blocks.")):
        for stream, (qkv, out, norm, mlp, modulation) in streams.items():
            theirs, ours = f"double_blocks.{i}.{stream}_", f"transformer_blocks.{i}."
            modules |= {theirs + "attn.qkv": [ours + part for part in qkv.split()], theirs + "attn.proj": [ours + out],
                        theirs + "attn.norm.query_norm": [ours + norm + "q"], theirs + "attn.norm.key_norm": [ours + norm + "k"],
                        theirs + "mlp.0": [f"{ours}{mlp}.net.0.proj"], theirs + "mlp.2": [f"{ours}{mlp}.net.2"],
                        theirs + "mod.lin": [f"{ours}{modulation}.linear"]}
    for i in range(count("single_transformer_blocks.")):
        theirs, ours = f"single_blocks.{i}.", f"single_transformer_blocks.{i}."
        modules |= {theirs + "linear1": [ours + part for part in ("attn.to_q", "attn.to_k", "attn.to_v", "proj_mlp")],
                    theirs + "linear2": [ours + "proj_out"], theirs + "modulation.lin": [ours + "norm.linear"],
                    theirs + "norm.query_norm": [ours + "attn.norm_q"], theirs + "norm.key_norm": [ours + "attn.norm_k"]}
    for theirs, ours in modules.items():
        for end in ("weight", "bias"):
            if f"{ours[0]}.{end}" not in tensors:
                continue
            joined = torch.cat([tensors[f"{module}.{end}"] for module in ours])
            named[theirs + (".scale" if theirs.endswith("_norm") else f".{end}")] = joined
    for end in ("weight", "bias"):
        scale, shift = tensors[f"norm_out.linear.{end}"].chunk(2)
        named[f"final_layer.adaLN_modulation.1.{end}"] = torch.cat([shift, scale])
    assert sum(tensor.numel() for tensor in named.values()) == sum(tensor.numel() for tensor in tensors.values())
    return named


def with_prefix(prefix, tensors):
    return {prefix + name: tensor for name, tensor in tensors.items()}


def require_equal(read, expected, what):
    """What diffusers reads from a file against the tensors of the folder; older names of text encoders are the same."""
    bare = lambda tensors: {name.removeprefix("text_model."): tensor for name, tensor in tensors.items()}  # noqa: E731
    read, expected = bare(read), bare(expected)
    for name, tensor in expected.items():
        assert name in read and read[name].shape == tensor.shape and torch.equal(read[name], tensor), f"{what}: {name}"


class TextModel:
    """As much of a model as diffusers' reader of OpenCLIP looks at."""

    def __init__(self, config):
        self.config = type("Config", (), config)


def stable_diffusion(name, out):
    folder = PIPELINES / name
    config = config_of(folder / "unet")
    unet, vae = tensors_in(folder / "unet"), tensors_in(folder / "vae")
    tensors = with_prefix("model.diffusion_model.", {unet_name(key, config): value for key, value in unet.items()})
    require_equal(published.convert_ldm_unet_checkpoint(dict(tensors), config), unet, f"{name} unet")
    vae_config = config_of(folder / "vae")
    tensors |= with_prefix("first_stage_model.", vae_tensors(vae, vae_config))
    require_equal(published.convert_ldm_vae_checkpoint(dict(tensors), vae_config), vae, f"{name} vae")
    first = tensors_in(folder / "text_encoder")
    if name == "sd-2.1":
        prefix = "cond_stage_model.model."
        tensors |= with_prefix(prefix, open_clip_tensors(first, has_further_layer=True))
        tensors[prefix + "logit_scale"] = torch.tensor(4.6).half()
        tensors[prefix + "text_projection"] = torch.eye(24).half()
        model = TextModel(config_of(folder / "text_encoder"))
        require_equal(published.convert_open_clip_checkpoint(model, dict(tensors), prefix), first, f"{name} text encoder")
    else:
        prefix = "cond_stage_model.transformer." if name == "sd-1.5" else "conditioner.embedders.0.transformer."
        tensors |= with_prefix(prefix, first)
        tensors[prefix + "text_model.embeddings.position_ids"] = torch.arange(77)[None]
        require_equal(published.convert_ldm_clip_checkpoint(dict(tensors)), first, f"{name} text encoder")
    if name == "sdxl":
        prefix, second = "conditioner.embedders.1.model.", tensors_in(folder / "text_encoder_2")
        tensors |= with_prefix(prefix, open_clip_tensors(second, has_further_layer=False))
        tensors[prefix + "logit_scale"] = torch.tensor(4.6).half()
        model = TextModel(config_of(folder / "text_encoder_2"))
        # The reader takes the rows of queries from the width of the projection, which in published models is the
        # states'.
        square = tensors | {prefix + "text_projection": torch.zeros(28, 28)}
        read = published.convert_open_clip_checkpoint(model, square, prefix)
        read["text_projection.weight"] = tensors[prefix + "text_projection"].T
        require_equal(read, second, f"{name} second text encoder")
    tensors |= {"betas": torch.zeros(4), "alphas_cumprod": torch.ones(4), "model_ema.decay": torch.tensor(0.99)}
    save_file({key: value.contiguous() for key, value in tensors.items()}, out / f"{name}.safetensors")


def write_gguf(path, tensors):
    writer = gguf.GGUFWriter(path, "flux")
    for name, tensor in tensors.items():
        if tensor.ndim == 2 and tensor.shape[-1] % Q8_BLOCK == 0:
            writer.add_tensor(name, gguf.quants.quantize(tensor.numpy(), Type.Q8_0), raw_dtype=Type.Q8_0)
        else:
            writer.add_tensor(name, tensor.numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def text_encoder(path, arch, folder, skipped, add_tokenizer):
    config, tensors = config_of(folder), tensors_in(folder)
    blocks = config.get("num_layers") or config["num_hidden_layers"]
    names = gguf.get_tensor_name_map(arch, blocks)
    writer = gguf.GGUFWriter(path, gguf.MODEL_ARCH_NAMES[arch])
    add_tokenizer(writer, folder.parent / folder.name.replace("text_encoder", "tokenizer"))
    for name, tensor in tensors.items():
        if name.startswith(skipped):
            continue
        theirs = names.get_name(name.replace("model.language_model.", "model."), try_suffixes=(".weight", ".bias"))
        assert theirs is not None, name
        writer.add_tensor(theirs, tensor.float().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def flux_reader(width):
    """diffusers' reader of FLUX, which has the width of the published transformer in it."""
    source = inspect.getsource(published.convert_flux_transformer_checkpoint_to_diffusers)
    assert source.count("inner_dim = 3072") == 1
    space = dict(vars(published))
    exec(source.replace("inner_dim = 3072", f"inner_dim = {width}"), space)
    return space["convert_flux_transformer_checkpoint_to_diffusers"]


def autoencoder(folder, path):
    vae, config = tensors_in(folder), config_of(folder)
    ae = {name: tensor.contiguous() for name, tensor in vae_tensors(vae, config).items()}
    require_equal(published.convert_ldm_vae_checkpoint(with_prefix("first_stage_model.", ae), config), vae, path.name)
    save_file(ae, path)


def flux(name, out):
    transformer = tensors_in(PIPELINES / name / "transformer")
    bare = flux_tensors(transformer)
    require_equal(flux_reader(bare["img_in.weight"].shape[0])(dict(bare)), transformer, name)
    save_file(bare, out / f"{name}.safetensors")
    return bare


FLUX_BLOCK = [(r"\.attn\.norm_(q|k)\.weight$", lambda m: f".norm.{'query' if m[1] == 'q' else 'key'}_norm.scale")]
FLUX2_NAMES = [*FLUX_BLOCK, (r"^x_embedder\.", "img_in."), (r"^context_embedder\.", "txt_in."), (r"^proj_out\.", "final_layer.linear."),
               (r"^time_guidance_embed\.timestep_embedder\.linear_1", "time_in.in_layer"),
               (r"^time_guidance_embed\.timestep_embedder\.linear_2", "time_in.out_layer"),
               (r"(stream_modulation(_img|_txt)?)\.linear\.", r"\1.lin."), (r"^norm_out\.linear", "final_layer.adaLN_modulation.1"),
               (r"^single_transformer_blocks\.(\d+)\.attn\.to_qkv_mlp_proj", r"single_blocks.\1.linear1"),
               (r"^single_transformer_blocks\.(\d+)\.attn\.to_out", r"single_blocks.\1.linear2"),
               (r"^single_transformer_blocks\.", "single_blocks."),
               (r"^transformer_blocks\.(\d+)\.norm\.", r"double_blocks.\1.img_attn.norm."),
               (r"^transformer_blocks\.(\d+)\.attn\.norm_added_q\.weight", r"double_blocks.\1.txt_attn.norm.query_norm.scale"),
               (r"^transformer_blocks\.(\d+)\.attn\.norm_added_k\.weight", r"double_blocks.\1.txt_attn.norm.key_norm.scale"),
               (r"^transformer_blocks\.(\d+)\.attn\.to_q\.", r"double_blocks.\1.img_attn.qkv."),
               (r"^transformer_blocks\.(\d+)\.attn\.add_q_proj\.", r"double_blocks.\1.txt_attn.qkv."),
               (r"^transformer_blocks\.(\d+)\.attn\.to_out\.0\.", r"double_blocks.\1.img_attn.proj."),
               (r"^transformer_blocks\.(\d+)\.attn\.to_add_out\.", r"double_blocks.\1.txt_attn.proj."),
               (r"^transformer_blocks\.(\d+)\.ff\.linear_in\.", r"double_blocks.\1.img_mlp.0."),
               (r"^transformer_blocks\.(\d+)\.ff\.linear_out\.", r"double_blocks.\1.img_mlp.2."),
               (r"^transformer_blocks\.(\d+)\.ff_context\.linear_in\.", r"double_blocks.\1.txt_mlp.0."),
               (r"^transformer_blocks\.(\d+)\.ff_context\.linear_out\.", r"double_blocks.\1.txt_mlp.2.")]
FLUX3_NAMES = [*FLUX_BLOCK, (r"^x_embedders\.", "emb_in."), (r"^context_embedder\.", "txt_in."), (r"^proj_out\.", "final_layer.image.linear."),
               (r"^timestep_embedder\.linear_1", "time_in.in_layer"), (r"^timestep_embedder\.linear_2", "time_in.out_layer"),
               (r"^target_timestep_embedder\.linear_1", "ref_time_in.in_layer"),
               (r"^target_timestep_embedder\.linear_2", "ref_time_in.out_layer"),
               (r"(stream_modulations\.\w+)\.linear\.", r"\1.lin."), (r"^norm_out\.linear", "final_layer.image.adaLN_modulation.1"),
               (r"^mode_blocks\.", "content_mode_blocks."), (r"^single_transformer_blocks\.", "single_blocks."),
               (r"\.attn\.to_(q|k|v)\.", r".\1_proj."), (r"\.attn\.to_out\.0\.", ".attn_out."), (r"\.ff\.linear_in\.", ".mlp_in."),
               (r"\.ff\.linear_out\.", ".mlp_out.")]


def klein_tensors(tensors, rules):
    """The transformer of FLUX.2, whose queries, keys and values a double block joins, or that of FLUX.3."""
    named = {}
    for name, tensor in tensors.items():
        if name.startswith("norm_out."):
            scale, shift = tensor.chunk(2)
            tensor = torch.cat([shift, scale])
        if match := re.match(r"(transformer_blocks\.\d+\.attn\.)(to_q|to_k|to_v|add_q_proj|add_k_proj|add_v_proj)\.weight$", name):
            parts = ("to_q", "to_k", "to_v") if match[2].startswith("to_") else ("add_q_proj", "add_k_proj", "add_v_proj")
            if match[2] != parts[0]:
                continue
            tensor = torch.cat([tensors[f"{match[1]}{part}.weight"] for part in parts])
        named[rename(name, rules)] = tensor.contiguous()
    assert sum(tensor.numel() for tensor in named.values()) == sum(tensor.numel() for tensor in tensors.values())
    return named


def flux2(out):
    transformer = tensors_in(PIPELINES / "flux2-klein" / "transformer")
    bare = klein_tensors(transformer, FLUX2_NAMES)
    require_equal(published.convert_flux2_transformer_checkpoint_to_diffusers(dict(bare)), transformer, "FLUX.2")
    save_file(bare, out / "flux2-klein.safetensors")


def flux3(out):
    transformer = tensors_in(PIPELINES / "flux3-distilled" / "transformer")
    bare = klein_tensors(transformer, FLUX3_NAMES) | {"repa_projectors.0.weight": torch.ones(2, 2)}
    require_equal(published.convert_flux3_transformer_checkpoint_to_diffusers(dict(bare)), transformer, "FLUX.3")
    save_file(bare, out / "flux3.safetensors")


def z_image(out):
    """Queries, keys and values are one matrix."""
    transformer, named = tensors_in(PIPELINES / "z-image" / "transformer"), {}
    rules = [(r"^all_x_embedder\.2-1\.", "x_embedder."), (r"^all_final_layer\.2-1\.", "final_layer."), (r"\.to_out\.0\.", ".out."),
             (r"\.norm_([qk])\.", r".\1_norm.")]
    for name, tensor in transformer.items():
        if name.endswith(".to_q.weight"):
            named[name.replace("to_q", "qkv")] = torch.cat([transformer[name.replace("to_q", f"to_{part}")] for part in "qkv"])
        elif not re.search(r"\.to_[kv]\.", name):
            named[rename(name, rules)] = tensor
    named["norm_final.weight"] = torch.ones(2)
    require_equal(published.convert_z_image_transformer_checkpoint_to_diffusers(dict(named)), transformer, "Z-Image")
    save_file(named, out / "z-image.safetensors")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    for name in ("sd-1.5", "sd-2.1", "sdxl"):
        stable_diffusion(name, out)
    write_gguf(out / "flux-dev.gguf", flux("flux-dev", out))
    flux("flux-schnell", out)
    autoencoder(PIPELINES / "flux-dev" / "vae", out / "ae.safetensors")
    autoencoder(PIPELINES / "z-image" / "vae", out / "z-image-ae.safetensors")
    flux2(out)
    flux3(out)
    z_image(out)
    text_encoder(out / "t5.gguf", gguf.MODEL_ARCH.T5ENCODER, PIPELINES / "flux-dev" / "text_encoder_2",
                 skipped=("encoder.embed_tokens.", "decoder."), add_tokenizer=make_gguf_tokenizers.add_pieces)
    text_encoder(out / "qwen2.5-vl.gguf", gguf.MODEL_ARCH.QWEN2VL, PIPELINES / "qwen-image" / "text_encoder",
                 skipped=("visual.", "model.visual.", "lm_head."), add_tokenizer=make_gguf_tokenizers.add_byte_pairs)
    text_encoder(out / "qwen3.gguf", gguf.MODEL_ARCH.QWEN3, PIPELINES / "z-image" / "text_encoder", skipped=("lm_head.",),
                 add_tokenizer=make_gguf_tokenizers.add_byte_pairs)


if __name__ == "__main__":
    main()
