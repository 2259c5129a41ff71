#!/usr/bin/env bash
# check_output.sh SRC: results go out through base/output.hpp and messages through base/log.hpp, which show what would
# steer a terminal as escapes. std::fprintf(stderr) is left to destructors and aborts, which have words of their own
# only.
set -euo pipefail
src=$1
mapfile -t sources < <(find "$src" -type f \( -name '*.[ch]pp' -o -name '*.cu' \) ! -name '*_test.cpp' ! -name '*_fuzz.cpp' | sort)
if [[ ${#sources[@]} -eq 0 ]]; then
  echo "check_output.sh: no source file below $src"
  exit 1
fi
found=$(grep -nE '\b(fmt::v?print|std::(cout|cerr|clog)\b|v?f?printf|f?puts) *\(|\bstd::(cout|cerr|clog)\b' "${sources[@]}" /dev/null |
  grep -vE 'std::fprintf\(stderr,|^[^:]*:[0-9]+: *//' || true)
if [[ -n $found ]]; then
  echo "$found"
  echo "write with print_out() of base/output.hpp, or to a Log of base/log.hpp"
  exit 1
fi
