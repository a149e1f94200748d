#!/bin/sh
# The commands of docs/structured-output.md, as they stand there.
# usage: structured_output.sh LINNET SOURCE_DIR
set -eu
linnet=$1
source=$2
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
cd "$folder"

# The text of the fenced blocks of a language.
blocks() {
    awk -v fence='```'"$1" '$0 == fence { inside = 1; next } $0 == "```" { inside = 0 } inside' \
        "$source/docs/structured-output.md"
}
fail() {
    printf '%s\n' "$1"
    exit 1
}

blocks gbnf >moves.gbnf
{
    # shellcheck disable=SC2016
    printf 'linnet() { "%s" "$@" --seed 7 </dev/null; echo; }\nset -e\n' "$linnet"
    blocks sh
} >commands.sh
sh commands.sh >output.txt || fail "a command of the page fails"

lines=$(tr '\n' ' ' <output.txt)
printf '%s\n' "$lines" | grep -qE '\{.*\} +[1-9][0-9]{0,2} +(yes|no|perhaps) +\{ *"name": ?".*, *"age": ?[0-9]+ *\} +([a-h][1-8]-[a-h][1-8](, )?){1,4} +<function=weather>\{ *"city": *"Rome" *\} *</function> *$' ||
    fail "the outputs are not what the page says: $lines"

for command in "--json --regex a" "--regex (" "--grammar nowhere.gbnf"; do
    # shellcheck disable=SC2086
    if "$linnet" run -q -p x -n 4 $command >output.txt 2>error.txt; then
        fail "$command is not refused"
    fi
    [ "$(wc -l <error.txt)" -le 2 ] && [ -s error.txt ] || fail "$command: $(cat error.txt)"
done
"$linnet" run -q -p x -n 4 --json-schema '{"not": {}}' 2>error.txt && fail "not is not refused"
grep -q 'no text can ever satisfy' error.txt || fail "$(cat error.txt)"

blocks lark >greet.lark
printf 'Hello, Al (5), {"name": "x"}!\nhi,Bob!\nHi,Ann\n' >lines.txt
"$linnet" grammar --grammar greet.lark --check-lines lines.txt >output.txt || fail "the Lark grammar is refused"
printf 'ok\nno at byte 6\nno at byte 6\n' | cmp - output.txt || fail "$(cat output.txt)"
printf '{"b":1,"a":2}\n{"a":2,"b":1}\n{"b": 1}\n{"b":1,"c":2}\n' >lines.txt
"$linnet" grammar --json-schema '{"type": "object", "properties": {"b": {}, "a": {}}}' \
    --json-whitespace compact --json-order written --json-strict --check-lines lines.txt >output.txt
printf 'ok\nno at byte 6\nno at byte 5\nno at byte 8\n' | cmp - output.txt || fail "$(cat output.txt)"
printf '12\n1x\n1.5\n' >lines.txt
"$linnet" grammar --json-schema '{"type": "integer"}' --check-lines lines.txt >output.txt ||
    fail "a grammar that is taken ends with an error"
printf 'ok\nno at byte 1\nno at byte 1\n' | cmp - output.txt || fail "$(cat output.txt)"
printf '12' | "$linnet" grammar --regex '[0-9]{3}' --check-lines - >output.txt
[ "$(cat output.txt)" = "no at byte 2" ] || fail "$(cat output.txt)"
status=0
"$linnet" grammar --regex '(' 2>error.txt || status=$?
[ "$status" = 1 ] && [ "$(wc -l <error.txt)" = 1 ] || fail "$status: $(cat error.txt)"
echo "the examples hold"
