#!/usr/bin/env bash
# try_package.sh FOLDER: unpacks the Debian package and the archive that `make package` left in FOLDER, each into a root
# of its own, and climbs a short ladder with each, of the model that came along.
set -euo pipefail
folder=$(cd "$1" && pwd)
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

# the PATTERN: the one file of that name in the folder.
the() {
  local found
  mapfile -t found < <(find "$folder" -maxdepth 1 -name "$1")
  [[ ${#found[@]} -eq 1 ]] && echo "${found[0]}" && return
  echo "try_package.sh: expected one $1 in $folder, found ${#found[@]}" >&2
  exit 1
}
deb=$(the 'headroom_*.deb')
archive=$(the 'headroom-*.tar.xz')

mkdir -p "$root/deb" "$root/archive" "$root/home"
dpkg-deb --extract "$deb" "$root/deb"
tar -xf "$archive" -C "$root/archive" --strip-components=1

# Whoever installs the Debian package has what it depends on.
depends=$(dpkg-deb --field "$deb" Depends)
for package in libdnnl2 libfmt9 libgomp1 libhwy1 libjpeg62-turbo libpcre2-8-0 libpng16-16 libutf8proc2 zlib1g; do
  [[ $depends == *"$package"* ]] && continue
  echo "try_package.sh: the Debian package does not depend on $package, but on: $depends" >&2
  exit 1
done

# The archive brings along what is not on every Linux.
of_the_system='^(linux-vdso|/lib64/ld-linux-x86-64|ld-linux-x86-64|lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+))\.so'
strangers=$(ldd "$root"/archive/bin/headroom "$root"/archive/lib/libheadroom.so |
  awk -v own="$root/archive/" -v usual="$of_the_system" 'NF > 1 && $1 !~ usual && index($3, own) != 1 && !/:$/')
if [[ -n $strangers ]]; then
  echo "try_package.sh: the archive does not bring along: $strangers" >&2
  exit 1
fi

for tree in "$root/deb/usr" "$root/archive"; do
  for file in lib/libheadroom.so include/headroom.hpp lib/cmake/headroom/headroom-config.cmake \
    share/doc/headroom/LICENSE share/doc/headroom/third_party_licences.txt share/doc/headroom/CHANGELOG.md \
    share/doc/headroom/docs/architecture.md; do
    [[ -s $tree/$file ]] || { echo "try_package.sh: $file is not in ${tree#"$root/"}" >&2 && exit 1; }
  done
  version=$("$tree/bin/headroom" --version)
  echo "== ${tree#"$root/"}: $version"
  [[ $version == *scalar* || $version == *emu128* ]] || { echo "try_package.sh: the package runs on CPUs like this one alone" >&2 && exit 1; }
  (cd "$root/home" && env -i HOME="$root/home" PATH=/usr/bin:/bin \
    "$tree/bin/headroom" ladder fashion-flux --ends --batch 1 --steps 2 --trials 3 --max-rounds 2 --out "$root/home/ladder")
  [[ -s $root/home/ladder/results.json ]]
  (cd "$root/home" && env -i HOME="$root/home" PATH=/usr/bin:/bin \
    "$tree/bin/headroom" run fashion-flux --prompt "an ankle boot" --steps 2 --out "$root/home/boot.png")
  [[ -s $root/home/boot.png ]]
  rm -r "$root/home/ladder" "$root/home/boot.png"
done
