"""Writes a small FLUX.3 or FLUX.2 [klein] with random weights as a folder in diffusers' layout, as its users have it.

What is as in the published folders: which files there are and how they and the tensors are named, the classes, the
configs' keys; of FLUX.3 modular_model_index.json, in which parts may name another repository. What is not: sizes, F32,
and the vocabulary.
"""

import diffusers
import torch
from diffusers import AutoencoderKLFlux2, Flux2Transformer2DModel, Flux3Transformer2DModel
from safetensors.torch import save_file
from transformers import Qwen3Config, Qwen3ForCausalLM, Qwen3VLConfig, Qwen3VLForConditionalGeneration

from make_flux3 import calm_times
from make_text_encoders import VISION_3
from make_text_encoders import randomize as randomize_encoder
from make_tokens import write
from random_weights import randomize, round_weights
from tiny_qwen_image_folder import PADDED, write_tokenizer

WORDS = "user assistant \u0120the \u0120a \u0120fox \u0120and \u0120of think \u0120house \u0120red".split()
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>"]
TEMPLATE = ("{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
            "{% if add_generation_prompt %}<|im_start|>assistant\n{% if enable_thinking is defined and enable_thinking is false %}"
            "<think>\n\n</think>\n\n{% endif %}{% endif %}")
LANGUAGE = dict(hidden_size=16, intermediate_size=20, num_attention_heads=2, num_key_value_heads=1, head_dim=8, rms_norm_eps=1e-6)
TRANSFORMER = dict(num_layers=1, num_single_layers=2, attention_head_dim=12, num_attention_heads=2, axes_dims_rope=[2, 4, 4, 2], mlp_ratio=2.0)
VAE = dict(down_block_types=["DownEncoderBlock2D"] * 4, up_block_types=["UpDecoderBlock2D"] * 4, layers_per_block=1, norm_num_groups=2,
           latent_channels=4, block_out_channels=[4, 4, 6, 8])
CALM = 0.3  # of what a layer adds: so many random ones in a row would make noise of roundings
DECODED_SCALE = 0.4  # of the decoder's last convolution: pixels mostly within -1 and 1, some clamped
SCHEDULER = dict(base_image_seq_len=256, base_shift=0.5, invert_sigmas=False, max_image_seq_len=4096, max_shift=1.15, num_train_timesteps=1000,
                 shift=3.0, shift_terminal=None, stochastic_sampling=False, time_shift_type="exponential", use_beta_sigmas=False,
                 use_dynamic_shifting=True, use_exponential_sigmas=False, use_karras_sigmas=False)
KLEIN = {"scheduler": ["diffusers", "FlowMatchEulerDiscreteScheduler"], "text_encoder": ["transformers", "Qwen3ForCausalLM"],
         "tokenizer": ["transformers", "Qwen2TokenizerFast"], "transformer": ["diffusers", "Flux2Transformer2DModel"],
         "vae": ["diffusers", "AutoencoderKLFlux2"]}
FLUX3 = {"text_encoder": ["transformers", "Qwen3VLForConditionalGeneration"], "tokenizer": ["transformers", "Qwen3VLProcessor"],
         "transformer": ["diffusers", "Flux3Transformer2DModel"], "vae": ["diffusers", "AutoencoderKLFlux2"]}


def write_text_encoder(folder, is_flux3, ids, generator, layers=None):
    folder.mkdir(parents=True)
    config = dict(LANGUAGE, vocab_size=ids + PADDED, num_hidden_layers=layers or (33 if is_flux3 else 28))
    rope = dict(rope_type="default", rope_theta=5e6 if is_flux3 else 1e6)
    shared = dict(bos_token_id=0, eos_token_id=1, tie_word_embeddings=True)
    if is_flux3:
        model = Qwen3VLForConditionalGeneration(Qwen3VLConfig(
            text_config=dict(config, **shared, rope_parameters=dict(rope, mrope_section=[1, 1, 2])),
            vision_config=dict(VISION_3, out_hidden_size=config["hidden_size"]), tie_word_embeddings=True))
    else:
        model = Qwen3ForCausalLM(Qwen3Config(**config, **shared, rope_parameters=rope))
    randomize_encoder(model, generator)
    for parameter in (parameter for name, parameter in model.named_parameters() if name.endswith(("o_proj.weight", "down_proj.weight"))):
        parameter.data *= CALM
    round_weights(model)
    kept = {name: tensor.contiguous() for name, tensor in model.state_dict().items()
            if name != "lm_head.weight" and ("visual" not in name or name.endswith("merger.norm.weight"))}
    save_file(kept, str(folder / "model.safetensors"), metadata={"format": "pt"})
    language = dict(config, hidden_act="silu", attention_bias=False, max_position_embeddings=40960, tie_word_embeddings=True)
    if is_flux3:
        language = dict(model_type="qwen3_vl", text_config=dict(language, model_type="qwen3_vl_text", rope_theta=rope["rope_theta"],
                        rope_scaling=dict(mrope_interleaved=True, mrope_section=[1, 1, 2], rope_type="default")), vision_config=VISION_3)
    else:
        language = dict(language, model_type="qwen3", rope_theta=rope["rope_theta"], rope_scaling=None, use_sliding_window=False)
    write(folder / "config.json", {"architectures": [type(model).__name__], "torch_dtype": "float32", **language}, indent=2)
    return model


def write_transformer(folder, case, generator):
    kind = Flux3Transformer2DModel if case["is_flux3"] else Flux2Transformer2DModel
    channels = 4 * VAE["latent_channels"]
    own = dict(cond_in_channels=channels, flow_map=case["flow_map"]) if case["is_flux3"] else dict(guidance_embeds=False)
    model = kind(in_channels=channels, joint_attention_dim=LANGUAGE["hidden_size"] * (8 if case["is_flux3"] else 3), **TRANSFORMER, **own)
    randomize(model, generator)
    calm_times(model)
    round_weights(model)
    model.save_pretrained(folder)


def write_vae(folder, decoder, generator):
    model = AutoencoderKLFlux2(**VAE, decoder_block_out_channels=decoder)
    randomize(model, generator)
    model.decoder.conv_out.weight.data *= DECODED_SCALE
    round_weights(model)
    model.save_pretrained(folder)


def part_of(role, repository):
    library, name = FLUX3[role]
    return [library, name, {"pretrained_model_name_or_path": repository, "revision": None, "subfolder": role, "type_hint": [library, name],
                            "variant": None}]


def write_folder(folder, case):
    """Every random number comes from the case's seed, in the order below. Returns the text encoder, if there is one."""
    generator = torch.Generator().manual_seed(case["seed"])
    encoder = None
    if case["others"] is None:
        ids = write_tokenizer(folder / "tokenizer", WORDS, SPECIAL)
        encoder = write_text_encoder(folder / "text_encoder", case["is_flux3"], ids, generator)
        write_vae(folder / "vae", case["decoder"], generator)
    write_transformer(folder / "transformer", case, generator)
    version = {"_diffusers_version": diffusers.__version__}
    if case["is_flux3"]:
        own = case["repository"]
        parts = {role: part_of(role, own if role == "transformer" or case["others"] is None else case["others"]) for role in FLUX3}
        blocks = case["class"].replace("ModularPipeline", "AutoBlocks")
        write(folder / "modular_model_index.json", {"_blocks_class_name": blocks, "_class_name": case["class"], **version, **parts}, indent=2)
        return encoder
    (folder / "scheduler").mkdir()
    write(folder / "scheduler/scheduler_config.json", {"_class_name": "FlowMatchEulerDiscreteScheduler", **version, **SCHEDULER}, indent=2)
    write(folder / "model_index.json", {"_class_name": case["class"], **version, "is_distilled": False, **KLEIN}, indent=2)
    return encoder
