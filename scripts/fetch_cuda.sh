#!/usr/bin/env bash
# fetch_cuda.sh [--where]: installs the CUDA toolkit that third_party/cuda/requirements.txt pins, by version and
# checksum, from PyPI into a folder of the user's, which all clones share: $XDG_DATA_HOME/headroom/cuda-13.0
# (~/.local/share/... by default), 1.8 GB. Does nothing where that is done, or where this machine has a toolkit of 12.8
# or later with cuDNN's headers. CMake finds either by itself (cmake/find_cuda.cmake). --where prints the folder and
# does nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=${XDG_DATA_HOME:-$HOME/.local/share}/headroom/cuda-13.0
pins=third_party/cuda/requirements.txt
if [[ ${1-} == --where ]]; then
  echo "$folder"
  exit
fi

# Whether the nvcc at $1 is of a toolkit that the program can be built with.
is_recent() {
  local version
  version=$("$1" --version 2>/dev/null | sed -n 's/.* V\([0-9]*\.[0-9]*\)\..*/\1/p')
  [[ -n $version && $(printf '%s\n' 12.8 "$version" | sort -V | head -n 1) == 12.8 ]]
}
has_cudnn() {  # $1: the folder of a toolkit
  [[ -f $1/include/cudnn.h || -f /usr/include/cudnn.h || -f /usr/include/$(uname -m)-linux-gnu/cudnn.h ]]
}
for nvcc in "${CUDAToolkit_ROOT:+$CUDAToolkit_ROOT/bin/nvcc}" "${CUDA_PATH:+$CUDA_PATH/bin/nvcc}" "$(command -v nvcc || true)" \
  /usr/local/cuda/bin/nvcc; do
  if [[ -n $nvcc && -x $nvcc ]] && is_recent "$nvcc" && has_cudnn "$(dirname "$(dirname "$nvcc")")"; then
    exit 0
  fi
done
if cmp -s "$pins" "$folder/requirements.txt"; then
  exit 0
fi

if [[ $(uname -sm) != "Linux x86_64" ]]; then
  echo "fetch_cuda.sh: $pins pins packages for x86-64 Linux, and this is $(uname -sm); install a CUDA toolkit of 12.8 or later" >&2
  exit 1
fi
if ! python3 -m pip --version >/dev/null 2>&1; then
  echo "fetch_cuda.sh: python3 has no pip; install it (Debian: python3-pip), or a CUDA toolkit of 12.8 or later" >&2
  exit 1
fi

mkdir -p "$(dirname "$folder")"
exec 9>"$folder.lock"
flock 9  # another clone may be at it
if cmp -s "$pins" "$folder/requirements.txt"; then
  exit 0
fi
partial=$folder.partial
rm -rf "$partial"
trap 'rm -rf "$partial"' EXIT
echo "fetch_cuda.sh: installing CUDA 13.0 into $folder (download 1.1 GB, installed 1.8 GB)"
python3 -m pip install --target "$partial" --no-deps --require-hashes --only-binary :all: --no-compile --no-cache-dir --no-warn-script-location \
  --disable-pip-version-check --root-user-action ignore -r "$pins"
# The layout of a toolkit that is installed as one: lib64, and every library by its name without a version.
toolkit=$partial/nvidia/cu13
ln -s lib "$toolkit/lib64"
for library in "$partial"/nvidia/*/lib/lib*.so.*; do
  plain=${library%%.so.*}.so
  [[ -e $plain ]] || ln -s "$(basename "$library")" "$plain"
done
cp "$pins" "$partial/requirements.txt"
rm -rf "$folder"
mv "$partial" "$folder"
