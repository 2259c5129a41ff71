#!/usr/bin/env bash
# commands_test.sh PROGRAM SOURCE: documents show commands and options that the program has, and tell of all that it
# has; that this is checked at all is seen by planted faults.
set -euo pipefail
program=$1
source=$2
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
failures=0
check() { python3 "$source/tests/structure/check_commands.py" "$program" "$1"; }

check "$source" || failures=$((failures + 1))

# finds TEXT: the check of the copy must print it.
finds() {
  if output=$(check "$root" 2>&1) || [[ $output != *"$1"* ]]; then
    echo "expected a fault '$1', got: $output"
    failures=$((failures + 1))
  fi
}
copy() {
  rm -rf "$root/docs"
  mkdir -p "$root/docs"
  cp -r "$source/docs/commands" "$source/docs/commands.md" "$root/docs"
}
copy
printf '\n    $ headroom run fashion-flux --promt x\n' >>"$root/docs/commands/run.md"
finds 'docs/commands/run.md: shows `headroom run --promt`, which is no option'
copy
printf '\n    headroom draw fashion-flux\n' >>"$root/docs/commands.md"
finds 'docs/commands.md: shows `headroom draw`, which is no command'
copy
sed -i 's/--strength/--weakness/g' "$root/docs/commands/run.md"
finds 'docs/commands/run.md: does not tell of --strength'
copy
rm "$root/docs/commands/sweep.md"
finds 'has no page of `headroom sweep`'

[[ $failures -eq 0 ]]
