#!/bin/sh
# Checks that docs/charts shows the figures of bench/results. Skips where there is no Python.
# usage: charts.sh SOURCE_DIR
set -eu
command -v python3 >/dev/null || exit 77
python3 "$1/tools/plot/charts.py" --check
