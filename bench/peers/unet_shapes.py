"""The configurations of U-Nets and of the tiny autoencoder, as the published folders have them, and one of our own
in pixels.
"""

_BLOCKS = {"down": "CrossAttnDownBlock2D", "up": "CrossAttnUpBlock2D"}
_CONDITIONED = {"_class_name": "UNet2DConditionModel", "act_fn": "silu", "center_input_sample": False, "downsample_padding": 1,
                "flip_sin_to_cos": True, "freq_shift": 0, "in_channels": 4, "layers_per_block": 2, "mid_block_scale_factor": 1,
                "norm_eps": 1e-05, "norm_num_groups": 32, "out_channels": 4, "use_linear_projection": True}

SD_TURBO = _CONDITIONED | {
    "attention_head_dim": [5, 10, 20, 20], "block_out_channels": [320, 640, 1280, 1280], "cross_attention_dim": 1024,
    "down_block_types": [_BLOCKS["down"]] * 3 + ["DownBlock2D"], "up_block_types": ["UpBlock2D"] + [_BLOCKS["up"]] * 3,
    "sample_size": 64}
SDXL = _CONDITIONED | {
    "addition_embed_type": "text_time", "addition_time_embed_dim": 256, "attention_head_dim": [5, 10, 20],
    "block_out_channels": [320, 640, 1280], "cross_attention_dim": 2048,
    "down_block_types": ["DownBlock2D"] + [_BLOCKS["down"]] * 2, "up_block_types": [_BLOCKS["up"]] * 2 + ["UpBlock2D"],
    "projection_class_embeddings_input_dim": 2816, "sample_size": 128, "transformer_layers_per_block": [1, 2, 10]}

# 692 M, attention at 32, 16 and 8.
PIXEL = {"_class_name": "UNet2DModel", "act_fn": "silu", "attention_head_dim": 64, "block_out_channels": [192, 384, 1152, 1536],
         "down_block_types": ["DownBlock2D"] + ["AttnDownBlock2D"] * 3, "up_block_types": ["AttnUpBlock2D"] * 3 + ["UpBlock2D"],
         "in_channels": 3, "layers_per_block": 2, "norm_eps": 1e-05, "norm_num_groups": 32, "out_channels": 3, "sample_size": 64}

TAESD = {"_class_name": "AutoencoderTiny", "act_fn": "relu", "decoder_block_out_channels": [64] * 4,
         "encoder_block_out_channels": [64] * 4, "in_channels": 3, "latent_channels": 4, "num_decoder_blocks": [3, 3, 3, 1],
         "num_encoder_blocks": [1, 3, 3, 3], "out_channels": 3, "scaling_factor": 1.0, "upsampling_scaling_factor": 2}
