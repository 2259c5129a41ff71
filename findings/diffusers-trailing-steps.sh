#!/usr/bin/env bash
# diffusers' schedulers make one step too many for some numbers of "trailing" steps.
#
# timestep_spacing="trailing" counts with numpy.arange from 1000 down to 0 by 1000 / steps. For 61, 103, 121 and 122
# steps rounding lets its end in, so there is one step more, and after the subtraction of 1 the last one is timestep -1,
# with which the model is called. An engine that makes the table by whole numbers, or a server that counts on as many
# steps as were asked for, disagrees there. All other numbers from 1 to 200 are right.
#
# Seen with diffusers 0.42.1, torch 2.15.0, numpy 2.4.6, Python 3.11:
#   DDIMScheduler: 61 -> 62, last -1; 103 -> 104, last -1; 121 -> 122, last -1; 122 -> 123, last -1
#   EulerDiscreteScheduler: 61 -> 62, last -1; 103 -> 104, last -1; 121 -> 122, last -1; 122 -> 123, last -1
#   DPMSolverMultistepScheduler: 61 -> 62, last -1; 103 -> 104, last -1; 121 -> 122, last -1; 122 -> 123, last -1
#   UniPCMultistepScheduler: 61 -> 62, last -1; 103 -> 104, last -1; 121 -> 122, last -1; 122 -> 123, last -1
#
# Ends with 0 while that is so, and with 1 when it changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet diffusers==0.42.1 torch==2.15.0 numpy==2.4.6
cat >"$folder/steps.py" <<'PY'
from diffusers import DDIMScheduler, DPMSolverMultistepScheduler, EulerDiscreteScheduler, UniPCMultistepScheduler

for kind in (DDIMScheduler, EulerDiscreteScheduler, DPMSolverMultistepScheduler, UniPCMultistepScheduler):
    found = []
    for steps in range(1, 201):
        scheduler = kind(num_train_timesteps=1000, timestep_spacing="trailing")
        scheduler.set_timesteps(steps)
        if len(scheduler.timesteps) != steps:
            found.append(f"{steps} -> {len(scheduler.timesteps)}, last {int(scheduler.timesteps[-1])}")
    print(f"{kind.__name__}: {'; '.join(found)}")
PY
"$folder/venv/bin/python" "$folder/steps.py" 2>"$folder/err" >"$folder/seen" || { cat "$folder/err"; exit 1; }
cat "$folder/seen"
diff - "$folder/seen" <<'EXPECTED'
DDIMScheduler: 61 -> 62, last -1; 103 -> 104, last -1; 121 -> 122, last -1; 122 -> 123, last -1
EulerDiscreteScheduler: 61 -> 62, last -1; 103 -> 104, last -1; 121 -> 122, last -1; 122 -> 123, last -1
DPMSolverMultistepScheduler: 61 -> 62, last -1; 103 -> 104, last -1; 121 -> 122, last -1; 122 -> 123, last -1
UniPCMultistepScheduler: 61 -> 62, last -1; 103 -> 104, last -1; 121 -> 122, last -1; 122 -> 123, last -1
EXPECTED
