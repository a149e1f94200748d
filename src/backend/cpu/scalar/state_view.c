#include "backend/cpu/scalar/state_view.h"

#include <string.h>

ln_state_view ln_state_view_of(const ln_op *op, const ln_state_cache *cache, size_t seq) {
    const ln_batch *batch = op->batch;
    const ln_batch_group *states = &batch->groups[cache->states->group];
    const ln_batch_group *tails = &batch->groups[cache->tails->group];
    size_t row = (size_t)batch->seq_starts[seq];
    size_t n = (size_t)batch->seq_starts[seq + 1] - row;
    size_t begin = n > 0 ? (size_t)batch->positions[row] : 0;
    size_t tail = (size_t)tails->block_tables[seq * tails->max_blocks];
    return (ln_state_view){
        .shape = &cache->shape,
        .states = cache->states->k,
        .table = states->block_tables + seq * states->max_blocks,
        .tail = (float *)cache->tails->k + tail * cache->tails->k_dim,
        .row = row,
        .begin = begin,
        .end = begin + n,
    };
}

float *ln_state_at(const ln_state_view *view, size_t position) {
    int32_t block = view->table[position / LN_STATE_CHUNK];
    return block < 0 ? NULL : view->states + (size_t)block * ln_state_block_floats(view->shape);
}

float *ln_state_target(const ln_state_view *view, size_t position) {
    float *state = ln_state_at(view, position);
    while (state == NULL)
        state = ln_state_at(view, position += LN_STATE_CHUNK);
    return state;
}

const float *ln_state_conv_input(const ln_op_conv *p, const ln_state_view *view, int64_t position) {
    const ln_state_shape *s = view->shape;
    if (position < 0)
        return NULL;
    size_t at = (size_t)position, chunk = view->begin - view->begin % LN_STATE_CHUNK;
    if (at >= view->begin)
        return p->x + (view->row + at - view->begin) * ln_conv_channels(p);
    if (at >= chunk)
        return view->tail + ln_tail_conv(s) + at % s->n_conv_rows * s->conv_dim + p->begin;
    const float *rows = ln_state_at(view, chunk) + ln_state_matrix_floats(s) + p->begin;
    return rows + (at + ln_state_conv_rows(s) - chunk) * s->conv_dim;
}

void ln_state_keep_inputs(const ln_op_conv *p, const ln_state_view *view, size_t first,
                          size_t end) {
    const ln_state_shape *s = view->shape;
    size_t n_rows = ln_state_conv_rows(s), n_bytes = (end - first) * sizeof(float);
    size_t boundary = view->begin - view->begin % LN_STATE_CHUNK + LN_STATE_CHUNK;
    for (; boundary <= view->end; boundary += LN_STATE_CHUNK) {
        float *state = ln_state_at(view, boundary);
        for (size_t i = 0; i < n_rows && state != NULL; i++) {
            const float *x =
                ln_state_conv_input(p, view, (int64_t)(boundary + i) - (int64_t)n_rows);
            float *row = state + ln_state_matrix_floats(s) + i * s->conv_dim + p->begin;
            memcpy(row + first, x + first, n_bytes);
        }
    }
    size_t n_kept = view->end - view->begin;
    n_kept = n_kept < s->n_conv_rows ? n_kept : s->n_conv_rows;
    for (size_t at = view->end - n_kept; at < view->end; at++) {
        const float *x = p->x + (view->row + at - view->begin) * ln_conv_channels(p);
        float *row = view->tail + ln_tail_conv(s) + at % s->n_conv_rows * s->conv_dim + p->begin;
        memcpy(row + first, x + first, n_bytes);
    }
}
