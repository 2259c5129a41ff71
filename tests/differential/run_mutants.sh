#!/usr/bin/env bash
# run_mutants.sh [PATCH...]: plants each fault of mutants/*.patch, and requires that graph_fuzz finds it. Prints two lines
# for each; fails where one was not found. Works in a copy of this revision, or, where BUILD names a build folder of this
# checkout, right here, which saves building everything first; every fault is taken out again.
set -euo pipefail
cd "$(dirname "$0")/../.."
if [[ $# -gt 0 ]]; then mapfile -t patches < <(realpath "$@"); else patches=("$PWD"/tests/differential/mutants/*.patch); fi
jobs=${JOBS:-$(nproc)}
graphs=${GRAPHS:-4000}  # at most, for one fault
seconds=${TIME:-120}    # likewise
log=$(mktemp -d)

if [[ -n ${BUILD:-} ]]; then
  build=$(realpath "$BUILD")
  git diff --quiet HEAD -- src tests || { echo "commit first: faults are planted here"; exit 1; }
else
  copy=$(mktemp -d)
  git archive HEAD | tar -x -C "$copy"
  cd "$copy"
  build=$copy/build
  cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DHEADROOM_CUDA=OFF > "$log/configure"
fi
compile() { cmake --build "$build" --parallel "$jobs" --target graph_fuzz > "$log/build" 2>&1; }
run() {
  OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive "$build/tests/differential/graph_fuzz" --no-shrink --seconds "$seconds" --graphs "$1" > "$log/run" 2>&1
}

compile || { tail -20 "$log/build"; exit 1; }
run 100 || { echo "graph_fuzz fails without any fault:"; tail -30 "$log/run"; exit 1; }
missed=0
for patch in "${patches[@]}"; do
  name=$(basename "$patch" .patch)
  patch -s -p1 < "$patch"
  trap 'patch -s -R -p1 < "$patch"' EXIT
  if ! compile; then
    echo "$name: DOES NOT COMPILE: $(grep -m1 error "$log/build")"
    missed=$((missed + 1))
  elif run "$graphs"; then
    echo "$name: NOT FOUND: $(tail -1 "$log/run")"
    missed=$((missed + 1))
  elif grep -q '^FAILED with' "$log/run"; then
    echo "$name: found with$(grep -m1 '^FAILED with' "$log/run" | cut -d' ' -f3-)"
    echo "   $(grep -m1 -A1 '^FAILED with' "$log/run" | tail -1 | cut -c1-140)"
  else
    echo "$name: found, for the program ends: $(tail -1 "$log/run" | cut -c1-100)"
  fi
  trap - EXIT
  patch -s -R -p1 < "$patch"
done
echo "${#patches[@]} faults planted, $missed missed"
[[ $missed -eq 0 ]]
