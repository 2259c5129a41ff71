#!/usr/bin/env bash
# Times one forward pass of fashion-flux, batch 20, here and in PyTorch on the same two cores in one run, in three matches: both
# eager in fp32 with math attention; our exact switches against torch.compile in fp32; our bf16 against torch.compile in bf16. The
# compiled peers run as well as we know how: weights frozen, PyTorch's own choice of attention, and with max-autotune as well.
# Within a match processes take turns (ours, theirs, theirs, ours, ...). Writes a result file for each process.
#
#   bench/cpu_peers.sh HEADROOM OUT_DIR [PAIRS]
#
# Needs python3 with PyTorch and diffusers. CORES chooses the two cores (0,1), MATCHES (a regular expression) some of the processes.
set -euo pipefail
headroom=$1 out=$2 pairs=${3:-3} cores=${CORES:-0,1}
here=$(cd "$(dirname "$0")/.." && pwd)
model=$here/models/fashion-flux
mkdir -p "$out"

# ours NAME SWITCHES PROCESS
ours() {
  taskset -c "$cores" "$headroom" bench "$model" --batch 20 --threads 2 --trials 20 --opt "$2" --quiet --save "$out/headroom-$1-$3.json"
}
# theirs NAME PROCESS OPTION...
theirs() {
  local name=$1 process=$2
  shift 2
  taskset -c "$cores" python3 "$here/bench/peers/flux_torch.py" --model "$model" --sizes 16x16x20 --threads 2 --trials 20 \
    --process "$process" --save "$out/pytorch-$name-$process.json" "$@"
}
compiled=(--attention sdpa --compile --freeze)
tuned=("${compiled[@]}" --compile-mode max-autotune)

for ((pair = 0; pair < pairs; ++pair)); do
  matches=(
    "ours eager-f32 baseline $pair"
    "theirs eager-math-f32 $pair --dtype fp32 --attention math"
    "ours lossless-f32 lossless $pair"
    "theirs compiled-f32 $pair --dtype fp32 ${compiled[*]}"
    "theirs tuned-f32 $pair --dtype fp32 ${tuned[*]}"
    "ours fast-bf16 lossless,bf16 $pair"
    "theirs compiled-bf16 $pair --dtype bf16 ${compiled[*]}"
    "theirs tuned-bf16 $pair --dtype bf16 ${tuned[*]}"
  )
  if ((pair % 2 == 1)); then  # backwards, so that slow drift of the machine cancels
    mapfile -t matches < <(printf '%s\n' "${matches[@]}" | tac)
  fi
  for match in "${matches[@]}"; do
    [[ $match =~ ${MATCHES:-.} ]] || continue
    read -ra call <<<"$match"
    "${call[@]}"
  done
done
