"""Writes a small FLUX with random weights as a folder in diffusers' layout, as its users have it.

What is as in the published folders: which files there are and how they are named, T5 and the transformer in shards with
an index, configs with the keys that diffusers and transformers write. What is not: sizes, and the vocabularies. That of
CLIP has the first merges of the published one (text/clip/merges.txt). T5's pieces are trained here, and normalized by a
part of NFKC in place of nmt_nfkc, whose table alone takes 240 KB.
"""

import json
import math
import shutil
import subprocess
import tempfile
import unicodedata
from pathlib import Path

import diffusers
import torch
from diffusers import AutoencoderKL, FluxTransformer2DModel
from transformers import CLIPTextConfig, CLIPTextModel, T5Config, T5EncoderModel

from make_text_encoders import randomize as randomize_encoder
from make_tokens import PHRASES, clip_pieces, t5_json, write
from random_weights import randomize, round_weights
from tiny_stable_diffusion_folder import save_encoder

CLIP_MERGES = 120
T5_PIECES = 260
T5_PADDED = 4  # rows of its embedding that no id has, as T5's 28
SHARD_BYTES = {"text_encoder_2": 32_000, "transformer": 250_000}
VAE = dict(down_block_types=["DownEncoderBlock2D"] * 4, up_block_types=["UpDecoderBlock2D"] * 4, layers_per_block=2,
           norm_num_groups=4, sample_size=1024, scaling_factor=0.3611, shift_factor=0.1159, use_quant_conv=False,
           use_post_quant_conv=False)
DECODED_SCALE = 0.4  # of the decoder's last convolution: pixels mostly within -1 and 1, some clamped

# What T5's pieces are trained on, together with some of the phrases that other tokenizers are tested with.
SENTENCES = [
    "a small white house under a pale sky, with dark windows and a red door",
    "fishing boats in the harbour at dawn, nets on the quay", "wind in the sails, rain on the windows",
    "an old man and his dog walk over the water of a frozen lake", "gulls over the sea, gold hills behind the town",
    "make the fox blue, make the sky green, keep the house and the boats", "highly detailed, very sharp, in colour",
    "portrait of a woman with long hair who mends a sail", "width and price of the art are all that they still see",
    "a description of nothing in particular by nobody, in black and white",
    "light, shadow, fire, snow, stone, grass, glass, dust, paper and iron",
]

COMPONENTS = {
    "scheduler": ["diffusers", "FlowMatchEulerDiscreteScheduler"], "text_encoder": ["transformers", "CLIPTextModel"],
    "text_encoder_2": ["transformers", "T5EncoderModel"], "tokenizer": ["transformers", "CLIPTokenizer"],
    "tokenizer_2": ["transformers", "T5TokenizerFast"], "transformer": ["diffusers", "FluxTransformer2DModel"],
    "vae": ["diffusers", "AutoencoderKL"],
}


def normalization_rules():
    """NFKC of spaces, of Latin, Greek and Cyrillic letters, and of full-width forms, in spm_train's form: from, to."""
    ranges = [(0xA0, 0x530), (0x1E00, 0x2070), (0x2100, 0x2190), (0x3000, 0x3001), (0xFB00, 0xFB07), (0xFF01, 0xFF5F)]
    letters = [chr(code) for low, high in ranges for code in range(low, high)]
    rules = {"\t": " ", "\n": " ", "\r": " ", "\u200b": " "}
    for letter in letters:
        if (normal := unicodedata.normalize("NFKC", letter)) != letter:
            rules[letter] = normal
        if (parts := unicodedata.normalize("NFD", letter)) != letter and unicodedata.normalize("NFC", parts) == letter:
            rules[parts] = letter
    hexadecimal = lambda text: " ".join(f"{ord(character):x}" for character in text)  # noqa: E731
    return "".join(f"{hexadecimal(given)}\t{hexadecimal(rules[given])}\n" for given in sorted(rules))


def described(content, normalized=False, sides=False):
    """A special token as transformers 4 writes it; `sides` is whether it takes the spaces on its sides."""
    return dict(content=content, lstrip=sides, normalized=normalized, rstrip=sides, single_word=False)


def write_tokenizer_configs(folder, name, roles, tokens, config, special):
    """The files that transformers 4 saves next to a vocabulary. Version 5 saves tokenizer.json alone."""
    decoder = {str(id): {**token, "special": True} for id, token in tokens.items()}
    contents = {role: token["content"] for role, token in roles.items()}
    write(folder / "tokenizer_config.json", {"added_tokens_decoder": decoder, "clean_up_tokenization_spaces": True,
                                             "tokenizer_class": name, **contents, **config}, indent=2)
    write(folder / "special_tokens_map.json", {**roles, **special}, indent=2)


def write_clip_tokenizer(folder):
    """Gives how many pieces it has."""
    folder.mkdir(parents=True)
    merges = (Path(__file__).parent / "text/clip/merges.txt").read_text().splitlines()[1:CLIP_MERGES + 1]
    pieces = clip_pieces(merges)
    write(folder / "vocab.json", pieces)
    (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *merges]) + "\n")
    begin, end = (described(content, normalized=True) for content in ("<|startoftext|>", "<|endoftext|>"))
    roles = dict(bos_token=begin, eos_token=end, pad_token=end, unk_token=end)
    write_tokenizer_configs(folder, "CLIPTokenizer", roles, {pieces[token["content"]]: token for token in (begin, end)},
                            dict(errors="replace", model_max_length=77), dict(pad_token=end["content"]))
    return len(pieces)


def write_t5_tokenizer(folder):
    """Gives how many pieces it has."""
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as made:
        (Path(made) / "rules.tsv").write_text(normalization_rules())
        (Path(made) / "corpus.txt").write_text("\n".join((PHRASES[:12] + SENTENCES) * 3) + "\n")
        subprocess.run(["spm_train", "--input=corpus.txt", "--model_prefix=spiece", f"--vocab_size={T5_PIECES}",
                        "--character_coverage=1", "--pad_id=0", "--eos_id=1", "--unk_id=2", "--bos_id=-1",
                        "--normalization_rule_tsv=rules.tsv", "--num_threads=1", "--minloglevel=2"],
                       cwd=made, check=True)  # the model says what the files were called
        shutil.copyfile(f"{made}/spiece.model", folder / "spiece.model")
    tokenizer = t5_json(folder)
    write(folder / "tokenizer.json", tokenizer)
    pad, end, unknown = (described(content) for content in ("<pad>", "</s>", "<unk>"))
    extra = [f"<extra_id_{i}>" for i in range(100)]
    tokens = {token["id"]: described(token["content"], sides=token["content"] in extra) for token in tokenizer["added_tokens"]}
    write_tokenizer_configs(folder, "T5Tokenizer", dict(eos_token=end, pad_token=pad, unk_token=unknown), tokens,
                            dict(add_prefix_space=True, additional_special_tokens=extra, extra_ids=100, legacy=True,
                                 model_max_length=512, sp_model_kwargs={}), dict(additional_special_tokens=extra))
    return len(tokenizer["model"]["vocab"])


def clip_model(config, vocabulary, end_of_text):
    shared = dict(vocab_size=vocabulary, hidden_act="quick_gelu", max_position_embeddings=77, num_hidden_layers=2)
    ids = dict(bos_token_id=vocabulary - 2, pad_token_id=vocabulary - 1, eos_token_id=end_of_text or vocabulary - 1)
    return CLIPTextModel(CLIPTextConfig(**shared, **ids, **config))


def t5_model(config, vocabulary):
    shared = dict(vocab_size=vocabulary + T5_PADDED, feed_forward_proj="gated-gelu", num_layers=2)
    return T5EncoderModel(T5Config(**shared, **config))


def write_as_version_4(folder, **members):
    """What transformers 5 has written of an encoder, with the keys of version 4 and these members."""
    path = folder / "config.json"
    config = json.loads(path.read_text()) | dict(torch_dtype="float32") | members
    for name in ("dtype", "is_decoder", "scale_decoder_outputs", "tie_word_embeddings"):
        config.pop(name, None)
    write(path, config, indent=2)
    path = folder / "model.safetensors.index.json"
    if path.exists():
        index = json.loads(path.read_text())
        del index["metadata"]["total_parameters"]
        write(path, index, indent=2)


def calm_times(transformer):
    """Quietens the fast waves of times and guidance, as training does: 3500 is 3504 in bf16, and must mean the same."""
    frequency = torch.exp(-math.log(10000) * torch.arange(128) / 128).repeat(2)  # cosines, then sines
    for name, embedder in transformer.time_text_embed.named_children():
        if name in ("timestep_embedder", "guidance_embedder"):
            embedder.linear_1.weight.data /= 1 + (100 * frequency) ** 2


def write_folder(folder, case):
    """Every random number comes from the case's seed, in the order below."""
    generator = torch.Generator().manual_seed(case["seed"])
    models = {
        "text_encoder": clip_model(case["clip"], write_clip_tokenizer(folder / "tokenizer"), case["end_of_text"]),
        "text_encoder_2": t5_model(case["t5"], write_t5_tokenizer(folder / "tokenizer_2")),
        "transformer": FluxTransformer2DModel(
            patch_size=1, in_channels=4 * case["vae"]["latent_channels"], joint_attention_dim=case["t5"]["d_model"],
            pooled_projection_dim=case["clip"]["hidden_size"], **case["transformer"]),
        "vae": AutoencoderKL(**VAE, **case["vae"]),
    }
    for name, model in models.items():
        (randomize_encoder if name.startswith("text_encoder") else randomize)(model, generator)
        if name == "transformer":
            calm_times(model)
        if name == "vae":
            model.decoder.conv_out.weight.data *= DECODED_SCALE
        round_weights(model)
        if name == "text_encoder":
            save_encoder(model, folder / name, torch.float32)
            write_as_version_4(folder / name)
        else:
            model.save_pretrained(folder / name, max_shard_size=SHARD_BYTES.get(name, "5GB"))
        if name == "text_encoder_2":
            write_as_version_4(folder / name, is_encoder_decoder=True, use_cache=True)
    version = {"_diffusers_version": diffusers.__version__}
    (folder / "scheduler").mkdir(exist_ok=True)
    scheduler = {"_class_name": COMPONENTS["scheduler"][1], **version, **case["scheduler"]}
    write(folder / "scheduler/scheduler_config.json", scheduler, indent=2)
    index = {"_class_name": case["pipeline"], **version, **dict.fromkeys(case["absent"], [None, None]), **COMPONENTS}
    write(folder / "model_index.json", index, indent=2)
