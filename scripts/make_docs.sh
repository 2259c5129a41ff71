#!/usr/bin/env bash
# make_docs.sh OUT: makes a site of the documents in the folder OUT, which it clears. Each document becomes an HTML page
# at its path in the repository. The files that they link to are copied too, so the folder can be moved. README.md is
# OUT/index.html. Needs pandoc.
set -euo pipefail
[[ $# -eq 1 ]] || { echo "usage: make_docs.sh OUT" >&2 && exit 2; }
mkdir -p "$1"
out=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
command -v pandoc >/dev/null || { echo "make_docs.sh: pandoc is missing; scripts/bootstrap.sh docs installs it" >&2 && exit 1; }
if [[ -n $(ls -A "$out") && ! -e $out/style.css ]]; then
  echo "make_docs.sh: $out holds something else than a site of documents" >&2
  exit 1
fi
find "$out" -mindepth 1 -delete
cp docs/site/style.css "$out/style.css"
targets=$(mktemp)
trap 'rm -f "$targets"' EXIT

# page DOCUMENT: from the document's Markdown on stdin.
page() {
  local html=${1/%README.md/index.md}
  html=$out/${html%.md}.html
  mkdir -p "$(dirname "$html")"
  local contents=()
  [[ $(grep -c '^## ' "$1" 2>/dev/null) -lt 4 ]] || contents=(--toc --toc-depth=3)
  pandoc --from=gfm --to=html5 --wrap=preserve --template=docs/site/page.html --lua-filter=docs/site/page.lua "${contents[@]}" \
    --variable=page="$1" --variable=targets="$targets" --output="$html"
}

for document in README.md CONTRIBUTING.md CHANGELOG.md $(find docs models -name '*.md' | sort); do
  page "$document" <"$document"
done
sort -u "$targets" | while read -r target; do
  mkdir -p "$out/$(dirname "$target")"
  cp -r --no-target-directory "$target" "$out/$target"
  [[ -d $target ]] || continue
  {
    printf '# %s\n\n' "$target"
    (cd "$target" && find . -type f | sed 's|^\./||' | sort | sed 's|.*|- [&](&)|')
  } | page "$target/README.md"
done
echo "$out/index.html"
