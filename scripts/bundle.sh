#!/usr/bin/env bash
# bundle.sh BUILD ARCHIVE: packs what a build made into one ARCHIVE (.tar.xz) that runs on another x86-64 Linux machine with glibc
# 2.36 or newer: the program, the tests that use a GPU, the models and goldens they read, and the shared libraries that such
# a machine may lack. NVIDIA's libraries are not among them: cuBLAS, cuDNN and NVRTC are found there by their soname
# (LD_LIBRARY_PATH where the loader does not know them), the driver brings the rest.
set -euo pipefail
if [[ $# -ne 2 ]]; then
  echo "usage: bundle.sh BUILD ARCHIVE" >&2
  exit 2
fi
build=$1
archive=$2
programs=(headroom backends_tests kernels_tests run_tests pipelines_tests tests/e2e_tests)
of_the_system='^(linux-vdso|ld-linux|lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+)\.so)'

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
folder=$root/headroom
mkdir -p "$folder/bin" "$folder/lib" "$folder/tests"
for program in "${programs[@]}"; do
  strip -o "$folder/bin/${program##*/}" "$build/$program"
done
ldd "${programs[@]/#/$build/}" | awk '$2 == "=>" && $3 ~ /^\// { print $1, $3 }' | sort -u |
  while read -r name path; do
    [[ $name =~ $of_the_system ]] || cp -L "$path" "$folder/lib/$name"
  done
cp -r models "$folder/"
cp -r tests/goldens "$folder/tests/"

mkdir -p "$(dirname "$archive")"
# The programs hold the same device code; a dictionary larger than them all finds it in the first and stores it once.
tar -C "$root" -c headroom | xz --lzma2=preset=6,dict=256MiB >"$archive.part"
mv "$archive.part" "$archive"
echo "$archive: $(($(stat -c %s "$archive") / 1048576)) MiB"
