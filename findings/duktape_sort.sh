#!/usr/bin/env bash
# Duktape's Array.prototype.sort() takes its pivots at random: equal elements come out in another order each time the
# program runs. ECMAScript 5 allows that; since ECMAScript 2019 a sort is stable, and libraries written for browsers
# rely on it (ECharts sorts labels by size to decide which of those that overlap are left out, so a chart of equal
# results differs from run to run).
#
# Seen with dukpy 0.5.0 (Duktape 2.99.99) on Linux x86-64: 40 elements with equal keys, in two processes:
#   27,25,26,0,20,24,30,22,21,23,...
#   27,26,30,20,25,29,21,22,24,23,...
# Ends with 0 while that is so, and with 1 where two processes agree or the order is kept.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet dukpy==0.5.0
cat >"$folder/sort.py" <<'PY'
import dukpy
print(dukpy.evaljs("""
var list = [];
for (var i = 0; i < 40; ++i) list.push({key: 0, at: i});
list.sort(function (a, b) { return a.key - b.key; });
list.map(function (e) { return e.at; }).join();
"""))
PY
kept=$(seq -s, 0 39)
orders=()
for _ in 1 2 3; do orders+=("$("$folder/venv/bin/python" "$folder/sort.py")"); done
printf '%s\n' "${orders[@]}"
if [[ ${orders[0]} == "$kept" || (${orders[0]} == "${orders[1]}" && ${orders[1]} == "${orders[2]}") ]]; then
  echo "the sort of equal elements has become repeatable" >&2
  exit 1
fi
