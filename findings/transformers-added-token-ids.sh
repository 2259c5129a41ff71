#!/usr/bin/env bash
# transformers gives tokens of added_tokens.json other ids than the file says.
#
# added_tokens.json maps tokens that were added to a vocabulary, such as a textual inversion's placeholder, to the rows
# of the text encoder's embedding that were trained for them. Where these ids do not follow each other, transformers 5
# counts on from the vocabulary's end instead: the token reads another row of the embedding, without a warning. The slow
# tokenizers of transformers 4 kept the ids of the file. tokenizer_config.json's added_tokens_decoder is treated the
# same.
#
# Seen with transformers 5.24.0 and tokenizers 0.23.3 on Python 3.11:
#   added_tokens.json {"<a>": 4, "<b>": 9}: ids [4, 5]
#   added_tokens_decoder {"4": "<a>", "9": "<b>"}: ids [4, 5]
# Fails if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q transformers==5.24.0 tokenizers==0.23.3
cat > "$folder/find.py" <<'PYTHON'
import json, pathlib, sys
from transformers import CLIPTokenizer

def ids(name, **files):
    folder = pathlib.Path(sys.argv[1]) / name
    folder.mkdir()
    (folder / "vocab.json").write_text(json.dumps({"a": 0, "a</w>": 1, "<|startoftext|>": 2, "<|endoftext|>": 3}))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    for file, content in files.items():
        (folder / f"{file}.json").write_text(json.dumps(content))
    return CLIPTokenizer.from_pretrained(folder)("<a><b>", add_special_tokens=False).input_ids

token = lambda text: {"content": text, "lstrip": False, "rstrip": False, "normalized": True, "single_word": False, "special": False}
print('added_tokens.json {"<a>": 4, "<b>": 9}: ids', ids("json", added_tokens={"<a>": 4, "<b>": 9}))
print('added_tokens_decoder {"4": "<a>", "9": "<b>"}: ids',
      ids("decoder", tokenizer_config={"added_tokens_decoder": {"4": token("<a>"), "9": token("<b>")}}))
PYTHON
"$folder/venv/bin/python" "$folder/find.py" "$folder" 2> "$folder/err" > "$folder/out" || { cat "$folder/err"; exit 1; }
cat "$folder/out"
diff "$folder/out" - <<'EXPECTED'
added_tokens.json {"<a>": 4, "<b>": 9}: ids [4, 5]
added_tokens_decoder {"4": "<a>", "9": "<b>"}: ids [4, 5]
EXPECTED
