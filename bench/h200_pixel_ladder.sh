#!/usr/bin/env bash
# What each switch gives UNet2DModel of 692 M on a GPU, a pass for one image of 3x64x64, random weights: alone next to
# fp32, and one after the other, each with its memory; and next to it what PyTorch's autocast makes of the same network
# in fp32, as it is and compiled in a CUDA graph. Writes a result file for each configuration.
#
#   bench/h200_pixel_ladder.sh HEADROOM OUT_DIR
#
# CACHE is a folder that keeps what torch.compile makes. Takes about seven minutes, most of them the search for
# convolutions' engines, of which each precision and layout has its own.
set -euo pipefail
headroom=$1 out=$2
here=$(cd "$(dirname "$0")/.." && pwd)
source "$here/bench/peers/environment.sh"
mkdir -p "$out"

# rung NAME SWITCHES
rung() {
  "$headroom" bench pixel-unet --random-weights 0 --device cuda --baseline fp32 --opt "$2" --trials 20 --quiet --out "$out/headroom-$1.json"
}
# peer NAME OPTION...
peer() {
  python3 "$here/bench/peers/component_torch.py" pixel-unet --height 64 --width 64 --device cuda ${CACHE:+--cache "$CACHE"} --trials 20 \
    "${@:2}" --save "$out/pytorch-$1.json"
}

rung baseline baseline
for switch in fp16 channels-last align flash fuse hoist arena graph fp8; do
  rung "alone-$switch" "$switch"
done
climbed=
for switch in fp16 channels-last align flash fuse hoist arena graph; do
  climbed+=${climbed:+,}$switch
  rung "climb-$switch" "$climbed"
done
rung climb-fp8 "$climbed,fp8"

peer fp32 --dtype fp32
peer fp16 --dtype fp16
peer fp16-compiled --dtype fp16 --compile --graph
peer autocast --dtype fp32 --autocast
peer autocast-compiled --dtype fp32 --autocast --compile --graph
