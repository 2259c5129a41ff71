#!/usr/bin/env bash
# FLUX.1-dev (random weights, 512 text tokens) on one GPU: our ladder, and diffusers in PyTorch on the same machine in the same
# run. Ours and theirs take turns, forwards in the first round and backwards in the second, so that slow drift cancels. Writes
# a result file for each process; bench/peers/h200_ratios.py compares them.
#
#   bench/h200.sh HEADROOM OUT_DIR
#
# Forward passes by themselves (the very work of the peers), the first step of a new shape, loading, and a profile are measured once.
#
# A peer is compiled as diffusers documents it (each kind of block once), with merged QKV and cuDNN's attention; in FP8 with one
# scale for each row, as torchao does. Needs python3 with PyTorch and diffusers. ROUNDS (2), MATCHES (a regular expression, all)
# choose what runs. All of it takes about eleven minutes.
set -euo pipefail
headroom=$1 out=$2 rounds=${ROUNDS:-2} matches=${MATCHES:-.}
here=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$out"

# ours NAME ROUND OPTION...: the ladder's ends, baseline and all switches
ours() {
  "$headroom" ladder flux-dev --random-weights 0 --device cuda --steps 10 --trials 20 --precision 1% --quiet "${@:3}" \
    --out "$out/headroom-$1-$2" >"$out/headroom-$1-$2.txt"
  mv "$out/headroom-$1-$2/results.json" "$out/headroom-$1-$2.json"
  rmdir "$out/headroom-$1-$2"
}
# theirs NAME ROUND OPTION...
theirs() {
  python3 "$here/bench/peers/flux_torch.py" --random-weights 0 --device cuda --dtype bf16 --text-tokens 512 --trials 20 \
    --process "$2" --save "$out/pytorch-$1-$2.json" "${@:3}"
}
# once NAME ROUND COMMAND...: one command of ours
once() { "$headroom" "$3" "${@:4}" --device cuda --quiet --save "$out/headroom-$1.json" >"$out/headroom-$1.txt"; }
size() { echo "--token-rows $1 --token-columns $2 --images $3"; }
dev="flux-dev --random-weights 0"
compiled="--merge-qkv --attention cudnn --compile-blocks"

for ((round = 0; round < rounds; ++round)); do
  calls=(
    "ours bf16-1024 $round --ends --opt lossless"
    "theirs bf16 $round $compiled --sizes 64x64x1"
    "theirs bf16-graph $round $compiled --graph --sizes 64x64x1"
    "ours fp8-1024 $round --ends --opt lossless,fp8"
    "theirs fp8 $round $compiled --fp8 --sizes 64x64x1 32x32x1 64x64x4"
    "ours fp8-512 $round --ends --opt lossless,fp8 $(size 32 32 1)"
    "theirs fp8-graph $round $compiled --fp8 --graph --sizes 32x32x1"
    "ours fp8-batch4 $round --ends --opt lossless,fp8 $(size 64 64 4)"
  )
  if ((round == 0)); then
    calls+=(
      "ours ladder $round --opt lossless,fp8"
      "ours f32-512 $round --baseline fp32 --opt lossless,tf32 --ends $(size 32 32 1)"
      "ours fp8-1280x720 $round --ends --opt lossless,fp8 $(size 45 80 1)"
      "ours fp8-batch2 $round --ends --opt lossless,fp8 $(size 64 64 2)"
      "once forward-bf16-1024 $round bench $dev --opt lossless --first-step"
      "once forward-fp8-1024 $round bench $dev --opt lossless,fp8 --first-step"
      "once forward-fp8-512 $round bench $dev --opt lossless,fp8 --token-rows 32 --token-columns 32"
      "once forward-fp8-batch4 $round bench $dev --opt lossless,fp8 --batch 4"
      "once profile-bf16 $round profile $dev --opt lossless --steps 6"
      "once profile-fp8 $round profile $dev --opt lossless,fp8 --steps 6"
      "once load $round bench load"
      "theirs eager-math $round --attention math --sizes 64x64x1"
      "theirs eager-flash $round --attention flash --sizes 64x64x1"
      "theirs eager-cudnn $round --attention cudnn --sizes 64x64x1"
    )
  fi
  ((round % 2 == 0)) || mapfile -t calls < <(printf '%s\n' "${calls[@]}" | tac)
  for call in "${calls[@]}"; do
    [[ $call =~ $matches ]] || continue
    read -ra words <<<"$call"
    "${words[@]}"
  done
done
