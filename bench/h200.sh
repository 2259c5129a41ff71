#!/usr/bin/env bash
# What the documents say of FLUX.1-dev (random weights, 512 text tokens) on one GPU, but for the comparison with
# PyTorch, which bench/h200_peers.sh adds: the ladder at 1024x1024 and, of the exact switches, at 512x512, its ends at
# other sizes, a forward pass and the first step of a new shape, profiles of a step, how far a forward pass is from
# fp32, loading; and what eager diffusers takes for a forward pass with each kind of attention. A result file for each.
#
#   bench/h200.sh HEADROOM OUT_DIR
#
# Needs PyTorch and diffusers (scripts/bootstrap.sh peers). MATCHES (a regular expression, all) chooses what runs. Takes
# about six minutes.
set -euo pipefail
headroom=$1 out=$2 matches=${MATCHES:-.}
here=$(cd "$(dirname "$0")/.." && pwd)
source "$here/bench/peers/environment.sh"
mkdir -p "$out"

# ours NAME OPTION...: the ladder
ours() {
  [[ $1 =~ $matches ]] || return 0
  "$headroom" ladder flux-dev --random-weights 0 --device cuda --steps 10 --trials 20 --precision 1% --quiet "${@:2}" \
    --out "$out/headroom-$1" >"$out/headroom-$1.txt"
  mv "$out/headroom-$1/results.json" "$out/headroom-$1.json"
  rmdir "$out/headroom-$1"
}
# once NAME COMMAND...: another command of ours
once() {
  [[ $1 =~ $matches ]] || return 0
  "$headroom" "$2" "${@:3}" --device cuda --quiet --out "$out/headroom-$1.json" >"$out/headroom-$1.txt"
}
# eager ATTENTION
eager() {
  [[ eager-$1 =~ $matches ]] || return 0
  python3 "$here/bench/peers/flux_torch.py" --random-weights 0 --device cuda --dtype bf16 --text-tokens 512 --sizes 64x64x1 \
    --attention "$1" --trials 20 --save "$out/pytorch-eager-$1.json"
}
dev=(flux-dev --random-weights 0)
fp8=(--opt lossless,fp8)

ours ladder "${fp8[@]}"
ours f32-512 --ends --baseline fp32 --opt lossless,tf32 --height 512 --width 512
ours fp8-512 --ends "${fp8[@]}" --height 512 --width 512
ours lossless-512 --opt arena,flash,fuse,hoist,streams,graph --height 512 --width 512
ours fp8-1280x720 --ends "${fp8[@]}" --height 720 --width 1280
ours fp8-batch2 --ends "${fp8[@]}" --batch 2
ours fp8-batch4 --ends "${fp8[@]}" --batch 4
once forward-bf16-1024 bench "${dev[@]}" --opt lossless --first-step
once forward-fp8-1024 bench "${dev[@]}" "${fp8[@]}" --first-step
once profile-bf16 profile "${dev[@]}" --opt lossless --steps 6
once profile-fp8 profile "${dev[@]}" "${fp8[@]}" --steps 6
once profile-bf16-512 profile "${dev[@]}" --opt lossless --height 512 --width 512 --steps 10 --trials 10
once load bench load
if [[ error-512 =~ $matches ]]; then
  python3 "$here/bench/forward_error.py" "$headroom" flux-dev --tokens 32 --like "$out/headroom-fp8-512.json" --save "$out/error-512.json"
fi
for attention in math flash cudnn; do eager "$attention"; done
