#!/usr/bin/env bash
# bench_compare.sh BASE [ARGUMENTS of headroom bench...]: is this checkout slower than revision BASE? Builds that
# revision in a worktree of its own below build/base (kept, so that the next time only changes are built), then runs
# both binaries in turn. Ends as `headroom bench --against` does: 0 nothing is slower, 3 something regressed, 4
# inconclusive.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ $# -lt 1 ] || [ -z "$1" ]; then
  echo "bench_compare.sh: no base was given; use: make bench-compare BASE=main" >&2
  exit 2
fi
revision=$(git rev-parse --verify --quiet "$1^{commit}") || {
  echo "bench_compare.sh: $1 is no revision of this repository" >&2
  exit 2
}
shift
[ $# -gt 0 ] || set -- fashion-flux --opt lossless

source=$PWD/build/base
if [ -e "$source/.git" ]; then
  git -C "$source" checkout --quiet --detach "$revision"
else
  git worktree prune
  git worktree add --quiet --force --detach "$source" "$revision"
fi
# Both sides compile their kernels for the same vector units; a revision before that choice has all.
units=$(sed -n 's/^HEADROOM_VECTOR_UNITS:STRING=//p' build/release/CMakeCache.txt)
make --no-print-directory -C "$source" bootstrap >&2
cmake -S "$source" --preset release -DHEADROOM_TESTS=OFF "-DHEADROOM_VECTOR_UNITS=$units" >&2
# The paths below the worktree are those below this checkout, so ccache knows what the two have in common. A revision's
# own Makefile knows what that revision needs.
CCACHE_BASEDIR=$source CCACHE_NOHASHDIR=1 make --no-print-directory -C "$source" JOBS="${JOBS:-$(nproc)}" build >&2
exec build/release/headroom bench "$@" --against "$source/build/release/headroom"
