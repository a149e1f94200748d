#!/bin/sh
# Every option that a command's --help lists stands in the man page and in the completion, and the
# other way round.
# usage: docs.sh LINNET SOURCE_DIR
set -eu
linnet=$1
cd "$2/packaging"

# Long options of stdin, one per line.
options() {
    grep -oE '(^|[^-[:alnum:]])--[a-z][a-z-]+' | grep -oE -- '--[a-z-]+' | LC_ALL=C sort -u
}
same() { # WHAT EXPECTED ACTUAL
    [ "$2" = "$3" ] || {
        printf '%s: --help lists\n%s\n\nbut it has\n%s\n' "$1" "$2" "$3"
        exit 1
    }
}

# With the options of the engine, of which a command's --help has the most used.
help_of() {
    for command in "$@"; do
        text=$("$linnet" "$command" --help)
        case $text in *--backend*) text="$text
$("$linnet" help engine)" ;;
        esac
        # an option's own line begins with its name
        echo "$text" | grep -E '^ +(-.*, +)?--' | sed 's/  *[A-Z].*//'
    done
}

commands=$("$linnet" --help | sed -n 's/^  \([a-z]\{2,\}\)  .*/\1/p' | grep -vx help | tr '\n' ' ')
[ "$(echo "$commands" | wc -w)" -ge 13 ]
# shellcheck disable=SC2086
all=$(help_of $commands | options)
same 'linnet.1' "$all" "$(sed 's/\\-/-/g' linnet.1 | options)"

words=$(
    cat <<'SCRIPT' | bash -s "$PWD/linnet.bash" "$commands"
source "$1"
for command in $2; do
    COMP_WORDS=(linnet "$command" --)
    COMP_CWORD=2
    _linnet linnet -- "$command"
    echo "$command" "${COMPREPLY[@]}"
done
SCRIPT
)
for command in $commands; do
    same "linnet.bash, $command" "$(help_of "$command" | options)" \
        "$(echo "$words" | grep "^$command " | options)"
done
# Those of fish and zsh ask --help themselves.
if command -v fish >/dev/null; then
    for command in run serve quantize; do
        same "linnet.fish, $command" "$(help_of "$command" | options)" \
            "$(PATH="$(dirname "$linnet"):$PATH" fish -N -c "source linnet.fish
                complete -C 'linnet $command --'" | cut -f 1 | options)"
    done
fi
if command -v zsh >/dev/null; then
    zsh -n linnet.zsh
fi
echo "$(echo "$all" | wc -l) options documented"
