#!/bin/sh
# Checks that the files which the project's Markdown links to, or shows as pictures, are there.
# usage: links.sh SOURCE_DIR
set -eu
cd "$1"

dead=$(
    find . -name '*.md' ! -path './build*' | while read -r page; do
        {
            grep -oE '\]\([^)# ]+' "$page" | sed 's/^](//'
            grep -oE '(src|srcset)="[^":]+' "$page" | sed 's/^[a-z]*="//'
        } | grep -v '^https\?:' | while read -r target; do
            [ -e "$(dirname "$page")/$target" ] || echo "$page: $target is not there"
        done
    done
)
if [ -n "$dead" ]; then
    echo "$dead"
    exit 1
fi
