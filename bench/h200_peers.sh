#!/usr/bin/env bash
# FLUX.1-dev (random weights, 512 text tokens) here and in diffusers under PyTorch, equal work on one GPU in one run:
# forward passes of each of its networks, denoise loops of STEPS steps with what runs before the loop, but without text
# encoders and VAE on either side, and requests of 28 steps from a prompt to pixels. PyTorch compiles once a match and
# then alternates with us (ours, theirs, theirs, ours, ...), which is what pairs them. Writes a result file for each
# side, work and round; bench/peers/h200_ratios.py compares them.
#
#   bench/h200_peers.sh HEADROOM OUT_DIR
#
# The peer is compiled as diffusers documents it (each kind of block once), with merged QKV and cuDNN's attention, and
# runs both as it is and captured in a CUDA graph; in FP8 with one scale for each row, as torchao does. Needs python3
# with PyTorch, diffusers and transformers, and 80 GiB of the GPU's memory. ROUNDS (6), STEPS (10), MATCHES (a regular
# expression, all) choose what runs; MORE are switches that ours has beyond those of a transformer's match, such as
# attn8, and makes it the lossier side of one more table. All of it takes about twenty minutes on an H200: fp8-batch4
# three, whole requests five, every other match one or two.
set -euo pipefail
headroom=$1 out=$2 rounds=${ROUNDS:-6} steps=${STEPS:-10}
here=$(cd "$(dirname "$0")/.." && pwd)
source "$here/bench/peers/environment.sh"
mkdir -p "$out"

# match NAME SWITCHES PIXELS BATCH OPTION...: our switches against PyTorch with those options
match() {
  [[ $1 =~ ${MATCHES:-.} ]] || return 0
  local tokens=$(($3 / 16)) began=$SECONDS
  local ours="--random-weights 0 --device cuda --opt $2${MORE:+,$MORE} --batch $4 --quiet"
  rm -f "$out/"{headroom-forward,headroom-request,pytorch}-"$1"-*.json # a sweep goes on with a file that is there
  python3 "$here/bench/peers/flux_torch.py" --random-weights 0 --device cuda --dtype bf16 --text-tokens 512 \
    --merge-qkv --attention cudnn --compile-blocks --graph --sizes "${tokens}x${tokens}x$4" --trials 8 --steps "$steps" "${@:5}" \
    --rounds "$rounds" --save "$out/pytorch-$1-{round}.json" \
    --beside "$headroom bench flux-dev $ours --token-rows $tokens --token-columns $tokens --trials 8 \
      --out $out/headroom-forward-$1-{round}.json" \
    --beside "$headroom sweep flux-dev $ours --resolution $3 --steps $steps --trials 3 \
      --out $out/headroom-request-$1-{round}.json"
  python3 "$here/bench/peers/share_plans.py" "$out/headroom-forward-$1-"*.json "$out/headroom-request-$1-"*.json
  python3 "$here/bench/peers/share_plans.py" "$out/pytorch-$1-"*.json
  echo "$1: $((SECONDS - began)) s"
}

# kontext NAME SWITCHES OPTION...: a forward pass of FLUX.1-Kontext's tokens at 1024x1024, as many of the image that is
# edited as of the one that is made, which alone are read of what it makes
kontext() {
  [[ $1 =~ ${MATCHES:-.} ]] || return 0
  local began=$SECONDS
  rm -f "$out/"{headroom-forward,pytorch}-"$1"-*.json
  python3 "$here/bench/peers/flux_torch.py" --random-weights 0 --device cuda --dtype bf16 --text-tokens 512 \
    --merge-qkv --attention cudnn --compile-blocks --graph --sizes 64x64x1 --reference 64 64 --trials 8 "${@:3}" \
    --rounds "$rounds" --save "$out/pytorch-$1-{round}.json" \
    --beside "$headroom bench flux-dev --random-weights 0 --device cuda --opt $2 --quiet --token-rows 64 --token-columns 64 \
      --reference-rows 64 --reference-columns 64 --trials 8 \
      --out $out/headroom-forward-$1-{round}.json"
  python3 "$here/bench/peers/share_plans.py" "$out/headroom-forward-$1-"*.json
  python3 "$here/bench/peers/share_plans.py" "$out/pytorch-$1-"*.json
  echo "$1: $((SECONDS - began)) s"
}

# vae NAME PASS PIXELS: one pass of FLUX.1's AutoencoderKL in bf16, against PyTorch channels-last, compiled, without and
# with a graph
vae() {
  [[ $1 =~ ${MATCHES:-.} ]] || return 0
  local began=$SECONDS
  rm -f "$out/"{headroom-forward,pytorch}-"$1"-*.json
  python3 "$here/bench/peers/component_torch.py" vae --pass "$2" --height "$3" --width "$3" --device cuda --dtype bf16 --compile --graph \
    --trials 10 --rounds "$rounds" --save "$out/pytorch-$1-{round}.json" \
    --beside "$headroom bench flux-vae --random-weights 0 --pass $2 --height $3 --width $3 --device cuda --opt lossless --quiet \
      --trials 10 --out $out/headroom-forward-$1-{round}.json"
  python3 "$here/bench/peers/share_plans.py" "$out/headroom-forward-$1-"*.json
  python3 "$here/bench/peers/share_plans.py" "$out/pytorch-$1-"*.json
  echo "$1: $((SECONDS - began)) s"
}

# text NAME PART TOKENS: a pass of a text encoder in bf16, against PyTorch compiled, without and with a graph
text() {
  [[ $1 =~ ${MATCHES:-.} ]] || return 0
  local began=$SECONDS
  rm -f "$out/"{headroom-forward,pytorch}-"$1"-*.json
  python3 "$here/bench/peers/component_torch.py" "$2" --device cuda --dtype bf16 --compile --graph \
    --trials 20 --rounds "$rounds" --save "$out/pytorch-$1-{round}.json" \
    --beside "$headroom bench $(stand_in)/$2 --random-weights 0 --pass encode --text-tokens $3 --device cuda --opt lossless --quiet \
      --trials 20 --out $out/headroom-forward-$1-{round}.json"
  python3 "$here/bench/peers/share_plans.py" "$out/headroom-forward-$1-"*.json
  python3 "$here/bench/peers/share_plans.py" "$out/pytorch-$1-"*.json
  echo "$1: $((SECONDS - began)) s"
}

# whole NAME SWITCHES OPTION...: a request of 28 steps at 1024x1024, from a prompt to pixels on the host, every stage of
# it
whole() {
  [[ $1 =~ ${MATCHES:-.} ]] || return 0
  local began=$SECONDS
  rm -f "$out/"{headroom-request,pytorch}-"$1"-*.json
  python3 "$here/bench/peers/flux_request_torch.py" "$(stand_in)" --rounds "$rounds" "${@:3}" --save "$out/pytorch-$1-{round}.json" \
    --beside "$headroom bench $(stand_in) --random-weights 0 --pass request --height 1024 --width 1024 --device cuda --opt $2 --quiet \
      --trials 2 --out $out/headroom-request-$1-{round}.json"
  python3 "$here/bench/peers/share_plans.py" "$out/headroom-request-$1-"*.json
  echo "$1: $((SECONDS - began)) s"
}

# cached NAME: requests of 28 steps in FP8 with every second step forced to be reused, and without, against diffusers'
# first-block cache around compiled blocks with the same schedule, and against PyTorch without a cache
cached() {
  [[ $1 =~ ${MATCHES:-.} ]] || return 0
  local began=$SECONDS
  rm -f "$out/"{headroom-request,pytorch}-"$1"-*.json
  python3 "$here/bench/peers/flux_torch.py" --random-weights 0 --device cuda --dtype bf16 --text-tokens 512 \
    --merge-qkv --attention cudnn --compile-blocks --graph --fp8 --sizes 64x64x1 --trials 28 --steps 28 --first-block-cache 10 \
    --rounds "$rounds" --save "$out/pytorch-$1-{round}.json" \
    --beside "$headroom sweep flux-dev --random-weights 0 --device cuda --opt lossless,fp8 --opt lossless,fp8,fbcache=0.1:schedule=10 \
      --resolution 1024 --steps 28 --trials 28 --quiet --out $out/headroom-request-$1-{round}.json"
  python3 "$here/bench/peers/share_plans.py" "$out/headroom-request-$1-"*.json
  python3 "$here/bench/peers/share_plans.py" "$out/pytorch-$1-"*.json
  echo "$1: $((SECONDS - began)) s"
}

# The folder of FLUX.1-dev's shapes.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
stand_in() {
  [[ -d $scratch/flux-dev-whole ]] || python3 "$here/bench/peers/flux_stand_in.py" dev "$scratch/flux-dev-whole"
  echo "$scratch/flux-dev-whole"
}

match bf16-1024 lossless 1024 1
match fp8-1024 lossless,fp8 1024 1 --fp8
match fp8-512 lossless,fp8 512 1 --fp8
match fp8-batch4 lossless,fp8 1024 4 --fp8
vae vae-decode-1024 decode 1024
vae vae-encode-1024 encode 1024
vae vae-decode-2048 decode 2048
kontext kontext-bf16 lossless
kontext kontext-fp8 lossless,fp8 --fp8
text t5-xxl text_encoder_2 512
text clip-l text_encoder 77
whole whole-fp8-1024 lossless,fp8 --fp8
cached fp8-cache
