#!/usr/bin/env bash
# site_test.sh SOURCE: `make docs` gives a page for every document, whose links hold, also where the site is moved, and
# a link to what is not there is refused.
set -euo pipefail
source=$1
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
failures=0
wrong() {
  echo "$*"
  failures=$((failures + 1))
}

"$source/scripts/make_docs.sh" "$root/made" >"$root/log"
mv "$root/made" "$root/site"
python3 "$source/tests/structure/check_links.py" --site "$root/site" || failures=$((failures + 1))
for document in docs/architecture docs/commands/run docs/how-to/add-an-op CONTRIBUTING; do
  page=$root/site/$document.html
  [[ -s $page ]] || { wrong "there is no page of $document" && continue; }
  grep -q "<title>.* - Headroom</title>" "$page" || wrong "$document has no title"
  [[ $(grep -c 'aria-current="page"' "$page") -eq 1 ]] || wrong "the navigation of $document does not show where one is"
done
grep -q '<td' "$root/site/index.html" || wrong "the README's table is no table"

mkdir "$root/own" && touch "$root/own/file"
if "$source/scripts/make_docs.sh" "$root/own" 2>"$root/log"; then wrong "a folder of something else is taken"; fi
[[ -e $root/own/file ]] || wrong "a folder of something else was cleared"

mkdir "$root/tree"
cp -r "$source"/{README.md,CONTRIBUTING.md,CHANGELOG.md,docs,scripts} "$root/tree"
echo '[gone](gone.md)' >"$root/tree/README.md"
if "$root/tree/scripts/make_docs.sh" "$root/out" >"$root/log" 2>&1; then wrong "a link to what is not there is taken"; fi
grep -q 'README.md links to gone.md, which is not there' "$root/log" || wrong "it is not said which link: $(cat "$root/log")"

[[ $failures -eq 0 ]]
