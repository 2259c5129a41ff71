#!/usr/bin/env bash
# bundle.sh BUILD ARCHIVE: packs what a build made into ARCHIVE (NAME.tar.xz), which runs on another x86-64 Linux
# machine with glibc 2.36 or newer: the program, the tests that use a GPU, and the shared libraries that such a machine
# may lack. What they read, models and goldens, goes into NAME_data.tar.xz: unpack it in the same folder, or link models
# and tests/goldens of a checkout there. NVIDIA's libraries are in neither: cuBLAS, cuDNN and NVRTC are found there by
# their soname (LD_LIBRARY_PATH if the loader does not know them), the driver brings the rest.
set -euo pipefail
if [[ $# -ne 2 ]]; then
  echo "usage: bundle.sh BUILD NAME.tar.xz" >&2
  exit 2
fi
build=$1
archive=$2
programs=(headroom backends_tests kernels_tests run_tests pipelines_tests train_tests tests/e2e_tests tests/differential/graph_fuzz)
of_the_system='^(linux-vdso|ld-linux|lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+)\.so)'

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
folder=$root/headroom
mkdir -p "$folder/bin" "$folder/lib"
for program in "${programs[@]}"; do
  strip -o "$folder/bin/${program##*/}" "$build/$program"
done
ldd "${programs[@]/#/$build/}" | awk '$2 == "=>" && $3 ~ /^\// { print $1, $3 }' | sort -u |
  while read -r name path; do
    [[ $name =~ $of_the_system ]] || cp -L "$path" "$folder/lib/$name"
  done

# pack ARCHIVE FOLDER PATH...: the programs hold the same device code, which a dictionary larger than two of them stores
# once
pack() {
  tar -C "$2" -c "${@:3}" | xz --threads=1 --lzma2=preset=3,dict=256MiB >"$1.part"
  mv "$1.part" "$1"
  echo "$1: $(($(stat -c %s "$1") / 1048576)) MiB"
}
mkdir -p "$(dirname "$archive")"
pack "$archive" "$root" headroom
pack "${archive%.tar.xz}_data.tar.xz" . --transform 'flags=r;s,^,headroom/,' models tests/goldens
