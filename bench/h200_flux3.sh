#!/usr/bin/env bash
# FLUX.3 [klein] of random weights on one GPU: whole requests from a prompt to a PNG, and networks here and in PyTorch,
# equal work in one run. Writes
#   requests.jsonl   a line for each request: what it shows, its switches, and the answer; the first of a process plans and loads
#   memory.jsonl     of each of them the most device memory that was in use, in MiB, and before the process
#   caches.jsonl     PSNR of requests with a step cache against the request without, same seed
#   headroom-memory.json   a distilled request in bf16, with what its memory holds
#   headroom-forward-MATCH-ROUND.json, pytorch-MATCH-ROUND.json   the two sides of each match; bench/peers/h200_ratios.py compares them
#
#   bench/h200_flux3.sh HEADROOM OUT_DIR
#
# PARTS (requests caches limit memory reference reference-step matches) chooses what runs, MATCHES (a regular
# expression, all) which matches, ROUNDS (4) how often a match alternates, SIZE (1024), STEPS and DEVICE (cuda) are for
# a trial. Needs python3 with Pillow, for `matches` also PyTorch, diffusers 0.42 and transformers, and 60 GiB of the
# GPU's memory.
set -euo pipefail
headroom=$1 out=$2 parts=${PARTS:-requests caches limit memory reference reference-step matches} rounds=${ROUNDS:-4} size=${SIZE:-1024} device=${DEVICE:-cuda}
here=$(cd "$(dirname "$0")/.." && pwd)
source "$here/bench/peers/environment.sh"
mkdir -p "$out"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
for kind in distilled base; do python3 "$here/bench/peers/flux3_stand_in.py" "$kind" "$scratch/$kind"; done
random=(--random-weights 0 --device "$device")
without_hoist=arena,flash,fuse,align,channels-last,streams,graph

# MiB that are in use on the visible GPU
used=(nvidia-smi -i "${CUDA_VISIBLE_DEVICES:-0}" --query-gpu=memory.used --format=csv,noheader,nounits)

# requests NAME KIND SWITCHES COUNT FIELDS [OPTION...]: requests of one process, of which FIELDS are further members in
# JSON
requests() {
  local name=$1 kind=$2 switches=$3 before watch began=$SECONDS
  before=$("${used[@]}" 2>/dev/null | head -1 || true)
  "${used[@]}" -lms 50 >"$scratch/used" 2>/dev/null &
  watch=$!
  for ((i = 0; i < $4; ++i)); do
    echo "{\"prompt\": \"a red fox in snow\", \"seed\": $i, $5 \"out\": \"$scratch/$name-$i.png\"}"
  done | "$headroom" run "$scratch/$kind" --prompts - "${random[@]}" --opt "$switches" --quiet "${@:6}" |
    sed "s#$scratch/##; s#^{#{\"request\":\"$name\",\"switches\":\"$switches\",#" | tee -a "$out/requests.jsonl" | cut -c1-400
  kill "$watch" 2>/dev/null || true
  wait "$watch" || true
  python3 - "$out/memory.jsonl" "$name" "${before:-0}" "$scratch/used" <<'PYTHON'
import json, pathlib, sys
path, name, before, used = sys.argv[1:]
seen = [int(line) for line in pathlib.Path(used).read_text().split() if line.isdigit()]
row = {"request": name, "before_mib": int(before or 0), "most_mib": max(seen, default=0)}
with open(path, "a") as file:
    file.write(json.dumps(row) + "\n")
PYTHON
  echo "$name: $((SECONDS - began)) s"
}
# fields PIXELS [STEPS]: members of a request
fields() {
  local steps=${STEPS:-${2:-}}
  echo "\"height\": $1, \"width\": $1,${steps:+ \"steps\": $steps,}"
}

# match NAME PART OURS -- PEER_OPTION...: a pass here, by a command's own part of arguments, against PyTorch
match() {
  local name=$1 part=$2 ours=$3 began=$SECONDS
  [[ $name =~ ${MATCHES:-.} ]] || return 0
  rm -f "$out/"{headroom-forward,pytorch}-"$name"-*.json
  python3 "$here/bench/peers/flux3_torch.py" "$part" --device "$device" --dtype bf16 --compile-blocks --graph --trials 8 "${@:4}" \
    --rounds "$rounds" --save "$out/pytorch-$name-{round}.json" \
    --beside "$headroom bench $ours ${random[*]} --quiet --trials 8 --out $out/headroom-forward-$name-{round}.json"
  python3 "$here/bench/peers/share_plans.py" "$out/headroom-forward-$name-"*.json
  python3 "$here/bench/peers/share_plans.py" "$out/pytorch-$name-"*.json
  echo "$name: $((SECONDS - began)) s"
}

for part in $parts; do
  case $part in
  requests)
    requests distilled-fp8-512 distilled lossless,fp8 4 "$(fields $((size / 2)))"
    requests distilled-bf16-512 distilled lossless 4 "$(fields $((size / 2)))"
    ;;
  caches)
    requests base-fp8 base lossless,fp8 2 "$(fields "$size")"
    for cache in meancache=30 meancache=25 fbcache=0.1:schedule=10 fbcache=0.1:schedule=10:taylor=1; do
      requests "base-fp8-$cache" base "lossless,fp8,$cache" 2 "$(fields "$size")"
    done
    python3 - "$scratch" <<'PYTHON' | tee "$out/caches.jsonl"
import json, math, pathlib, sys
from PIL import Image
folder = pathlib.Path(sys.argv[1])
for path in sorted(folder.glob("base-fp8-*-[0-9].png")):
    name, seed = path.stem.rsplit("-", 1)
    pair = [Image.open(p).convert("RGB").tobytes() for p in (path, folder / f"base-fp8-{seed}.png")]
    error = sum((x - y) ** 2 for x, y in zip(*pair)) / len(pair[0])
    psnr = round(10 * math.log10(255**2 / error), 2) if error else None
    print(json.dumps({"request": name, "seed": int(seed), "psnr_db": psnr}))
PYTHON
    ;;
  limit)
    for limit in "" 8GiB "" 8GiB; do
      requests "distilled-fp8-limit-${limit:-none}" distilled lossless,fp8 3 "$(fields "$size")" ${limit:+--memory-limit "$limit"}
    done
    ;;
  memory)
    requests distilled-bf16 distilled lossless 3 "$(fields "$size")"
    "$headroom" bench "$scratch/distilled" --pass request "${random[@]}" --opt lossless --trials 3 --quiet \
      --out "$out/headroom-memory.json"
    python3 "$here/bench/peers/share_plans.py" "$out/headroom-memory.json"
    ;;
  reference)
    requests distilled-first distilled lossless,fp8 1 "$(fields "$size" 1)"
    reference="\"image\": \"$scratch/distilled-first-0.png\", \"guidance\": 1, $(fields "$size" 12)"
    for turn in 0 1; do
      requests reference-bf16-hoist base "hoist,$without_hoist" 3 "$reference"
      requests reference-bf16 base "$without_hoist" 3 "$reference"
    done
    requests reference-fp8-hoist base "hoist,fp8,$without_hoist" 3 "$reference"
    requests reference-fp8 base "fp8,$without_hoist" 3 "$reference"
    ;;
  reference-step)  # a step in 12 with `hoist`, without the setup before them, beside a pass of PyTorch's that computes all of it
    rm -f "$out/pytorch-reference-step-"*.json
    [[ -e $scratch/distilled-first-0.png ]] || requests distilled-first distilled lossless,fp8 1 "$(fields "$size" 1)"
    for ((i = 0; i < 3; ++i)); do
      echo "{\"prompt\": \"a red fox in snow\", \"seed\": $i, \"image\": \"$scratch/distilled-first-0.png\", \"guidance\": 1," \
        "$(fields "$size" 12) \"out\": \"$scratch/step-$i.png\"}"
    done >"$scratch/asked"
    cat >"$scratch/step" <<SH
"$headroom" run "$scratch/base" --prompts - ${random[*]} --opt "hoist,$without_hoist" --quiet <"$scratch/asked" |
  sed 's#$scratch/##; s#^{#{"request":"reference-step",#' >>"$out/requests.jsonl"
SH
    tokens=$((size / 16))
    python3 "$here/bench/peers/flux3_torch.py" transformer --device "$device" --dtype bf16 --compile-blocks --graph --trials 8 \
      --attention _native_cudnn --size "${tokens}x$tokens" --reference "${tokens}x$tokens" --text-tokens 80 --rounds "$rounds" \
      --save "$out/pytorch-reference-step-{round}.json" --beside "bash $scratch/step"
    python3 "$here/bench/peers/share_plans.py" "$out/pytorch-reference-step-"*.json
    ;;
  matches)
    tokens=$((size / 16))
    grid="--token-rows $tokens --token-columns $tokens"
    match flux3-reference-bf16 transformer \
      "flux-3-image-klein-base --opt lossless $grid --reference-rows $tokens --reference-columns $tokens --text-tokens 80" \
      --attention _native_cudnn --size "${tokens}x$tokens" --reference "${tokens}x$tokens" --text-tokens 80
    for text in 80 512; do
      match "qwen3-4b-$text" text_encoder \
        "$scratch/base/text_encoder --pass stacked-states --opt lossless --text-tokens $text" --text-tokens "$text"
    done
    ;;
  *)
    echo "h200_flux3.sh: there is no part $part; there are requests, caches, limit, memory, reference, reference-step and matches" >&2
    exit 2
    ;;
  esac
done
