#!/usr/bin/env bash
# make_stubs.sh PYTHON PACKAGES FILE: writes the type stubs of the module _headroom, found in the folder PACKAGES, to
# FILE.
set -euo pipefail
PYTHONPATH=$2 "$1" -m nanobind.stubgen -q -P -m headroom._headroom -o "$3"
