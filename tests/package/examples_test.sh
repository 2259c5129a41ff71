#!/usr/bin/env bash
# examples_test.sh SOURCE BUILD: what is installed is enough for an application. Installs the build, moves it, builds
# the examples against it, warnings as errors, and holds what they print to what must come out.
set -euo pipefail
source=$1
build=$2
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
failures=0
wrong() {
  echo "$*"
  failures=$((failures + 1))
}
# has TEXT WORDS
has() { [[ $1 == *"$2"* ]] || wrong "'$2' is not in: $1"; }
# holds EXPRESSION: of awk, over numbers.
holds() { awk "BEGIN { exit !($1) }" || wrong "does not hold: $1"; }

cmake --install "$build" --prefix "$root/installed" >"$root/log"
prefix=$root/moved
mv "$root/installed" "$prefix"
[[ $("$prefix/bin/headroom" --version) == "headroom "* ]] || wrong "the installed program does not run"
has "$(cat "$prefix/share/doc/headroom/third_party_licences.txt")" 'Boost Software License'
others=$(nm --dynamic --defined-only --demangle "$prefix/lib/libheadroom.so" | grep -v 'headroom::v1::' || true)
[[ -z $others ]] || wrong "libheadroom.so shows more than its interface: $others"

cmake -S "$source/examples" -B "$root/build" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_CXX_FLAGS="-Wall -Wextra -Wpedantic -Werror" >"$root/log"
cmake --build "$root/build" >"$root/log" || { cat "$root/log" && exit 1; }

mkdir "$root/empty"
cd "$root/empty"  # where no models lie
export OMP_WAIT_POLICY=passive
norm_of() { sed -n 's/^sample \[1, 256, 4\]: norm //p' <<<"$1"; }
baseline=$("$root/build/forward" fashion-flux baseline cpu)
lossless=$("$root/build/forward" fashion-flux lossless cpu)
has "$baseline" 'fashion-flux (FluxTransformer2DModel), 6221700 parameters, on cpu'
has "$lossless" $'applied arena\napplied flash\napplied fuse\ndeclined hoist: there is no loop of several steps here\n'
has "$lossless" 'ms, median of 5'
a=$(norm_of "$baseline") b=$(norm_of "$lossless")
holds "$a > 1 && ($a - $b) ^ 2 <= (1e-5 * $a) ^ 2"

compared=$("$root/build/compare_switches" fashion-flux arena,fuse cpu)
has "$compared" ' times as fast'
error=$(sed -n 's/^sample: relative error //p' <<<"$compared")
holds "$error > 0 && $error < 1e-5"
[[ $(grep -cE '^ +[0-9.]+ ms  .*transformer_blocks' <<<"$compared") -eq 10 ]] || wrong "not five launches each: $compared"

status=0
said=$("$root/build/forward" fashion-flux flsh cpu 2>&1 >/dev/null) || status=$?
[[ $status -eq 2 ]] || wrong "an unknown switch exits with $status"
has "$said" "forward: unknown switch 'flsh'; did you mean 'flash'?"

[[ $failures -eq 0 ]]
