/* Ranks that exchange by arenas, and how long kernels wait for one another. */
#ifndef LN_BACKEND_CUDA_RANKS_IPC_GROUP_H
#define LN_BACKEND_CUDA_RANKS_IPC_GROUP_H

#include <stdint.h>

#include "backend/cuda/ranks/arena.h"

enum { LN_IPC_NO_TROUBLE = 0, LN_IPC_GIVEN_UP = -1 };

/* How a wait ends that is in vain. */
typedef struct ln_ipc_patience {
    /* Page-locked memory of the host. Set by a kernel: 1 + the rank, of all, that has not come; by
     * the host: LN_IPC_GIVEN_UP. Then no kernel waits any more, and what they leave means nothing.
     */
    volatile int *trouble;
    uint64_t timeout_ns; /* 0: waits until the host gives up */
} ln_ipc_patience;

/* Ranks of a group as one of them sees them. */
typedef struct ln_ipc_group {
    char *arenas[LN_IPC_RANKS]; /* of the group's ranks, as this process maps them */
    unsigned n_ranks, rank;
    unsigned first; /* which of all its first one is */
    unsigned index; /* of its flags and data in an arena */
    ln_ipc_patience patience;
    bool overlaps; /* begins and lets the next kernel begin early (PDL); all rows are few then */
} ln_ipc_group;

#endif
