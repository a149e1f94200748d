#!/bin/sh
# Checks that includes point downward only: each folder of src/, and each room of some folders, may
# include what is listed for it here. Also that public and device headers stay where they belong.
# usage: includes.sh SOURCE_DIR
set -eu
cd "$1"

# Known exceptions among rooms, a line each: who includes whom. The test fails when one is no longer
# needed: the list shrinks.
known='
backend/cuda/gemm backend/cuda/attention
backend/cuda/gemm backend/cuda/ops
'

find src -type f \( -name '*.[ch]' -o -name '*.inc' -o -name '*.cu' -o -name '*.cuh' \) -print |
    LC_ALL=C sort | tr '\n' '\0' | xargs -0 awk -v known="$known" '
BEGIN {
    allow["base"] = "base"
    allow["format"] = "base format"
    allow["text"] = "base format text"
    allow["grammar"] = "base format text grammar"
    allow["backend"] = "base format dist backend"
    allow["kv"] = "base kv"
    allow["sampling"] = "base sampling"
    allow["model"] = "base format text dist backend model"
    allow["convert"] = "base format text backend model convert"
    allow["engine"] = "base format text grammar dist backend kv sampling model engine"
    allow["dist"] = "base dist"
    allow["hub"] = "base hub"
    allow["server"] = "base format text grammar backend kv sampling model convert engine server"
    allow["cli"] = "base format text grammar backend kv sampling model convert engine server hub cli"

    # A room includes what is listed, by any path that begins so; what lies in the parent folder
    # itself only where that is listed with a slash behind it.
    room["text/jinja"] = "base text/jinja"
    gpu = "base format backend/ backend/cuda/ backend/cuda/ptx backend/cuda/runtime"
    room["backend/cuda/ptx"] = "base backend/cuda/ backend/cuda/ptx"
    room["backend/cuda/runtime"] = "base format backend/ backend/cuda/ backend/cuda/runtime"
    room["backend/cuda/weights"] = gpu " backend/cuda/weights"
    room["backend/cuda/activations"] = room["backend/cuda/weights"] " backend/cuda/activations"
    room["backend/cuda/gemm"] = room["backend/cuda/activations"] " backend/cuda/gemm"
    room["backend/cuda/ops"] = room["backend/cuda/activations"] " backend/cuda/ops"
    room["backend/cuda/attention"] = room["backend/cuda/ops"] " backend/cuda/attention"
    room["backend/cuda/fused"] = room["backend/cuda/attention"] " backend/cuda/gemm"
    room["backend/cuda/fused"] = room["backend/cuda/fused"] " backend/cuda/fused"
    room["backend/cuda/ranks"] = room["backend/cuda/ops"] " dist backend/cuda/ranks"
    room["backend/cuda"] = "base format dist backend/ backend/cuda"
    room["engine"] = "base format text grammar dist backend kv sampling model"
    room["engine"] = room["engine"] " engine/ engine/plan engine/request engine/draft engine/experts"
    room["engine/api"] = room["engine"] " engine/api"
    n_lines = split(known, line, "\n")
    for (i = 1; i <= n_lines; i++)
        if (line[i] != "")
            is_known[line[i]] = 1
}
function folder_of(path) {
    return path ~ /\// ? substr(path, 1, length(path) - length(base_of(path)) - 1) : ""
}
function base_of(path) {
    sub(/.*\//, "", path)
    return path
}
# Whether the list has a folder: as it is, or a parent; with a slash behind it, just that folder.
function has(list, folder, item, n, i) {
    n = split(list, item, " ")
    for (i = 1; i <= n; i++)
        if (item[i] == folder "/" || index(folder "/", item[i] "/") == 1)
            return 1
    return 0
}
# The rules of the innermost room that the file lies in.
function check_room(target, own, pair) {
    for (own = folder_of(substr(FILENAME, 5)); own != "" && !(own in room);)
        own = folder_of(own)
    if (own == "" || has(room[own], folder_of(target)))
        return
    pair = own " " folder_of(target)
    is_used[pair] = 1
    if (!(pair in is_known))
        report(own " must not include " folder_of(target) " (" base_of(target) ")")
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
        else
            check_room(path)
    }
    n_includes++
}
/^[ \t]*#[ \t]*include[ \t]*<(cuda|cublas|nvrtc|nccl|mpi)/ {
    if (FILENAME !~ /^src\/(backend\/cuda|dist)\//)
        report("CUDA, NCCL and MPI headers belong to src/backend/cuda and src/dist")
}
END {
    for (pair in is_known)
        if (!(pair in is_used)) {
            print pair ": no longer an exception: take it off the list"
            bad = 1
        }
    printf "%d files, %d includes\n", n_files, n_includes
    exit bad || n_includes == 0
}'

# The public header stands alone, below everything.
if grep -n '#[[:space:]]*include[[:space:]]*"' include/linnet.h; then
    echo "include/linnet.h includes a header of the project"
    exit 1
fi
