"""Writes a small Z-Image with random weights as a folder in diffusers' layout, as its users have it.

What is as in the published folder of Z-Image-Turbo: which files there are and how they and the tensors are named, the
classes, the configs' keys. What is not: sizes, F32, and the vocabulary.
"""

import diffusers
import torch
from diffusers import AutoencoderKL, ZImageTransformer2DModel

from make_tokens import write
from random_weights import randomize, round_weights
from make_z_image import calm_times
from tiny_flux3_folder import LANGUAGE, SPECIAL, WORDS, write_text_encoder
from tiny_flux_folder import DECODED_SCALE, VAE
from tiny_qwen_image_folder import write_tokenizer

COMPONENTS = {
    "scheduler": ["diffusers", "FlowMatchEulerDiscreteScheduler"], "text_encoder": ["transformers", "Qwen3ForCausalLM"],
    "tokenizer": ["transformers", "Qwen2Tokenizer"], "transformer": ["diffusers", "ZImageTransformer2DModel"],
    "vae": ["diffusers", "AutoencoderKL"],
}
SCHEDULER = dict(num_train_timesteps=1000, shift=3.0, use_dynamic_shifting=False)


def write_folder(folder, case):
    """Every random number comes from the case's seed, in the order below. Gives the text encoder."""
    generator = torch.Generator().manual_seed(case["seed"])
    ids = write_tokenizer(folder / "tokenizer", WORDS, SPECIAL)
    encoder = write_text_encoder(folder / "text_encoder", False, ids, generator, case["text_layers"])
    models = {
        "transformer": ZImageTransformer2DModel(in_channels=case["vae"]["latent_channels"], cap_feat_dim=LANGUAGE["hidden_size"],
                                                **case["transformer"]),
        "vae": AutoencoderKL(**dict(VAE, **case["vae"])),
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
    (folder / "scheduler").mkdir()
    write(folder / "scheduler/scheduler_config.json", {"_class_name": COMPONENTS["scheduler"][1], **version, **SCHEDULER}, indent=2)
    write(folder / "model_index.json", {"_class_name": "ZImagePipeline", **version, **COMPONENTS}, indent=2)
    return encoder
