#!/bin/sh
# Checks that the files are there which the project's Markdown links to, shows as pictures, or names
# in backquotes (`src/...`; names with capitals stand for something).
# usage: links.sh SOURCE_DIR
set -eu
cd "$1"

# Folders of builds, whatever their names are, may have an environment of Python with pages of others.
pages() {
    find . -type d -exec test -e '{}/CMakeCache.txt' ';' -prune -o -name '*.md' ! -path './build*' -print
}

dead=$(
    pages | while read -r page; do
        {
            grep -oE '\]\([^)# ]+' "$page" | sed 's/^](//'
            grep -oE '(src|srcset)="[^":]+' "$page" | sed 's/^[a-z]*="//'
        } | grep -v '^https\?:' | while read -r target; do
            [ -e "$(dirname "$page")/$target" ] || echo "$page: $target is not there"
        done
        grep -oE '`(src|include|tests|bench|tools|docs|examples|packaging)/[a-z0-9_./-]+`' "$page" |
            tr -d '`' | while read -r target; do
            [ -e "$target" ] || echo "$page: $target is not there"
        done
    done
)
if [ -n "$dead" ]; then
    echo "$dead"
    exit 1
fi
