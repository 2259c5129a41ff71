#!/usr/bin/env bash
# What a user of a whole folder of FLUX.1-dev waits for on one GPU, by the clock on the wall: from the start of the
# process to a PNG, requests of one process with all stages resident and within 16 GiB, and with one LoRA file and
# another. Random weights in bf16, 34 GB, are written first and are then in the page cache; 1024x1024, 28 steps. Writes
#   start.jsonl    a line for each process: its switches, `wall_s`, and what `run --json` said of it
#   limit.jsonl    a line for each request: the limit, and the answer; the first of a process plans and loads
#   lora.jsonl     a line for each request, of 2 steps and then of 8, with and without LoRA files: the switches, and the answer, whose stage
#                  `lora` is what folding the weights again took
#   limit.csv      memory.used of the GPU in MiB, every 100 ms, by limit
#
#   bench/h200_requests.sh HEADROOM OUT_DIR
#
# Needs python3 with PyTorch, diffusers, transformers and safetensors, 40 GB of disk and 80 of memory. Takes about five
# minutes; PARTS (start limit lora) chooses what runs. Give it 12 threads of OpenMP or more: they copy the weights to
# the device.
set -euo pipefail
headroom=$1 out=$2 parts=${PARTS:-start limit lora}
here=$(cd "$(dirname "$0")/.." && pwd)
source "$here/bench/peers/environment.sh"
mkdir -p "$out"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
dev=$scratch/flux-dev
began=$SECONDS
python3 "$here/bench/peers/flux_stand_in.py" dev "$dev" --weights 0
cat "$dev"/*/*.safetensors >/dev/null
echo "weights: $((SECONDS - began)) s"

# start SWITCHES: makes one image in a new process. The first process with these switches also searches the fastest
# kernels.
start() {
  local began summary
  began=$(date +%s.%N)
  summary=$("$headroom" run "$dev" --prompt "a red fox in snow" --seed 7 --device cuda --opt "$1" --quiet --json --out "$scratch/fox.png")
  python3 - "$1" "$began" "$(date +%s.%N)" "$summary" <<'PYTHON' >>"$out/start.jsonl"
import json, sys
switches, began, ended, summary = sys.argv[1:]
print(json.dumps({"switches": switches, "wall_s": round(float(ended) - float(began), 3)} | json.loads(summary) | {"out": "fox.png"}))
PYTHON
}
if [[ $parts == *start* ]]; then
  : >"$out/start.jsonl"
  for switches in lossless lossless,fp8; do
    for _ in 1 2 3; do start "$switches"; done
  done
fi

# limited LIMIT: six requests of one process, every second with a prompt that was read before
limited() {
  local watch
  nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits -lms 100 >"$scratch/used" &
  watch=$!
  for i in 0 1 2 3 4 5; do
    echo "{\"prompt\": \"a fox, number $((i / 2))\", \"seed\": $i, \"out\": \"$scratch/$i.png\"}"
  done | "$headroom" run "$dev" --prompts - --device cuda --opt lossless,fp8 --quiet --memory-limit "$1" |
    sed "s#$scratch/##; s#^{#{\"limit\":\"$1\",#" >>"$out/limit.jsonl"
  kill "$watch"
  wait "$watch" || true
  sed "s#^#$1,#" "$scratch/used" >>"$out/limit.csv"
}
if [[ $parts == *limit* ]]; then
  : >"$out/limit.jsonl"
  : >"$out/limit.csv"
  for limit in 0 16GiB 0 16GiB; do limited "$limit"; done
fi

# adapted STEPS FILE...: requests one after the other, each with that LoRA file, or with `none`; equal prompts, so that
# no encoder runs after the first
adapted() {
  local loras
  for file in "${@:2}"; do
    loras="{\"file\": \"$scratch/$file.safetensors\", \"weight\": 0.8}"
    [[ $file == none ]] && loras=
    echo "{\"id\": \"$file\", \"prompt\": \"a fox\", \"seed\": 1, \"steps\": $1, \"out\": \"$scratch/fox.png\", \"loras\": [$loras]}"
  done
}
if [[ $parts == *lora* ]]; then
  : >"$out/lora.jsonl"
  python3 "$here/bench/peers/lora_stand_in.py" "$scratch" a b
  for switches in lossless lossless,fp8; do
    {
      adapted 2 none none a a b b a b none none a b
      for _ in 1 2 3; do adapted 8 none none none a a a; done
    } | "$headroom" run "$dev" --prompts - --device cuda --opt "$switches" --quiet |
      sed "s#$scratch/##; s#^{#{\"switches\":\"$switches\",#" >>"$out/lora.jsonl"
  done
fi
