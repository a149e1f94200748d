#!/bin/sh
# Runs the examples of docs/serving.md: every ```sh block, line by line. `linnet serve` starts a
# server at a free port, which takes the place of the one before; curl lines speak to it. Every
# option of `linnet serve` and every path that it serves must occur in an example.
# usage: docs.sh LINNET PAGE
set -eu
linnet=$1 page=$2
demo=$(cd "$(dirname "$0")/../.." && pwd)/models/demo.gguf
export HF_HUB_CACHE=/nonexistent # without MODEL the demo model is served
for tool in curl openssl; do
    command -v "$tool" >/dev/null || {
        echo "skipped: there is no $tool"
        exit 77
    }
done
folder=$(mktemp -d)
server=
stop() {
    [ -z "$server" ] || {
        kill "$server"
        wait "$server" || fail "a server ended with status $?"
    }
    server=
}
fail() {
    echo "$1"
    cat "$folder/log" 2>/dev/null || true
    exit 1
}
trap '[ -z "$server" ] || kill "$server" 2>/dev/null; rm -rf "$folder"' EXIT
cd "$folder"

# KV events are published on the loopback interface, and not at all by what has no ZeroMQ.
kv_events='s|tcp://\*:[0-9]*|tcp://127.0.0.1:*|g'
! "$linnet" serve --kv-events=x --kv-events=x 2>&1 | grep -q 'built without ZeroMQ' ||
    kv_events="s/--kv-events[a-z-]* [^ ]*//g"
start() { # COMMAND: its arguments, with other ports
    arguments=$(echo "$1" | sed "s/^linnet serve//; s/--port [0-9]*//; $kv_events")
    rm -f out # of the server before
    eval "\"\$linnet\" serve --port=0 --threads=1 $arguments >out 2>log &"
    server=$!
    i=0
    until grep -q listening out 2>/dev/null; do
        i=$((i + 1))
        [ "$i" -lt 600 ] && kill -0 "$server" || fail "cannot start: $1"
        sleep 0.1
    done
    port=$(sed -n 's/.*:\([0-9]*\)$/\1/p' out)
}

# The models that the examples offer.
mkdir models
cp "$demo" models/small.gguf
cp "$demo" models/large.gguf
cat >models.json <<'END'
{"models": [
    {"name": "small", "model": "models/small.gguf", "options": {"ctx": 512}},
    {"name": "large", "model": "models/large.gguf", "keep-alive": -1, "options": {"max-seqs": 4}}
]}
END

# The adapters that the examples load: one of rank 1 for a matrix of the demo model, which leaves
# everything as it is.
module=base_model.model.model.layers.0.mlp.down_proj
header=$(printf '{"%s.lora_A.weight":{"dtype":"F32","shape":[1,768],"data_offsets":[0,3072]},' $module)
header=$header$(printf '"%s.lora_B.weight":{"dtype":"F32","shape":[256,1],"data_offsets":[3072,4096]}}' $module)
for name in pirate poet; do
    mkdir $name
    echo '{"peft_type": "LORA", "r": 1, "lora_alpha": 1, "bias": "none"}' >$name/adapter_config.json
    {
        # the header's length, which is below 65,536, in eight bytes
        printf "\\$(printf %o $((${#header} % 256)))\\$(printf %o $((${#header} / 256)))"
        head -c 6 /dev/zero
        printf %s "$header"
        head -c 4096 /dev/zero
    } >$name/adapter_model.safetensors
done

# commands, one a line
awk '/^```sh$/ { on = 1; next } /^```$/ { on = 0 } on' "$page" |
    sed -e ':a' -e '/\\$/N; s/\\\n//; ta' >commands
n=0
while IFS= read -r command; do
    n=$((n + 1))
    case $command in
    'linnet serve'*)
        stop
        start "$command"
        ;;
    *)
        local=$(echo "$command" | sed "s/:8080/:$port/g")
        eval "$local" >answer </dev/null || fail "fails: $command"
        [ -s answer ] || case $command in curl*) fail "no answer: $command" ;; esac
        ;;
    esac
done <commands
curl -sf "http://127.0.0.1:$port/" | grep -oE '"(GET|POST) [^"]*' | sed 's/.* //' >paths
[ "$(wc -l <paths)" -ge 10 ] || fail "GET / does not name the endpoints"
stop

"$linnet" serve --help | sed -n '/Engine (/q;p' | grep -oE -- '--[a-z]+(-[a-z]+)*' |
    sort -u | while read -r option; do
    # what names a MODEL is the page hub.md's, and --hf needs a network
    case $option in --help | --usage | --version | --model | --hf) continue ;; esac
    grep -qE -- "$option( |=|\$)" commands || fail "no example has $option"
done
while read -r path; do
    grep -qE -- ":8080$path( |\$)" commands || fail "no example has $path"
done <paths
echo "$n examples"
