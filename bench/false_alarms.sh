#!/usr/bin/env bash
# How often `headroom bench --against` raises a false alarm on this machine: a binary against a copy of itself, N times.
# Writes one verdict a line, as --save-verdict makes it, and prints how many there were of each.
#
#   bench/false_alarms.sh HEADROOM OUT.jsonl [N]
#
# 50 times on fashion-flux take about a quarter of an hour on two cores.
set -euo pipefail
headroom=$1 out=$2 times=${3:-50}
here=$(cd "$(dirname "$0")/.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cp "$headroom" "$folder/other"
for ((i = 1; i <= times; ++i)); do
  status=0
  "$headroom" bench "$here/models/fashion-flux" --opt lossless --device cpu --quiet --against "$folder/other" \
    --save-verdict "$folder/$i.json" >/dev/null || status=$?
  case $status in 0 | 3 | 4) ;; *) exit "$status" ;; esac
  python3 -c 'import json, sys; print(json.dumps(json.load(open(sys.argv[1]))))' "$folder/$i.json" >>"$folder/all"
  echo "$i of $times: $(grep -o '"verdict": "[A-Z]*"' "$folder/$i.json")" >&2
done
mv "$folder/all" "$out"
grep -o '"verdict": "[A-Z]*"' "$out" | sort | uniq -c
