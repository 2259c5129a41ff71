#!/usr/bin/env python3
"""Makes the goldens of GPT-2: small models, token ids, and transformers' logits in double precision.

Also makes a byte-pair vocabulary, which the library `tokenizers` trains.

    python3 tests/goldens/make_language_models.py --out tests/goldens/text

The files of a case and the precision are those of make_text_encoders.py, whose parts this uses. `logits` is the output.
Each folder is then opened by transformers' AutoModelForCausalLM, which must compute the same.
The folder `bpe` has the tokenizer.json that `tokenizers` trains on strings.json (make_tokens.py), and the ids that it
gives these strings.
"""

import argparse
import json
import os
import pathlib

import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from transformers import AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel

from make_text_encoders import make_case

# Odd sizes on purpose: an MLP that is not 4 widths, fewer tokens than positions.
CASES = {
    "gpt2": dict(seed=35, tokens=11, batch=2,
                 config=dict(vocab_size=59, n_positions=13, n_embd=24, n_layer=2, n_head=3, n_inner=52)),
    "gpt2-untied": dict(seed=36, tokens=7, batch=3,
                        config=dict(vocab_size=41, n_positions=7, n_embd=20, n_layer=1, n_head=2, activation_function="relu",
                                    scale_attn_weights=False, layer_norm_epsilon=1e-3, tie_word_embeddings=False)),
}


def make_gpt2(case, generator):
    model = GPT2LMHeadModel(GPT2Config(**case["config"], attn_implementation="eager")).eval()
    for name, parameter in sorted(model.named_parameters()):  # as `randomize`, for matrices that are [in, out]
        draw = torch.randn(parameter.shape, generator=generator)
        if parameter.ndim == 2:
            parameter.data = draw * (0.5 if "wpe" in name else parameter.shape[0 if ".h." in name else 1] ** -0.5)
        else:
            parameter.data = 0.1 * draw if name.endswith("bias") else 1 + 0.2 * draw
    tied = case["config"].get("tie_word_embeddings", True)
    weights = {name: tensor for name, tensor in model.state_dict().items() if not (tied and name == "lm_head.weight")}
    ids = torch.randint(case["config"]["vocab_size"], (case["batch"], case["tokens"]), generator=generator)
    case["config"]["model_type"] = "gpt2"
    return model, weights, {"input_ids": ids}


def require_same(folder):
    golden = load_file(os.path.join(folder, "golden.safetensors"))
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    with torch.no_grad():
        logits = model(input_ids=golden["input_ids"]).logits.double()
    error = ((logits - golden["logits"]).norm() / golden["logits"].norm()).item()
    if not error < 1e-5:
        raise SystemExit(f"{folder}: transformers opens it as another model, {error:.2e} from the golden")


def make_bpe(strings, folder):
    texts = json.loads(strings.read_text(encoding="utf-8"))
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=900, special_tokens=["<|endoftext|>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    ids = [tokenizer.encode(text).ids for text in texts]
    (folder / "ids.json").write_text(json.dumps(ids, separators=(",", ":")) + "\n", encoding="utf-8")
    print(f"bpe: {tokenizer.get_vocab_size()} tokens, {sum(map(len, ids))} ids of {len(texts)} texts")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", required=True, help="folder to write the case folders in")
    args = parser.parse_args()
    make_bpe(pathlib.Path(__file__).parent / "text" / "strings.json", pathlib.Path(args.out) / "bpe")
    for name, case in CASES.items():
        folder = os.path.join(args.out, name)
        make_case(folder, case, make_gpt2, lambda model, inputs: {"logits": model(**inputs).logits})
        require_same(folder)


if __name__ == "__main__":
    main()
