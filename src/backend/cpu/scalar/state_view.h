/* Where a sequence's state and tail are, as kernels of recurrent layers see them. */
#ifndef LN_BACKEND_CPU_SCALAR_STATE_VIEW_H
#define LN_BACKEND_CPU_SCALAR_STATE_VIEW_H

#include "backend/cpu/kernels.h"

/* A sequence's blocks in one layer, and its tokens in the step: positions begin .. end - 1, of
 * which the first is row `row` of the batch. */
typedef struct ln_state_view {
    const ln_state_shape *shape;
    float *states;        /* of the pool */
    const int32_t *table; /* blocks of the states at multiples of LN_STATE_CHUNK, or -1 */
    float *tail;          /* its block */
    size_t row, begin, end;
} ln_state_view;

ln_state_view ln_state_view_of(const ln_op *op, const ln_state_cache *cache, size_t seq);

/* The state at a multiple of LN_STATE_CHUNK behind position 0; NULL: nobody keeps it. */
float *ln_state_at(const ln_state_view *view, size_t position);

/* Where the state at `position` is computed: its own block, or that of the next one that is kept.
 */
float *ln_state_target(const ln_state_view *view, size_t position);

/* The convolution's input at a position, from its first channel on: from the step, the tail or the
 * state; NULL: zero. */
const float *ln_state_conv_input(const ln_op_conv *p, const ln_state_view *view, int64_t position);

/* Keeps the convolution's channels first .. end - 1 of the last inputs in the tail, and at each
 * state that is kept in its block. */
void ln_state_keep_inputs(const ln_op_conv *p, const ln_state_view *view, size_t first, size_t end);

#endif
