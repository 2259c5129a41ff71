# Sourced by scripts that run peers: the Python of scripts/fetch_peers.sh comes first where it is installed.
peers=$("$(dirname "${BASH_SOURCE[0]}")/../../scripts/fetch_peers.sh" --where)
if [[ -x $peers/bin/python3 ]]; then
  export PATH=$peers/bin:$PATH
fi
unset peers
