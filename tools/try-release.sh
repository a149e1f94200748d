#!/bin/sh
# Builds linnet and runs its tests on another release of Debian, in a folder that debootstrap fills:
#     tools/try-release.sh trixie [FOLDER [TARGET]]
# TARGET is what make is asked for (test). Runs as root and needs debootstrap, git and a network to
# Debian's packages; LINNET_MIRROR names another mirror. A FOLDER that is there already is used
# again, so that a second run only builds what changed.
set -eu

release=${1:?usage: tools/try-release.sh RELEASE [FOLDER [TARGET]]}
root=${2:-/var/tmp/linnet-$release}
target=${3:-test}
mirror=${LINNET_MIRROR:-http://deb.debian.org/debian}
source=$(cd "$(dirname "$0")/.." && pwd)

if [ ! -e "$root/usr/bin/apt-get" ]; then
    debootstrap --variant=minbase "$release" "$root" "$mirror"
fi

# What git tracks, as it stands now, and nothing of before but the build folder. Times stay, so that
# a second run builds only what changed.
mkdir -p "$root/src/linnet"
(cd "$source" && git ls-files -z | LC_ALL=C sort -z) >"$root/src/tracked"
(cd "$root/src/linnet" && find . -path ./build -prune -o -type f -printf '%P\0' | LC_ALL=C sort -z |
    LC_ALL=C comm -z -13 ../tracked - | xargs -0 -r rm -f)
(cd "$source" && git ls-files -z | xargs -0 sh -c 'for f; do [ -e "$f" ] && printf "%s\0" "$f"; done' sh |
    tar -c --null --files-from=- -f -) | tar -x -C "$root/src/linnet" -f -

# Programs read /proc, and MPI /sys; where these cannot be mounted (an unprivileged container), the
# host's are bound.
mounted=
for name in proc dev sys; do
    if ! mountpoint -q "$root/$name" && mount --rbind "/$name" "$root/$name"; then
        mount --make-rslave "$root/$name"
        mounted="$mounted $root/$name"
    fi
done
trap 'for place in $mounted; do umount -l "$place"; done' EXIT
cp /etc/resolv.conf "$root/etc/resolv.conf"

chroot "$root" env -i HOME=/root LANG=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin sh -ec '
    . /etc/os-release
    command -v make >/dev/null || { apt-get -q update && apt-get -q install -y --no-install-recommends make; } >&2
    cd /src/linnet
    make "$1" CUDA=0
    echo "linnet: make $1 passed on $PRETTY_NAME, $(gcc --version | head -1)"
' sh "$target"
