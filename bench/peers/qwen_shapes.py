"""The configurations of Qwen-Image's networks, as the published folder has them (Qwen, 2025)."""

TRANSFORMER = {"_class_name": "QwenImageTransformer2DModel", "patch_size": 2, "in_channels": 64, "out_channels": 16, "num_layers": 60,
               "attention_head_dim": 128, "num_attention_heads": 24, "joint_attention_dim": 3584, "guidance_embeds": False,
               "axes_dims_rope": [16, 56, 56]}
VAE = {"_class_name": "AutoencoderKLQwenImage", "attn_scales": [], "base_dim": 96, "dim_mult": [1, 2, 4, 4], "dropout": 0.0,
       "num_res_blocks": 2, "temperal_downsample": [False, True, True], "z_dim": 16,
       "latents_mean": [-0.7571, -0.7089, -0.9113, 0.1075, -0.1745, 0.9653, -0.1517, 1.5508, 0.4134, -0.0715, 0.5517, -0.3632, -0.1922,
                        -0.9497, 0.2503, -0.2921],
       "latents_std": [2.8184, 1.4541, 2.3275, 2.6558, 1.2196, 1.7708, 2.6052, 2.0743, 3.2687, 2.1526, 2.8652, 1.5579, 1.6382, 1.1253,
                       2.8251, 1.9160]}
LANGUAGE = {"hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28, "num_attention_heads": 28,
            "num_key_value_heads": 4, "rms_norm_eps": 1e-06, "hidden_act": "silu", "max_position_embeddings": 128000,
            "rope_theta": 1000000.0, "sliding_window": 32768, "use_sliding_window": False, "vocab_size": 152064,
            "rope_scaling": {"mrope_section": [16, 24, 24], "rope_type": "default", "type": "default"}}
# Of the text encoder; its half that sees is not read.
TEXT = {"architectures": ["Qwen2_5_VLForConditionalGeneration"], "model_type": "qwen2_5_vl", "torch_dtype": "bfloat16", **LANGUAGE}
