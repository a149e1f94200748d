#!/bin/sh
# Tests the web page in headless Chromium, with axe-core from the Python package index.
# usage: run.sh LINNET FOLDER [NAME...]
#   FOLDER keeps axe-core and gets screenshots; NAMEs choose tests
set -eu
linnet=$(realpath "$1") folder=$2
shift 2
cd "$(dirname "$0")"
here=$PWD
cd - >/dev/null
chromium=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || {
    echo "test-web: there is no Chromium; Debian has it as the package chromium" >&2
    exit 1
}
mkdir -p "$folder"
axe=$folder/axe/axe_playwright_python/axe.min.js
[ -e "$axe" ] || python3 -m pip install --quiet --no-deps --disable-pip-version-check \
    --target "$folder/axe" 'axe-playwright-python>=0.1.8'
exec python3 "$here/test_page.py" --linnet "$linnet" --chromium "$chromium" --axe "$axe" \
    --folder "$folder" "$@"
