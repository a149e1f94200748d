/* What kernels of recurrent layers see of a layer's cache (backend/recurrent.h). */
#ifndef LN_BACKEND_CUDA_OPS_RECURRENT_CUH
#define LN_BACKEND_CUDA_OPS_RECURRENT_CUH

#include <cuda_runtime.h>

#include "backend/cuda/ops.h"

/* Sizes and parts of a layer's blocks, as the host computes them. */
typedef struct ln_state_args {
    ln_state_shape shape;
    float *states, *tails;            /* pools */
    size_t state_floats, tail_floats; /* of a block */
    size_t state_conv;                /* floats before a part of a block */
    size_t tail_keys, tail_updates, tail_conv;
    const int32_t *state_tables, *tail_tables;
    size_t max_states, max_tails; /* entries of a sequence's table */
    const int32_t *positions, *seq_starts;
} ln_state_args;

static inline ln_state_args ln_state_args_of(const ln_state_cache *cache,
                                             const ln_cuda_step *step) {
    const ln_state_shape *s = &cache->shape;
    const ln_batch *batch = &step->batch;
    const ln_batch_group *states = &batch->groups[cache->states->group];
    const ln_batch_group *tails = &batch->groups[cache->tails->group];
    ln_state_args args = {};
    args.shape = *s;
    args.states = (float *)cache->states->k;
    args.tails = (float *)cache->tails->k;
    args.state_floats = ln_state_block_floats(s);
    args.tail_floats = ln_tail_block_floats(s);
    args.state_conv = ln_state_matrix_floats(s);
    args.tail_keys = ln_tail_keys(s);
    args.tail_updates = ln_tail_updates(s);
    args.tail_conv = ln_tail_conv(s);
    args.state_tables = states->block_tables;
    args.tail_tables = tails->block_tables;
    args.max_states = states->max_blocks;
    args.max_tails = tails->max_blocks;
    args.positions = batch->positions;
    args.seq_starts = batch->seq_starts;
    return args;
}

/* A sequence's tokens in the step: positions begin .. end - 1, of which the first is row `row`. */
typedef struct state_view {
    const int32_t *table;
    float *tail;
    int row, begin, end;
} state_view;

static __device__ __forceinline__ state_view view_sequence(const ln_state_args &args, int seq) {
    state_view view;
    view.row = args.seq_starts[seq];
    int n = args.seq_starts[seq + 1] - view.row;
    view.begin = n > 0 ? args.positions[view.row] : 0;
    view.end = view.begin + n;
    view.table = args.state_tables + (size_t)seq * args.max_states;
    view.tail =
        args.tails + (size_t)args.tail_tables[(size_t)seq * args.max_tails] * args.tail_floats;
    return view;
}

/* The state at a multiple of LN_STATE_CHUNK behind position 0; NULL: nobody keeps it. */
static __device__ __forceinline__ float *state_at(const ln_state_args &args, const state_view &view,
                                                  int position) {
    int32_t block = view.table[position / LN_STATE_CHUNK];
    return block < 0 ? NULL : args.states + (size_t)block * args.state_floats;
}

/* Where the state at `position` is computed: its own block, or that of the next one that is kept.
 */
static __device__ __forceinline__ float *state_target(const ln_state_args &args,
                                                      const state_view &view, int position) {
    float *state = state_at(args, view, position);
    while (state == NULL)
        state = state_at(args, view, position += LN_STATE_CHUNK);
    return state;
}

/* Asks L2 for what a cache has of earlier steps, which may be read ahead of ln_pdl_wait. */
static __device__ __forceinline__ void prefetch_line(const void *at) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(at));
}

/* Where a head's row for a position begins in its part of the tail. */
static __device__ __forceinline__ size_t tail_row(const ln_state_shape &s, size_t head,
                                                  int position, size_t width) {
    const unsigned n_rows = (unsigned)s.n_rows;
    return ((unsigned)head * n_rows + (unsigned)position % n_rows) * (unsigned)width;
}

#endif
