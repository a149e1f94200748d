#!/bin/sh
# `make run` hands the program the prompt as it was given. Builds nothing.
# usage: make.sh SOURCE_DIR
# shellcheck disable=SC2016 # what stands behind a dollar is meant so
set -eu
source=$1
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
printf '#!/bin/sh\nprintf "%%s\\n" "$3"\n' >"$build/linnet"
chmod +x "$build/linnet"
for prompt in 'The king' 'She said "hi" and' "it's" 'costs $5 or $HOME' '`id` $(id) ${PATH}' 'a\b'; do
    said=$(env -u MAKEFLAGS make -s -C "$source" -o configure COMPILE=true BUILD="$build" run PROMPT="$prompt" 2>&1)
    [ "$said" = "$prompt" ] || {
        printf 'make run PROMPT=%s: the program got %s\n' "$prompt" "$said"
        exit 1
    }
done
