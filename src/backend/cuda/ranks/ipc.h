/* Collectives between GPUs of one host by the memory of arena.h: kernels that wait for one another.
 * They take their numbers from the arena, so that a CUDA graph can repeat them. */
#ifndef LN_BACKEND_CUDA_RANKS_IPC_H
#define LN_BACKEND_CUDA_RANKS_IPC_H

#include <stdint.h>

#include "backend/cuda/ranks/arena.h"
#include "backend/cuda/runtime/device.h"

#ifdef __cplusplus
extern "C" {
#endif

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
} ln_ipc_group;

typedef struct ln_ipc_channel {
    char *own, *other; /* arenas */
    unsigned other_rank, index, n_groups;
    ln_ipc_patience patience;
} ln_ipc_channel;

/* out[i] = residual[i] + the sum of all ranks' x[i] in their order, for a part; out may be x or
 * residual, which may be NULL. 0, or the runtime's error code. */
int ln_ipc_all_reduce(const ln_ipc_group *group, const ln_ipc_part *part, const float *x,
                      const float *residual, float *out, ln_cuda_stream stream);
/* Rows [n_rows][the rank's columns] become [n_rows][n_cols] on the first rank. */
int ln_ipc_gather_columns(const ln_ipc_group *group, const ln_ipc_part *part, size_t n_cols,
                          const float *x, float *out, ln_cuda_stream stream);
/* The first rank's x[n] comes to all others; n floats fit LN_IPC_PART_BYTES. */
int ln_ipc_share_floats(const ln_ipc_group *group, const ln_ipc_part *part, float *x,
                        ln_cuda_stream stream);
int ln_ipc_send(const ln_ipc_channel *channel, const ln_ipc_part *part, const float *x,
                ln_cuda_stream stream);
int ln_ipc_receive(const ln_ipc_channel *channel, const ln_ipc_part *part, float *x,
                   ln_cuda_stream stream);

/* out[i] = residual[i] + the sum over ranks of parts[rank * n + i], that of `rank` being own[i];
 * without residual the sum itself. */
int ln_rank_sum(const float *own, const float *parts, size_t n_ranks, size_t rank, size_t n,
                const float *residual, float *out, ln_cuda_stream stream);

#ifdef __cplusplus
}
#endif

#endif
