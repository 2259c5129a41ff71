#!/usr/bin/env bash
# setup_test.sh SOURCE: what making the program and the demo installs is no more than they need, and the program is configured without
# what the tests need.
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

of_tests='gtest|gmock|chromium|python|jsonschema|pandoc'
of_tools='clang|libomp'
expect_in "$(list)" libdnnl-dev
expect_none "$(list)" "$of_tests|$of_tools"
for package in libgtest-dev libgmock-dev chromium python3-jsonschema pandoc libdnnl-dev; do expect_in "$(list test)" $package; done
expect_none "$(list test)" "$of_tools"
expect_in "$(list tools)" clang-tidy-16
expect_none "$(list tools)" 'gtest|chromium'
[[ $(list docs) == pandoc ]] || wrong "making the site installs: $(list docs)"
if list toys >/dev/null 2>&1; then wrong "bootstrap.sh takes an unknown group"; fi

# installs TARGET: how `make TARGET` calls bootstrap.sh.
installs() {
  make --dry-run --no-print-directory -C "$source" "$1" | grep '^scripts/bootstrap.sh' | sort -u
}
for target in build demo quality images package; do
  [[ $(installs $target) == scripts/bootstrap.sh ]] || wrong "make $target runs: $(installs $target)"
done
[[ $(installs docs) == 'scripts/bootstrap.sh docs' ]] || wrong "make docs runs: $(installs docs)"
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

[[ $failures -eq 0 ]]
