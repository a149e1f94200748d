#!/bin/sh
# What a server answers of ten times the load that it sustains, for two minutes, and again while a
# thousand clients send a byte of their head each second and 256 streams are not read. Prints a
# line for each load and a verdict for each promise; the exit status is 1 where one does not hold.
# It wants a quiet machine: the engine has one thread, which leaves a core to whoever asks.
# usage: bench/serve_overload.sh [BUILD [SECONDS [MODEL]]]     from the top of the tree
set -eu
build=${1:-build} seconds=${2:-120} model=${3:-models/demo.gguf}
folder=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null; rm -rf "$folder"' EXIT
"$build/linnet" serve "$model" --port 0 --threads 1 --max-seqs 16 --max-waiting 300 --no-log \
    >"$folder/out" 2>"$folder/err" &
server=$!
until grep -q listening "$folder/out"; do
    kill -0 "$server" || { cat "$folder/err"; exit 1; }
    sleep 0.1
done
port=$(sed -n 's/.*:\([0-9]*\)$/\1/p' "$folder/out")

# load NAME SECONDS KIND=N...: what bench_serve_load says, as NAME.key=value lines
load() {
    name=$1 for=$2
    shift 2
    "$build/bench/bench_serve_load" "$port" "$for" "$server" tokens=128 "$@" >"$folder/$name"
    echo "== $name: $for s of $*"
    grep -v '^thread' "$folder/$name"
}
# take NAME SED: the number in what that load said
take() {
    sed -n "$2" "$folder/$1"
}
peak=$((seconds / 8 + 1))
load peak-1 "$peak" rate=60 settle=5
rate=$(take peak-1 's/^answers: \([0-9.]*\) a second.*/\1/p' | awk '{ print int($1 * 10) + 1 }')
load overload "$seconds" "rate=$rate" settle=5
load peak-2 "$peak" rate=60 settle=5
load hostile "$seconds" "rate=$rate" slow=1000 unread=256 settle=8
load peak-3 "$peak" rate=60 settle=5
kill "$server"
status=0
wait "$server" || status=$?
server=

judge() { # TEXT VALUE OPERATOR LIMIT
    awk -v text="$1" -v value="$2" -v operator="$3" -v limit="$4" 'BEGIN {
        good = value != "" && (operator == "<=" ? value + 0 <= limit + 0 : value + 0 >= limit + 0)
        printf "%s: %s is %s, wanted %s %s\n", good ? "holds" : "FAILS", text, value, operator, limit
        exit !good }' || echo failed >>"$folder/failed"
}
rate_of() {
    take "$1" 's/^answers: \([0-9.]*\) a second.*/\1/p'
}
# compare NAME PEAK PEAK: the load's promises, beside the peaks before and after it
compare() {
    name=$1
    share=$(echo "$(rate_of "$name") $(rate_of "$2") $(rate_of "$3")" |
        awk '{ printf "%.1f", 200 * $1 / ($2 + $3) }')
    judge "$name: goodput in % of the peak" "$share" '>=' 95
    judge "$name: the slowest refusal in ms" \
        "$(take "$name" 's/^refusals .*most \([0-9.]*\) ms.*/\1/p')" '<=' 50
    judge "$name: the slowest /health in ms" \
        "$(take "$name" 's/^health .*most \([0-9.]*\) ms.*/\1/p')" '<=' 100
    judge "$name: answers that are neither 200 nor 429, or lost" \
        "$(take "$name" 's/.* \([0-9]*\) others, \([0-9]*\) lost.*/\1 \2/p' | awk '{ print $1 + $2 }')" \
        '<=' 0
    judge "$name: growth of memory in % of what it was" \
        "$(take "$name" 's/.* \([0-9.]*\) MB with connections, \([0-9.]*\) MB at the end.*/\1 \2/p' |
            awk '{ printf "%.1f", 100 * ($2 - $1) / $1 }')" '<=' 3
}
echo
compare overload peak-1 peak-2
compare hostile peak-2 peak-3
judge "exit status after SIGTERM" "$status" '<=' 0
[ ! -e "$folder/failed" ]
