"""encode_t5.py FOLDER STRINGS: prints the ids of strings (a JSON list) by transformers' T5Tokenizer as JSON.

For tests/goldens/make_tokens.py. Made with transformers 5.24.0, tokenizers 0.23.3, sentencepiece 0.2.3, protobuf 7.
"""

import json
import pathlib
import sys

from transformers import T5Tokenizer

tokenizer = T5Tokenizer.from_pretrained(sys.argv[1])
json.dump([tokenizer(text).input_ids for text in json.loads(pathlib.Path(sys.argv[2]).read_text())], sys.stdout)
