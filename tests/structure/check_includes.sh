#!/usr/bin/env bash
# check_includes.sh SRC LAYERS: fails where a file below SRC includes what its layer must not see.
# LAYERS has a line a layer, lowest first: its name and the layers it names as seen; it sees what those see as well.
# Tests of what the layer `testing` sees may include that too.
# Includes of the project's own files are quoted and start with the layer's folder; nothing else is quoted but Highway,
# whose documentation does so.
set -euo pipefail
src=$1
layers=$2

find "$src" -type f \( -name '*.hpp' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' -o -name '*.def' \) -print0 |
  sort -z | xargs -0 awk -v src="${src%/}/" '
    function complain(text) { printf "%s:%d: %s\n", FILENAME, FNR, text; failures++ }

    FILENAME == ARGV[1] {
      sees[$1, $1] = 1
      for (i = 2; i <= NF; i++)
        for (layer in is_layer)
          if (sees[$i, layer]) sees[$1, layer] = 1
      is_layer[$1] = 1
      next
    }

    FNR == 1 {
      files++
      own = substr(FILENAME, length(src) + 1)
      sub(/\/.*/, "", own)
      if (!(own in is_layer)) complain("src/" own " is no layer: CMakeLists.txt has no headroom_layer(" own ")")
    }

    /^[ \t]*#[ \t]*include[ \t]*["<]/ {
      quoted = $0 ~ /include[ \t]*"/
      path = $0
      sub(/^[^"<]*["<]/, "", path)
      sub(/[">].*/, "", path)
      other = path
      sub(/\/.*/, "", other)
      if (!(other in is_layer)) {
        if (quoted && other != "hwy") complain("includes \"" path "\", which does not start with a folder of src/")
      } else if (!quoted) {
        complain("includes <" path ">; the project writes its own files in quotes")
      } else if (!sees[own, other] && !(other == "testing" && sees["testing", own] && FILENAME ~ /_test\.(cpp|cu)$/)) {
        complain("includes \"" path "\", but " own " must not see " other)
      }
    }

    END {
      if (failures) exit 1
      if (!files) { print "no source file below " src; exit 1 }
    }
  ' "$layers"
