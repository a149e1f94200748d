#!/bin/sh
# Builds Debian packages with packaging/debian: linnet, linnet-mpi, liblinnet0.1, liblinnet-dev, and with LINNET_CUDA=ON
# in the environment linnet-cuda. BUILD_DIR is CMake's; they lie in BUILD_DIR/deb at the end, with an SPDX bill of
# materials.
# DEBFULLNAME and DEBEMAIL say who maintains them, as for other tools of Debian.
# usage: deb.sh BUILD_DIR
set -eu
source=$(cd "$(dirname "$0")/.." && pwd)
version=$(sed -n 's/^project(linnet VERSION \([0-9.]*\).*/\1/p' "$source/CMakeLists.txt")
mkdir -p "$1/deb/linnet"
LINNET_SOURCE=$source LINNET_BUILD=$(cd "$1" && pwd)
export LINNET_SOURCE LINNET_BUILD

cd "$LINNET_BUILD/deb/linnet"
rm -rf debian ../*.deb
cp -R "$source/packaging/debian" debian
maintainer="${DEBFULLNAME:-the linnet authors} <${DEBEMAIL:-linnet@localhost}>"
sed -i "s/^Maintainer: .*/Maintainer: $maintainer/" debian/control
# what changed stands in CHANGELOG.md, of whose time the packages are
cat >debian/changelog <<END
linnet ($version-1) unstable; urgency=medium

  * Version $version, as CHANGELOG.md describes it.

 -- $maintainer  $(date -R -r "$source/CHANGELOG.md")
END
dpkg-buildpackage --build=binary --unsigned-changes --no-pre-clean

# what is in them, and what they need: a bill of materials beside them
cd "$LINNET_BUILD/deb"
find . -maxdepth 1 -name '*.deb' ! -name '*-dbgsym_*' -print0 | sort -z |
    xargs -0 python3 "$source/tools/sbom.py" >linnet.new
mv linnet.new "linnet_$version.spdx.json"
ls "$LINNET_BUILD"/deb/*.deb "$LINNET_BUILD"/deb/*.spdx.json
