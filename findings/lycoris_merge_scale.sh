#!/usr/bin/env bash
# LyCORIS merges LoHa and LoKr with their scale applied twice.
#
# lycoris-lora 4.1.3: a LoHa or LoKr module adds alpha / rank * update to the weight in its forward pass, which is what
# is trained, but get_merged_weight(), which merge_to() writes into the model, adds (alpha / rank)^2 * update:
# get_weight() has the scale in it, and get_diff_weight() multiplies by it again. LoCon is merged as it is trained.
# Equal where alpha is the rank.
#
# Seen with lycoris-lora 4.1.3, torch 2.9.1 on a CPU, Python 3.11:
#     locon: merged / forward = 1.000, alpha / rank = 1.500
#     loha: merged / forward = 1.500, alpha / rank = 1.500
#     lokr: merged / forward = 1.500, alpha / rank = 1.500
#
# Installs these packages in a temporary folder, and fails where the output is another.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet torch==2.9.1 lycoris-lora==4.1.3 numpy

cat >"$folder/probe.py" <<'PYTHON'
import torch
from lycoris.modules.locon import LoConModule
from lycoris.modules.loha import LohaModule
from lycoris.modules.lokr import LokrModule

torch.manual_seed(0)
for name, kind in (("locon", LoConModule), ("loha", LohaModule), ("lokr", LokrModule)):
    linear = torch.nn.Linear(64, 64, bias=False).double()
    module = kind("x", linear, 1.0, lora_dim=2, alpha=3).double()
    for parameter in module.parameters():
        parameter.data = torch.randn_like(parameter)
    with torch.no_grad():
        forward = module(torch.eye(64, dtype=torch.float64)).T - linear.weight
        merged = module.get_merged_weight(1.0, linear.weight.shape)[0] - linear.weight
    ratio = ((merged * forward).sum() / (forward * forward).sum()).item()
    print(f"{name}: merged / forward = {ratio:.3f}, alpha / rank = {3 / 2:.3f}")
PYTHON

cat >"$folder/expected" <<'TEXT'
locon: merged / forward = 1.000, alpha / rank = 1.500
loha: merged / forward = 1.500, alpha / rank = 1.500
lokr: merged / forward = 1.500, alpha / rank = 1.500
TEXT
"$folder/env/bin/python" "$folder/probe.py" 2>/dev/null | grep "alpha / rank" | tee "$folder/seen"
diff "$folder/expected" "$folder/seen"
