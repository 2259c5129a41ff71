#!/usr/bin/env bash
# check_json.sh SRC: JSON is read through base/text/json.hpp or base/text/json_events.hpp. The library's parser with a
# callback takes quadratic time, and without one it lets repeated keys and deep nesting pass.
set -euo pipefail
src=$1
mapfile -t sources < <(find "$src" -type f \( -name '*.[ch]pp' -o -name '*.cu' \) ! -name '*_test.cpp' ! -name '*_fuzz.?pp' \
  ! -path "$src/base/text/json_events.cpp" | sort)
if [[ ${#sources[@]} -eq 0 ]]; then
  echo "check_json.sh: no source file below $src"
  exit 1
fi
found=$(grep -nE '\bjson::(parse|accept|sax_parse) *\(|parse_event_t|parser_callback_t|\b_json\b|>> *\w*json\b' "${sources[@]}" /dev/null |
  grep -vE '^[^:]*:[0-9]+: *//' || true)
# json_events.cpp itself may call the event parser alone.
if [[ -f $src/base/text/json_events.cpp ]]; then
  found+=$(grep -nHE '\bjson::(parse|accept) *\(|parse_event_t|parser_callback_t' "$src/base/text/json_events.cpp" || true)
fi
if [[ -n $found ]]; then
  echo "$found"
  echo "read JSON with parse_json() or read_json_events()"
  exit 1
fi
