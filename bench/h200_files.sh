#!/usr/bin/env bash
# FLUX.1-dev from files as its users have them, with random weights, at 1024x1024 on one GPU: packed Q4_K and scaled FP8
# against our own FP8, and packed Q4_K against diffusers' GGUF loader.
#
#   bench/h200_files.sh HEADROOM OUT_DIR
#
# Steps are those of requests, processes of all sides alternate, and each round is a file of its own. PARTS (a regular
# expression, all) and ROUNDS (4) choose what runs: `packed`, `scaled`, `limit` and `peer`. Each takes one to two
# minutes on an H200. `peer` needs python3 with PyTorch, diffusers and gguf, `limit` transformers as well, and all 40 GB
# of disk.
set -euo pipefail
headroom=$1 out=$2 rounds=${ROUNDS:-4}
here=$(cd "$(dirname "$0")/.." && pwd)
source "$here/bench/peers/environment.sh"
mkdir -p "$out"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

runs() { [[ $1 =~ ${PARTS:-.} ]]; }

# file FORM: the path of FLUX.1-dev in that form
file() {
  local path=$scratch/$1/flux-dev.$([[ $1 == fp8 ]] && echo safetensors || echo gguf)
  if [[ ! -f $path ]]; then
    mkdir -p "$scratch/$1"
    python3 "$here/bench/peers/flux_files.py" "$1" "$path"
  fi
  echo "$path"
}

# step NAME ROUND MODEL SWITCHES OPTION...: steps of a request
step() {
  "$headroom" sweep "$3" "${@:5}" --device cuda --opt "$4" --resolution 1024 --steps 8 --trials 8 --quiet --format csv \
    --out "$out/$1-$2.json"
}

# alternate NAME...: the commands of these names, forwards in even rounds and backwards in odd ones
alternate() {
  local names=("$@") reversed=() round
  for name in "$@"; do reversed=("$name" "${reversed[@]}"); done
  for ((round = 0; round < rounds; ++round)); do
    for name in $( ((round % 2)) && echo "${reversed[@]}" || echo "${names[@]}"); do "$name" "$round"; done
  done
  for name in "$@"; do python3 "$here/bench/peers/share_plans.py" "$out/${name//_/-}"-?.json; done
}

step_fp8() { step step-fp8 "$1" flux-dev lossless,fp8 --random-weights 0; }
step_folded_fp8() { step step-folded-fp8 "$1" flux-dev lossless,fp8 --random-weights 0 --random-format Q4_K; }
step_packed_fp8() { step step-packed-fp8 "$1" flux-dev lossless,fp8,packed --random-weights 0 --random-format Q4_K; }
step_own_fp8() { step step-own-fp8 "$1" flux-dev lossless,fp8 --random-weights 0; }
step_scaled_fp8() { step step-scaled-fp8 "$1" "$(file fp8)" lossless,fp8; }
step_scaled_static() { step step-scaled-static "$1" "$(file fp8)" lossless,fp8=fast:activations=file; }
step_scaled_bf16() { step step-scaled-bf16 "$1" "$(file fp8)" lossless; }

if runs packed; then alternate step_fp8 step_folded_fp8 step_packed_fp8; fi
if runs scaled; then alternate step_own_fp8 step_scaled_fp8 step_scaled_static step_scaled_bf16; fi
if runs limit; then # requests from a prompt to pixels: T5 in bf16 is 8.9 GiB alone
  python3 "$here/bench/peers/flux_stand_in.py" dev "$scratch/flux-dev-whole" --weights 0 --without transformer
  for seed in 0 1 2; do
    echo "{\"prompt\": \"a red fox in snow\", \"seed\": $seed, \"height\": 1024, \"width\": 1024, \"steps\": 28, \"out\": \"$scratch/$seed.png\"}"
  done >"$scratch/requests.jsonl"
  for opt in lossless,packed lossless,fp8,packed; do
    python3 "$here/bench/timed_requests.py" "$out/limit.jsonl" "Q4_K within 12 GiB" "$scratch/requests.jsonl" "$headroom" run \
      "$scratch/flux-dev-whole" --part transformer="$(file Q4_K)" --prompts - --device cuda --opt $opt --memory-limit 12GiB --quiet
  done
fi
if runs peer; then
  for how in compile-blocks eager; do
    python3 "$here/bench/peers/flux_torch.py" --gguf "$(file Q4_K)" --device cuda --dtype bf16 --text-tokens 512 --attention cudnn \
      $([[ $how == eager ]] || echo --$how --graph) --sizes 64x64x1 --trials 6 --rounds 2 --save "$out/pytorch-gguf-$how-{round}.json" \
      --beside "$headroom bench $(file Q4_K) --device cuda --opt lossless,packed --token-rows 64 --token-columns 64 --trials 8 --quiet \
        --out $out/headroom-packed-$how-{round}.json"
    python3 "$here/bench/peers/share_plans.py" "$out/pytorch-gguf-$how-"?.json
    python3 "$here/bench/peers/share_plans.py" "$out/headroom-packed-$how-"?.json
  done
fi
