/* What the tests of recurrent layers share: layers of random numbers, and what the plain recurrence
 * gives for them. */
#ifndef LN_TESTS_OPS_RECURRENCE_H
#define LN_TESTS_OPS_RECURRENCE_H

#include "backend/op.h"

/* Two sequences, and behind their rows those of drafts that are refused. */
enum { N_SEQS = 2, FIRST = 200, SECOND = 131, N_ROWS = FIRST + SECOND, N_DRAFTS = 5 };

typedef struct recurrent_case {
    const char *name;
    size_t n_heads, n_k_heads, k_dim, v_dim, conv_dim, n_taps;
    size_t
        n_first; /* channels of a convolution by itself, before one of the others; 0: one has all */
    size_t n_groups; /* of channels that share what tokens add to taps; 0: they add nothing */
    ln_decay decay;
    bool is_delta, doubles_b, scales_v, has_skip, is_unit, is_tiled; /* of the scan */
    bool has_bias, has_silu;                                         /* of the convolution */
    bool has_no_drafts;
    float q_scale;
    float rate; /* of decay, about */
} recurrent_case;

#define RECURRENT_BOUND 5.0f /* of bounded decays */

/* Rows of seq begin at row seq * FIRST. */
typedef struct recurrent_data {
    float *x;     /* [N_ROWS + N_DRAFTS][conv_dim] */
    float *qkv;   /* [N_ROWS + N_DRAFTS][width]: q, k, v and what belongs to others */
    float *a, *b; /* [N_ROWS + N_DRAFTS][n_decays], [..][n_heads] */
    float *rate, *a_bias, *skip, *taps, *bias;
    float *dynamic; /* [N_ROWS + N_DRAFTS][n_groups * n_taps] */
    size_t width, n_decays, n_rates, n_skips;
} recurrent_data;

static inline bool is_selective(const recurrent_case *c) {
    return c->decay == LN_DECAY_SELECTIVE || c->decay == LN_DECAY_LRU;
}

static inline bool has_channels(const recurrent_case *c) {
    return c->decay == LN_DECAY_CHANNEL || c->decay == LN_DECAY_BOUNDED;
}

recurrent_data make_recurrent_data(const recurrent_case *c);
void free_recurrent_data(recurrent_data *d);

/* The recurrence token by token over both sequences: out [N_ROWS][n_heads * v_dim], and states
 * [N_SEQS][FIRST / 64][n_heads * k_dim * v_dim] behind each chunk. All results are rounded to
 * float32 if `is_single`. */
void run_recurrence(const recurrent_case *c, const recurrent_data *d, bool is_single, double *out,
                    double *states);

/* The convolution over both sequences: out [N_ROWS][conv_dim]. */
void run_convolution(const recurrent_case *c, const recurrent_data *d, double *out);

#endif
