#!/usr/bin/env bash
# transformers' T5Tokenizer does not use the steps that a folder's tokenizer.json names.
#
# It takes the pieces, the character map and the added tokens of the file, and splits texts by steps of its own: at all
# white space of Unicode, before words are marked. The library tokenizers, on the same file, does as the file says. A
# file whose pre-tokenizer is Metaspace alone, as T5's converted files have it, therefore gives other ids wherever a
# text holds a line feed, a tab or U+0085: what T5TokenizerFast of transformers 4 gave for a text is not what the same
# folder gives today.
#
# Seen with transformers 5.24.0 and tokenizers 0.23.3 on Python 3.11:
#   tokenizers:   ['▁a', '<0x0A>b', '</s>']
#   transformers: ['▁a', '▁b', '</s>']
# (where the vocabulary has the piece "\nb"; printed with its line feed as <0x0A>). Fails if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q transformers==5.24.0 tokenizers==0.23.3
cat > "$folder/find.py" <<'PYTHON'
import json, pathlib, sys
from tokenizers import Tokenizer
from transformers import T5Tokenizer

folder = pathlib.Path(sys.argv[1]) / "t5"
folder.mkdir()
metaspace = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True}
token = lambda i, text: {"id": i, "content": text, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
(folder / "tokenizer.json").write_text(json.dumps({
    "version": "1.0", "truncation": None, "padding": None, "normalizer": None, "pre_tokenizer": metaspace, "decoder": metaspace,
    "added_tokens": [token(0, "<pad>"), token(1, "</s>"), token(2, "<unk>")],
    "post_processor": {"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}],
                       "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
                       "special_tokens": {"</s>": {"id": "</s>", "ids": [1], "tokens": ["</s>"]}}},
    "model": {"type": "Unigram", "unk_id": 2, "byte_fallback": False,
              "vocab": [["<pad>", 0], ["</s>", 0], ["<unk>", 0], ["\u2581a", -1], ["\u2581b", -1], ["\nb", -1]]}}))
shown = lambda tokens: [text.replace("\n", "<0x0A>") for text in tokens]
print("tokenizers:  ", shown(Tokenizer.from_file(str(folder / "tokenizer.json")).encode("a\nb").tokens))
tokenizer = T5Tokenizer.from_pretrained(folder)
print("transformers:", shown(tokenizer.convert_ids_to_tokens(tokenizer("a\nb").input_ids)))
PYTHON
"$folder/venv/bin/python" "$folder/find.py" "$folder" 2> "$folder/err" > "$folder/out" || { cat "$folder/err"; exit 1; }
cat "$folder/out"
diff "$folder/out" - <<'EXPECTED'
tokenizers:   ['▁a', '<0x0A>b', '</s>']
transformers: ['▁a', '▁b', '</s>']
EXPECTED
