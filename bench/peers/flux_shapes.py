"""The configurations of FLUX.1's networks, as the published folders have them (black-forest-labs, 2024 and 2025)."""


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
