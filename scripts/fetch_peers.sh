#!/usr/bin/env bash
# fetch_peers.sh [--where]: installs the programs that Headroom is measured against (PyTorch, diffusers, OpenVINO, ONNX
# Runtime and others) from PyPI. third_party/peers/requirements.txt pins them by version and checksum. They go into a
# virtual environment of the user's, which all clones share: $XDG_DATA_HOME/headroom/peers (~/.local/share/... by
# default), 6 GB. Does nothing where that is done. The scripts of bench/ run in it (bench/peers/environment.sh), and so
# does scripts/make_goldens.sh. --where prints the folder and does nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

source scripts/pinned_environment.sh

if [[ ${1-} == --where ]]; then
  environment_folder peers
  exit
fi
if is_installed peers; then
  exit 0
fi
if [[ $(uname -sm) != "Linux x86_64" ]]; then
  echo "fetch_peers.sh: third_party/peers/requirements.txt pins packages for x86-64 Linux, and this is $(uname -sm)" >&2
  exit 1
fi
pinned_environment fetch_peers.sh peers "PyTorch and other peers (download 3 GB, installed 6 GB)" --no-compile
