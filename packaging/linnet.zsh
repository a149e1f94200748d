#compdef linnet
# zsh completion for linnet. Commands, options and their values are what --help says.

_linnet_help() { # the help of a command, with the options of the engine where it has them
    local text=$(linnet $1 --help 2>/dev/null)
    print -r -- $text
    [[ $text == *--backend=* ]] && linnet help engine 2>/dev/null
}

# Lines of help become name, value and description, with tabs between. A long option's text begins on the next line.
_linnet_options() {
    _linnet_help $1 | sed -E '/^ +(-., )?--[^ ]+$/{N;s/\n +/   /}' |
        sed -nE 's/^ +(-., )?(--[a-z-]+)(\[?=([^ ]+))?( +(.*))?$/\2\t\4\t\6/p' | sort -u
}

_linnet() {
    local command=$words[2] name value text
    local -a items with_value
    if ((CURRENT == 2)); then
        items=(${(f)"$(linnet --help 2>/dev/null | sed -nE 's/^  ([a-z]+)  +([A-Z].*)/\1:\2/p')"})
        _describe command items
        return
    fi
    if [[ $PREFIX == --*=* ]]; then # the value of an option
        value=$(_linnet_options $command | sed -n "s/^${PREFIX%%=*}\t\([^\t]*\).*/\1/p" | head -n 1)
        compset -P '*='
        if [[ $value == *\|* ]]; then
            compadd -- ${(s:|:)value}
        elif [[ $value == (*FILE*|MODEL|*PATH*|DIR*) ]]; then
            _files
        fi
    elif [[ $PREFIX == -* ]]; then
        while IFS=$'\t' read -r name value text; do
            if [[ -n $value ]]; then
                with_value+=("$name=:$text")
            else
                items+=("$name:$text")
            fi
        done < <(_linnet_options $command)
        _describe -o option items -- with_value -S ''
    elif [[ $command == help ]]; then
        compadd engine ${(f)"$(linnet --help 2>/dev/null | sed -nE 's/^  ([a-z]+)  .*/\1/p')"}
    else # models of the cache, and files
        compadd ${(f)"$(linnet list 2>/dev/null | sed -n 's|^\([^ ]*/[^ ]*\) .*|\1|p')"}
        _files
    fi
}

_linnet "$@"
