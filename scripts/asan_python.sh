#!/usr/bin/env bash
# asan_python.sh LIBRARY [MODULE...]: builds the Python module under AddressSanitizer and UndefinedBehaviorSanitizer
# against a libheadroom.so that is built already, and runs the Python tests on it; with names such as test_dlpack those
# alone. Some compare with the program, if it lies beside the library. Memory of the library is checked where the module
# or the allocator touches it; `make asan` checks the library's own code.
set -euo pipefail
cd "$(dirname "$0")/.."
if [[ $# -lt 1 ]]; then
  sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "$0"
  exit 2
fi
library=$(realpath "$1")
modules=("${@:2}")
[[ ${#modules[@]} -gt 0 ]] || modules=(test_dlpack test_networks test_images test_measure)

python=$(scripts/fetch_python.sh --where)/bin/python
build=build/asan_python
cmake -S python -B $build -G Ninja -DCMAKE_BUILD_TYPE=Debug -DPython_EXECUTABLE="$python" -DHEADROOM_LIBRARY="$library" \
  -DCMAKE_CXX_FLAGS_DEBUG="-O1 -g1 -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer" >/dev/null
cmake --build $build
package=$build/package
rm -rf $package
cmake --install $build --prefix $package >/dev/null
cp python/headroom/*.py $package/headroom/

# A program that is not instrumented needs the sanitizer's library first, and libstdc++ for its exceptions. Leaks are
# Python's own; tests of resident memory need a small quarantine.
preload=$(g++ -print-file-name=libasan.so):$(g++ -print-file-name=libubsan.so):$(g++ -print-file-name=libstdc++.so)
program=$(dirname "$library")/headroom
[[ -x $program ]] && export HEADROOM_PROGRAM=$program
cd python/tests
setarch -R env LD_PRELOAD="$preload" ASAN_OPTIONS=detect_leaks=0:quarantine_size_mb=1 UBSAN_OPTIONS=print_stacktrace=1 \
  PYTHONMALLOC=malloc PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=2 OMP_WAIT_POLICY=passive PYTHONPATH="$OLDPWD/$package" \
  "$python" -m unittest -v "${modules[@]}"
