#!/usr/bin/env bash
# Qwen-Image (random weights, 1328x1328, 256 text tokens) on one GPU: passes of each network here and in diffusers and
# transformers under PyTorch, equal work in one run; and of ours requests from a prompt to a PNG, the ladder and
# profiles of a step, and compiling. PyTorch compiles once a match and then alternates with us, which pairs the times.
# Writes
#   headroom-forward-NAME-ROUND.json, pytorch-NAME-ROUND.json   of a match, which bench/peers/h200_ratios.py compares
#   requests.jsonl                                              a line for each request, as bench/timed_requests.py tells
#   headroom-NAME.json                                          of ladder, profile and bench
#   error.json                                                  distances from fp32
#
#   bench/h200_qwen.sh HEADROOM OUT_DIR
#
# The peer has cuDNN's attention, no mask, real tables of positions, each kind of block compiled once, and runs as it is
# and captured in a CUDA graph; in FP8 with one scale for each row. Needs python3 with PyTorch, transformers and
# diffusers 0.42, 90 GiB of the GPU's memory, and for the errors 50 GB of disk. ROUNDS (4), MATCHES (a regular
# expression, all) choose what runs.
set -euo pipefail
headroom=$1 out=$2 rounds=${ROUNDS:-4}
here=$(cd "$(dirname "$0")/.." && pwd)
source "$here/bench/peers/environment.sh"
mkdir -p "$out"
side=${SIDE:-1328} device=${DEVICE:-cuda} steps=${STEPS:-40} sizes=${SIZES:-} # for a trial on a small machine
ours=("${MODEL:-qwen-image}" --random-weights 0 --device "$device" --quiet)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
images=${IMAGES:-$scratch}
wanted() { [[ $1 =~ ${MATCHES:-.} ]]; }

# match NAME SWITCHES PIXELS OPTION...: a forward pass with our switches against PyTorch with those options
match() {
  wanted "$1" || return 0
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

# part NAME PART MODEL PASS OPTION...: a pass of another network in bf16, against PyTorch compiled, without and with a
# graph
part() {
  wanted "$1" || return 0
  local began=$SECONDS
  rm -f "$out/"{headroom-forward,pytorch}-"$1"-*.json
  python3 "$here/bench/peers/component_torch.py" "$2" --device cuda --dtype bf16 --compile --graph --trials 10 "${@:5}" \
    --rounds "$rounds" --save "$out/pytorch-$1-{round}.json" \
    --beside "$headroom bench $3 --random-weights 0 --device cuda --quiet --opt lossless --trials 10 $4 \
      --out $out/headroom-forward-$1-{round}.json"
  python3 "$here/bench/peers/share_plans.py" "$out/headroom-forward-$1-"*.json
  python3 "$here/bench/peers/share_plans.py" "$out/pytorch-$1-"*.json
  echo "$1: $((SECONDS - began)) s"
}

# once NAME COMMAND OPTION...: a command of ours
once() {
  wanted "$1" || return 0
  local began=$SECONDS
  "$headroom" "$2" "${ours[@]}" "${@:3}" --out "$out/headroom-$1.json" >"$out/headroom-$1.txt"
  python3 "$here/bench/peers/share_plans.py" "$out/headroom-$1.json"
  echo "$1: $((SECONDS - began)) s"
}

# ask ID STEPS TOKENS SEED MEMBER...: a request with a prompt of as many tokens or a few more, of which --text-tokens
# leaves 256; SEED is its first word
ask() {
  local member
  printf '{"id": "%s", "steps": %s, "prompt": "%s' "$1" "$2" "$4"
  if (($3 > 0)); then printf ' the%.0s' $(seq "$3"); fi
  printf '", "seed": %s, "out": "%s/%s.png"' "$4" "$images" "$1"
  for member in "${@:5}"; do printf ', %s' "$member"; done
  echo "}"
}
guided='"negative_prompt": " "'
# like ID: the image is compared with that of this request, where it was made
like() {
  if [[ -e $images/$1.png ]]; then printf '"psnr": "%s/%s.png"' "$images" "$1"; else printf '"psnr": null'; fi
}

# requests NAME SWITCHES OPTION...: those on standard input, by a process of their own
requests() {
  local began=$SECONDS
  cat >"$scratch/asked"
  python3 "$here/bench/timed_requests.py" "$out/requests.jsonl" "$1" "$scratch/asked" "$headroom" run "$(stand_in)" --prompts - \
    "${ours[@]:1}" --height "$side" --width "$side" --text-tokens 256 --opt "$2" "${@:3}"
  echo "$1: $((SECONDS - began)) s"
}
# stand_in [--lora]: a folder without weights, and with a LoRA file
stand_in() {
  local folder=$scratch/folder${1:-}
  [[ -d $folder ]] || python3 "$here/bench/peers/qwen_stand_in.py" "$folder" "$@" ${sizes:+--like "$sizes"}
  echo "$folder"
}

# The first request of a process loads, and each of another kind (steps, lengths) is planned first: `-again` has
# neither.
if wanted request-fp8; then
  {
    ask guided-fp8 "$steps" 256 2 "$guided"
    ask guided-fp8-again "$steps" 256 3 "$guided"
    ask other-length 2 100 4 "$guided"
    ask other-length-again 2 100 5 "$guided"
  } | requests request-fp8 lossless,fp8
fi
if wanted request-baseline; then
  ask guided-baseline "$steps" 256 2 "$guided" "$(like guided-fp8)" | requests request-baseline baseline --baseline bf16
fi
if wanted request-lightning; then
  lora="\"loras\": [{\"file\": \"$(stand_in --lora)/lora.safetensors\", \"weight\": 1}]"
  for i in 1 2 3; do ask "lightning-$i" 8 256 "$i" "$lora"; done | requests request-lightning lossless,fp8,sampler=euler:shift=3
fi
if wanted request-cache; then
  for schedule in 110 10; do
    ask "guided-cache-$schedule" "$steps" 256 2 "$guided" "$(like guided-fp8)" |
      requests "request-cache-$schedule" "lossless,fp8,fbcache=0.1:schedule=$schedule"
  done
fi
if wanted request-bf16; then
  ask guided-bf16 "$steps" 256 2 "$guided" "$(like guided-baseline)" | requests request-bf16 lossless
fi
# Steps of both prompts in one pass, and of each alone.
for switches in lossless lossless,fp8; do
  if wanted "passes-$switches"; then
    for i in 1 2 3; do
      ask "both-$i" 8 256 "$i" "$guided"
      ask "prompt-$i" 8 256 "$i"
      ask "negative-$i" 8 0 "$i"
    done | requests "passes-$switches" "$switches"
  fi
done
for limit in 24GiB 16GiB; do
  if wanted "limit-$limit"; then
    for i in 1 2 3; do ask "limited-$i" $((steps / 2)) 256 "$i" "$guided"; done |
      requests "limit-$limit" lossless,fp8 --memory-limit "$limit"
  fi
done

# compiled NAME: the loop's program planned with an empty cache, without its kernels, and with all; 60 blocks, no
# weights
compiled() {
  wanted "$1" || return 0
  local which
  rm -rf "$scratch/cache"
  for which in empty no-kernels filled; do
    [[ $which != no-kernels ]] || rm -rf "$scratch/cache/headroom/kernels"
    XDG_CACHE_HOME=$scratch/cache "$headroom" plan "${ours[@]}" --height "$side" --width "$side" --text-tokens 256 --opt lossless,fp8 \
      --trials 2 --json >"$scratch/plan"
    python3 - "$which" "$scratch/plan" <<'PYTHON' >>"$out/compile.jsonl"
import json, sys
plan = json.load(open(sys.argv[2]))
print(json.dumps({"cache": sys.argv[1]} | {key: value for key, value in plan.items() if key.endswith("_ms") or key == "generated_kernels"}))
PYTHON
  done
}

# With one text token less, 7144 tokens, rows of stored scores begin at multiples of 16 bytes, without which their
# matmuls are slow.
pass=(--pass forward --height "$side" --width "$side" --text-tokens 256)
aligned=("${pass[@]:0:6}" --text-tokens 255)
if wanted ladder; then
  "$headroom" ladder "${ours[@]}" "${aligned[@]}" --trials 6 --max-rounds 2 --opt flash,fuse,graph,fp8 --out "$out/headroom-ladder" \
    >"$out/headroom-ladder.txt"
  mv "$out/headroom-ladder/results.json" "$out/headroom-ladder.json"
  rmdir "$out/headroom-ladder"
  python3 "$here/bench/peers/share_plans.py" "$out/headroom-ladder.json"
fi
rungs=(baseline flash flash,fuse lossless lossless,fp8)
for i in "${!rungs[@]}"; do
  once "profile-$i" profile "${pass[@]}" --trials 4 --opt "${rungs[i]}"
done
once aligned-baseline bench "${aligned[@]:2}" --trials 6 --opt baseline
once aligned-fp8 bench "${aligned[@]:2}" --trials 6 --opt lossless,fp8
compiled compile
for precision in baseline tf32; do
  once "f32-512-$precision" bench --height 512 --width 512 --text-tokens 256 --trials 6 --baseline fp32 --opt "$precision"
done

for pixels in 1328 1024 512; do
  match "bf16-$pixels" lossless "$pixels"
  match "fp8-$pixels" lossless,fp8 "$pixels" --fp8
done
for tokens in 64 512; do
  part "qwen-text-$tokens" qwen_text_encoder qwen2.5-vl-7b "--pass encode --text-tokens $tokens" --text-tokens "$tokens"
done
for which in decode encode; do
  part "qwen-vae-$which" qwen-vae qwen-image-vae "--pass $which --height $side --width $side" --pass "$which" --height "$side" --width "$side"
done
# Two passes of PyTorch's and their combination, with which requests of ours are compared.
guided_peer() {
  wanted "$1" || return 0
  local began=$SECONDS
  python3 "$here/bench/peers/qwen_torch.py" --device cuda --dtype bf16 --attention _native_cudnn --real-rope --compile-blocks --graph \
    --size 83x83 --text-tokens 256 --guided-by 6 --trials 8 "${@:2}" --save "$out/pytorch-$1.json"
  python3 "$here/bench/peers/share_plans.py" "$out/pytorch-$1.json"
  echo "$1: $((SECONDS - began)) s"
}
guided_peer guided-bf16
guided_peer guided-fp8 --fp8
if wanted error; then
  python3 "$here/bench/peers/qwen_error.py" --headroom "$headroom" --folder "$scratch/error" --save "$out/error.json"
fi
