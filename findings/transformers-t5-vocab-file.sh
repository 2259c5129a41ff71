#!/usr/bin/env bash
# transformers 5 ignores the file that its T5Tokenizer is told to read, and encodes every word as <unk>.
#
# T5Tokenizer documents the argument vocab_file: "SentencePiece file [...] that contains the vocabulary necessary to
# instantiate a tokenizer". It is accepted, even where no such file exists, and not read: the tokenizer has pad, end,
# unknown, the space and the 100 sentinels, and nothing is said of it. transformers 4 read it. A pipeline (FLUX, SD3)
# that is put together from its files this way runs, and no longer sees its prompts. from_pretrained of a folder with
# the same file reads it. What that saves has no spiece.model, the file that slow tokenizers of version 4 and other
# programs read.
#
# Seen with transformers 5.24.0, tokenizers 0.23.3, sentencepiece 0.2.3, protobuf 7.36.2, Python 3.11:
#   sentencepiece: 22 pieces, a red fox: not unknown
#   T5Tokenizer.from_pretrained: 122 pieces, the same ids
#   T5Tokenizer(vocab_file="spiece.model"): 104 pieces, [3, 2, 3, 2, 3, 2, 1]
#   T5Tokenizer(vocab_file="missing.model"): 104 pieces, [3, 2, 3, 2, 3, 2, 1]
#   saved: tokenizer.json, tokenizer_config.json
#
# Ends with 0 while that is so, and with 1 when it changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet transformers==5.24.0 tokenizers==0.23.3 sentencepiece==0.2.3 protobuf==7.36.2
cat >"$folder/encode.py" <<'PY'
import os
import sentencepiece
from transformers import T5Tokenizer

lines = ["a red fox in the snow", "the fox and the red house", "snow over the house", "a house in the red snow"]
with open("corpus.txt", "w") as file:
    file.write("\n".join(lines * 5) + "\n")
sentencepiece.SentencePieceTrainer.train(input="corpus.txt", model_prefix="spiece", vocab_size=60, hard_vocab_limit=False,
                                         pad_id=0, eos_id=1, unk_id=2, bos_id=-1, num_threads=1, minloglevel=2)
os.mkdir("folder")
os.link("spiece.model", "folder/spiece.model")

text = "a red fox"
pieces = sentencepiece.SentencePieceProcessor(model_file="spiece.model")
expected = pieces.encode(text)
print(f"sentencepiece: {len(pieces)} pieces, {text}: {'unknown' if 2 in expected else 'not unknown'}")
loaded = T5Tokenizer.from_pretrained("folder")
print(f"T5Tokenizer.from_pretrained: {len(loaded)} pieces, "
      f"{'the same ids' if loaded(text).input_ids == [*expected, 1] else 'other ids'}")
for name in ("spiece.model", "missing.model"):
    made = T5Tokenizer(vocab_file=name)
    print(f'T5Tokenizer(vocab_file="{name}"): {len(made)} pieces, {made(text).input_ids}')
loaded.save_pretrained("saved")
print("saved:", ", ".join(sorted(os.listdir("saved"))))
PY
(cd "$folder" && venv/bin/python encode.py 2>err >seen) || { cat "$folder/err"; exit 1; }
cat "$folder/seen"
diff - "$folder/seen" <<'EXPECTED'
sentencepiece: 22 pieces, a red fox: not unknown
T5Tokenizer.from_pretrained: 122 pieces, the same ids
T5Tokenizer(vocab_file="spiece.model"): 104 pieces, [3, 2, 3, 2, 3, 2, 1]
T5Tokenizer(vocab_file="missing.model"): 104 pieces, [3, 2, 3, 2, 3, 2, 1]
saved: tokenizer.json, tokenizer_config.json
EXPECTED
