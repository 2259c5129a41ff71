#!/usr/bin/env python3
"""Writes a folder of FLUX.1's published shapes, to time whole requests with random weights.

    python3 bench/peers/flux_stand_in.py dev out/flux-dev
    build/release/headroom run out/flux-dev --random-weights 0 --prompt "a red fox in snow" --opt fast --out fox.png

It has no weights unless --weights writes some, 34 GB in bf16, for what reading them takes: that needs a GPU, PyTorch, diffusers,
transformers and safetensors. KIND is dev, schnell or kontext. Configurations are those of the published folders (black-forest-labs, 2024 and 2025); the
tokenizers are the small ones of tests/goldens/pipelines, whose ids these text encoders know too. Images are noise.
"""

import argparse
import json
import pathlib
import shutil

GOLDENS = pathlib.Path(__file__).resolve().parents[2] / "tests/goldens/pipelines"


def transformer(kind):
    return {"_class_name": "FluxTransformer2DModel", "attention_head_dim": 128, "axes_dims_rope": [16, 56, 56],
            "guidance_embeds": kind != "schnell", "in_channels": 64, "joint_attention_dim": 4096,
            "num_attention_heads": 24, "num_layers": 19, "num_single_layers": 38, "out_channels": None,
            "patch_size": 1, "pooled_projection_dim": 768}


VAE = {"_class_name": "AutoencoderKL", "act_fn": "silu", "block_out_channels": [128, 256, 512, 512],
       "down_block_types": ["DownEncoderBlock2D"] * 4, "force_upcast": True, "in_channels": 3, "latent_channels": 16,
       "layers_per_block": 2, "mid_block_add_attention": True, "norm_num_groups": 32, "out_channels": 3,
       "sample_size": 1024, "scaling_factor": 0.3611, "shift_factor": 0.1159,
       "up_block_types": ["UpDecoderBlock2D"] * 4, "use_post_quant_conv": False, "use_quant_conv": False}
CLIP = {"architectures": ["CLIPTextModel"], "attention_dropout": 0.0, "bos_token_id": 0, "eos_token_id": 2,
        "hidden_act": "quick_gelu", "hidden_size": 768, "intermediate_size": 3072, "layer_norm_eps": 1e-05,
        "max_position_embeddings": 77, "num_attention_heads": 12, "num_hidden_layers": 12, "pad_token_id": 1,
        "projection_dim": 768, "vocab_size": 49408}
T5 = {"architectures": ["T5EncoderModel"], "d_ff": 10240, "d_kv": 64, "d_model": 4096,
      "feed_forward_proj": "gated-gelu", "layer_norm_epsilon": 1e-06, "num_heads": 64, "num_layers": 24,
      "relative_attention_max_distance": 128, "relative_attention_num_buckets": 32, "vocab_size": 32128}


def write_weights(folder, kind, seed):
    """Checkpoints in bf16 for all four networks, under the names that diffusers and transformers give their tensors."""
    import torch
    from safetensors.torch import save_file

    import component_torch
    import flux_peer
    device, dtype = torch.device("cuda"), torch.bfloat16
    makers = {
        "text_encoder": ("model", lambda: component_torch.random_text_encoder("text_encoder", device, dtype, seed)),
        "text_encoder_2": ("model", lambda: component_torch.random_text_encoder("text_encoder_2", device, dtype, seed)),
        "transformer": ("diffusion_pytorch_model", lambda: flux_peer.random_model(device, dtype, seed, kind)),
        "vae": ("diffusion_pytorch_model", lambda: component_torch.random_vae(device, dtype, seed)),
    }
    for part, (name, make) in makers.items():
        tensors = {key: value.cpu().contiguous() for key, value in make().named_parameters()}  # what is shared, once
        save_file(tensors, folder / part / f"{name}.safetensors", metadata={"format": "pt"})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=["dev", "schnell", "kontext"])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--weights", type=int, metavar="SEED", help="also write random weights")
    args = parser.parse_args()
    golden = GOLDENS / f"flux-{args.kind}"
    args.folder.mkdir(parents=True)
    shutil.copy(golden / "model_index.json", args.folder)
    for part in ("scheduler", "tokenizer", "tokenizer_2"):
        shutil.copytree(golden / part, args.folder / part)
    configs = {"transformer": transformer(args.kind), "vae": VAE, "text_encoder": CLIP, "text_encoder_2": T5}
    for part, config in configs.items():
        (args.folder / part).mkdir()
        (args.folder / part / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    if args.weights is not None:
        write_weights(args.folder, args.kind, args.weights)


if __name__ == "__main__":
    main()
