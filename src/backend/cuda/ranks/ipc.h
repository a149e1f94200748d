/* Collectives between GPUs of one host by the memory of arena.h: kernels that wait for one another.
 * They take their numbers from the arena, so that a CUDA graph can repeat them. */
#ifndef LN_BACKEND_CUDA_RANKS_IPC_H
#define LN_BACKEND_CUDA_RANKS_IPC_H

#include <stdint.h>

#include "backend/cuda/activations/converted.h"
#include "backend/cuda/ranks/ipc_group.h"
#include "backend/cuda/runtime/device.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ln_ipc_channel {
    char *own, *other; /* arenas */
    unsigned other_rank, index, n_groups;
    ln_ipc_patience patience;
} ln_ipc_channel;

/* out[i] = residual[i] + the sum of all ranks' x[i] in their order, for a part; out may be x or
 * residual, which may be NULL. 0, or the runtime's error code. */
int ln_ipc_all_reduce(const ln_ipc_group *group, const ln_ipc_part *part, const float *x,
                      const float *residual, float *out, ln_cuda_stream stream);

/* An all-reduce and the norm of its result, in the order of the list. */
typedef struct ln_ipc_norm {
    const ln_op_all_reduce *sum;
    const ln_op_norm *norm;
    const ln_converted_act *to; /* the norm's result is converted for the next linear, or NULL */
    bool leaves_out_sum, leaves_out; /* these are written in no other form */
} ln_ipc_norm;

/* Both as one kernel, with the same bits, for rows [part->begin, part->begin + part->n). */
int ln_ipc_reduce_norm(const ln_ipc_group *group, const ln_ipc_part *part, const ln_ipc_norm *op,
                       ln_cuda_stream stream);

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
