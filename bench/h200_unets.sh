#!/usr/bin/env bash
# U-Nets and the tiny autoencoder (random weights, fp16) here and in diffusers under PyTorch, one pass each, equal work
# on one GPU in one run. PyTorch compiles once a match, channels-last and whole, and then alternates with us (ours,
# theirs, theirs, ours, ...), which is what pairs them; it runs as it is and captured in a CUDA graph. Writes a result
# file for each side, work and round; bench/peers/h200_ratios.py compares them.
#
#   bench/h200_unets.sh HEADROOM OUT_DIR
#
# Needs PyTorch and diffusers (scripts/bootstrap.sh peers), and 16 GiB of the GPU's memory. ROUNDS (6), MODE
# (torch.compile's, default), SWITCHES (ours, lossless,fp16) and MATCHES (a regular expression, all) choose what runs;
# CACHE is a folder that keeps what torch.compile makes, which takes it one to three minutes a match.
set -euo pipefail
headroom=$1 out=$2 rounds=${ROUNDS:-6} mode=${MODE:-default} switches=${SWITCHES:-lossless,fp16}
here=$(cd "$(dirname "$0")/.." && pwd)
source "$here/bench/peers/environment.sh"
mkdir -p "$out"

# match NAME NETWORK TRIALS PIXELS BATCH [OPTION...]: a pass of the network for a batch of square images; options for
# both sides
match() {
  [[ $1 =~ ${MATCHES:-.} ]] || return 0
  local began=$SECONDS size="--height $4 --width $4 --batch $5"
  rm -f "$out/"{headroom-forward,pytorch}-"$1"-*.json
  python3 "$here/bench/peers/component_torch.py" "$2" $size "${@:6}" --device cuda --dtype fp16 --compile --compile-mode "$mode" --graph \
    ${CACHE:+--cache "$CACHE"} --trials "$3" --rounds "$rounds" --save "$out/pytorch-$1-{round}.json" \
    --beside "$headroom bench $2 --random-weights 0 $size ${*:6} --device cuda --opt $switches --quiet --trials $3 \
      --out $out/headroom-forward-$1-{round}.json"
  python3 "$here/bench/peers/share_plans.py" "$out/headroom-forward-$1-"*.json
  python3 "$here/bench/peers/share_plans.py" "$out/pytorch-$1-"*.json
  echo "$1: $((SECONDS - began)) s"
}

match sd-turbo-unet sd-turbo-unet 20 512 1
match sd-turbo-unet-batch4 sd-turbo-unet 20 512 4
match pixel-unet pixel-unet 20 64 1
match sdxl-unet-batch2 sdxl-unet 10 1024 2
match live-stream-unet live-stream-unet 40 64 1
match taesd-encode taesd 20 512 1 --pass encode
match taesd-decode taesd 20 512 1 --pass decode
