#!/bin/sh
# Checks that the shared library exports what linnet.h declares and nothing else.
# usage: exports.sh LIBRARY HEADER
set -eu

exported=$(nm -D --defined-only "$1" | awk '{ print $NF }' | LC_ALL=C sort)
declared=$(tr '\n' ' ' <"$2" | grep -o 'LINNET_API [^(;#]*(' |
    sed -n 's/.*[ *]\(linnet_[a-z0-9_]*\)($/\1/p' | LC_ALL=C sort)
if [ "$exported" != "$declared" ]; then
    printf 'exported:\n%s\n\ndeclared:\n%s\n' "$exported" "$declared"
    exit 1
fi
printf '%s functions\n' "$(echo "$exported" | wc -l)"
