/* What value ids have to be, found by comparing the bytes that operations read and write: the
 * oracle of backend/values.h. */
#ifndef LN_TESTS_VALUE_ORACLE_H
#define LN_TESTS_VALUE_ORACLE_H

#include <stdio.h>
#include <stdlib.h>

#include "backend/values.h"
#include "base/error.h"

/* Bytes from the first to the last that are read or written; at NULL: none. */
typedef struct oracle_span {
    const char *at;
    size_t bytes;
} oracle_span;

typedef struct oracle_spans {
    oracle_span in[LN_OP_MAX_IN], out[LN_OP_MAX_OUT];
} oracle_spans;

static inline oracle_span oracle_rows(const void *at, size_t n_rows, size_t stride, size_t width) {
    bool is_there = at != NULL && n_rows > 0;
    return (oracle_span){is_there ? at : NULL,
                         is_there ? ((n_rows - 1) * stride + width) * sizeof(float) : 0};
}

static inline oracle_span oracle_cache(const ln_kv_layer *kv) {
    return (oracle_span){(const char *)kv->k, 1};
}

static inline oracle_spans oracle_linear_spans(const ln_op_linear *p) {
    size_t per_x = p->rows_per_x > 0 ? p->rows_per_x : 1;
    size_t n_in = p->weight->n_cols, n_out = p->weight->n_rows;
    size_t stride = p->out_stride > 0 ? p->out_stride : n_out;
    oracle_span out = oracle_rows(p->out, p->n_rows, stride, stride); /* with what lies between */
    oracle_span none = {NULL, 0};
    return (oracle_spans){.in = {oracle_rows(p->x, (p->n_rows + per_x - 1) / per_x,
                                             p->x_stride > 0 ? p->x_stride : n_in, n_in),
                                 oracle_rows(p->residual, p->n_rows, n_out, n_out),
                                 oracle_rows(p->groups.order, p->n_rows, 1, 1),
                                 oracle_rows(p->groups.starts, p->groups.n_groups + 1, 1, 1),
                                 stride > n_out ? out : none},
                          .out = {out}};
}

static inline oracle_span oracle_gates(const ln_op_pointwise *p) {
    size_t stride = p->gate_stride > 0 ? p->gate_stride : p->n_gates;
    return oracle_rows(p->one_gate ? NULL : p->gate, p->n_rows, stride, stride);
}

static inline oracle_spans oracle_recurrent_spans(const ln_op *op, size_t n_tokens) {
    switch (op->kind) {
    case LN_OP_CONV: {
        const ln_op_conv *p = &op->conv;
        size_t dim = ln_conv_channels(p);
        size_t n_own = p->n_groups * p->cache->shape.n_taps;
        return (oracle_spans){.in = {oracle_rows(p->x, n_tokens, dim, dim),
                                     oracle_rows(p->dynamic, n_tokens, n_own, n_own)},
                              .out = {oracle_rows(p->out, n_tokens, dim, dim)}};
    }
    case LN_OP_SCAN: {
        const ln_op_scan *p = &op->scan;
        const ln_state_shape *s = &p->cache->shape;
        size_t k = s->n_k_heads * s->k_dim, v = s->n_heads * s->v_dim, width = 2 * k + v;
        const float *x = p->q < p->v ? p->q : p->v;
        if (s->selective)
            return (oracle_spans){.in = {oracle_rows(p->v, n_tokens, v, v),
                                         oracle_rows(p->q, n_tokens, k, k),
                                         oracle_rows(p->k, n_tokens, k, k),
                                         oracle_rows(p->a, n_tokens, s->n_decays, s->n_decays)},
                                  .out = {oracle_rows(p->out, n_tokens, v, v)}};
        return (oracle_spans){.in = {oracle_rows(x, n_tokens, width, width),
                                     {NULL, 0},
                                     {NULL, 0},
                                     oracle_rows(p->a, n_tokens, s->n_decays, s->n_decays),
                                     oracle_rows(p->b, n_tokens, s->n_heads, s->n_heads)},
                              .out = {oracle_rows(p->out, n_tokens, v, v)}};
    }
    case LN_OP_GATED_NORM: {
        const ln_op_gated_norm *p = &op->gated_norm;
        return (oracle_spans){.in = {oracle_rows(p->x, p->n_rows, p->dim, p->dim),
                                     oracle_rows(p->gate, p->n_rows, p->dim, p->dim)},
                              .out = {oracle_rows(p->out, p->n_rows, p->dim, p->dim)}};
    }
    case LN_OP_ROWWISE: {
        const ln_op_rowwise *p = &op->rowwise;
        size_t n = p->n_rows, n_all = p->n_streams + 1, squared = p->n_streams * p->n_streams;
        bool mixes = p->function == LN_ROWWISE_MIX;
        size_t n_coefs = p->function == LN_ROWWISE_PREDICT ? n_all * n_all
                         : mixes                           ? squared
                                                           : n_all;
        size_t per_y = p->function == LN_ROWWISE_MATCH ? p->n_streams : 1;
        size_t of_x = p->function == LN_ROWWISE_PRODUCT_KEYS ? 2 * p->n_keys : p->dim;
        size_t of_y = mixes ? p->n_streams : p->dim;
        size_t of_out = p->function == LN_ROWWISE_SINKHORN      ? squared
                        : p->function == LN_ROWWISE_SIGNED_ROOT ? 1
                                                                : p->dim;
        oracle_span streams = oracle_rows(p->streams, n * p->n_streams, p->dim, p->dim);
        oracle_span written = streams;
        if (p->function == LN_ROWWISE_STREAM_ATTENTION)
            written = (oracle_span){NULL, 0};
        return (oracle_spans){.in = {oracle_rows(p->x, n, of_x, of_x),
                                     oracle_rows(p->y, n / per_y, of_y, of_y),
                                     oracle_rows(p->coefs, n, n_coefs, n_coefs), streams},
                              .out = {oracle_rows(p->out, n, of_out, of_out), written}};
    }
    default: return (oracle_spans){.in = {{NULL, 0}}};
    }
}

static inline oracle_spans oracle_other_spans(const ln_op *op, size_t n_tokens) {
    switch (op->kind) {
    case LN_OP_ROUTE: {
        const ln_op_route *p = &op->route;
        size_t n_scores = p->n_experts + p->n_shared;
        return (oracle_spans){.in = {oracle_rows(p->logits, n_tokens, n_scores, n_scores)},
                              .out = {oracle_rows(p->experts, n_tokens, p->n_used, p->n_used),
                                      oracle_rows(p->weights, n_tokens, p->n_used, p->n_used),
                                      oracle_rows(p->n_shared > 0 ? p->shared_weights : NULL,
                                                  n_tokens, p->n_shared, p->n_shared)}};
    }
    case LN_OP_GROUP: {
        const ln_op_group *p = &op->group;
        return (oracle_spans){.in = {oracle_rows(p->experts, p->n_rows, 1, 1)},
                              .out = {oracle_rows(p->order, p->n_rows, 1, 1),
                                      oracle_rows(p->starts, p->n_experts + 1, 1, 1)}};
    }
    case LN_OP_COMBINE: {
        const ln_op_combine *p = &op->combine;
        return (oracle_spans){.in = {oracle_rows(p->x, n_tokens * p->n_used, p->dim, p->dim),
                                     oracle_rows(p->weights, n_tokens, p->n_used, p->n_used),
                                     oracle_rows(p->shared, n_tokens, p->dim, p->dim),
                                     oracle_rows(p->shared_gate, n_tokens, 1, 1),
                                     oracle_rows(p->residual, n_tokens, p->dim, p->dim),
                                     oracle_rows(p->experts, n_tokens, p->n_used, p->n_used)},
                              .out = {oracle_rows(p->out, n_tokens, p->dim, p->dim)}};
    }
    case LN_OP_POINTWISE: {
        const ln_op_pointwise *p = &op->pointwise;
        size_t per_x = p->rows_per_x > 0 ? p->rows_per_x : 1;
        return (oracle_spans){
            .in = {oracle_rows(p->x, p->n_rows / per_x, p->dim, p->dim), oracle_gates(p)},
            .out = {oracle_rows(p->out, p->n_rows, p->dim, p->dim)}};
    }
    case LN_OP_GATHER: {
        const ln_op_gather *p = &op->gather;
        return (oracle_spans){.in = {oracle_rows(p->x, p->n_rows, p->dim, p->dim)},
                              .out = {oracle_rows(p->out, p->n_rows, p->dim, p->dim)}};
    }
    case LN_OP_SAMPLE: {
        const ln_op_sample *p = &op->sample;
        oracle_span logits = oracle_rows(p->logits, p->n_rows, p->n_vocab, p->n_vocab);
        return (oracle_spans){.in = {logits},
                              .out = {logits,
                                      oracle_rows(p->ids, p->n_rows, 1, 1),
                                      oracle_rows(p->best, p->n_rows, 1, 1),
                                      {(const char *)p->reports, 1}}};
    }
    case LN_OP_ALL_REDUCE: {
        const ln_op_all_reduce *p = &op->all_reduce;
        return (oracle_spans){.in = {oracle_rows(p->x, p->n_rows, p->dim, p->dim),
                                     oracle_rows(p->residual, p->n_rows, p->dim, p->dim)},
                              .out = {oracle_rows(p->out, p->n_rows, p->dim, p->dim)}};
    }
    default: return oracle_recurrent_spans(op, n_tokens);
    }
}

static inline oracle_spans oracle_attention_spans(const ln_op_attention *p, size_t n) {
    size_t width = p->n_heads * p->kv->k_dim, out_width = p->n_heads * p->kv->v_dim;
    size_t n_relative = p->n_heads * p->relative_logits.dim;
    oracle_span none = {NULL, 0};
    return (oracle_spans){
        .in = {oracle_rows(p->q, n, width, width), oracle_cache(p->kv),
               oracle_rows(p->indices, n, p->top_k, p->top_k),
               p->entries != NULL ? oracle_cache(p->entries) : none,
               oracle_rows(p->relative_logits.queries, n, n_relative, n_relative),
               oracle_rows(p->own_sinks ? p->sinks : NULL, n, p->n_heads, p->n_heads)},
        .out = {oracle_rows(p->out, n, out_width, out_width)}};
}

static inline oracle_spans oracle_embed_spans(const ln_op_embed *p, size_t n) {
    bool hashes = p->ngrams != NULL;
    size_t dim =
        hashes ? ln_ngrams_n_heads(p->ngrams) * p->ngrams->parts[0].n_cols : p->table->n_cols;
    size_t n_before = hashes ? p->ngrams->n_tokens - 1 : 0;
    return (oracle_spans){.in = {oracle_rows(p->before, n, n_before, n_before)},
                          .out = {oracle_rows(p->out, n, dim, dim)}};
}

static inline oracle_spans oracle_spans_of(const ln_op *op) {
    size_t n = op->batch != NULL ? op->batch->n_tokens : 0;
    switch (op->kind) {
    case LN_OP_EMBED: return oracle_embed_spans(&op->embed, n);
    case LN_OP_NORM: {
        const ln_op_norm *p = &op->norm;
        size_t dim = p->norm->dim, out_dim = p->out_stride > 0 ? p->out_stride : dim;
        oracle_span none = {NULL, 0}, out = oracle_rows(p->out, p->n_rows, out_dim, out_dim);
        return (oracle_spans){.in = {oracle_rows(p->x, p->rows != NULL ? n : p->n_rows, dim, dim),
                                     oracle_rows(p->residual, p->n_rows, dim, dim), none, none,
                                     out_dim > dim ? out : none},
                              .out = {out}};
    }
    case LN_OP_LINEAR: return oracle_linear_spans(&op->linear);
    case LN_OP_QKV: {
        const ln_op_qkv *p = &op->qkv;
        size_t q_cols = p->n_heads * p->kv->k_dim, k_cols = p->kv->n_heads * p->kv->k_dim;
        size_t v_cols = p->kv->n_heads * p->kv->v_dim;
        oracle_span none = {NULL, 0}, q = oracle_rows(p->q, n, q_cols, q_cols);
        oracle_span k = oracle_rows(p->k, n, k_cols, k_cols);
        return (oracle_spans){.in = {q, k, oracle_rows(p->v, n, v_cols, v_cols)},
                              .out = {q, k, p->k != NULL ? oracle_cache(p->kv) : none}};
    }
    case LN_OP_LATENT: {
        const ln_op_latent *p = &op->latent;
        size_t n_rope = p->rope->n_dims, width = p->n_heads * (p->n_plain + n_rope);
        size_t out_width = p->n_heads * p->kv->k_dim;
        return (oracle_spans){
            .in = {oracle_rows(p->q, n, width, width),
                   oracle_rows(p->latent, n, p->kv->k_dim, p->kv->k_dim)},
            .out = {oracle_rows(p->out, n, out_width, out_width), {NULL, 0}, oracle_cache(p->kv)}};
    }
    case LN_OP_COMPRESS: {
        const ln_op_compress *p = &op->compress;
        return (oracle_spans){.in = {{NULL, 0}, oracle_cache(p->rows)},
                              .out = {{NULL, 0}, {NULL, 0}, oracle_cache(p->entries)}};
    }
    case LN_OP_INDEX: {
        const ln_op_index *p = &op->index;
        size_t width = p->n_heads * p->kv->k_dim;
        size_t chosen = ln_index_width(p->top_k, p->in_tokens ? p->kv->entry_tokens : 0);
        return (oracle_spans){.in = {oracle_rows(p->q, n, width, width), oracle_cache(p->kv),
                                     oracle_rows(p->weights, n, p->n_heads, p->n_heads)},
                              .out = {oracle_rows(p->positions, n, chosen, chosen)}};
    }
    case LN_OP_ATTENTION: return oracle_attention_spans(&op->attention, n);
    default: return oracle_other_spans(op, n);
    }
}

/* A span that was written, or that was found to hold something at first. */
typedef struct oracle_value {
    oracle_span span;
    ln_value id;
} oracle_value;

static inline bool oracle_meets(oracle_span a, oracle_span b) {
    return a.at < b.at + b.bytes && b.at < a.at + a.bytes;
}

static inline bool oracle_holds(oracle_span a, oracle_span b) {
    return a.at <= b.at && b.at + b.bytes <= a.at + a.bytes;
}

/* The values of a list up to an operation, the newest last. */
typedef struct oracle_state {
    oracle_value *values;
    size_t n;
} oracle_state;

static inline bool oracle_has(const oracle_state *state, ln_value id) {
    for (size_t i = 0; i < state->n; i++)
        if (state->values[i].id == id)
            return true;
    return false;
}

/* What is wrong with an id that is read, or NULL. */
static inline const char *oracle_read(oracle_state *state, oracle_span span, ln_value id,
                                      bool is_cache) {
    size_t k = state->n;
    while (k > 0 && !(span.at != NULL && oracle_meets(state->values[k - 1].span, span)))
        k--;
    if (span.at == NULL || (is_cache && k == 0)) /* the cache of earlier steps */
        return id != 0 ? "reads what is not there" : NULL;
    if (k > 0) {
        const oracle_value *newest = &state->values[k - 1];
        bool is_right = newest->id == id && oracle_holds(newest->span, span);
        return is_right ? NULL : "reads another value";
    }
    if (id == 0 || oracle_has(state, id))
        return "reads nothing, or a value that lies elsewhere";
    state->values[state->n++] = (oracle_value){span, id};
    return NULL;
}

static inline const char *oracle_write(oracle_state *state, oracle_span span, ln_value id) {
    if ((span.at == NULL) != (id == 0))
        return "writes nothing, or what is not there";
    if (id == 0)
        return NULL;
    if (oracle_has(state, id))
        return "writes a value twice";
    state->values[state->n++] = (oracle_value){span, id};
    return NULL;
}

/* Whether an id of the list is wrong, and in which way, to `problem`. */
static inline bool oracle_finds_wrong(const ln_op *ops, size_t n_ops, char problem[128]) {
    enum { PER_OP = LN_OP_MAX_IN + LN_OP_MAX_OUT };
    oracle_state state = {calloc(n_ops * PER_OP + 1, sizeof(oracle_value)), 0};
    LN_BUG_ON(state.values == NULL);
    const char *what = NULL;
    for (size_t i = 0; i < n_ops && what == NULL; i++) {
        const ln_op *op = &ops[i];
        oracle_spans spans = oracle_spans_of(op);
        for (size_t slot = 0; slot < PER_OP && what == NULL; slot++) {
            size_t out = slot - LN_OP_MAX_IN;
            bool is_cache = op->kind == LN_OP_ATTENTION && slot == LN_IN_CACHE;
            what = slot < LN_OP_MAX_IN ? oracle_read(&state, spans.in[slot], op->in[slot], is_cache)
                                       : oracle_write(&state, spans.out[out], op->out[out]);
            if (what != NULL)
                snprintf(problem, 128, "operation %zu of %zu, kind %d, place %zu: %s", i, n_ops,
                         (int)op->kind, slot, what);
        }
    }
    free(state.values);
    return what != NULL;
}

#endif
