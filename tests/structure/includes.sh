#!/bin/sh
# Checks that includes point downward only: each folder of src/ may include the folders that are
# listed for it here. Also that public and device headers stay where they belong.
# usage: includes.sh SOURCE_DIR
set -eu
cd "$1"

find src -type f \( -name '*.[ch]' -o -name '*.inc' -o -name '*.cu' -o -name '*.cuh' \) -print |
    LC_ALL=C sort | tr '\n' '\0' | xargs -0 awk '
BEGIN {
    allow["base"] = "base"
    allow["format"] = "base format"
    allow["text"] = "base format text"
    allow["grammar"] = "base format text grammar"
    allow["backend"] = "base format backend"
    allow["kv"] = "base kv"
    allow["sampling"] = "base sampling"
    allow["model"] = "base format text backend model"
    allow["convert"] = "base format text backend model convert"
    allow["engine"] = "base format text grammar backend kv sampling model engine"
    allow["dist"] = "base dist"
    allow["server"] = "base format text grammar backend kv sampling model convert engine server"
    allow["cli"] = "base format text grammar backend kv sampling model convert engine server cli"
}
function report(what) {
    printf "%s:%d: %s\n", FILENAME, FNR, what
    bad = 1
}
FNR == 1 {
    split(FILENAME, part, "/")
    folder = part[2]
    n_files++
    if (!(folder in allow))
        report("folder " folder " is not in the include graph")
}
/^[ \t]*#[ \t]*include[ \t]*"/ {
    path = $0
    sub(/^[^"]*"/, "", path)
    sub(/".*/, "", path)
    if (path == "linnet.h")
        report("write <linnet.h>")
    else if (path !~ /\//)
        report("\"" path "\": write the path from src/, as in \"base/error.h\"")
    else {
        split(path, target, "/")
        if (index(" " allow[folder] " ", " " target[1] " ") == 0)
            report(folder " must not include " target[1] " (" path ")")
    }
    n_includes++
}
/^[ \t]*#[ \t]*include[ \t]*<(cuda|cublas|nvrtc|nccl|mpi)/ {
    if (FILENAME !~ /^src\/(backend\/cuda|dist)\//)
        report("CUDA, NCCL and MPI headers belong to src/backend/cuda and src/dist")
}
END {
    printf "%d files, %d includes\n", n_files, n_includes
    exit bad || n_includes == 0
}'

# The public header stands alone, below everything.
if grep -n '#[[:space:]]*include[[:space:]]*"' include/linnet.h; then
    echo "include/linnet.h includes a header of the project"
    exit 1
fi
