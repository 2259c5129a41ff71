#!/usr/bin/env bash
# run_mutants.sh BUILD [PATCH...]: plants each fault of mutants/*.patch, and requires that graph_fuzz finds it.
# BUILD is a folder in which graph_fuzz was built from this checkout. Neither is changed: each patched file is compiled
# alone, and replaces the original in a copy of its layer's library. Prints two lines for each fault, and fails if one
# was not found. Environment variables: JOBS, the number of concurrent faults (1); TIME, the limit for one fault in
# seconds (120); SEED, the seed of the first graph (0).
set -euo pipefail
source_dir=$(realpath "$(dirname "$0")/../..")
build=$(realpath "$1")
shift
if [[ $# -gt 0 ]]; then mapfile -t patches < <(realpath "$@"); else patches=("$source_dir"/tests/differential/mutants/*.patch); fi
cd "$source_dir"
jobs=${JOBS:-1}
seconds=${TIME:-120}
seed=${SEED:-0}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ninja -C "$build" -t commands graph_fuzz > "$work/commands"

compile() {  # MUTANT FILE: compiles the patched source file in the folder MUTANT
  local command
  command=$(grep -E -- "-c [^ ]*/$2\$" "$work/commands" | grep -v header_check | tail -1 || true)
  [[ -n $command ]] || { echo "no command compiles $2"; return 1; }
  command=$(sed -E "s#-o [^ ]+ -c [^ ]+#-o $1/$(basename "$2").o -c $1/$2#; s#-MD -MT [^ ]+ -MF [^ ]+##; s#-I$source_dir/src#-I$1/src -I$source_dir/src#" <<< "$command")
  (cd "$build" && eval "$command")
}
link() {  # MUTANT FILE: links the compiled src/LAYER/...
  local library command
  library=libheadroom_$(cut -d/ -f2 <<< "$2").a
  cp "$build/$library" "$1"
  ar r "$1/$library" "$1/$(basename "$2").o"  # replaces the member of that name
  command=$(tail -1 "$work/commands" | sed -E "s#-o tests/differential/graph_fuzz #-o $1/graph_fuzz #; s#(^| )$library#\\1$1/$library#g")
  (cd "$build" && eval "$command")
}
run() {  # PROGRAM OUTPUT OPTION...: writes the CPU seconds to OUTPUT.time
  local TIMEFORMAT=%U
  { time OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive "$1" --no-shrink --seed "$seed" "${@:3}" > "$2" 2>&1; } 2> "$2.time"
}

plant() {  # PATCH: writes the result to $work/NAME.found or .missed
  local name mutant file said
  name=$(basename "$1" .patch)
  mutant=$work/$name
  file=$(sed -n 's#^+++ b/##p' "$1")
  mkdir -p "$mutant/$(dirname "$file")"
  cp "$file" "$mutant/$file"
  patch -s -p1 -d "$mutant" < "$1"
  if ! { compile "$mutant" "$file" && link "$mutant" "$file"; } > "$mutant/log" 2>&1; then
    echo "$name: DOES NOT COMPILE: $(grep -m1 -E 'error|no command' "$mutant/log")" > "$mutant.missed"
  elif run "$mutant/graph_fuzz" "$mutant/said" --graphs 1000000 --seconds "$seconds"; then
    echo "$name: NOT FOUND: $(tail -1 "$mutant/said")" > "$mutant.missed"
  elif said=$(grep -m1 -A1 '^FAILED with' "$mutant/said"); then
    printf '%s: found with %s, after %s, %.0f s of a core\n   %.140s\n' "$name" "$(head -1 <<< "$said" | cut -d' ' -f3-)" \
      "$(tail -1 "$mutant/said" | grep -o '[0-9]* graphs')" "$(cat "$mutant/said.time")" "$(tail -1 <<< "$said")" > "$mutant.found"
  else
    printf '%s: found, for the program ends: %.100s\n' "$name" "$(tail -1 "$mutant/said")" > "$mutant.found"
  fi
  cat "$mutant".[fm]*
  rm -r "$mutant"
}

run "$build/tests/differential/graph_fuzz" "$work/sound" --graphs 50 || { echo "graph_fuzz fails without any fault:"; tail "$work/sound"; exit 1; }
for patch in "${patches[@]}"; do
  while [[ $(jobs -rp | wc -l) -ge $jobs ]]; do wait -n || true; done
  plant "$patch" &
done
wait
missed=$((${#patches[@]} - $(find "$work" -maxdepth 1 -name '*.found' | wc -l)))
echo "${#patches[@]} faults planted, $missed missed"
[[ $missed -eq 0 ]]
