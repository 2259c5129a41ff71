#!/usr/bin/env bash
# What int8 is worth on a CPU, end to end: one forward pass of fashion-flux, batch 20, on two cores, with the exact
# switches alone, with bf16, with int8 and with both. The four alternate, each in a process of its own, now in one
# order, now in the other, because a shared machine changes its mood for seconds at a time. Writes a result file for
# each and round, the products by themselves and a profile of each; bench/int8_ratios.py makes one file of the rounds,
# and the table.
#
#   bench/int8.sh HEADROOM OUT_DIR [ROUNDS]
#
# CORES chooses the two cores (0,1), ISA limits the vector units (`avx512_bf16`, `avx512_vnni`: a CPU without AMX),
# MODEL the model. 10 rounds take about two minutes on a machine of one's own.
set -euo pipefail
headroom=$1 out=$2 rounds=${3:-10} cores=${CORES:-0,1} isa=${ISA:-amx}
here=$(cd "$(dirname "$0")/.." && pwd)
model=${MODEL:-$here/models/fashion-flux}
mkdir -p "$out"
two() { taskset -c "$cores" "$headroom" "$@" --device cpu --threads 2 --cpu-isa "$isa" --quiet; }

names=(fp32 bf16 int8 int8-bf16)
declare -A switches=([fp32]=lossless [bf16]=lossless,bf16 [int8]=lossless,int8 [int8-bf16]=lossless,bf16,int8)
for ((round = 0; round < rounds; ++round)); do
  order=("${names[@]}")
  ((round % 2 == 0)) || order=(int8-bf16 int8 bf16 fp32)
  for name in "${order[@]}"; do
    two bench "$model" --batch 20 --trials 10 --opt "${switches[$name]}" --out "$out/round-$name-$round.json"
  done
done
for name in "${names[@]}"; do
  two profile "$model" --batch 10 --steps 4 --rounds 2 --opt "${switches[$name]}" --out "$out/profile-$name.json"
done
two bench kernels --filter '^(linear|scaled_linear).* 5440x' --rounds 3 --max-seconds 2 --out "$out/products.json"
