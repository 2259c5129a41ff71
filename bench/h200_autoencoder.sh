#!/usr/bin/env bash
# What each switch for images gives on a GPU: FLUX.1's decoder, and bench/stack, an encoder of 3 and 60 channels, of
# which none fill a vector of tensor cores; bf16, random weights, 1024x1024. Writes a result file for each
# configuration.
#
#   bench/h200_autoencoder.sh HEADROOM OUT_DIR
#
# Takes about three minutes, most of them the search for convolutions' engines, of which each configuration has its own.
set -euo pipefail
headroom=$1 out=$2
here=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$out"

# rungs NAME MODEL PASS SWITCHES...
rungs() {
  local name=$1 model=$2 pass=$3 i=0
  for switches in "${@:4}"; do
    "$headroom" bench "$model" --random-weights 0 --pass "$pass" --device cuda --baseline bf16 --opt "$switches" --trials 10 --quiet \
      --out "$out/$name-$((i++)).json"
  done
}

rungs stack "$here/bench/stack" encode baseline fuse align channels-last align,channels-last arena,flash,fuse,graph \
  arena,flash,fuse,align,graph arena,flash,fuse,channels-last,graph lossless
rungs decode flux-vae decode lossless align baseline fuse channels-last arena,flash,fuse,graph arena,flash,fuse,align,graph \
  arena,flash,fuse,channels-last,graph arena,flash,fuse,align,channels-last,graph
