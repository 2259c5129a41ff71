#!/usr/bin/env bash
# diffusers leaves the index of shards when it saves a whole file over them, and then does not load what it saved.
#
# save_pretrained removes the old shards of a folder, but not their index. from_pretrained prefers an index, and misses
# a shard that it names, although the whole file next to it is complete. The other order leaves the old whole file next
# to the new shards; the shards are loaded then, but a reader that looks for the whole file first gets the old weights.
#
# Seen with diffusers 0.42.1, torch 2.15.0, numpy 2.4.6, Python 3.11:
#   shards of 0.25, then a whole file of 0.5:
#     diffusion_pytorch_model.safetensors
#     diffusion_pytorch_model.safetensors.index.json
#     not loaded: FileNotFoundError
#   a whole file of 0.25, then shards of 0.5:
#     diffusion_pytorch_model-00001-of-00003.safetensors
#     diffusion_pytorch_model-00002-of-00003.safetensors
#     diffusion_pytorch_model-00003-of-00003.safetensors
#     diffusion_pytorch_model.safetensors
#     diffusion_pytorch_model.safetensors.index.json
#     loaded: 0.5
#
# Ends with 0 while that is so, and with 1 when it changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet diffusers==0.42.1 torch==2.15.0 numpy==2.4.6
cat >"$folder/save.py" <<'PY'
import pathlib
import sys
import torch
from diffusers import UNet2DModel

def save(folder, value, **options):
    model = UNet2DModel(sample_size=8, block_out_channels=(32, 64), layers_per_block=1,
                        down_block_types=("DownBlock2D", "DownBlock2D"), up_block_types=("UpBlock2D", "UpBlock2D"))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(value)
    model.save_pretrained(folder, **options)

def show(title, folder):
    print(f"{title}:")
    for path in sorted(pathlib.Path(folder).glob("diffusion*")):
        print(f"  {path.name}")
    try:
        print("  loaded:", next(UNet2DModel.from_pretrained(folder).parameters()).flatten()[0].item())
    except OSError as error:
        print("  not loaded:", type(error).__name__)

shards = {"max_shard_size": "1MB"}
first, second = f"{sys.argv[1]}/first", f"{sys.argv[1]}/second"
save(first, 0.25, **shards)
save(first, 0.5)
show("shards of 0.25, then a whole file of 0.5", first)
save(second, 0.25)
save(second, 0.5, **shards)
show("a whole file of 0.25, then shards of 0.5", second)
PY
"$folder/venv/bin/python" "$folder/save.py" "$folder" 2>"$folder/err" >"$folder/seen" || { cat "$folder/err"; exit 1; }
cat "$folder/seen"
diff - "$folder/seen" <<'EXPECTED'
shards of 0.25, then a whole file of 0.5:
  diffusion_pytorch_model.safetensors
  diffusion_pytorch_model.safetensors.index.json
  not loaded: FileNotFoundError
a whole file of 0.25, then shards of 0.5:
  diffusion_pytorch_model-00001-of-00003.safetensors
  diffusion_pytorch_model-00002-of-00003.safetensors
  diffusion_pytorch_model-00003-of-00003.safetensors
  diffusion_pytorch_model.safetensors
  diffusion_pytorch_model.safetensors.index.json
  loaded: 0.5
EXPECTED
