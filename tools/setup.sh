#!/bin/sh
# Installs the Debian packages that are missing: `tools/setup.sh build` for building, installing and
# running, `tools/setup.sh test` for `make test` as well, `tools/setup.sh check` for `make check` and
# `make fuzz` as well, `tools/setup.sh deb` and `tools/setup.sh wheel` for packages. Does nothing when
# all is there. As root it calls apt-get; otherwise it prints the command to run and stops.
set -eu

missing=
need() { # PACKAGE TEST...: the package is missing when the test fails
    package=$1
    shift
    "$@" >/dev/null 2>&1 || missing="$missing $package"
}

# What Debian has in packages of their own is there only if the package is.
has_package() {
    dpkg-query -W -f '${Status}' "$1" | grep -q 'install ok installed'
}

has_sanitizers() {
    set -- "$(clang -print-resource-dir)"/lib/*/libclang_rt.fuzzer*
    test -e "$1"
}

need_build() {
    need gcc command -v gcc
    need libc6-dev test -e /usr/include/argp.h
    need make command -v make
    need cmake command -v cmake
    need ninja-build command -v ninja
    need pkg-config command -v pkg-config
    need libjansson-dev pkg-config --exists jansson
    need libpcre2-dev pkg-config --exists libpcre2-8
    need libutf8proc-dev pkg-config --exists libutf8proc
    need libxxhash-dev pkg-config --exists libxxhash
    need libedit-dev pkg-config --exists libedit
    need libevent-dev pkg-config --exists libevent_core
    need libcurl4-openssl-dev pkg-config --exists libcurl
    need libssl-dev pkg-config --exists libssl
    need libsqlite3-dev pkg-config --exists sqlite3
    need zlib1g-dev pkg-config --exists zlib
    need libzmq3-dev pkg-config --exists libzmq
}

# What packaging/debian/control builds with.
need_deb() {
    need_build
    need build-essential has_package build-essential
    need debhelper command -v dh
    need libopenmpi-dev pkg-config --exists ompi-c
}

need_wheel() {
    need_build
    need python3-venv python3 -c 'import ensurepip, venv'
}

need_test() {
    need_build
    need libcmocka-dev pkg-config --exists cmocka
    need libopenmpi-dev pkg-config --exists ompi-c
    need openmpi-bin command -v mpirun
}

need_check() {
    need_test
    need clang command -v clang
    need libclang-rt-dev has_sanitizers
    need clang-tidy command -v clang-tidy
    need clang-format command -v clang-format
    need cppcheck command -v cppcheck
    need gcc-aarch64-linux-gnu command -v aarch64-linux-gnu-gcc
    need libc6-dev-arm64-cross test -e /usr/aarch64-linux-gnu/include/stdio.h
    need qemu-user command -v qemu-aarch64
}

case ${1:-build} in
build) need_build ;;
test) need_test ;;
check) need_check ;;
deb) need_deb ;;
wheel) need_wheel ;;
*)
    echo "usage: tools/setup.sh [build|test|check|deb|wheel]" >&2
    exit 2
    ;;
esac
[ -n "$missing" ] || exit 0

exec >&2
if ! command -v apt-get >/dev/null; then
    echo "linnet needs these Debian packages, or what your system calls them:$missing"
    exit 1
fi
if [ "$(id -u)" -ne 0 ]; then
    echo "Some packages are missing. Install them with this command, then run make again:"
    echo "    sudo apt-get update && sudo apt-get install -y --no-install-recommends$missing"
    exit 1
fi
echo "Installing$missing"
export DEBIAN_FRONTEND=noninteractive
apt-get -q -o DPkg::Lock::Timeout=300 update
# shellcheck disable=SC2086  # one word per package
apt-get -q -o DPkg::Lock::Timeout=300 install -y --no-install-recommends $missing
