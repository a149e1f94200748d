#!/bin/sh
# The tests of the Python package, from the source tree, with a built library. Exit status 77: skipped.
# usage: unit.sh LIBRARY TEST_DIR
set -eu
if ! python3 -c 'import sys, ctypes; sys.exit(sys.version_info < (3, 9))' 2>/dev/null; then
    echo 'skipped: there is no Python 3.9 or later'
    exit 77
fi
LINNET_LIBRARY=$1 PYTHONDONTWRITEBYTECODE=1 exec python3 -X dev -m unittest discover -s "$2"
