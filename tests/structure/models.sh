#!/bin/sh
# docs/models.md lists every model_type and GGUF architecture that families have, every type of
# models that hold another, and no others.
# usage: models.sh SOURCE_DIR
set -eu
cd "$1"

known=$(find src/model/families -name '*.c' | LC_ALL=C sort | xargs awk '
/^const ln_family [a-z0-9_]+ = [A-Z_]+\("/ { print; next } # a macro whose first argument is the name
/^const ln_family / { inside = 1; named = "" }
/^}/ { if (named != "") print named; inside = 0; named = "" }
inside && /\.hf_types = "",/ { named = ""; next } # GGUF alone
inside && /\.name =/ { named = $0 } # the model_type where no other is given
inside && /\.hf_types =/ { named = "" }
inside && /\.(hf_types|gguf) =/ { taking = 1 }
inside && taking { text = text $0; if ($0 ~ /,$/) { print text; text = ""; taking = 0 } }
' | sed 's/"[[:space:]]*"//g; s/^[^"]*"//; s/".*//' | tr '|' '\n')
inside=$(sed -n '/wrappers\[\] =/,/;/p' src/model/spec_read.c | tr -d '\n' |
    sed 's/"[[:space:]]*"//g; s/^[^"]*"//; s/".*//' | tr '|' '\n')
listed=$(sed '/^## What is missing/,$d' docs/models.md | grep -E '^\| |^`' | grep -o '`[^`]*`' | tr -d '`')

expected=$(printf '%s\n%s\n' "$known" "$inside" | LC_ALL=C sort -u)
found=$(printf '%s\n' "$listed" | LC_ALL=C sort -u)
if [ "$expected" != "$found" ]; then
    echo "docs/models.md differs from src/model/families and spec_read.c:"
    printf '%s\n%s\n' "$expected" "$found" | LC_ALL=C sort | uniq -u
    exit 1
fi
echo "$(printf '%s\n' "$found" | wc -l) names"
