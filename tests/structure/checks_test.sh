#!/usr/bin/env bash
# Plants faults in a small tree and sees that the structure checks find each, and nothing in the tree without.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
failures=0

# expect STATUS TEXT COMMAND...: the command must exit with STATUS and print TEXT.
expect() {
  local status=$1 text=$2 output actual=0
  shift 2
  output=$("$@" 2>&1) || actual=$?
  [[ $actual -eq 0 ]] || actual=1
  if [[ $actual -ne $status || $output != *"$text"* ]]; then
    echo "expected status $status and '$text', got status $actual and '$output' from: $*"
    failures=$((failures + 1))
  fi
}
check_includes() { "$here/check_includes.sh" "$tree/src" "$tree/layers.txt"; }
check_length() { "$here/check_file_length.sh" "$tree" 800; }
# plant FILE LINE: appends a line to a copy of the sound tree.
plant() {
  rm -rf "$tree/src"
  mkdir -p "$tree"/src/{base,ir,passes,kernels,unknown}
  echo '#include <vector>' >"$tree/src/base/error.hpp"
  printf '#include "base/error.hpp"\n#include <vector>\n' >"$tree/src/ir/graph.hpp"
  printf '#include "ir/graph.hpp"\n#include "base/error.hpp"\n#include "passes/pass.hpp"\n' >"$tree/src/passes/pass.cpp"
  echo '#include "ir/graph.hpp"' >"$tree/src/kernels/kernel.hpp"
  if [[ $# -gt 0 ]]; then echo "$2" >>"$tree/src/$1"; fi
}
printf 'base\nir base\npasses ir\nkernels ir\n' >"$tree/layers.txt"

plant
expect 0 '' check_includes
plant ir/graph.hpp '#include "passes/pass.hpp"'
expect 1 'src/ir/graph.hpp:3: includes "passes/pass.hpp", but ir must not see passes' check_includes
plant passes/pass.cpp '  #  include   "kernels/kernel.hpp"  // beside, not below'
expect 1 'passes must not see kernels' check_includes
plant base/error.hpp '#include "ir/graph.hpp"'
expect 1 'base must not see ir' check_includes
plant kernels/kernel.hpp '#include <ir/graph.hpp>'
expect 1 'the project writes its own files in quotes' check_includes
plant ir/graph.hpp '#include "graph.hpp"'
expect 1 'does not start with a folder of src/' check_includes
plant unknown/file.cpp ''
expect 1 'src/unknown is no layer' check_includes
plant && find "$tree/src" -type f -delete
expect 1 'no source file' check_includes

check_output() { "$here/check_output.sh" "$tree/src"; }
plant passes/pass.cpp '  std::fprintf(stderr, "words of its own");  // not std::cout'
expect 0 '' check_output
plant passes/pass.cpp '  fmt::print("{}", name);'
expect 1 'passes/pass.cpp:4:  fmt::print' check_output
plant passes/pass.cpp '  std::cout << name;'
expect 1 'write with print_out()' check_output
plant passes/pass.cpp '  printf("%s", name);'
expect 1 'write with print_out()' check_output
plant && find "$tree/src" -type f -delete
expect 1 'no source file' check_output

plant
seq 800 >"$tree/src/ir/long.cpp"
expect 0 '' check_length
seq 801 >"$tree/src/ir/long.cpp"
expect 1 'src/ir/long.cpp has 801 lines' check_length
find "$tree/src" -type f -delete
expect 1 'no source file' check_length

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
