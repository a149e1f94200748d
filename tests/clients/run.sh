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
clients='aider aider-chat
anthropic anthropic
dspy dspy
guidellm guidellm
instructor instructor
langchain-openai langchain-openai
langgraph langgraph langchain-openai
litellm litellm mcp
llama-index llama-index-llms-openai-like
llm llm
lm-eval lm-eval[api]
ollama ollama
openai openai
openai-agents openai-agents
outlines outlines openai
pydantic-ai pydantic-ai-slim[openai,anthropic]
smolagents smolagents[openai]'

# none asks another server, or keeps anything in the user's home
export HF_HUB_OFFLINE=1 LITELLM_LOCAL_MODEL_COST_MAP=True DO_NOT_TRACK=1
out=$(mktemp) log=$(mktemp) home=$(mktemp -d)
"$linnet" serve --port=0 --ctx=2048 --max-seqs=4 --served-name=demo --no-log >"$out" 2>"$log" &
server=$!
trap 'kill "$server" 2>/dev/null || true; rm -rf "$out" "$log" "$home"' EXIT
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
    venv=$venvs/$1 binary='--only-binary :all:'
    [ "$1" != lm-eval ] || binary=--prefer-binary # some of what it needs is source only
    shift
    ! [ -e "$venv/ready" ] || return 0
    # shellcheck disable=SC2086 # an option and its value
    python3 -m venv "$venv" &&
        "$venv/bin/pip" install -q --disable-pip-version-check $binary "$@" &&
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
    elif HOME=$home timeout 300 "$venvs/$client/bin/python" "$here/${client}_calls.py" "$url" >"$log" 2>&1 \
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
