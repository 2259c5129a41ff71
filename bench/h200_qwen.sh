#!/usr/bin/env bash
# Qwen-Image's transformer (random weights, 256 text tokens) on one GPU: forward passes here and in diffusers under PyTorch, equal work in
# one run, and of ours the ladder of a loop and profiles of a step. PyTorch compiles once a match and then alternates with us, which
# pairs the times. Writes a result file for each side, work and round; bench/peers/h200_ratios.py compares them.
#
#   bench/h200_qwen.sh HEADROOM OUT_DIR
#
# The peer has cuDNN's attention, no mask, real tables of positions, each kind of block compiled once, and runs as it is and captured in a
# CUDA graph; in FP8 with one scale for each row. Needs python3 with PyTorch and diffusers 0.42, and 90 GiB of the GPU's memory. ROUNDS (4),
# MATCHES (a regular expression, all) choose what runs.
set -euo pipefail
headroom=$1 out=$2 rounds=${ROUNDS:-4}
here=$(cd "$(dirname "$0")/.." && pwd)
source "$here/bench/peers/environment.sh"
mkdir -p "$out"
ours=(qwen-image --random-weights 0 --device cuda --quiet)

# match NAME SWITCHES PIXELS OPTION...: a forward pass with our switches against PyTorch with those options
match() {
  [[ $1 =~ ${MATCHES:-.} ]] || return 0
  local tokens=$(($3 / 16)) began=$SECONDS
  rm -f "$out/"{headroom-forward,pytorch}-"$1"-*.json
  python3 "$here/bench/peers/qwen_torch.py" --device cuda --dtype bf16 --attention _native_cudnn --real-rope --compile-blocks --graph \
    --size "${tokens}x$tokens" --text-tokens 256 --trials 8 "${@:4}" --rounds "$rounds" --save "$out/pytorch-$1-{round}.json" \
    --beside "$headroom bench ${ours[*]} --opt $2 --token-rows $tokens --token-columns $tokens --text-tokens 256 --trials 8 \
      --out $out/headroom-forward-$1-{round}.json"
  python3 "$here/bench/peers/share_plans.py" "$out/headroom-forward-$1-"*.json
  python3 "$here/bench/peers/share_plans.py" "$out/pytorch-$1-"*.json
  echo "$1: $((SECONDS - began)) s"
}
# once NAME COMMAND OPTION...: a command of ours
once() {
  [[ $1 =~ ${MATCHES:-.} ]] || return 0
  "$headroom" "$2" "${ours[@]}" --height 1328 --width 1328 --text-tokens 256 "${@:3}" --out "$out/headroom-$1.json" >"$out/headroom-$1.txt"
}

for pixels in 1328 1024 512; do
  match "bf16-$pixels" lossless "$pixels"
  match "fp8-$pixels" lossless,fp8 "$pixels" --fp8
done
if [[ ladder =~ ${MATCHES:-.} ]]; then
  "$headroom" ladder "${ours[@]}" --height 1328 --width 1328 --text-tokens 256 --steps 2 --trials 6 --opt lossless,fp8 \
    --out "$out/headroom-ladder" >"$out/headroom-ladder.txt"
  mv "$out/headroom-ladder/results.json" "$out/headroom-ladder.json"
  rmdir "$out/headroom-ladder"
fi
once profile-bf16 profile --opt lossless --steps 4
once profile-fp8 profile --opt lossless,fp8 --steps 4
