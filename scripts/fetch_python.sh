#!/usr/bin/env bash
# fetch_python.sh [--where]: installs what the Python package is built, packed and tested with (nanobind, scikit-build-core, auditwheel,
# numpy and others) from PyPI. third_party/python/requirements.txt pins them by version and checksum. They go into a virtual environment of
# the user's, which all clones share: $XDG_DATA_HOME/headroom/python (~/.local/share/... by default), 200 MB. Does nothing where that is
# done. --where prints the folder and does nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=${XDG_DATA_HOME:-$HOME/.local/share}/headroom/python
pins=third_party/python/requirements.txt
if [[ ${1-} == --where ]]; then
  echo "$folder"
  exit
fi
if cmp -s "$pins" "$folder/requirements.txt"; then
  exit 0
fi
if ! python3 -c 'import sys, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
  echo "fetch_python.sh: needs Python 3.11 or later with venv (Debian: python3-venv)" >&2
  exit 1
fi

mkdir -p "$(dirname "$folder")"
exec 9>"$folder.lock"
flock 9  # another clone may be at it
if cmp -s "$pins" "$folder/requirements.txt"; then
  exit 0
fi
echo "fetch_python.sh: installing nanobind, numpy and the tools of the Python package into $folder (200 MB)"
rm -rf "$folder"  # a virtual environment cannot be moved: what is half installed has no requirements.txt
python3 -m venv "$folder"
"$folder/bin/python" -m pip install --no-deps --require-hashes --only-binary :all: --no-cache-dir --disable-pip-version-check \
  --root-user-action ignore -q -r "$pins"
cp "$pins" "$folder/requirements.txt"
