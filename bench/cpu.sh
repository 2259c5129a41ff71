#!/usr/bin/env bash
# What the documents say of CPUs, measured anew: the ladder with one image and with ten at once (batches 2 and 20), the
# profile of a step against its floors, every kernel, and one step on 1 to 16 threads. On two cores, but for the last.
#
#   bench/cpu.sh HEADROOM OUT_DIR
#
# CORES chooses the two cores (0,1). Takes about six minutes; bench/cpu_peers.sh adds the comparison with PyTorch.
set -euo pipefail
headroom=$1 out=$2 cores=${CORES:-0,1}
here=$(cd "$(dirname "$0")/.." && pwd)
model=$here/models/fashion-flux
mkdir -p "$out/scaling"
two() { taskset -c "$cores" "$headroom" "$@" --device cpu --quiet; }

for switches in lossless lossless,bf16; do
  two profile "$model" --batch 10 --steps 8 --rounds 8 --trials 40 --opt "$switches" --out "$out/profile-${switches/,/-}.json"
done
two bench kernels --rounds 6 --max-seconds 5 --out "$out/kernels.json"
for images in 10 1; do
  two ladder "$model" --batch "$images" --rounds 2 --out "$out/ladder-$images"
done
for threads in 1 2 4 8 16; do
  [[ $threads -le $(nproc) ]] || continue
  for switches in baseline lossless lossless,bf16; do
    taskset -c "0-$((threads - 1))" "$headroom" bench "$model" --batch 20 --device cpu --threads "$threads" --opt "$switches" --quiet \
      --out "$out/scaling/${switches/,/-}-$threads.json"
  done
done
