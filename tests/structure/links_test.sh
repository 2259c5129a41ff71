#!/usr/bin/env bash
# Plants faults in small documents and pages and sees that check_links.py finds each, and nothing in those without.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
source "$here/expect.sh"

# plant_documents LINE: appends a line to a copy of sound documents.
check_links() { python3 "$here/check_links.py" "$tree/docs_tree"; }
plant_documents() {
  rm -rf "$tree/docs_tree"
  mkdir -p "$tree"/docs_tree/{docs,src/ir}
  touch "$tree/docs_tree/src/ir/graph.hpp"
  printf '# Top\n\n[a](docs/a.md#the-a_b--c) [top](#top) [index](docs/README.md)\n\n    [code](nowhere.md)\n' >"$tree/docs_tree/README.md"
  printf '# A\n\n## The `a_b`, & c\n\n## Twice\n\n## Twice\n\nSee [x](https://x.org/a), [two](#twice-1), `ir/graph.hpp`, `src/ir/`\n' \
    >"$tree/docs_tree/docs/a.md"
  printf '[top](../README.md) [a](a.md)\n' >"$tree/docs_tree/docs/README.md"
  if [[ $# -gt 0 ]]; then printf '\n%s\n' "$1" >>"$tree/docs_tree/docs/a.md"; fi
}
plant_documents
expect 0 'links in documents hold' check_links
plant_documents '[b](b.md)'
expect 1 'docs/a.md: links to b.md, which is not there' check_links
plant_documents '[out](../../src/layers.txt)'
expect 1 'links to ../../src/layers.txt, which is not there' check_links
plant_documents '![picture
with two lines](missing.png)'
expect 1 'links to missing.png, which is not there' check_links
plant_documents '[top](../README.md#bottom)'
expect 1 'where no heading has the anchor bottom' check_links
plant_documents '[thrice](#twice-2)'
expect 1 'where no heading has the anchor twice-2' check_links
plant_documents '[site](htps://x.org)'
expect 1 "'htps://x.org' is no link to another site" check_links
plant_documents 'In `src/ir/node.hpp`.'
expect 1 'docs/a.md: names `src/ir/node.hpp`, which is not there' check_links
plant_documents 'In `ir/node.hpp`, not `other/node.hpp`.'
expect 1 'docs/a.md: names `ir/node.hpp`, which is not there' check_links
plant_documents
echo '# B' >"$tree/docs_tree/docs/b.md"
expect 1 'docs/README.md: does not list docs/b.md' check_links
rm -r "$tree/docs_tree" && mkdir "$tree/docs_tree"
expect 1 'no links found' check_links

check_site() { python3 "$here/check_links.py" --site "$tree/site"; }
# plant_page HTML: appends to a copy of sound pages.
plant_page() {
  rm -rf "$tree/site"
  mkdir -p "$tree/site/docs"
  echo '<h1 id="top">Top</h1><a href="docs/a.html#x">a</a>' >"$tree/site/index.html"
  echo '<p id="x"></p><a href="../index.html#top">up</a><a href="https://x.org">x</a>' >"$tree/site/docs/a.html"
  if [[ $# -gt 0 ]]; then echo "$1" >>"$tree/site/docs/a.html"; fi
}
plant_page
expect 0 '3 links in pages hold' check_site
plant_page '<a href="../index.html#end">end</a>'
expect 1 'docs/a.html: links to ../index.html#end, where nothing is called end' check_site
plant_page '<img src="a.png">'
expect 1 'links to a.png, which is not there' check_site
plant_page '<a href="a.md">a</a>'
touch "$tree/site/docs/a.md"
expect 1 'links to a.md, not to the page of it' check_site
plant_page '<a href="..">a folder</a>'
expect 1 'links to .., which is not there' check_site
plant_page && find "$tree/site" -type f -delete
expect 1 'no links found' check_site

[[ $failures -eq 0 ]]
