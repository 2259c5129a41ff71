#!/usr/bin/env bash
# fetch_python.sh [--where]: installs what the Python package is built, packed and tested with (nanobind,
# scikit-build-core, auditwheel, numpy and others) from PyPI. third_party/python/requirements.txt pins them by version
# and checksum. They go into a virtual environment of the user's, which all clones share: $XDG_DATA_HOME/headroom/python
# (~/.local/share/... by default), 200 MB. Does nothing where that is done. --where prints the folder and does nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

source scripts/pinned_environment.sh

if [[ ${1-} == --where ]]; then
  environment_folder python
  exit
fi
if is_installed python; then
  exit 0
fi
pinned_environment fetch_python.sh python "nanobind, numpy and the tools of the Python package (200 MB)"
