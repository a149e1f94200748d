/* The causal convolution of recurrent layers, and their gated norm.
 *
 * Convolution: an item is CONV_CHANNELS channels of a sequence, whose weights stay in the cache
 * while its tokens pass. Gated norm: a worker takes a range of the rows' groups. Bytes moved: each
 * row read and written once. */
#ifndef LN_BACKEND_CPU_SIMD_CONV_H
#define LN_BACKEND_CPU_SIMD_CONV_H

#include "backend/cpu/scalar/state_view.h"
#include "backend/cpu/simd/math.h"
#include "backend/cpu/simd/norm.h"

enum { CONV_CHANNELS = 512, CONV_TAPS = 4, CONV_AHEAD = 2 };

/* Taps begin .. begin + n - 1 of channels first .. end - 1 of a token, x[j] being the inputs of
 * these taps (NULL: zero): out = act(out + ..), or from the bias on. */
LN_INLINE void convolve_taps(const ln_op_conv *p, size_t begin, size_t n, const float *const *x,
                             size_t first, size_t end, float *out) {
    size_t dim = ln_conv_channels(p);
    bool is_last = begin + n == p->cache->shape.n_taps;
    const float *weight = p->weight + begin * dim;
    for (size_t i = first; i < end; i += LANES) {
        vf sum = vf_set(0.0f);
        if (begin > 0)
            sum = load_part(out + i, end - i);
        else if (p->bias != NULL)
            sum = load_part(p->bias + i, end - i);
        for (size_t j = 0; j < n; j++)
            if (x[j] != NULL)
                sum = vf_fma(load_part(weight + j * dim + i, end - i), load_part(x[j] + i, end - i),
                             sum);
        store_part(out + i, is_last && p->silu ? vf_swish(sum, 1.0f) : sum, end - i);
    }
}

/* Channels first .. end - 1 of a token's inputs and outputs, before their turn: tokens lie too far
 * apart for the processor to fetch them by itself. */
static void fetch_channels(const ln_op_conv *p, size_t row, size_t first, size_t end) {
    size_t at = row * ln_conv_channels(p);
    for (size_t i = at + first; i < at + end; i += LANES) {
        __builtin_prefetch(p->x + i, 0, 3);
        __builtin_prefetch(p->out + i, 1, 3);
    }
}

static void convolve_channels(const ln_op_conv *p, const ln_state_view *view, size_t first,
                              size_t end) {
    size_t dim = ln_conv_channels(p), n_taps = view->shape->n_taps;
    for (size_t at = view->begin; at < view->end; at++) {
        size_t row = view->row + at - view->begin;
        float *out = p->out + row * dim;
        if (at + CONV_AHEAD < view->end)
            fetch_channels(p, row + CONV_AHEAD, first, end);
        for (size_t begin = 0, n; begin < n_taps; begin += n) {
            const float *x[CONV_TAPS];
            n = n_taps - begin < CONV_TAPS ? n_taps - begin : CONV_TAPS;
            for (size_t j = 0; j < n; j++)
                x[j] =
                    ln_state_conv_input(p, view, (int64_t)(at + begin + j + 1) - (int64_t)n_taps);
            if (n == CONV_TAPS)
                convolve_taps(p, begin, CONV_TAPS, x, first, end, out);
            else
                convolve_taps(p, begin, n, x, first, end, out);
        }
    }
    ln_state_keep_inputs(p, view, first, end);
}

static void conv(const ln_op *op, const ln_cpu_worker *worker) {
    const ln_op_conv *p = &op->conv;
    size_t dim = ln_conv_channels(p), item;
    if (p->dynamic != NULL) {
        ln_scalar_conv(op, worker);
        return;
    }
    size_t n_parts = (dim + CONV_CHANNELS - 1) / CONV_CHANNELS;
    while (ln_cpu_take(worker, op->batch->n_seqs * n_parts, &item)) {
        ln_state_view view = ln_state_view_of(op, p->cache, item / n_parts);
        size_t first = item % n_parts * CONV_CHANNELS, end = first + CONV_CHANNELS;
        convolve_channels(p, &view, first, end < dim ? end : dim);
    }
}

/* out = x act(gate) of n elements; may be x. */
static void gate_row(const ln_op_gated_norm *p, const float *x, const float *gate, size_t n,
                     float *out) {
    vf one = vf_set(1.0f);
    for (size_t i = 0; i < n; i += LANES) {
        vf g = load_part(gate + i, n - i);
        if (p->sigmoid)
            g = vf_div(one, vf_add(one, vf_exp(vf_sub(vf_set(0.0f), g))));
        else
            g = vf_swish(g, 1.0f);
        store_part(out + i, vf_mul(load_part(x + i, n - i), g), n - i);
    }
}

static void gated_norm(const ln_op *op, const ln_cpu_worker *worker) {
    const ln_op_gated_norm *p = &op->gated_norm;
    size_t n = p->dim / p->n_groups, begin, end;
    ln_cpu_share(worker, p->n_rows * p->n_groups, &begin, &end);
    for (size_t item = begin; item < end; item++) {
        const float *x = p->x + item * n, *gate = p->gate + item * n;
        float *out = p->out + item * n;
        ln_norm norm = *p->norm;
        if (norm.weight != NULL && norm.dim == p->dim)
            norm.weight += item % p->n_groups * n;
        norm.dim = n;
        if (norm.kind == LN_NORM_NONE)
            norm.weight = norm.bias = NULL;
        if (p->gate_first) {
            gate_row(p, x, gate, n, out);
            norm_row(&norm, out, NULL, 1.0f, out);
        } else {
            norm_row(&norm, x, NULL, 1.0f, out);
            gate_row(p, out, gate, n, out);
        }
    }
}

#endif
