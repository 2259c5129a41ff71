#!/usr/bin/env python3
"""Makes the goldens of text encoders: small models, token ids, and transformers' outputs in double precision.

    python3 tests/goldens/make_text_encoders.py --out tests/goldens/text

Each case is a folder as transformers writes it, config.json and model.safetensors (F32, random), with
golden.safetensors: `input_ids` (I64) and in F64 what the model gives, under transformers' names: `last_hidden_state`;
of T5 also `attention_mask` (I64) and `last_hidden_state_masked`; of CLIP `pooler_output` or `text_embeds`, and
`hidden_states.0` and on, which language models have too. `*_bf16_error` is how far transformers in bf16 is from each
(relative L2). Runs on a CPU in seconds. Needs PyTorch, transformers, diffusers (for make_flux.py) and safetensors.

A double model in transformers is not double throughout: its norms, softmaxes and position buckets cast to float32.
While a golden is computed, such casts go to float64, and an operation that returns another floating-point dtype stops
the script. Rotary frequencies are float32 from the start, and are computed again.
"""

import argparse
import json
import math
import os

import torch
from safetensors.torch import save_file
from torch.nn.attention import SDPBackend, sdpa_kernel

from transformers import (CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection, Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration,
                          Qwen3Config, Qwen3ForCausalLM, Qwen3VLConfig, Qwen3VLForConditionalGeneration, T5Config, T5EncoderModel)

from make_flux import OnlyDouble
from random_weights import round_weights

# Odd sizes on purpose: heads that do not add up to the width, distances in every kind of bucket, ends of text in
# different places.
T5_CASES = {
    "t5": dict(config=dict(vocab_size=61, d_model=28, d_kv=10, num_heads=3, d_ff=44, num_layers=2, feed_forward_proj="gated-gelu",
                           relative_attention_num_buckets=32, relative_attention_max_distance=128),
               embedding="shared.weight", tokens=21, seen=(21, 13), seed=31),
    "t5-relu": dict(config=dict(vocab_size=37, d_model=20, d_kv=6, num_heads=2, d_ff=33, num_layers=2, feed_forward_proj="relu",
                                relative_attention_num_buckets=8, relative_attention_max_distance=20),
                    embedding="encoder.embed_tokens.weight", tokens=27, seen=(5, 27), seed=32),
}
# As OpenAI's L, padded with the end of text, and as OpenCLIP's bigG, padded with 0.
CLIP_CASES = {
    "clip-l": dict(kind=CLIPTextModel, seed=33, pads_with_end=True, lengths=(4, 11), tokens=13,
                   config=dict(vocab_size=67, hidden_size=24, intermediate_size=44, num_hidden_layers=2, num_attention_heads=3,
                               max_position_embeddings=13, hidden_act="quick_gelu")),
    "clip-g": dict(kind=CLIPTextModelWithProjection, seed=34, pads_with_end=False, lengths=(9, 3, 6), tokens=9,
                   config=dict(vocab_size=53, hidden_size=20, intermediate_size=36, num_hidden_layers=3, num_attention_heads=2,
                               max_position_embeddings=15, hidden_act="gelu", projection_dim=14)),
}
# As Qwen2.5-VL, with names as published and as version 5 has them in memory, and as Qwen3: heads of queries that share
# keys.
VISION = dict(depth=1, hidden_size=8, intermediate_size=8, num_heads=2, out_hidden_size=24, patch_size=4, fullatt_block_indexes=[0])
VISION_3 = dict(depth=1, hidden_size=8, intermediate_size=8, num_heads=2, patch_size=4, deepstack_visual_indexes=[0])
LANGUAGE_CASES = {
    "qwen2.5-vl": dict(kind=Qwen2_5_VLForConditionalGeneration, seed=35, tokens=19, batch=2, names=str,
                       config=dict(vocab_size=59, hidden_size=24, intermediate_size=44, num_hidden_layers=2, num_attention_heads=4,
                                   num_key_value_heads=2, rms_norm_eps=1e-6,
                                   rope_parameters=dict(rope_type="default", rope_theta=1e6, mrope_section=[1, 1, 1]))),
    "qwen2.5-vl-nested": dict(kind=Qwen2_5_VLForConditionalGeneration, seed=36, tokens=7, batch=1,
                              names=lambda name: name.replace("model.", "model.language_model."),
                              config=dict(vocab_size=43, hidden_size=20, intermediate_size=28, num_hidden_layers=1,
                                          num_attention_heads=2, num_key_value_heads=2, rms_norm_eps=1e-5,
                                          rope_parameters=dict(rope_type="default", rope_theta=1e4, mrope_section=[1, 2, 2]))),
    "qwen3": dict(kind=Qwen3ForCausalLM, seed=37, tokens=15, batch=2, names=str,
                  config=dict(vocab_size=47, hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4,
                              num_key_value_heads=1, head_dim=10, rms_norm_eps=1e-6,
                              rope_parameters=dict(rope_type="default", rope_theta=1e6))),
}

# States of several layers side by side, of ids padded on the right: padding is masked as keys, and its states are read.
# FLUX.3 gives padding the position 1 (diffusers' Flux3TextEncoderStep), FLUX.2 the position of its place.
STACKED_CASES = {
    "qwen3-stacked": dict(kind=Qwen3ForCausalLM, seed=38, tokens=13, batch=1, lengths=(5,), names=str,
                          config=dict(vocab_size=47, hidden_size=12, intermediate_size=20, num_hidden_layers=4, num_attention_heads=4,
                                      num_key_value_heads=2, head_dim=6, rms_norm_eps=1e-6, text_encoder_out_layers=[1, 3],
                                      rope_parameters=dict(rope_type="default", rope_theta=1e6))),
    "qwen3-vl-stacked": dict(kind=Qwen3VLForConditionalGeneration, seed=39, tokens=11, batch=1, lengths=(4,), names=str,
                             config=dict(vocab_size=53, hidden_size=12, intermediate_size=20, num_hidden_layers=4, num_attention_heads=4,
                                         num_key_value_heads=2, head_dim=6, rms_norm_eps=1e-6, text_encoder_out_layers=[0, 2, 3],
                                         rope_parameters=dict(rope_type="default", rope_theta=5e6, mrope_section=[1, 1, 1]))),
}


class InDouble(OnlyDouble):
    """Makes of every float32 that is asked for a float64."""

    def __torch_dispatch__(self, function, types, arguments=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if kwargs.get("dtype") == torch.float32:
            kwargs["dtype"] = torch.float64
        return super().__torch_dispatch__(function, types, arguments, kwargs)


def randomize(model, generator):
    """Weights of 1/sqrt(fan_in), tables of order 1, biases of 0.1, gains around 1: activations of order 1."""
    for name, parameter in sorted(model.named_parameters()):
        draw = torch.randn(parameter.shape, generator=generator)
        if "embed" in name or "shared" in name or "relative_attention_bias" in name:
            parameter.data = draw
        elif parameter.ndim >= 2:
            parameter.data = draw / math.sqrt(parameter[0].numel())
        elif name.endswith("bias"):
            parameter.data = 0.1 * draw
        else:
            parameter.data = 1 + 0.2 * draw


def t5_outputs(model, inputs):
    ids, mask = inputs["input_ids"], inputs["attention_mask"]
    return {"last_hidden_state": model(input_ids=ids).last_hidden_state,
            "last_hidden_state_masked": model(input_ids=ids, attention_mask=mask).last_hidden_state}


def clip_outputs(model, inputs):
    result = model(input_ids=inputs["input_ids"], output_hidden_states=True)
    pooled = "text_embeds" if isinstance(model, CLIPTextModelWithProjection) else "pooler_output"
    states = {f"hidden_states.{i}": state for i, state in enumerate(result.hidden_states)}
    return {"last_hidden_state": result.last_hidden_state, pooled: result[pooled], **states}


def language_outputs(model, inputs):
    states = model(input_ids=inputs["input_ids"], output_hidden_states=True).hidden_states
    return {"last_hidden_state": states[-1], **{f"hidden_states.{i}": state for i, state in enumerate(states)}}


def stacked_outputs(model, inputs):
    ids, lengths = inputs["input_ids"], inputs["text_tokens"]
    place = torch.arange(ids.shape[1])
    mask = (place[None] < lengths[:, None]).long()
    positions = {} if isinstance(model, Qwen3ForCausalLM) else {"position_ids": place[None].expand_as(ids).masked_fill(mask == 0, 1)}
    states = model(input_ids=ids, attention_mask=mask, output_hidden_states=True, use_cache=False, **positions).hidden_states
    return {"stacked_states": torch.cat([states[k] for k in model.config.get_text_config().text_encoder_out_layers], dim=-1)}


def in_double(model):
    model = model.double()
    for module in model.modules():
        if isinstance(getattr(module, "inv_freq", None), torch.Tensor) and hasattr(module.config, "rope_parameters"):
            half, theta = len(module.inv_freq), module.config.rope_parameters["rope_theta"]
            module.inv_freq = theta ** (-torch.arange(half, dtype=torch.float64) / half)
    return model


def make_t5(case, generator):
    config = case["config"]
    model = T5EncoderModel(T5Config(**config, attn_implementation="eager")).eval()
    randomize(model, generator)
    tied = ("shared.weight", "encoder.embed_tokens.weight")
    weights = {name: tensor for name, tensor in model.state_dict().items() if name not in tied}
    weights[case["embedding"]] = model.get_input_embeddings().weight.data
    place = torch.arange(case["tokens"])
    inputs = {"input_ids": torch.randint(config["vocab_size"], (len(case["seen"]), case["tokens"]), generator=generator),
              "attention_mask": torch.stack([(place < seen).long() for seen in case["seen"]])}
    return model, weights, inputs


def make_clip(case, generator):
    config = case["config"]
    end = config["vocab_size"] - 1
    model = case["kind"](CLIPTextConfig(**config, eos_token_id=end, attn_implementation="eager")).eval()
    randomize(model, generator)
    weights = {name: tensor for name, tensor in model.state_dict().items() if not name.endswith("position_ids")}
    ids = torch.full((len(case["lengths"]), case["tokens"]), end if case["pads_with_end"] else 0)
    for row, length in zip(ids, case["lengths"]):  # start, words, end
        row[0] = end - 1
        row[1:length - 1] = torch.randint(1, end - 1, (length - 2,), generator=generator)
        row[length - 1] = end
    return model, weights, {"input_ids": ids}


def make_language(case, generator):
    """Weights of the language half under the case's names, and unread ones: the head's and one of vision's."""
    ids = dict(bos_token_id=0, eos_token_id=1, attn_implementation="eager")
    if case["kind"] is Qwen3ForCausalLM:
        model = Qwen3ForCausalLM(Qwen3Config(**case["config"], **ids))
    elif case["kind"] is Qwen3VLForConditionalGeneration:
        text = dict(case["config"], **ids)
        model = case["kind"](Qwen3VLConfig(text_config=text, vision_config=dict(VISION_3, out_hidden_size=text["hidden_size"]),
                                           attn_implementation="eager"))
    else:
        text = dict(case["config"], **ids)
        model = Qwen2_5_VLForConditionalGeneration(Qwen2_5_VLConfig(text_config=text, vision_config=VISION, attn_implementation="eager"))
    randomize(model.eval(), generator)
    saved = {name.replace("model.language_model.", "model."): tensor for name, tensor in model.state_dict().items()}
    weights = {case["names"](name): tensor for name, tensor in saved.items() if "visual" not in name}
    if case["kind"] is Qwen3VLForConditionalGeneration:
        weights = {name: tensor for name, tensor in model.state_dict().items() if "visual" not in name}
    elif case["kind"] is not Qwen3ForCausalLM:
        weights["visual.merger.ln_q.weight"] = saved["model.visual.merger.ln_q.weight"]
    shape = (case["batch"], case["tokens"])
    inputs = {"input_ids": torch.randint(case["config"]["vocab_size"], shape, generator=generator)}
    if "lengths" in case:
        inputs["text_tokens"] = torch.tensor(case["lengths"])
    return model, weights, inputs


def make_case(folder, case, make, outputs):
    model, weights, inputs = make(case, torch.Generator().manual_seed(case["seed"]))
    round_weights(model)
    weights = {name: tensor.float().clone().contiguous() for name, tensor in weights.items()}
    tensors = dict(inputs)
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
        torch.set_default_dtype(torch.float64)
        with InDouble():
            golden = outputs(in_double(model), inputs)
        torch.set_default_dtype(torch.float32)
        single = outputs(model.float(), inputs)
        narrow = outputs(model.bfloat16(), inputs)
    error = lambda result, name: ((result[name].double() - golden[name]).norm() / golden[name].norm()).item()  # noqa: E731
    for name, tensor in golden.items():
        if tensor.dtype != torch.float64 or not torch.isfinite(tensor).all():
            raise SystemExit(f"{folder}: {name} is {tensor.dtype} and must be finite float64")
        if not error(single, name) < 1e-4:
            raise SystemExit(f"{folder}: float32 transformers is {error(single, name):.2e} from {name}")
        tensors[name] = tensor.clone().contiguous()
        tensors[name + "_bf16_error"] = torch.tensor([error(narrow, name)], dtype=torch.float64)
        print(f"{os.path.basename(folder)} {name} {list(tensor.shape)}: rms {tensor.square().mean().sqrt().item():.4f}, transformers "
              f"within {error(single, name):.2e} in fp32, {error(narrow, name):.2e} in bf16", flush=True)
    os.makedirs(folder, exist_ok=True)
    config = {"architectures": [type(model).__name__], **case["config"]}
    if make is make_clip:
        config["eos_token_id"] = case["config"]["vocab_size"] - 1
    if case.get("kind") in (Qwen2_5_VLForConditionalGeneration, Qwen3VLForConditionalGeneration):
        config = {"architectures": config["architectures"], "text_config": case["config"]}
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file, indent=2)
        file.write("\n")
    save_file(weights, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})
    save_file(tensors, os.path.join(folder, "golden.safetensors"))
    print(f"{os.path.basename(folder)}: {', '.join(sorted(weights))}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", required=True, help="folder to write the case folders in")
    args = parser.parse_args()
    for name, case in T5_CASES.items():
        make_case(os.path.join(args.out, name), case, make_t5, t5_outputs)
    for name, case in CLIP_CASES.items():
        make_case(os.path.join(args.out, name), case, make_clip, clip_outputs)
    for name, case in LANGUAGE_CASES.items():
        make_case(os.path.join(args.out, name), case, make_language, language_outputs)
    for name, case in STACKED_CASES.items():
        make_case(os.path.join(args.out, name), case, make_language, stacked_outputs)


if __name__ == "__main__":
    main()
