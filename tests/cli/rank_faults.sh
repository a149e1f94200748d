#!/bin/sh
# rank_faults.sh LINNET ROOT: a rank that dies while requests run, and while none do. All phases, and
# ranks that hang: tools/ranks/faults.py.
test -e "$(dirname "$1")/linnet-mpi.so" && command -v mpirun >/dev/null &&
    command -v python3 >/dev/null || exit 77
test -e "$2/models/demo.gguf" || exit 77
exec python3 "$2/tools/ranks/faults.py" --linnet "$1" --phases decode,idle --signals kill \
    --victims 1 "$2/models/demo.gguf"
