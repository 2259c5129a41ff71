#!/usr/bin/env python3
"""Writes the folder of a pipeline of SD-Turbo's shapes with the tiny autoencoder, configurations alone, for random
weights:

    python3 bench/sd_turbo_folder.py out/sd-turbo
    build/release/headroom stream out/sd-turbo --random-weights 0 --input test:512x512@60:600 --out null:

The vocabulary is a small one of the tests', which does not change what the device computes.
"""

import json
import pathlib
import shutil
import sys

ROOT = pathlib.Path(__file__).resolve().parent
sys.path.append(str(ROOT / "peers"))
import unet_shapes  # noqa: E402

TOKENIZER = ROOT.parent / "tests/goldens/pipelines/sd-2.1/tokenizer"
TEXT_ENCODER = {"architectures": ["CLIPTextModel"], "model_type": "clip_text_model", "hidden_act": "gelu", "hidden_size": 1024,
                "intermediate_size": 4096, "layer_norm_eps": 1e-05, "max_position_embeddings": 77, "num_attention_heads": 16,
                "num_hidden_layers": 23, "projection_dim": 512, "vocab_size": 634, "bos_token_id": 632, "eos_token_id": 633,
                "pad_token_id": 0}
SCHEDULER = {"_class_name": "EulerDiscreteScheduler", "beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear",
             "num_train_timesteps": 1000, "prediction_type": "epsilon", "timestep_spacing": "trailing"}
CLASSES = {"scheduler": ["diffusers", "EulerDiscreteScheduler"], "text_encoder": ["transformers", "CLIPTextModel"],
           "tokenizer": ["transformers", "CLIPTokenizer"], "unet": ["diffusers", "UNet2DConditionModel"],
           "vae": ["diffusers", "AutoencoderTiny"]}


def write(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def main():
    folder = pathlib.Path(sys.argv[1])
    write(folder / "model_index.json", {"_class_name": "StableDiffusionPipeline", **CLASSES})
    write(folder / "unet/config.json", unet_shapes.SD_TURBO)
    write(folder / "vae/config.json", unet_shapes.TAESD)
    write(folder / "text_encoder/config.json", TEXT_ENCODER)
    write(folder / "scheduler/scheduler_config.json", SCHEDULER)
    shutil.copytree(TOKENIZER, folder / "tokenizer", dirs_exist_ok=True)


if __name__ == "__main__":
    main()
