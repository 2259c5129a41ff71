#!/usr/bin/env bash
# format.sh OPTION... [FILE...]: runs clang-format-16 with these options on the files, or on all C++ and CUDA sources.
set -euo pipefail
cd "$(dirname "$0")/.."

options=()
files=()
for argument in "$@"; do
  if [[ $argument == -* ]]; then options+=("$argument"); else files+=("$argument"); fi
done
if [[ ${#files[@]} -eq 0 ]]; then
  mapfile -t files < <(find src tests examples python -type f \( -name '*.hpp' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \) | sort)
fi
printf '%s\0' "${files[@]}" | xargs -0 -n 8 -P "$(nproc)" clang-format-16 "${options[@]}"
