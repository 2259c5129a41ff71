# Sourced by scripts that install pinned packages of PyPI into a virtual environment of the user's, which all clones
# share. pinned_environment SCRIPT NAME SAYS [OPTION...]: the environment $XDG_DATA_HOME/headroom/NAME
# (~/.local/share/... by default) gets what third_party/NAME/requirements.txt pins by version and checksum; SAYS is what
# is told before, OPTIONs are pip's. Does nothing where that is done.
environment_folder() { echo "${XDG_DATA_HOME:-$HOME/.local/share}/headroom/$1"; }
is_installed() { cmp -s "third_party/$1/requirements.txt" "$(environment_folder "$1")/requirements.txt"; }

pinned_environment() {
  local script=$1 name=$2 says=$3 pins=third_party/$2/requirements.txt folder
  folder=$(environment_folder "$name")
  if ! python3 -c 'import sys, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    echo "$script: needs Python 3.11 or later with venv (Debian: python3-venv)" >&2
    exit 1
  fi
  mkdir -p "$(dirname "$folder")"
  exec 9>"$folder.lock"
  flock 9  # another clone may be at it
  if is_installed "$name"; then
    exit 0
  fi
  echo "$script: installing $says into $folder"
  rm -rf "$folder"  # a virtual environment cannot be moved: what is half installed has no requirements.txt
  python3 -m venv "$folder"
  "$folder/bin/python" -m pip install --no-deps --require-hashes --only-binary :all: "${@:4}" --no-cache-dir --disable-pip-version-check \
    --root-user-action ignore -q -r "$pins"
  cp "$pins" "$folder/requirements.txt"
}
