#!/usr/bin/env bash
# diffusers loses the alphas of attention's projections in LoRA files of sd-scripts (kohya) for Stable Diffusion.
#
# Such a file has an alpha for each module, and a module is scaled by alpha / rank. diffusers renames the alphas of
# attention's projections to names that peft matches with no module; these projections get the most common alpha of the
# file instead, and nothing but a warning of peft says so. Feed-forward and proj_in keep theirs. Files with one alpha
# for all modules load as trained; those whose alphas were chosen per layer do not.
#
# Seen with diffusers 0.42.1, peft 0.21.2, transformers 5.24.0, torch 2.15.0, numpy 2.4.6, Python 3.11:
#   transformer_blocks.0.attn1.to_q: alpha / rank = 0.25, used 2
#   transformer_blocks.0.attn1.to_v: alpha / rank = 0.5, used 2
#   transformer_blocks.0.attn2.to_out.0: alpha / rank = 0.75, used 2
#   transformer_blocks.0.ff.net.2: alpha / rank = 1, used 1
#   transformer_blocks.0.ff.net.0.proj: alpha / rank = 2, used 2
#   proj_in: alpha / rank = 2, used 2
#
# Ends with 0 while that is so, and with 1 when it changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet diffusers==0.42.1 peft==0.21.2 transformers==5.24.0 accelerate==1.15.0 \
  torch==2.15.0 numpy==2.4.6
cat >"$folder/alphas.py" <<'PY'
import torch
from diffusers import StableDiffusionPipeline, UNet2DConditionModel

unet = UNet2DConditionModel(sample_size=8, block_out_channels=(32, 64), layers_per_block=1, cross_attention_dim=32,
                            attention_head_dim=8, norm_num_groups=8,
                            down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
                            up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"))
attention = "down_blocks.0.attentions.0."
block = "transformer_blocks.0."
alphas = {block + "attn1.to_q": 1.0, block + "attn1.to_v": 2.0, block + "attn2.to_out.0": 3.0, block + "ff.net.2": 4.0,
          block + "ff.net.0.proj": 8.0, "proj_in": 8.0}
rank = 4
file = {}
for module, alpha in alphas.items():
    weight = unet.get_submodule(attention + module).weight
    name = "lora_unet_" + (attention + module).replace(".", "_")
    window = [1] * (weight.dim() - 2)
    file[f"{name}.lora_down.weight"] = torch.ones(rank, weight.shape[1], *window)
    file[f"{name}.lora_up.weight"] = torch.ones(weight.shape[0], rank, *window)
    file[f"{name}.alpha"] = torch.tensor(alpha)
state, network_alphas = StableDiffusionPipeline.lora_state_dict(file, unet_config=unet.config)
StableDiffusionPipeline.load_lora_into_unet(state, network_alphas, unet, adapter_name="lora")
for module, alpha in alphas.items():
    scale = unet.get_submodule(attention + module).scaling["lora"]
    print(f"{module}: alpha / rank = {alpha / rank:g}, used {scale:g}")
PY
"$folder/venv/bin/python" "$folder/alphas.py" 2>"$folder/err" >"$folder/seen" || { cat "$folder/err"; exit 1; }
cat "$folder/seen"
diff - "$folder/seen" <<'EXPECTED'
transformer_blocks.0.attn1.to_q: alpha / rank = 0.25, used 2
transformer_blocks.0.attn1.to_v: alpha / rank = 0.5, used 2
transformer_blocks.0.attn2.to_out.0: alpha / rank = 0.75, used 2
transformer_blocks.0.ff.net.2: alpha / rank = 1, used 1
transformer_blocks.0.ff.net.0.proj: alpha / rank = 2, used 2
proj_in: alpha / rank = 2, used 2
EXPECTED
