#!/usr/bin/env bash
# fetch_peers.sh [--where]: installs the programs that Headroom is measured against (PyTorch, diffusers, OpenVINO, ONNX Runtime and others)
# from PyPI. third_party/peers/requirements.txt pins them by version and checksum. They go into a virtual environment of the user's,
# which all clones share: $XDG_DATA_HOME/headroom/peers (~/.local/share/... by default), 6 GB. Does nothing where that is done. The scripts of
# bench/ run in it (bench/peers/environment.sh), and so does scripts/make_goldens.sh. --where prints the folder and does nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=${XDG_DATA_HOME:-$HOME/.local/share}/headroom/peers
pins=third_party/peers/requirements.txt
if [[ ${1-} == --where ]]; then
  echo "$folder"
  exit
fi
if cmp -s "$pins" "$folder/requirements.txt"; then
  exit 0
fi

if [[ $(uname -sm) != "Linux x86_64" ]]; then
  echo "fetch_peers.sh: $pins pins packages for x86-64 Linux, and this is $(uname -sm)" >&2
  exit 1
fi
if ! python3 -c 'import sys, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
  echo "fetch_peers.sh: needs Python 3.11 or later with venv (Debian: python3-venv)" >&2
  exit 1
fi

mkdir -p "$(dirname "$folder")"
exec 9>"$folder.lock"
flock 9  # another clone may be at it
if cmp -s "$pins" "$folder/requirements.txt"; then
  exit 0
fi
echo "fetch_peers.sh: installing PyTorch and other peers into $folder (download 3 GB, installed 6 GB)"
rm -rf "$folder"  # a virtual environment cannot be moved: what is half installed has no requirements.txt
python3 -m venv "$folder"
"$folder/bin/python" -m pip install --no-deps --require-hashes --only-binary :all: --no-compile --no-cache-dir --disable-pip-version-check \
  --root-user-action ignore -q -r "$pins"
cp "$pins" "$folder/requirements.txt"
