#!/usr/bin/env bash
# Z-Image's transformer (random weights, 1024x1024, 256 text tokens) on one GPU: passes here and in diffusers under
# PyTorch, equal work in one run, and our loop of Turbo's 8 steps. PyTorch compiles once a match and then alternates
# with us, which pairs the times. Writes
#   headroom-forward-NAME-ROUND.json, pytorch-NAME-ROUND.json   of a match, which bench/peers/h200_ratios.py compares
#   headroom-loop-NAME.json                                     of 8 steps
#
#   bench/h200_z_image.sh HEADROOM OUT_DIR
#
# The peer has one matmul for queries, keys and values, real tables of positions and each kind of block compiled once,
# and runs as it is and captured in a CUDA graph; in FP8 with one scale for each row. Needs python3 with PyTorch and
# diffusers 0.42, and 40 GiB of the GPU's memory. ROUNDS (4), MATCHES (a regular expression, all), SIZE (1024) and PEER
# (further options of the peer, --merge-gates) choose.
set -euo pipefail
headroom=$1 out=$2 rounds=${ROUNDS:-4} size=${SIZE:-1024} device=${DEVICE:-cuda}
here=$(cd "$(dirname "$0")/.." && pwd)
source "$here/bench/peers/environment.sh"
mkdir -p "$out"
tokens=$((size / 16))
ours=(z-image --random-weights 0 --device "$device" --quiet --token-rows "$tokens" --token-columns "$tokens" --text-tokens 256)

# match NAME SWITCHES OPTION...: a forward pass with our switches against PyTorch with those options, and our loop
match() {
  [[ $1 =~ ${MATCHES:-.} ]] || return 0
  local began=$SECONDS
  rm -f "$out/"{headroom-forward,pytorch}-"$1"-*.json
  python3 "$here/bench/peers/z_image_torch.py" --device "$device" --dtype bf16 --attention _native_cudnn --compile-blocks --graph \
    --size "${tokens}x$tokens" --text-tokens 256 --trials 8 "${@:3}" ${PEER:---merge-gates} --rounds "$rounds" \
    --save "$out/pytorch-$1-{round}.json" \
    --beside "$headroom bench ${ours[*]} --opt $2 --trials 8 --out $out/headroom-forward-$1-{round}.json"
  "$headroom" bench "${ours[@]}" --pass request --steps 8 --opt "$2" --trials 3 --out "$out/headroom-loop-$1.json"
  python3 "$here/bench/peers/share_plans.py" "$out/headroom-forward-$1-"*.json "$out/headroom-loop-$1.json"
  python3 "$here/bench/peers/share_plans.py" "$out/pytorch-$1-"*.json
  echo "$1: $((SECONDS - began)) s"
}
match z-image-bf16 lossless
match z-image-fp8 lossless,fp8 --fp8
