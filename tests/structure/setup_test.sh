#!/usr/bin/env bash
# setup_test.sh SOURCE: what making the program and the demo installs is no more than they need, and the program is
# configured without what the tests need.
set -euo pipefail
source=$1
failures=0
wrong() {
  echo "$*"
  failures=$((failures + 1))
}
unset MAKEFLAGS MAKELEVEL  # of a make that runs this test

list() { "$source/scripts/bootstrap.sh" --list "$@"; }
# expect_in WORDS LINE: one of the lines is LINE.
expect_in() { grep -qxF "$2" <<<"$1" || wrong "'$2' is not in: ${1//$'\n'/ }"; }
# expect_none WORDS PATTERN
expect_none() { ! grep -E "$2" <<<"$1" || wrong "what is needless is in the list, see above"; }

of_tests='gtest|gmock|chromium|python|jsonschema|pandoc|graphviz'
of_tools='clang|libomp'
expect_in "$(list)" libdnnl-dev
expect_none "$(list)" "$of_tests|$of_tools"
for package in libgtest-dev libgmock-dev chromium python3-jsonschema pandoc libdnnl-dev; do expect_in "$(list test)" $package; done
expect_none "$(list test)" "$of_tools"
expect_in "$(list tools)" clang-tidy-16
expect_none "$(list tools)" 'gtest|chromium'
expect_in "$(list cuda)" python3-pip
expect_none "$(list cuda)" 'gtest|chromium|clang'
expect_in "$(list peers)" python3-venv
expect_none "$(list peers)" 'gtest|chromium|clang'
[[ $(list docs) == $'pandoc\ngraphviz' ]] || wrong "making the site installs: $(list docs)"
if list toys >/dev/null 2>&1; then wrong "bootstrap.sh takes an unknown group"; fi

# installs TARGET: how `make TARGET` calls bootstrap.sh.
installs() {
  make --dry-run --no-print-directory -C "$source" "$1" | grep '^scripts/bootstrap.sh' | sort -u
}
for target in build demo quality package; do
  [[ $(installs $target) == scripts/bootstrap.sh ]] || wrong "make $target runs: $(installs $target)"
done
[[ $(installs docs) == 'scripts/bootstrap.sh docs' ]] || wrong "make docs runs: $(installs docs)"
[[ $(installs diagrams) == 'scripts/bootstrap.sh docs' ]] || wrong "make diagrams runs: $(installs diagrams)"
[[ $(installs images) == $'scripts/bootstrap.sh\nscripts/bootstrap.sh docs' ]] || wrong "make images runs: $(installs images)"
for target in test asan bundle; do expect_in "$(installs $target)" 'scripts/bootstrap.sh test'; done

build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
configure() { cmake -S "$source" -B "$build" -G Ninja -DHEADROOM_CUDA=OFF -DCMAKE_DISABLE_FIND_PACKAGE_GTest="$1" "${@:2}"; }
configure ON >"$build/log" 2>&1 || wrong "without GoogleTest the program is not configured: $(cat "$build/log")"
targets() { ninja -C "$build" -t targets all | sed 's/: .*//' | grep -v /; }
expect_in "$(targets)" headroom
expect_none "$(targets)" '_tests$'
# As `make test` does where only the demo ran before.
configure OFF -DHEADROOM_TESTS=ON >"$build/log" 2>&1 || wrong "the tests cannot be asked for later: $(cat "$build/log")"
expect_in "$(targets)" e2e_tests

# Vector units of kernels for CPUs: all, or this machine's alone, which tests refuse.
units() { ninja -C "$build" -t commands headroom | grep -o 'HEADROOM_VECTOR_UNIT=HWY_[A-Z0-9_]*' | sort -u; }
[[ -z $(units) ]] || wrong "a build for all CPUs has one vector unit: $(units)"
if configure OFF -DHEADROOM_VECTOR_UNITS=NATIVE >"$build/log" 2>&1; then wrong "tests are configured for one vector unit"; fi
grep -q 'expected HEADROOM_VECTOR_UNITS=ALL' "$build/log" || wrong "nothing says what the tests need: $(cat "$build/log")"
if configure OFF -DHEADROOM_VECTOR_UNITS=SOME >"$build/log" 2>&1; then wrong "vector units are called SOME"; fi
configure OFF -DHEADROOM_VECTOR_UNITS=NATIVE -DHEADROOM_TESTS=OFF >"$build/log" 2>&1 || wrong "one vector unit: $(cat "$build/log")"
[[ $(units | wc -l) == 1 ]] || wrong "a build for this machine has the vector units: $(units)"
# Where nothing was built, only the program is for this machine alone; where something was, make keeps the choice.
clone=$build/clone
mkdir "$clone" && cp "$source"/Makefile "$source"/CMakePresets.json "$clone"
steps() { make --dry-run --no-print-directory -C "$clone" "$1"; }
expect_step() { [[ $(steps "$1") == *"$2"* ]] || wrong "make $1 runs no '$2': $(steps "$1")"; }
for target in build demo; do expect_step $target '--preset release -DHEADROOM_VECTOR_UNITS=NATIVE'; done
for target in test bundle; do expect_step $target '--preset release -DHEADROOM_TESTS=ON -DHEADROOM_VECTOR_UNITS=ALL'; done
expect_step package '--preset release -DHEADROOM_VECTOR_UNITS=ALL'
mkdir -p "$clone/build/release" && touch "$clone/build/release/CMakeCache.txt"
[[ $(steps build) != *NATIVE* ]] || wrong "make configures a build of all vector units for one: $(steps build)"

# GoogleTest without GoogleMock, as Debian's libgtest-dev alone.
mkdir "$build/gtest"
cat >"$build/gtest/GTestConfig.cmake" <<'EOF'
add_library(GTest::gtest INTERFACE IMPORTED)
add_library(GTest::gtest_main INTERFACE IMPORTED)
EOF
rm -rf "$build/CMakeCache.txt" "$build/CMakeFiles"
configure OFF "-DGTest_DIR=$build/gtest" >"$build/log" 2>&1 || wrong "without GoogleMock the program is not configured: $(cat "$build/log")"
expect_in "$(targets)" headroom
expect_none "$(targets)" '_tests$'
if configure OFF "-DGTest_DIR=$build/gtest" -DHEADROOM_TESTS=ON >"$build/log" 2>&1; then wrong "tests are configured without GoogleMock"; fi
grep -q 'scripts/bootstrap.sh test' "$build/log" || wrong "nothing says how to get GoogleMock: $(cat "$build/log")"

# The CUDA toolkit: a machine whose nvcc is too old, and a pip that installs one library.
machine=$build/machine
mkdir -p "$machine/bin"
printf '#!/bin/sh\necho "Cuda compilation tools, release 11.8, V11.8.89"\n' >"$machine/bin/nvcc"
cat >"$machine/bin/python3" <<'EOF'
#!/usr/bin/env bash
[[ $3 == --version ]] && exit
echo "$*" >>"$CALLS"
while [[ $1 != --target ]]; do shift; done
mkdir -p "$2/nvidia/cu13/lib"
touch "$2/nvidia/cu13/lib/libcudart.so.13"
EOF
chmod +x "$machine"/bin/*
fetch_cuda() {
  env -u CUDA_PATH -u CUDAToolkit_ROOT CALLS="$machine/calls" XDG_DATA_HOME="$machine/data" PATH="$machine/bin:$PATH" "$source/scripts/fetch_cuda.sh" "$@"
}
if [[ ! -x /usr/local/cuda/bin/nvcc ]]; then
  fetched=$(fetch_cuda --where)
  [[ $fetched == "$machine"/data/* ]] || wrong "the toolkit goes to '$fetched'"
  fetch_cuda >/dev/null || wrong "the toolkit is not fetched"
  grep -q -- '--require-hashes' "$machine/calls" || wrong "checksums are not asked for: $(cat "$machine/calls")"
  [[ -e $fetched/nvidia/cu13/lib64/libcudart.so ]] || wrong "the toolkit lacks lib64/libcudart.so"
  fetch_cuda
  [[ $(wc -l <"$machine/calls") == 1 ]] || wrong "a toolkit that is there is fetched again"
  echo '# other pins' >"$fetched/requirements.txt"
  fetch_cuda >/dev/null && cmp -s "$source/third_party/cuda/requirements.txt" "$fetched/requirements.txt" || wrong "other pins are kept"
  printf '#!/bin/sh\necho "Cuda compilation tools, release 13.0, V13.0.88"\n' >"$machine/bin/nvcc"
  mkdir -p "$machine/include" && touch "$machine/include/cudnn.h"
  rm -rf "$fetched" && fetch_cuda
  [[ ! -e $fetched ]] || wrong "a toolkit is fetched where the machine has one"
fi

[[ $failures -eq 0 ]]
