#!/usr/bin/env bash
# Times one forward pass of fashion-flux, batch 20, here and in PyTorch eager with math attention, on the same two cores in one run:
# the processes take turns (ours, theirs, theirs, ours, ...). Writes a result file for each process.
#
#   bench/cpu_peers.sh HEADROOM OUT_DIR [PAIRS]
#
# Needs python3 with PyTorch and diffusers.
set -euo pipefail
headroom=$1 out=$2 pairs=${3:-3}
here=$(cd "$(dirname "$0")/.." && pwd)
model=$here/models/fashion-flux
mkdir -p "$out"

ours() {
  taskset -c 0,1 "$headroom" bench "$model" --batch 20 --threads 2 --trials 20 --opt baseline --quiet \
    --save "$out/headroom-eager-f32-$1.json"
}
theirs() {
  taskset -c 0,1 python3 "$here/bench/peers/flux_torch.py" --model "$model" --device cpu --dtype fp32 --attention math \
    --batch 20 --threads 2 --trials 20 --process "$1" --save "$out/pytorch-eager-math-f32-$1.json"
}
for ((pair = 0; pair < pairs; ++pair)); do
  if ((pair % 2 == 0)); then
    ours "$pair"
    theirs "$pair"
  else
    theirs "$pair"
    ours "$pair"
  fi
done
