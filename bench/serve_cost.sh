#!/bin/sh
# What serving costs beside the engine, which here only keeps time: 256 streams at 20 ms and at 1 ms
# a step, and 10,000 connections that say nothing. Prints a line for each load and a verdict for each
# promise; the exit status is 1 where one does not hold. It wants a quiet machine of two cores.
# usage: bench/serve_cost.sh [BUILD [MODEL]]     from the top of the tree
set -eu
build=${1:-build} model=${2:-models/demo.gguf} port=8099
folder=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null; rm -rf "$folder"' EXIT

# load NAME STEP_US SECONDS KIND=N...: of a server of its own
load() {
    name=$1 step=$2 for=$3
    shift 3
    "$build/bench/bench_serve_modelled" "$model" "$port" "$step" 256 >"$folder/$name.server" 2>&1 &
    server=$!
    sleep 1
    "$build/bench/bench_serve_load" "$port" "$for" "$server" tokens=100000 settle=1 "$@" >"$folder/$name"
    kill "$server"
    wait "$server" || true
    server=
    echo "== $name: $for s of $*, a step each $step us"
    cat "$folder/$name" "$folder/$name.server"
    port=$((port + 1))
}
take() { # NAME SED: the number in what that load said
    sed -n "$2" "$folder/$1"
}
judge() { # TEXT VALUE OPERATOR LIMIT
    awk -v text="$1" -v value="$2" -v operator="$3" -v limit="$4" 'BEGIN {
        good = value != "" && (operator == "<=" ? value + 0 <= limit + 0 : value + 0 >= limit + 0)
        printf "%s: %s is %s, wanted %s %s\n", good ? "holds" : "FAILS", text, value, operator, limit
        exit !good }' || echo failed >>"$folder/failed"
}
core='s/.*took \([0-9.]*\) % of a core.*/\1/p'
p99='s/.* p99 \([0-9.]*\) ms.*/\1/p'

load twenty 20000 10 streams=256
load one 1000 6 streams=256
load idle 20000 5 idle=10000
echo
judge "20 ms a step: p99 of added latency in ms" "$(grep arrival "$folder/twenty" | sed -n "$p99")" \
    '<=' 5
judge "20 ms a step: % of a core" "$(take twenty "$core")" '<=' 15
judge "1 ms a step: tokens in a chunk" \
    "$(take one 's/.* \([0-9]*\) tokens in \([0-9]*\) chunks.*/\1 \2/p' |
        awk '{ printf "%.1f", $1 / $2 }')" '>=' 1.5
judge "1 ms a step: tokens that came, in % of a token for each stream and ms" \
    "$(take one 's/.* \([0-9]*\) tokens in .*/\1/p' | awk '{ printf "%.2f", $1 / 15360 }')" '>=' 99.5
judge "10,000 idle connections: MB of the server" \
    "$(take idle 's/.* \([0-9.]*\) MB at the end.*/\1/p')" '<=' 100
[ ! -e "$folder/failed" ]
