#!/usr/bin/env bash
# check_file_length.sh ROOT LIMIT: fails where a file written by hand has more than LIMIT lines; split it by idea.
set -euo pipefail
root=$1
limit=$2

cd "$root"
find . \( -path ./build -o -path ./out -o -path './.*' -o -name node_modules \) -prune -o -type f \
  \( -name '*.hpp' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' -o -name '*.def' -o -name '*.cmake' \
  -o -name CMakeLists.txt -o -name '*.py' -o -name '*.js' -o -name '*.sh' \) -print0 |
  sort -z | xargs -0 awk -v limit="$limit" '
    { lines[FILENAME] = FNR }
    END {
      for (file in lines) {
        files++
        if (lines[file] > limit) { printf "%s has %d lines; %d is the most\n", file, lines[file], limit; failures++ }
      }
      if (failures) exit 1
      if (!files) { print "no source file found"; exit 1 }
    }
  '
