#!/bin/sh
# What tools/deb.sh has built: lintian finds no error and no warning, and what lies in the packages works when they are
# unpacked. Part of `make test-deb`, not of `make test`.
# usage: debian.sh FOLDER_OF_PACKAGES SOURCE_DIR
set -eu
packages=$1 source=$2
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
found=
for package in "$packages"/*.deb; do
    case $package in *-dbgsym_*) continue ;; esac
    dpkg-deb -x "$package" "$root"
    # the maintainer's address is whoever's builds them
    found=$found$(lintian --allow-root --suppress-tags bogus-mail-host,bogus-mail-host-in-debian-changelog "$package" |
        grep '^[EW]:' || true)
done
[ -z "$found" ] || { echo "$found"; exit 1; }
# the bill of materials names each package by its hash, and what the program needs
for package in "$packages"/*.deb; do
    case $package in *-dbgsym_*) continue ;; esac
    sum=$(sha256sum "$package" | cut -d ' ' -f 1)
    grep -q "\"$sum\"" "$packages"/*.spdx.json || { echo "the bill of materials lacks $package"; exit 1; }
done
grep -q 'pkg:deb/debian/libjansson4@' "$packages"/*.spdx.json
grep -q '"./usr/bin/linnet"' "$packages"/*.spdx.json
cd "$root"
text=$(usr/bin/linnet run -p 'Once upon a time' -n 8 --temp 0 2>stderr)
[ -n "$text" ] || { cat stderr; exit 1; }
grep -qF /usr/share/linnet/models/demo.gguf stderr || { cat stderr; exit 1; }
library=$(dirname "$(find usr/lib -name 'liblinnet.so.0*' -type f)")
cc -std=c17 -Iusr/include "$source/examples/hello.c" -L"$library" -llinnet -o hello
LD_LIBRARY_PATH=$library ./hello usr/share/linnet/models/demo.gguf | grep -q .
program=$(stat -c %s usr/bin/linnet)
[ "$program" -lt 6000000 ] || { echo "the program has $program bytes"; exit 1; }
echo "the packages work; the program has $program bytes"
