#!/bin/sh
# Starts the server with the demo model and runs openai_calls.py against it, in a virtual
# environment that is made once. Exit status 77: skipped.
# usage: openai.sh LINNET TEST_DIR VENV_DIR
set -eu
linnet=$1 tests=$2 venv=$3

skip() {
    echo "skipped: $1"
    exit 77
}

# What was begun before is completed; nothing is deleted, as the folder may be somebody's own.
prepare() {
    ! [ -e "$venv/ready" ] || return 0
    command -v python3 >/dev/null || skip "there is no python3"
    ! [ -e "$venv" ] || [ -e "$venv/pyvenv.cfg" ] || skip "$venv is no virtual environment"
    python3 -m venv "$venv" >/dev/null 2>&1 || skip "python3 cannot make a virtual environment"
    "$venv/bin/pip" install -q --disable-pip-version-check --retries 1 --timeout 15 openai \
        >"$venv/log" 2>&1 || skip "the package openai cannot be installed: $(tail -n 1 "$venv/log")"
    touch "$venv/ready"
}

mkdir -p "$(dirname "$venv")"
(flock 9 && prepare) 9>"$venv.lock" # builds that are tested at once may share it

out=$(mktemp) log=$(mktemp)
"$linnet" serve --port=0 --threads=1 --max-seqs=4 --served-name=demo --api-key=key >"$out" 2>"$log" &
server=$!
trap 'kill "$server" 2>/dev/null || true; rm -f "$out" "$log"' EXIT
i=0
until grep -q listening "$out"; do
    i=$((i + 1))
    if [ "$i" -gt 600 ] || ! kill -0 "$server" 2>/dev/null; then
        cat "$log"
        exit 1
    fi
    sleep 0.1
done
url=$(sed -n 's/^listening at //p' "$out")
"$venv/bin/python" "$tests/openai_calls.py" "$url/v1" key || {
    tail -n 20 "$log"
    exit 1
}
kill "$server"
wait "$server"
