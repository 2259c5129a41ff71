#!/usr/bin/env bash
# third_party_licences.sh [CUDA_INCLUDE_FOLDER]: prints the licence of every library that is in what is installed,
# linked with it, or opened by it, as it is on this machine; with CUDA's headers, those of a build with CUDA too.
# Fails where a text is missing. What each is for is in docs/third_party.md.
set -euo pipefail
cd "$(dirname "$0")/.."
cuda=${1:-}

# need TITLE FILE
need() {
  [[ -s $2 ]] && return
  echo "third_party_licences.sh: the licence of $1 is not there: $2" >&2
  exit 1
}
# titled TITLE: the text on stdin, under its title.
titled() {
  printf '\n%s\n%s\n\n' "$1" "${1//?/=}"
  cat
}
# text TITLE FILE
text() { need "$1" "$2" && titled "$1" <"$2"; }
# debian TITLE PACKAGE: what Debian's package says.
debian() { text "$1" "/usr/share/doc/$2/copyright"; }
# notice TITLE FILE: the comment that a source file begins with.
notice() { need "$1" "$2" && sed -n '1,/\*\//p' "$2" | titled "$1"; }

echo "Headroom is under the Apache License 2.0, which the file LICENSE holds. These are the licences of other software in it and with it."

debian 'oneDNN' libdnnl2
debian 'Highway' libhwy1
debian '{fmt}' libfmt9
debian 'libpng' libpng16-16
debian 'zlib' zlib1g
debian 'libjpeg-turbo' libjpeg62-turbo
debian 'PCRE2' libpcre2-8-0
debian 'utf8proc' libutf8proc2
debian 'Duktape' libduktape207
debian 'OpenCL ICD loader (of oneDNN)' ocl-icd-libopencl1
debian 'GNU OpenMP' libgomp1
debian 'librsvg (opened where there is one, not part of this)' librsvg2-2
debian 'cairo (opened where there is one, not part of this)' libcairo2
debian "FFmpeg's libraries (opened where there are some, not part of this)" libavformat-dev
debian 'JSON for Modern C++' nlohmann-json3-dev
debian 'CLI11' libcli11-dev
debian 'Eigen' libeigen3-dev

boost=/usr/share/doc/libboost1.74-dev/copyright  # of all that Boost is; Boost.Math is under this
need 'Boost.Math' $boost
licence=$(awk 'BEGIN { RS = "" } /^License: BSL-1\.0\n/' $boost)
titled 'Boost.Math' <<<"${licence:?is not in $boost}"

npm=third_party/echarts/node_modules
text 'Apache ECharts' "$npm/echarts/LICENSE"
text 'Apache ECharts, notice' "$npm/echarts/NOTICE"
text 'zrender (in ECharts)' "$npm/zrender/LICENSE"
text 'tslib (in ECharts)' "$npm/tslib/LICENSE.txt"

if [[ -n $cuda ]]; then
  notice 'CUDA runtime (https://docs.nvidia.com/cuda/eula)' "$cuda/cuda_runtime.h"
  notice 'NVTX' "$cuda/nvtx3/nvToolsExt.h"
fi

for name in Apache-2.0 MPL-1.1 MPL-2.0 LGPL-2 LGPL-2.1 GPL-3; do
  text "$name, which texts above refer to" "/usr/share/common-licenses/$name"
done
