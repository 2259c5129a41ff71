#!/usr/bin/env python3
"""Writes a folder of the published shapes of FLUX.3 [klein] or FLUX.2 [klein], to time whole requests with random
weights.

    python3 bench/peers/flux3_stand_in.py distilled out/flux-3-image-klein
    build/release/headroom run out/flux-3-image-klein --random-weights 0 --prompt "a red fox in snow" --opt fast --out fox.png

KIND is distilled, base or flux2-klein. The folder has no weights. The tokenizer is the small one of
tests/goldens/pipelines, whose ids these text encoders know too. Images are noise.
"""

import argparse
import json
import pathlib
import shutil

GOLDENS = pathlib.Path(__file__).resolve().parents[2] / "tests/goldens/pipelines"
QWEN3 = dict(vocab_size=151936, hidden_size=2560, intermediate_size=9728, num_hidden_layers=36, num_attention_heads=32, num_key_value_heads=8,
             head_dim=128, rms_norm_eps=1e-6, hidden_act="silu")
FLUX3 = dict(_class_name="Flux3Transformer2DModel", in_channels=128, cond_in_channels=128, num_layers=5, num_single_layers=28,
             attention_head_dim=128, num_attention_heads=24, joint_attention_dim=20480, timestep_channels=256, mlp_ratio=3.0,
             axes_dims_rope=[32, 32, 32, 32], rope_theta=10000, eps=1e-6)
FLUX2 = dict(_class_name="Flux2Transformer2DModel", in_channels=128, num_layers=5, num_single_layers=20, attention_head_dim=128,
             num_attention_heads=24, joint_attention_dim=7680, timestep_guidance_channels=256, mlp_ratio=3.0, axes_dims_rope=[32, 32, 32, 32],
             rope_theta=2000, eps=1e-6, guidance_embeds=False)
VAE = dict(_class_name="AutoencoderKLFlux2", block_out_channels=[128, 256, 512, 512], layers_per_block=2, latent_channels=32,
           norm_num_groups=32, sample_size=1024, batch_norm_eps=1e-4, patch_size=[2, 2])
KINDS = {
    "distilled": ("flux3-distilled", dict(FLUX3, flow_map=True), dict(QWEN3, architectures=["Qwen3VLForConditionalGeneration"], rope_theta=5e6)),
    "base": ("flux3-base", dict(FLUX3, flow_map=False), dict(QWEN3, architectures=["Qwen3VLForConditionalGeneration"], rope_theta=5e6)),
    "flux2-klein": ("flux2-klein", FLUX2, dict(QWEN3, architectures=["Qwen3ForCausalLM"], rope_theta=1e6)),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=list(KINDS))
    parser.add_argument("folder", type=pathlib.Path)
    args = parser.parse_args()
    golden, transformer, encoder = KINDS[args.kind]
    args.folder.mkdir(parents=True)
    is_flux2 = args.kind == "flux2-klein"
    index = json.loads((GOLDENS / golden / ("model_index.json" if is_flux2 else "modular_model_index.json")).read_text())
    if is_flux2:
        index["is_distilled"] = True
        shutil.copytree(GOLDENS / golden / "scheduler", args.folder / "scheduler")
    (args.folder / ("model_index.json" if is_flux2 else "modular_model_index.json")).write_text(json.dumps(index, indent=2) + "\n")
    shutil.copytree(GOLDENS / ("flux2-klein" if is_flux2 else "flux3-base") / "tokenizer", args.folder / "tokenizer")
    for part, config in {"transformer": transformer, "text_encoder": encoder, "vae": VAE}.items():
        (args.folder / part).mkdir()
        (args.folder / part / "config.json").write_text(json.dumps(config, indent=2) + "\n")


if __name__ == "__main__":
    main()
