"""Writes a small Stable Diffusion with random weights as a folder in diffusers' layout, as its users have it.

What is as in the published folders: which files there are and how they and the tensors are named, the classes, the
configs' keys, F16. What is not: sizes, and the vocabulary, which is that of flux-dev's CLIP (tiny_flux_folder.py).
"""

import json
import shutil
from pathlib import Path

import diffusers
import torch
from diffusers import AutoencoderKL, UNet2DConditionModel
from safetensors.torch import save_file
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection

from make_text_encoders import randomize as randomize_encoder
from random_weights import randomize

TOKENIZER = Path(__file__).parent / "pipelines/flux-dev/tokenizer"
VOCABULARY = 634
VAE = dict(layers_per_block=1, norm_num_groups=4, latent_channels=4)
DECODED_SCALE = 0.3  # of the decoder's last convolution: pixels mostly within -1 and 1, some clamped
PREDICTED_SCALE = 0.5  # of the U-Net's last convolution: less than the noise that there is


def write(path, value):
    path.write_text(json.dumps(value, indent=2) + "\n")


def write_tokenizer(folder, padding):
    """CLIP's; `padding` is the token that fills the rest: "!" of OpenCLIP's, whose id is 0."""
    folder.mkdir(parents=True)
    for name in ("vocab.json", "merges.txt"):
        shutil.copyfile(TOKENIZER / name, folder / name)
    end, token = "<|endoftext|>", dict(lstrip=False, rstrip=False, single_word=False)
    added = {str(VOCABULARY - 2): "<|startoftext|>", str(VOCABULARY - 1): end}
    if padding != end:
        added = {"0": padding, **added}
    roles = dict(bos_token="<|startoftext|>", eos_token=end, pad_token=padding, unk_token=end)
    write(folder / "tokenizer_config.json", {
        "add_prefix_space": False,
        "added_tokens_decoder": {id: dict(content=content, normalized=False, special=True, **token)
                                 for id, content in added.items()},
        "clean_up_tokenization_spaces": True, "do_lower_case": True, "errors": "replace", "model_max_length": 77,
        "tokenizer_class": "CLIPTokenizer", **roles})
    described = {role: dict(content=content, normalized=role != "pad_token", **token) for role, content in roles.items()}
    write(folder / "special_tokens_map.json", {**described, "pad_token": padding})


def save_encoder(model, folder, dtype=torch.float16):
    """CLIP's, as transformers has saved it before version 5, which has other names."""
    folder.mkdir(parents=True)
    model.config.architectures = [type(model).__name__]
    model.config.save_pretrained(folder)
    named = {name if name.startswith(("text_model.", "text_projection.")) else "text_model." + name: tensor
             for name, tensor in model.state_dict().items() if not name.endswith("position_ids")}
    save_file({name: tensor.to(dtype).contiguous() for name, tensor in named.items()}, str(folder / "model.safetensors"),
              metadata={"format": "pt"})


def encoder(case):
    case = dict(case)
    kind = CLIPTextModelWithProjection if "projection_dim" in case else CLIPTextModel
    padding = case.pop("padding")
    ids = dict(bos_token_id=VOCABULARY - 2, eos_token_id=VOCABULARY - 1,
               pad_token_id=0 if padding == "!" else VOCABULARY - 1)
    return kind(CLIPTextConfig(**{"vocab_size": VOCABULARY, "max_position_embeddings": 77, **ids, **case}))


def write_folder(folder, case):
    """Every random number comes from the case's seed, in the order below."""
    generator = torch.Generator().manual_seed(case["seed"])
    index = {"_class_name": case["pipeline"], "_diffusers_version": diffusers.__version__, **case["index"],
             "scheduler": ["diffusers", case["scheduler"]["_class_name"]]}
    for i, text in enumerate(case["encoders"]):
        suffix = f"_{i + 1}" if i > 0 else ""
        write_tokenizer(folder / ("tokenizer" + suffix), text["padding"])
        model = encoder(text)
        randomize_encoder(model, generator)
        save_encoder(model, folder / ("text_encoder" + suffix))
        index["tokenizer" + suffix] = ["transformers", "CLIPTokenizer"]
        index["text_encoder" + suffix] = ["transformers", type(model).__name__]
    unet = UNet2DConditionModel(**case["unet"])
    vae = AutoencoderKL(**VAE, **case["vae"])
    for name, model in (("unet", unet), ("vae", vae)):
        randomize(model, generator)
        last = model.conv_out if name == "unet" else model.decoder.conv_out
        last.weight.data *= PREDICTED_SCALE if name == "unet" else DECODED_SCALE
        model.half().save_pretrained(folder / name)
        index[name] = ["diffusers", type(model).__name__]
    (folder / "scheduler").mkdir(exist_ok=True)
    write(folder / "scheduler/scheduler_config.json", case["scheduler"])
    write(folder / "model_index.json", index)
