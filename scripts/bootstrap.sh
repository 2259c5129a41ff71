#!/usr/bin/env bash
# bootstrap.sh [--list] [test] [python] [tools] [cuda] [peers]: installs the Debian 12 packages that are missing and
# needed to build the program, and fetches the npm package echarts. Further arguments add to that:
#   test   packages to build and run the tests, and a virtual environment for those of the Python package
#   python that environment alone, which the wheel is packed in too (scripts/fetch_python.sh)
#   tools  packages for `make format lint fuzz`
#   cuda   a CUDA toolkit from PyPI if this machine has none (scripts/fetch_cuda.sh), so that any machine builds for GPUs
#   peers  a virtual environment with PyTorch and the other peers (scripts/fetch_peers.sh)
# bootstrap.sh [--list] docs: installs only the packages that make the site of the documents and render the diagrams.
# --list prints the packages, one per line, and installs nothing. Root or sudo is needed only if a Debian package is
# missing, the network only if anything is missing.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(
  build-essential cmake ninja-build ccache pkg-config git
  libdnnl-dev ocl-icd-opencl-dev  # oneDNN's CMake package asks for OpenCL
  libhwy-dev libfmt-dev libcli11-dev nlohmann-json3-dev
  libpng-dev zlib1g-dev libjpeg62-turbo-dev  # pictures
  libavformat-dev libavcodec-dev libavutil-dev libswscale-dev  # videos: headers only
  libpcre2-dev libutf8proc-dev    # tokenizers: regular expressions and Unicode
  libboost-dev libeigen3-dev      # headers only: Boost.Math and Eigen
  duktape-dev librsvg2-dev        # charts: JavaScript in process, SVG to PNG
  fonts-dejavu-core               # what the text of a chart is drawn with
)
docs=(
  pandoc                          # HTML from Markdown
  graphviz                        # SVG from the diagrams docs/images/*.dot
)
test=(
  pandoc                          # a test builds the site and checks its links
  libgtest-dev libgmock-dev
  ffmpeg                          # tests read what it writes; its libraries come with it
  chromium                        # tests open the dashboard and the page of a live stream in it
  python3 python3-jsonschema      # a test holds result files against their JSON Schema
)
python=(
  python3-dev python3-venv        # the Python package: headers, and a virtual environment
)
tools=(
  clang-16 clang-format-16 clang-tidy-16  # 14, the default, does not take the library's std::views
  libclang-rt-16-dev                      # libFuzzer and the sanitizers' run time
  libomp-16-dev                           # omp.h for clang
  python3                                 # lint.py
)
cuda=(
  python3 python3-pip             # fetch the toolkit
)
peers=(
  python3 python3-venv            # a virtual environment
  sentencepiece                   # goldens: trains the pieces of T5's kind
)
list=false
charts=true
toolkit=false
environment=false
wheels=false
for argument in "$@"; do
  case $argument in
    -h | --help)
      sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' scripts/bootstrap.sh
      exit 0
      ;;
    --list) list=true ;;
    test) packages+=("${test[@]}" "${python[@]}") wheels=true ;;
    python) packages+=("${python[@]}") wheels=true ;;
    tools) packages+=("${tools[@]}") ;;
    cuda) packages+=("${cuda[@]}") toolkit=true ;;
    peers) packages+=("${peers[@]}") environment=true ;;
    docs) packages=("${docs[@]}") charts=false ;;
    *)
      echo "bootstrap.sh: unknown argument '$argument'; expected --list, test, python, tools, cuda, peers or docs" >&2
      exit 2
      ;;
  esac
done
if $charts && { $list || ! command -v npm >/dev/null; }; then
  packages+=(npm)  # fetches the package echarts
fi
if $list; then
  printf '%s\n' "${packages[@]}"
  exit
fi

if ! command -v dpkg-query >/dev/null; then
  echo "bootstrap.sh: this machine has no dpkg-query; on a system other than Debian 12, install the equivalents of: ${packages[*]}" >&2
  echo "bootstrap.sh: then build without make: cmake --preset release && cmake --build --preset release" >&2
  exit 1
fi

installed=$(dpkg-query --show --showformat='${db:Status-Status} ${Package}\n' "${packages[@]}" 2>/dev/null |
  sed -n 's/^installed //p' || true)
missing=()
for package in "${packages[@]}"; do
  grep -qxF "$package" <<<"$installed" || missing+=("$package")
done
fetch() {  # what other registries have
  ! $charts || scripts/fetch_echarts.sh
  ! $toolkit || scripts/fetch_cuda.sh
  ! $wheels || scripts/fetch_python.sh
  ! $environment || scripts/fetch_peers.sh
}
if [[ ${#missing[@]} -eq 0 ]]; then
  fetch
  exit
fi

install="apt-get install -y --no-install-recommends ${missing[*]}"
if [[ $EUID -eq 0 ]]; then
  as_root=()
elif command -v sudo >/dev/null; then
  as_root=(sudo)
else
  echo "bootstrap.sh: packages are missing, and installing them needs root or sudo; as root, run: apt-get update && $install" >&2
  exit 1
fi
echo "bootstrap.sh: installing ${missing[*]}"
"${as_root[@]}" apt-get update -q
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive $install -q
fetch
