#!/bin/sh
# Runs clients from the Python package index against a server with the demo model: each in a virtual
# environment of its own, which is made once. Prints what works, a line per client; the status is 1
# when one does not.
# usage: run.sh LINNET VENV_FOLDER [CLIENT...]
set -eu
linnet=$1 venvs=$2
shift 2
here=$(cd "$(dirname "$0")" && pwd)

# CLIENT PACKAGE...: what is installed beside the script CLIENT_calls.py
clients='anthropic anthropic
instructor instructor
langchain-openai langchain-openai
litellm litellm mcp
llama-index llama-index-llms-openai-like
ollama ollama
openai openai
openai-agents openai-agents
pydantic-ai pydantic-ai-slim[openai,anthropic]
smolagents smolagents[openai]'

out=$(mktemp) log=$(mktemp)
"$linnet" serve --port=0 --max-seqs=4 --served-name=demo --no-log >"$out" 2>"$log" &
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

prepare() { # CLIENT PACKAGE...
    venv=$venvs/$1
    shift
    ! [ -e "$venv/ready" ] || return 0
    python3 -m venv "$venv" &&
        "$venv/bin/pip" install -q --disable-pip-version-check --only-binary :all: "$@" &&
        touch "$venv/ready"
}

mkdir -p "$venvs"
status=0
echo "$clients" >"$out"
while read -r client packages; do
    case " $* " in
    *" $client "* | "  ") ;;
    *) continue ;;
    esac
    # shellcheck disable=SC2086 # packages are several
    if ! prepare "$client" $packages >"$log" 2>&1; then
        echo "$client: not installed: $(tail -n 1 "$log")"
        status=1
    elif timeout 300 "$venvs/$client/bin/python" "$here/${client}_calls.py" "$url" >"$log" 2>&1 \
        </dev/null; then
        version=$("$venvs/$client/bin/python" -c \
            "import importlib.metadata as m; print(m.version('${packages%%[ \[]*}'))")
        echo "$client $version: $(sed -n 's/^ok //p' "$log" | tr '\n' ' ')"
    else
        echo "$client: fails"
        tail -n 15 "$log"
        status=1
    fi
done <"$out"
exit $status
