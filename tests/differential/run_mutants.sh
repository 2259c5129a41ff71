#!/usr/bin/env bash
# run_mutants.sh BUILD [PATCH...]: plants each fault of mutants/*.patch, and requires that graph_fuzz finds it. BUILD is a
# folder in which graph_fuzz has been built of this checkout, which stays as it is: a patched file is compiled by itself,
# and takes the place of its like in a copy of their layer's library. Prints two lines for each fault; fails where one
# was not found.
set -euo pipefail
cd "$(dirname "$0")/../.."
source_dir=$PWD
build=$(realpath "$1")
shift
if [[ $# -gt 0 ]]; then mapfile -t patches < <(realpath "$@"); else patches=("$PWD"/tests/differential/mutants/*.patch); fi
graphs=${GRAPHS:-4000}  # at most, for one fault
seconds=${TIME:-120}    # likewise
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

compile() {  # FILE: of the sources, as it is below $work
  local command
  command=$(ninja -C "$build" -t commands | grep -E -- "-c [^ ]*/$1\$" | grep -v header_check | tail -1 || true)
  [[ -n $command ]] || { echo "no command compiles $1"; return 1; }
  command=$(sed -E "s#-o [^ ]+ -c [^ ]+#-o $work/$(basename "$1").o -c $work/$1#; s#-MD -MT [^ ]+ -MF [^ ]+##; s#-I$source_dir/src#-I$work/src -I$source_dir/src#" <<< "$command")
  (cd "$build" && eval "$command")
}
link() {  # FILE: src/LAYER/..., compiled
  local library command
  library=libheadroom_$(cut -d/ -f2 <<< "$1").a
  cp "$build/$library" "$work"
  ar r "$work/$library" "$work/$(basename "$1").o"  # in place of the member of that name
  command=$(ninja -C "$build" -t commands graph_fuzz | tail -1)
  command=$(sed -E "s#-o tests/differential/graph_fuzz #-o $work/graph_fuzz #; s#(^| )$library#\\1$work/$library#g" <<< "$command")
  (cd "$build" && eval "$command")
}
run() {
  OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive "$1" --no-shrink --seconds "$seconds" --graphs "$2" > "$work/run" 2>&1
}

run "$build/tests/differential/graph_fuzz" 50 || { echo "graph_fuzz fails without any fault:"; tail "$work/run"; exit 1; }
missed=0
for patch in "${patches[@]}"; do
  name=$(basename "$patch" .patch)
  file=$(sed -n 's#^+++ b/##p' "$patch")
  rm -rf "$work"/*
  mkdir -p "$work/$(dirname "$file")"
  cp "$file" "$work/$file"
  patch -s -p1 -d "$work" < "$patch"
  if ! { compile "$file" && link "$file"; } > "$work/log" 2>&1; then
    echo "$name: DOES NOT COMPILE: $(grep -m1 -E 'error|no command' "$work/log")"
    missed=$((missed + 1))
  elif run "$work/graph_fuzz" "$graphs"; then
    echo "$name: NOT FOUND: $(tail -1 "$work/run")"
    missed=$((missed + 1))
  elif grep -q '^FAILED with' "$work/run"; then
    echo "$name: found with$(grep -m1 '^FAILED with' "$work/run" | cut -d' ' -f3- | sed 's/^/ /')"
    echo "   $(grep -m1 -A1 '^FAILED with' "$work/run" | tail -1 | cut -c1-140)"
  else
    echo "$name: found, for the program ends: $(tail -1 "$work/run" | cut -c1-100)"
  fi
done
echo "${#patches[@]} faults planted, $missed missed"
[[ $missed -eq 0 ]]
