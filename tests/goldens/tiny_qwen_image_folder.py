"""Writes a small Qwen-Image with random weights as a folder in diffusers' layout, as its users have it.

What is as in the published folder: which files there are and how they and the tensors are named, the classes, the
configs' keys. What is not: sizes, F32, and the vocabulary, whose merges make single tokens of the words around a
prompt, so that 34 ids precede it as they do with the published one.
"""

import json

import diffusers
import torch
from diffusers import AutoencoderKLQwenImage, QwenImageTransformer2DModel
from safetensors.torch import save_file
from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

from make_text_encoders import VISION
from make_text_encoders import randomize as randomize_encoder
from make_tokens import byte_alphabet, write
from random_weights import randomize, round_weights
from tiny_flux_folder import calm_times

BEFORE = ("<|im_start|>system\nDescribe the image by detailing the color, shape, size, texture, quantity, text, spatial relationships of the "
          "objects and background:<|im_end|>\n<|im_start|>user\n")
# Tokens, each made of its letters from left to right; "\u0120" is a space.
WORDS = ("system Describe user assistant \u0120the \u0120image \u0120by \u0120detailing \u0120color \u0120shape \u0120size \u0120texture "
         "\u0120quantity \u0120text \u0120spatial \u0120relationships \u0120of \u0120objects \u0120and \u0120background").split()
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>"]
PADDED = 3  # rows of the embedding that no id has
SCHEDULER = dict(base_image_seq_len=256, base_shift=0.5, invert_sigmas=False, max_image_seq_len=8192, max_shift=0.9, num_train_timesteps=1000,
                 shift=1.0, shift_terminal=0.02, stochastic_sampling=False, time_shift_type="exponential", use_beta_sigmas=False,
                 use_dynamic_shifting=True, use_exponential_sigmas=False, use_karras_sigmas=False)
COMPONENTS = {
    "scheduler": ["diffusers", "FlowMatchEulerDiscreteScheduler"], "text_encoder": ["transformers", "Qwen2_5_VLForConditionalGeneration"],
    "tokenizer": ["transformers", "Qwen2Tokenizer"], "transformer": ["diffusers", "QwenImageTransformer2DModel"],
    "vae": ["diffusers", "AutoencoderKLQwenImage"],
}
DECODED_SCALE = 1.5  # of the decoder's last convolution: pixels mostly within -1 and 1, some clamped


def write_tokenizer(folder, words=WORDS, special=SPECIAL):
    """Gives how many ids there are."""
    folder.mkdir(parents=True)
    merges = []
    for word in words:
        merges += [f"{word[:i]} {word[i]}" for i in range(1, len(word))]
    merges = list(dict.fromkeys(merges))
    pieces = sorted(byte_alphabet(), key=ord) + [merge.replace(" ", "") for merge in merges]
    write(folder / "vocab.json", {piece: i for i, piece in enumerate(pieces)})
    (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *merges]) + "\n")
    added = {content: len(pieces) + i for i, content in enumerate(special)}
    token = dict(lstrip=False, normalized=False, rstrip=False, single_word=False)
    write(folder / "added_tokens.json", added, indent=2)
    roles = dict(eos_token="<|im_end|>", pad_token="<|endoftext|>")
    write(folder / "tokenizer_config.json", {
        "add_bos_token": False, "add_prefix_space": False,
        "added_tokens_decoder": {str(id): dict(content=content, special=True, **token) for content, id in added.items()},
        "additional_special_tokens": special[1:], "bos_token": None, "clean_up_tokenization_spaces": False, "errors": "replace",
        "extra_special_tokens": {}, "model_max_length": 131072, "split_special_tokens": False, "tokenizer_class": "Qwen2Tokenizer",
        "unk_token": None, **roles}, indent=2)
    write(folder / "special_tokens_map.json", {"additional_special_tokens": special[1:],
                                               **{role: dict(content=content, **token) for role, content in roles.items()}}, indent=2)
    return len(pieces) + len(special)


def write_text_encoder(folder, config, ids, generator):
    """As transformers 4 saved it and as it was published: the language half's keys are at the top.

    Its rotary positions are in rope_scaling. A single tensor is there for all of vision.
    """
    folder.mkdir(parents=True)
    model = Qwen2_5_VLForConditionalGeneration(Qwen2_5_VLConfig(
        text_config=dict(config, vocab_size=ids + PADDED, bos_token_id=0, eos_token_id=1,
                         rope_parameters=dict(rope_type="default", rope_theta=1e6, mrope_section=config["mrope_section"])),
        vision_config=dict(VISION, out_hidden_size=config["hidden_size"])))
    randomize_encoder(model, generator)
    round_weights(model)
    saved = {name.replace("model.language_model.", "model.").replace("model.visual.", "visual."): tensor
             for name, tensor in model.state_dict().items()}
    kept = {name: tensor.contiguous() for name, tensor in saved.items() if not name.startswith("visual.") or name.endswith("ln_q.weight")}
    save_file(kept, str(folder / "model.safetensors"), metadata={"format": "pt"})
    language = {name: value for name, value in config.items() if name != "mrope_section"}
    language |= dict(hidden_act="silu", max_position_embeddings=128000, rope_theta=1000000.0, sliding_window=32768, use_sliding_window=False,
                     vocab_size=ids + PADDED, rope_scaling=dict(mrope_section=config["mrope_section"], rope_type="default", type="default"))
    write(folder / "config.json", {"architectures": [type(model).__name__], "model_type": "qwen2_5_vl", "torch_dtype": "float32", **language,
                                   "text_config": dict(language, model_type="qwen2_5_vl_text"), "vision_config": VISION}, indent=2)
    return model


def write_folder(folder, case):
    """Every random number comes from the case's seed. Returns the text encoder, which this transformers cannot load."""
    generator = torch.Generator().manual_seed(case["seed"])
    encoder = write_text_encoder(folder / "text_encoder", case["language"], write_tokenizer(folder / "tokenizer"), generator)
    latents = case["vae"]["z_dim"]
    models = {
        "transformer": QwenImageTransformer2DModel(in_channels=4 * latents, out_channels=latents,
                                                   joint_attention_dim=case["language"]["hidden_size"], **case["transformer"]),
        "vae": AutoencoderKLQwenImage(**case["vae"]),
    }
    for name, model in models.items():
        randomize(model, generator)
        if name == "transformer":
            calm_times(model)
        if name == "vae":
            model.decoder.conv_out.weight.data *= DECODED_SCALE
        round_weights(model)
        model.save_pretrained(folder / name)
    version = {"_diffusers_version": diffusers.__version__}
    (folder / "scheduler").mkdir(exist_ok=True)
    write(folder / "scheduler/scheduler_config.json", {"_class_name": COMPONENTS["scheduler"][1], **version, **SCHEDULER}, indent=2)
    write(folder / "model_index.json", {"_class_name": "QwenImagePipeline", **version, **COMPONENTS}, indent=2)
    return encoder
