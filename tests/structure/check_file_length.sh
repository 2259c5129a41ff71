#!/usr/bin/env bash
# check_file_length.sh ROOT LINES FILES: fails where a file written by hand has more than LINES lines, or a folder below
# src more than FILES files of its own; split it by idea.
set -euo pipefail
root=$1
limit=$2
most_files=$3

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

# Files below src, whatever they are written in.
find src -type f -printf '%h\n' 2>/dev/null | sort | uniq -c | awk -v most="$most_files" '
  $1 > most { printf "%s has %d files; %d is the most\n", $2, $1, most; failures++ }
  END { exit failures > 0 }
'
