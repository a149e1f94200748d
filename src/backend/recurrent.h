/* Caches of recurrent layers: causal convolutions, and linear attention whose state is a matrix per
 * head (gated delta rule, KDA, SSD, lightning attention).
 *
 * Positions are cut into chunks at absolute multiples of LN_STATE_CHUNK. A state block holds what a
 * chunk begins with, and is never changed once its step has run. A tail block holds what the
 * chunk's tokens so far have left. So a token's result depends on one state and on the chunk's
 * earlier tokens, summed in one order, whether they come in one step or in many; a refused draft
 * leaves nothing behind, and sequences share states. */
#ifndef LN_BACKEND_RECURRENT_H
#define LN_BACKEND_RECURRENT_H

#include <stdbool.h>
#include <stddef.h>

enum { LN_STATE_CHUNK = 64 };

/* Sizes of a layer's blocks. S is [n_heads][k_dim][v_dim] floats.
 *
 * State block: S; then the inputs of the convolution at the n_taps - 1 positions before the chunk,
 * oldest first, [n_taps - 1][conv_dim].
 *
 * Tail block: the chunk's C, sums of the logarithms of decay from the chunk's beginning up to and
 * with each token, [n_heads][n_rows][decays of a head] doubles; its keys K [n_k_heads][n_rows]
 * [k_dim] and updates U [n_heads][n_rows][v_dim], floats, so that what a head reads lies together;
 * then inputs of the convolution [n_conv_rows][conv_dim]. All are rings: position p has row
 * p % n_rows, or p % n_conv_rows. They hold more rows than are needed, by the tokens that may be
 * drafted, so that drafts write over nothing.
 *
 * Tail block of a selective scan, whose head is all of a row, and whose keys are those of n_k_heads
 * parts of its columns (n_heads is 1): a state is smaller than rows of a
 * chunk, so it keeps running states. First, of even and of odd chunks, how many of the chunk's
 * tokens the running state has seen ([2]; 0: it is the one where the chunk begins); these states
 * [2][k_dim][v_dim]; and of the tokens since then, which may be drafts, step sizes [n_rows][v_dim],
 * K [n_rows][n_k_heads][k_dim] and U [n_rows][v_dim]; then inputs of the convolution as above.
 * n_rows is twice the tokens that may be drafted; with none, one running state is used. */
typedef struct ln_state_shape {
    size_t n_heads; /* 0: a convolution alone */
    size_t n_k_heads, k_dim, v_dim;
    /* n_heads; n_heads * k_dim when every channel decays by itself; or v_dim, if selective */
    size_t n_decays;
    bool selective;
    size_t conv_dim, n_taps; /* n_taps 0: no convolution */
    size_t n_rows, n_conv_rows;
} ln_state_shape;

/* Floats of a token's keys, and columns that share a key, of a selective scan. */
static inline size_t ln_selective_keys(const ln_state_shape *s) {
    return s->n_k_heads * s->k_dim;
}

static inline size_t ln_selective_width(const ln_state_shape *s) {
    return s->v_dim / s->n_k_heads;
}

static inline size_t ln_state_conv_rows(const ln_state_shape *s) {
    return s->n_taps > 0 ? s->n_taps - 1 : 0;
}

/* Floats before a state block's convolution inputs. */
static inline size_t ln_state_matrix_floats(const ln_state_shape *s) {
    return s->n_heads * s->k_dim * s->v_dim;
}

static inline size_t ln_state_block_floats(const ln_state_shape *s) {
    return ln_state_matrix_floats(s) + ln_state_conv_rows(s) * s->conv_dim;
}

/* Floats before the parts of a tail block. */
static inline size_t ln_tail_running(const ln_state_shape *s, size_t slot) {
    return 2 + slot * ln_state_matrix_floats(s);
}

static inline size_t ln_tail_steps(const ln_state_shape *s) {
    return ln_tail_running(s, s->n_rows > 0 ? 2 : 1);
}

static inline size_t ln_tail_keys(const ln_state_shape *s) {
    if (s->selective)
        return ln_tail_steps(s) + s->n_rows * s->v_dim;
    return s->n_heads > 0 ? 2 * s->n_rows * s->n_decays : 0;
}

static inline size_t ln_tail_updates(const ln_state_shape *s) {
    return ln_tail_keys(s) + (s->n_heads > 0 ? s->n_rows * s->n_k_heads * s->k_dim : 0);
}

static inline size_t ln_tail_conv(const ln_state_shape *s) {
    return ln_tail_updates(s) + (s->n_heads > 0 ? s->n_rows * s->n_heads * s->v_dim : 0);
}

/* Filled up to where doubles may begin. */
static inline size_t ln_tail_block_floats(const ln_state_shape *s) {
    return (ln_tail_conv(s) + (s->n_taps > 0 ? s->n_conv_rows * s->conv_dim : 0) + 1) / 2 * 2;
}

/* Where a head's row for a position begins in its part of the tail: floats, or doubles of C. */
static inline size_t ln_tail_row(const ln_state_shape *s, size_t head, size_t position,
                                 size_t width) {
    return (head * s->n_rows + position % s->n_rows) * width;
}

#endif
