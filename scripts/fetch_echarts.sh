#!/usr/bin/env bash
# fetch_echarts.sh: puts the npm package echarts, of the version and checksum that third_party/echarts/package-lock.json
# pins, into third_party/echarts/node_modules. Where it is there already nothing is done, and no network is needed.
set -euo pipefail
cd "$(dirname "$0")/../third_party/echarts"

version_in() {  # of echarts, in a lock file of npm's
  [[ -f $1 ]] && sed -n '/"node_modules\/echarts": {/,/}/s/.*"version": "\(.*\)".*/\1/p' "$1"
}
wanted=$(version_in package-lock.json)
if [[ -f node_modules/echarts/dist/echarts.min.js && -f node_modules/echarts/dist/echarts.js && $(version_in node_modules/.package-lock.json) == "$wanted" ]]; then
  exit 0
fi
if ! command -v npm >/dev/null; then
  echo "fetch_echarts.sh: npm is missing; install it, or put echarts $wanted into third_party/echarts/node_modules" >&2
  exit 1
fi
echo "fetch_echarts.sh: fetching echarts $wanted"
npm ci --ignore-scripts --no-audit --no-fund --prefer-offline --loglevel=error
