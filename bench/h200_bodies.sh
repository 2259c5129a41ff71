#!/usr/bin/env bash
# Work between matmuls, here and compiled by PyTorch: the bodies of `headroom bench bodies`, equal work on one GPU in
# one run. PyTorch tunes and compiles once and then alternates with us (ours, theirs, theirs, ours, ...). Writes a
# result file for each side and round, and the table that bench/peers/body_ratios.py makes of them.
#
#   bench/h200_bodies.sh HEADROOM OUT_DIR
#
# Both sides are timed in CUDA graphs of 20 calls (bench/peers/bodies_torch.py says more); ours alternate with the copy
# that their floor is. FILTER (a regular expression, 'bf16 (medium|large)') chooses bodies by name, . takes all 84;
# ROUNDS (2); WORKERS (8) are processes in which PyTorch tunes. Needs PyTorch (scripts/bootstrap.sh peers), and 16 GiB
# of the GPU's memory. The 42 of one dtype (FILTER=' bf16 ') take about two minutes of an H200's time with 14 workers,
# most of it PyTorch's tuning.
set -euo pipefail
headroom=$1 out=$2 filter=${FILTER:-'bf16 (medium|large)'}
here=$(cd "$(dirname "$0")/.." && pwd)
source "$here/bench/peers/environment.sh"
mkdir -p "$out"
rm -f "$out/"{headroom,pytorch}-bodies-*.json # of another choice of bodies
python3 "$here/bench/peers/bodies_torch.py" --filter "$filter" --workers "${WORKERS:-8}" --rounds "${ROUNDS:-2}" \
  --save "$out/pytorch-bodies-{round}.json" \
  --beside "$headroom bench bodies --filter '$filter' --device cuda --rounds 4 --max-seconds 2 --quiet \
    --out $out/headroom-bodies-{round}.json"
python3 "$here/bench/peers/share_plans.py" "$out/headroom-bodies-"*.json
python3 "$here/bench/peers/body_ratios.py" "$out" | tee "$out/bodies.txt"
