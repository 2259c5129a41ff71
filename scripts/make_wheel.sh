#!/usr/bin/env bash
# make_wheel.sh LIBRARY FOLDER: packs a libheadroom.so that is built already into a wheel for Python 3.10 and later,
# into FOLDER. The libraries that it needs come along, but for those of CUDA, which are loaded when a GPU is first used.
# Says the wheel's size. The sources, from which pip builds the package where Debian's packages are installed, go there
# too.
set -euo pipefail
cd "$(dirname "$0")/.."
if [[ $# -ne 2 ]]; then
  sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "$0"
  exit 2
fi
library=$(realpath "$1")
folder=$(realpath -m "$2")

tools=$(scripts/fetch_python.sh --where)/bin
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$tools/python" -m build --wheel --no-isolation -o "$work" -Cbuild-dir="$work/build" -Ccmake.define.HEADROOM_LIBRARY="$library" . >"$work/log" ||
  { cat "$work/log" >&2; exit 1; }
mkdir -p "$folder"
rm -f "$folder"/headroom-*.whl
"$tools/python" -m build --sdist --no-isolation -o "$folder" . >"$work/log" || { cat "$work/log" >&2; exit 1; }
# glibc 2.36 is Debian 12's.
PATH="$tools:$PATH" "$tools/auditwheel" repair --strip -z 9 --plat manylinux_2_36_x86_64 --exclude 'libcu*.so*' --exclude 'libnv*.so*' \
  -w "$folder" "$work"/*.whl
wheel=$(echo "$folder"/headroom-*.whl)
"$tools/abi3audit" --strict "$wheel"
echo "$wheel: $(($(stat -c %s "$wheel") / 1000000)) MB"
