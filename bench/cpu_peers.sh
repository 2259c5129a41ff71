#!/usr/bin/env bash
# Times one forward pass of fashion-flux, batch 20, here, in PyTorch and in OpenVINO on the same two cores in one run,
# in these matches: eager in fp32 with math attention; our exact switches against torch.compile and OpenVINO in fp32;
# our bf16 against both in bf16. The peers run as well as we know how. PyTorch: weights frozen, its own choice of
# attention, and with max-autotune as well. OpenVINO: fixed shapes, compiled for latency (bench/peers/openvino_peer.py).
# Then FLUX.1's autoencoder, which decodes 512x512 in bf16, and SD-Turbo's U-Net for 256x256, against torch.compile and
# OpenVINO. A peer compiles once and then alternates with us (ours, theirs, theirs, ours, ...), a second or two each,
# because a shared machine changes its mood for longer than that; a product timed around both sides says which rounds it
# was itself in. Writes a result file for each side and round; bench/peers/cpu_ratios.py compares them.
#
#   bench/cpu_peers.sh HEADROOM OUT_DIR [ROUNDS]
#
# Needs PyTorch, diffusers and OpenVINO (scripts/bootstrap.sh peers). CORES chooses the two cores (0,1), MATCHES (a
# regular expression) some of the matches, ROUNDS is 8 unless given. All of it takes about half an hour, most of it
# torch.compile's.
set -euo pipefail
headroom=$1 out=$2 rounds=${3:-8} cores=${CORES:-0,1}
here=$(cd "$(dirname "$0")/.." && pwd)
source "$here/bench/peers/environment.sh"
model=$here/models/fashion-flux
mkdir -p "$out"

# match NAME TRIALS SWITCHES PEER OPTION...: our switches, that many times a round, against the peer with those options,
# half as often
match() {
  [[ $1 =~ ${MATCHES:-.} ]] || return 0
  local ours="$headroom bench $model --batch 20 --device cpu --threads 2 --trials $2 --opt $3 --quiet --out $out/headroom-$1-{round}.json"
  taskset -c "$cores" python3 "$here/bench/peers/flux_torch.py" --model "$model" --sizes 16x16x20 --threads 2 --trials $(($2 / 2)) \
    --rounds "$rounds" --beside "$ours" --engine "$4" --save "$out/$4-$1-{round}.json" "${@:5}"
}
compiled=(--attention sdpa --compile --freeze)
tuned=("${compiled[@]}" --compile-mode max-autotune)

match eager-f32 8 baseline pytorch --dtype fp32 --attention math
match latency-f32 8 lossless openvino --dtype fp32
match latency-bf16 20 lossless,bf16 openvino --dtype bf16
match compiled-f32 8 lossless pytorch --dtype fp32 "${compiled[@]}"
match compiled-bf16 20 lossless,bf16 pytorch --dtype bf16 "${compiled[@]}"
match tuned-f32 8 lossless pytorch --dtype fp32 "${tuned[@]}"
match tuned-bf16 20 lossless,bf16 pytorch --dtype bf16 "${tuned[@]}"

# network NAME PEERS_NAME OUR_NAME PIXELS SWITCHES PASS PEER OPTION...: a pass of a network for a square image under our
# switches, against the peer with those options; PASS is the option that names it for both, "" if the network has one
network() {
  [[ $1 =~ ${MATCHES:-.} ]] || return 0
  local size="$6 --height $4 --width $4 --device cpu --threads 2 --trials 3"
  taskset -c "$cores" python3 "$here/bench/peers/component_torch.py" "$2" $size --warmup 1 --rounds "$rounds" --engine "$7" "${@:8}" \
    --beside "$headroom bench $3 --random-weights 0 $size --opt $5 --quiet --out $out/headroom-$1-{round}.json" \
    --save "$out/$7-$1-{round}.json"
}

for peer in openvino pytorch; do
  name=latency- options=()
  if [[ $peer == pytorch ]]; then name='' options=(--compile --freeze); fi
  network ${name}vae-bf16 vae flux-vae 512 lossless,bf16 "--pass decode" $peer --dtype bf16 "${options[@]}"
  network ${name}sd-turbo-unet-f32 sd-turbo-unet sd-turbo-unet 256 lossless "" $peer --dtype fp32 "${options[@]}"
  network ${name}sd-turbo-unet-bf16 sd-turbo-unet sd-turbo-unet 256 lossless,bf16 "" $peer --dtype bf16 "${options[@]}"
done
