/* Recording operations, as the units do that record a step: what they record into, and the lines
 * that all of them write. */
#ifndef LN_MODEL_RECORDER_H
#define LN_MODEL_RECORDER_H

#include <math.h>

#include "base/error.h"
#include "model/activations.h"
#include "model/weights.h"

/* What a step records into, and from what. */
typedef struct recorder {
    const ln_spec *spec;
    const ln_weights *weights;
    const ln_activations *a;
    const ln_kv_layer *kv;
    const ln_batch *batch;
    int32_t layer;
    bool encoder;
    const ln_layer_spec *layer_spec; /* the current layer's */
    float *apart; /* what a block gives goes here, not to the residual stream; or NULL */
    const float *key_input, *value_input; /* NULL: what queries read */
    bool restarts; /* what a block gives becomes the residual stream, of which nothing stays */
    const ln_kv_layer *layer_kv; /* the current layer's; of all, in an encoder */
    /* whose A the last LN_OP_LORA_SHRINK multiplied, or NULL */
    const ln_weight *shrunk[LN_MAX_LORA_WEIGHTS];
    ln_batch wanted; /* of the rows that go on behind the last attention, where not all do */
    ln_activations of_wanted;
    ln_op *ops; /* [max_ops] */
    size_t n_ops, max_ops;
} recorder;

static inline ln_op *push(recorder *r, ln_op_kind kind) {
    LN_BUG_ON(r->n_ops >= r->max_ops);
    ln_op *op = &r->ops[r->n_ops++];
    *op = (ln_op){.kind = kind, .layer = r->layer, .batch = r->batch};
    return op;
}

/* out = residual + residual_scale * norm(x), without residual norm(x). Gives what was recorded, so
 * that a caller can change it, as linears below do. */
static inline ln_op_norm *norm(recorder *r, const ln_norm *weights, const float *x,
                               const float *residual, float *out) {
    ln_op_norm *p = &push(r, LN_OP_NORM)->norm;
    *p = (ln_op_norm){
        .norm = weights,
        .n_rows = r->batch->n_tokens,
        .x = x,
        .residual = residual,
        .scale = r->spec->residual_scale,
        .out = out,
    };
    return p;
}

/* norm(x), from column `begin` on of rows of `stride` */
static inline ln_op_norm *norm_to_columns(recorder *r, const ln_norm *weights, const float *x,
                                          float *out, size_t stride, size_t begin) {
    ln_op_norm *p = norm(r, weights, x, NULL, out);
    p->out_stride = stride;
    p->out_begin = begin;
    return p;
}

/* How adapters of the rows change a weight. */
typedef struct lora_parts {
    bool low, multiplies; /* by matrices, by vectors */
} lora_parts;

static inline lora_parts find_lora(const ln_adapter_rows *rows, const ln_weight *weight) {
    lora_parts by = {false, false};
    for (size_t i = 0; weight->adapters != NULL && i < rows->n_runs; i++) {
        const ln_adapter_target *target = &weight->adapters[rows->runs[i].slot];
        by.low |= target->rank > 0;
        by.multiplies |= target->multiply != NULL || target->multiply_after != NULL;
    }
    return by;
}

/* What adapters multiply x with first, for those of n weights (one per head, with n_heads) that
 * they change; linears of these follow. */
static inline void lora_shrink_rows(recorder *r, const ln_adapter_rows *rows, ln_op_lora_shrink op,
                                    size_t n, const ln_weight *const *weights) {
    op.rows = rows;
    op.low_stride = r->a->low_stride;
    for (size_t i = 0; i < LN_MAX_LORA_WEIGHTS; i++)
        r->shrunk[i] = NULL;
    for (size_t i = 0; i < n; i++) {
        if (!find_lora(rows, weights[i]).low)
            continue;
        r->shrunk[op.n_weights] = weights[i];
        op.weights[op.n_weights] = weights[i];
        op.low[op.n_weights] = r->a->low[op.n_weights];
        op.n_weights++;
    }
    if (op.n_weights > 0)
        push(r, LN_OP_LORA_SHRINK)->lora_shrink = op;
}

/* The same for linears of all tokens. */
static inline void lora_shrink(recorder *r, const float *x, size_t n,
                               const ln_weight *const *weights) {
    if (r->batch->adapters.n_runs > 0)
        lora_shrink_rows(r, &r->batch->adapters,
                         (ln_op_lora_shrink){.n_rows = r->batch->n_tokens, .x = x}, n, weights);
}

/* Where A x lies that the weight's adapters made, or NULL. */
static inline const float *lora_low(const recorder *r, const ln_weight *weight) {
    for (size_t i = 0; i < LN_MAX_LORA_WEIGHTS; i++)
        if (r->shrunk[i] == weight)
            return r->a->low[i];
    return NULL;
}

/* Lets a linear have the adapters of its rows. */
static inline void let_lora_expand(const recorder *r, const ln_adapter_rows *rows,
                                   ln_op_linear *p) {
    if (rows->n_runs == 0)
        return;
    lora_parts by = find_lora(rows, p->weight), gate = {false, false};
    if (p->gate != NULL)
        gate = find_lora(rows, p->gate);
    if (!by.low && !by.multiplies && !gate.low && !gate.multiplies)
        return;
    p->adapters = rows;
    p->multiplies = by.multiplies || gate.multiplies;
    p->low = lora_low(r, p->weight);
    p->gate_low = p->gate != NULL ? lora_low(r, p->gate) : NULL;
    p->low_stride = r->a->low_stride;
}

/* A linear, with the adapters of its rows. */
static inline ln_op_linear *push_linear(recorder *r, const ln_adapter_rows *rows, ln_op_linear op) {
    ln_op_linear *p = &push(r, LN_OP_LINEAR)->linear;
    *p = op;
    let_lora_expand(r, rows, p);
    return p;
}

/* Before a linear of all tokens, unless its adapters have been seen to. */
static inline void lora_shrink_one(recorder *r, const ln_weight *weight, const float *x) {
    if (r->batch->adapters.n_runs > 0 && lora_low(r, weight) == NULL)
        lora_shrink(r, x, 1, &weight);
}

/* out = residual + the sum of what the ranks have of rows of x; without residual in x itself */
static inline void all_reduce_rows(recorder *r, ln_collectives *ranks, size_t dim, float *x,
                                   const float *residual, float *out) {
    push(r, LN_OP_ALL_REDUCE)->all_reduce = (ln_op_all_reduce){.ranks = ranks,
                                                               .n_rows = r->batch->n_tokens,
                                                               .dim = dim,
                                                               .x = x,
                                                               .residual = residual,
                                                               .scratch = r->a->rank_scratch,
                                                               .out = out};
}

/* The same of the ranks of a stage. */
static inline void all_reduce(recorder *r, float *x, const float *residual, float *out) {
    all_reduce_rows(r, r->a->stage_ranks, r->spec->dim, x, residual, out);
}

/* x in the order of the weight's columns. */
static inline const float *gather(recorder *r, const ln_weight *weight, size_t n_rows,
                                  const float *x) {
    if (weight->columns == NULL)
        return x;
    push(r, LN_OP_GATHER)->gather = (ln_op_gather){.columns = weight->columns,
                                                   .n_rows = n_rows,
                                                   .dim = weight->n_cols,
                                                   .x = x,
                                                   .out = r->a->gathered};
    return r->a->gathered;
}

static inline ln_op_linear *linear(recorder *r, const ln_weight *weight, const float *x,
                                   float *out) {
    lora_shrink_one(r, weight, x);
    x = gather(r, weight, r->batch->n_tokens, x);
    return push_linear(
        r, &r->batch->adapters,
        (ln_op_linear){
            .weight = weight, .n_rows = r->batch->n_tokens, .x = x, .scale = 1.0f, .out = out});
}

/* One matrix per head: rows are (token, head). */
static inline ln_op_linear *linear_by_head(recorder *r, const ln_weight *weights, size_t n_heads,
                                           const float *x, size_t x_stride, float *out,
                                           size_t out_stride) {
    if (r->batch->adapters.n_runs > 0)
        lora_shrink_rows(r, &r->batch->adapters,
                         (ln_op_lora_shrink){.n_heads = n_heads,
                                             .x_stride = x_stride,
                                             .n_rows = r->batch->n_tokens * n_heads,
                                             .x = x},
                         1, &weights);
    return push_linear(r, &r->batch->adapters,
                       (ln_op_linear){
                           .weight = weights,
                           .groups = {.n_groups = n_heads},
                           .n_rows = r->batch->n_tokens * n_heads,
                           .x = x,
                           .x_stride = x_stride,
                           .scale = 1.0f,
                           .out = out,
                           .out_stride = out_stride,
                       });
}

/* What a softmax follows whose errors it magnifies: choices, and scores of magnifies_scores. */
static inline ln_op_linear *precise_linear(recorder *r, const ln_weight *weight, const float *x,
                                           float *out) {
    ln_op_linear *p = linear(r, weight, x, out);
    p->precise = true;
    return p;
}

/* Rows of x times a weight of `dim` elements, in place. */
static inline void scale_rows(recorder *r, size_t n_rows, size_t dim, float *x,
                              const float *weight) {
    push(r, LN_OP_POINTWISE)->pointwise = (ln_op_pointwise){.function = LN_POINTWISE_SCALE,
                                                            .n_rows = n_rows,
                                                            .dim = dim,
                                                            .n_gates = dim,
                                                            .x = x,
                                                            .gate = weight,
                                                            .one_gate = true,
                                                            .out = x};
}

/* Whether scores are more than q k over the root of a head's dimension. */
static inline bool magnifies_scores(const recorder *r, const ln_attention_spec *spec) {
    double rotated = spec->rope >= 0 ? (double)r->weights->ropes[spec->rope].magnitude : 1.0;
    double over_root = (double)spec->scale * sqrt((double)spec->k_dim);
    return over_root * rotated * rotated > 1.0 + 1e-3;
}

/* q or k. Where their product is divided as usual its errors grow no more than others: weights of
 * 16 bits meet one bf16 of x then. With FP8, whose own errors are larger, x keeps more. */
static inline void score_linear(recorder *r, const ln_attention_spec *spec, const ln_weight *weight,
                                const float *x, float *out) {
    bool is_plain = weight->dtype == LN_DTYPE_BF16 || weight->dtype == LN_DTYPE_F16 ||
                    weight->dtype == LN_DTYPE_F32;
    linear(r, weight, x, out)->precise = !is_plain || magnifies_scores(r, spec);
}

/* What a block adds its result to; NULL: nothing, since x is what it gives, of which the streams
 * take their parts, or which begins anew. */
static inline const float *stream_residual(const recorder *r) {
    return r->spec->hyper.n > 0 || r->restarts ? NULL : r->a->x;
}

/* What the ranks have of a block's output, in a->partial, becomes its sum in the residual stream.
 */
static inline void partial_to_stream(recorder *r, ln_collectives *ranks, const ln_norm *post_norm) {
    const ln_activations *a = r->a;
    size_t dim = r->spec->dim;
    bool has_norm = post_norm != NULL && post_norm->dim > 0;
    const float *residual = stream_residual(r);
    if (!has_norm && residual != NULL) {
        all_reduce_rows(r, ranks, dim, a->partial, a->x, a->x);
        return;
    }
    all_reduce_rows(r, ranks, dim, a->partial, NULL, a->partial);
    norm(r, has_norm ? post_norm : &r->weights->copy, a->partial, residual, a->x);
}

/* The residual stream takes a block's output: directly, or through the norm behind the block. The
 * output of a linear without bias is multiplied with `scale` where x is not yet. `ranks`: those
 * that have columns of the weight, or NULL. */
static inline void scaled_linear_to_stream(recorder *r, const ln_weight *weight,
                                           const ln_norm *post_norm, const float *x, float scale,
                                           ln_collectives *ranks) {
    bool has_norm = post_norm != NULL && post_norm->dim > 0;
    if (r->apart != NULL) {
        linear(r, weight, x, r->apart)->scale = scale;
        return;
    }
    if (ranks != NULL) {
        linear(r, weight, x, r->a->partial)->scale =
            has_norm ? scale : r->spec->residual_scale * scale;
        partial_to_stream(r, ranks, post_norm);
        return;
    }
    if (has_norm) {
        linear(r, weight, x, r->a->normed)->scale = scale;
        norm(r, post_norm, r->a->normed, stream_residual(r), r->a->x);
        return;
    }
    lora_shrink_one(r, weight, x);
    x = gather(r, weight, r->batch->n_tokens, x);
    push_linear(r, &r->batch->adapters,
                (ln_op_linear){.weight = weight,
                               .n_rows = r->batch->n_tokens,
                               .x = x,
                               .residual = stream_residual(r),
                               .scale = r->spec->residual_scale * scale,
                               .out = r->a->x});
}

/* The same through a norm whose input is scaled by element first, in `normed`. */
static inline void linear_to_scaled_stream(recorder *r, const ln_weight *weight,
                                           const float *post_scale, const ln_norm *post_norm,
                                           const float *x, ln_collectives *ranks) {
    const ln_activations *a = r->a;
    float *out = ranks != NULL ? a->partial : a->normed;
    linear(r, weight, x, out);
    if (ranks != NULL)
        all_reduce_rows(r, ranks, r->spec->dim, out, NULL, out);
    scale_rows(r, r->batch->n_tokens, r->spec->dim, out, post_scale);
    norm(r, post_norm, out, a->x, a->x);
}

static inline void linear_to_stream(recorder *r, const ln_weight *weight, const ln_norm *post_norm,
                                    const float *x) {
    scaled_linear_to_stream(r, weight, post_norm, x, 1.0f, NULL);
}

#endif
