#include "model/forward.h"

#include <math.h>

#include "base/layout.h"

/* Offsets of the activations in one arena. */
typedef struct activation_layout {
    ln_layout layout;
    size_t x, normed, ffn_normed, q, k, v, attended, hidden, logits;
} activation_layout;

static size_t max_size(size_t a, size_t b) {
    return a > b ? a : b;
}

static activation_layout lay_out(const ln_spec *spec, size_t max_tokens, size_t max_logits) {
    size_t q = 0, k = 0, v = 0, attended = 0, hidden = 0;
    for (size_t i = 0; i < spec->n_layers; i++) {
        const ln_attention_spec *attention = &spec->layers[i].attention;
        q = max_size(q, attention->n_heads * attention->k_dim);
        k = max_size(k, attention->n_kv_heads * attention->k_dim);
        v = max_size(v, attention->n_kv_heads * attention->v_dim);
        attended = max_size(attended, attention->n_heads * attention->v_dim);
        hidden = max_size(hidden, spec->layers[i].ffn.n_hidden);
    }
    activation_layout a = {0};
    size_t row = max_tokens * sizeof(float);
    a.x = ln_layout_add(&a.layout, spec->dim, row);
    a.normed = ln_layout_add(&a.layout, spec->dim, row);
    a.ffn_normed = ln_layout_add(&a.layout, spec->dim, row);
    a.q = ln_layout_add(&a.layout, q, row);
    a.k = ln_layout_add(&a.layout, k, row);
    a.v = ln_layout_add(&a.layout, v, row);
    a.attended = ln_layout_add(&a.layout, attended, row);
    a.hidden = ln_layout_add(&a.layout, hidden, row);
    a.logits = ln_layout_add(&a.layout, spec->n_vocab, max_logits * sizeof(float));
    return a;
}

ln_status ln_activations_plan(const ln_spec *spec, size_t max_tokens, size_t max_logits,
                              size_t *bytes, ln_error *err) {
    if (max_tokens > SIZE_MAX / 64 || max_logits > SIZE_MAX / 64)
        return ln_fail(err, LINNET_ERR_LIMIT, "%zu tokens in a step are too many", max_tokens);
    activation_layout a = lay_out(spec, max_tokens, max_logits);
    *bytes = a.layout.bytes;
    return ln_layout_check(&a.layout, "activations", err);
}

void ln_activations_bind(const ln_spec *spec, size_t max_tokens, size_t max_logits, void *memory,
                         ln_activations *activations) {
    activation_layout a = lay_out(spec, max_tokens, max_logits);
#define AT(offset) ((float *)(void *)((char *)memory + (offset)))
    *activations = (ln_activations){
        .x = AT(a.x),
        .normed = AT(a.normed),
        .ffn_normed = AT(a.ffn_normed),
        .q = AT(a.q),
        .k = AT(a.k),
        .v = AT(a.v),
        .attended = AT(a.attended),
        .hidden = AT(a.hidden),
        .logits = AT(a.logits),
    };
#undef AT
}

ln_step_limits ln_forward_limits(const ln_spec *spec, size_t max_tokens, size_t max_seqs,
                                 size_t max_ctx) {
    ln_step_limits limits = {
        .max_tokens = max_tokens, .max_seqs = max_seqs, .max_ctx = max_ctx, .max_width = spec->dim};
    for (size_t i = 0; i < spec->n_layers; i++) {
        const ln_attention_spec *attention = &spec->layers[i].attention;
        size_t head_dim = max_size(attention->k_dim, attention->v_dim);
        limits.max_head_dim = max_size(limits.max_head_dim, head_dim);
        limits.max_heads = max_size(limits.max_heads, attention->n_heads);
        limits.max_width = max_size(limits.max_width, attention->n_heads * head_dim);
        limits.max_width = max_size(limits.max_width, spec->layers[i].ffn.n_hidden);
    }
    return limits;
}

enum { OPS_PER_LAYER = 14, OPS_OUTSIDE = 4 };

size_t ln_forward_max_ops(const ln_spec *spec) {
    return spec->n_layers * OPS_PER_LAYER + OPS_OUTSIDE;
}

/* What a step records into, and from what. */
typedef struct recorder {
    const ln_spec *spec;
    const ln_weights *weights;
    const ln_activations *a;
    const ln_kv_layer *kv;
    const ln_batch *batch;
    int32_t layer;
    ln_op *ops;
    size_t n_ops;
} recorder;

static ln_op *push(recorder *r, ln_op_kind kind) {
    ln_op *op = &r->ops[r->n_ops++];
    *op = (ln_op){.kind = kind, .layer = r->layer, .batch = r->batch};
    return op;
}

static void embed(recorder *r) {
    const ln_weights *w = r->weights;
    push(r, LN_OP_EMBED)->embed = (ln_op_embed){
        .table = &w->embedding,
        .learned = w->learned_positions.data != NULL ? &w->learned_positions : NULL,
        .learned_offset = r->spec->learned_offset,
        .scale = r->spec->embedding_scale,
        .out = r->a->x,
    };
}

/* out = residual + residual_scale * norm(x), without residual norm(x) */
static void norm(recorder *r, const ln_norm *weights, const float *x, const float *residual,
                 float *out) {
    push(r, LN_OP_NORM)->norm = (ln_op_norm){
        .norm = weights,
        .n_rows = r->batch->n_tokens,
        .x = x,
        .residual = residual,
        .scale = r->spec->residual_scale,
        .out = out,
    };
}

static void linear(recorder *r, const ln_weight *weight, const float *x, float *out) {
    push(r, LN_OP_LINEAR)->linear = (ln_op_linear){
        .weight = weight, .n_rows = r->batch->n_tokens, .x = x, .scale = 1.0f, .out = out};
}

/* The residual stream takes a block's output: directly, or through the norm behind the block. */
static void linear_to_stream(recorder *r, const ln_weight *weight, const ln_norm *post_norm,
                             const float *x) {
    if (post_norm->dim > 0) {
        linear(r, weight, x, r->a->normed);
        norm(r, post_norm, r->a->normed, r->a->x, r->a->x);
        return;
    }
    push(r, LN_OP_LINEAR)->linear = (ln_op_linear){.weight = weight,
                                                   .n_rows = r->batch->n_tokens,
                                                   .x = x,
                                                   .residual = r->a->x,
                                                   .scale = r->spec->residual_scale,
                                                   .out = r->a->x};
}

static void attention(recorder *r, const ln_attention_spec *spec, const ln_layer_weights *w,
                      const float *x) {
    const ln_activations *a = r->a;
    const ln_kv_layer *kv = &r->kv[r->layer];
    linear(r, &w->q, x, a->q);
    linear(r, &w->k, x, a->k);
    linear(r, &w->v, x, a->v);
    push(r, LN_OP_QKV)->qkv = (ln_op_qkv){
        .q = a->q,
        .k = a->k,
        .v = a->v,
        .n_heads = spec->n_heads,
        .qk_norm = spec->qk_norm,
        .q_norm = &w->q_norm,
        .k_norm = &w->k_norm,
        .rope = spec->rope >= 0 ? &r->weights->ropes[spec->rope] : NULL,
        .kv = kv,
    };
    push(r, LN_OP_ATTENTION)->attention = (ln_op_attention){
        .q = a->q,
        .kv = kv,
        .n_heads = spec->n_heads,
        .scale = spec->scale,
        .softcap = spec->softcap,
        .window = spec->window,
        .alibi_slopes = spec->alibi ? r->weights->alibi_slopes : NULL,
        .out = a->attended,
    };
    linear_to_stream(r, &w->o, &w->attention_post_norm, a->attended);
}

static void feed_forward(recorder *r, const ln_ffn_spec *spec, const ln_layer_weights *w,
                         const float *x) {
    push(r, LN_OP_LINEAR)->linear = (ln_op_linear){
        .weight = &w->up,
        .gate = spec->gated ? &w->gate : NULL,
        .activation = spec->activation,
        .n_rows = r->batch->n_tokens,
        .x = x,
        .scale = 1.0f,
        .out = r->a->hidden,
    };
    linear_to_stream(r, &w->down, &w->ffn_post_norm, r->a->hidden);
}

/* norm(x) where the layer has a norm there, else x itself */
static const float *pre_norm(recorder *r, const ln_norm *weights, float *out) {
    if (weights->dim == 0)
        return r->a->x;
    norm(r, weights, r->a->x, NULL, out);
    return out;
}

static void layer(recorder *r, const ln_layer_spec *spec, const ln_layer_weights *w) {
    const float *x = pre_norm(r, &w->attention_norm, r->a->normed);
    const float *ffn_x = x;
    if (spec->placement == LN_PLACE_PARALLEL && w->ffn_norm.dim > 0)
        ffn_x = pre_norm(r, &w->ffn_norm, r->a->ffn_normed);
    attention(r, &spec->attention, w, x);
    if (spec->placement != LN_PLACE_PARALLEL)
        ffn_x = pre_norm(r, &w->ffn_norm, r->a->ffn_normed);
    feed_forward(r, &spec->ffn, w, ffn_x);
}

/* The output norm gathers the rows whose logits are wanted. */
static void logits(recorder *r) {
    size_t n_rows = r->batch->n_logits;
    push(r, LN_OP_NORM)->norm = (ln_op_norm){
        .norm = &r->weights->output_norm,
        .n_rows = n_rows,
        .rows = r->batch->logit_rows,
        .x = r->a->x,
        .out = r->a->normed,
    };
    push(r, LN_OP_LINEAR)->linear = (ln_op_linear){
        .weight = &r->weights->output,
        .n_rows = n_rows,
        .x = r->a->normed,
        .scale = r->spec->logit_scale,
        .softcap = r->spec->logit_softcap,
        .out = r->a->logits,
    };
}

size_t ln_forward_record(const ln_spec *spec, const ln_weights *weights,
                         const ln_activations *activations, const ln_kv_layer *kv,
                         const ln_batch *batch, ln_op *ops) {
    recorder r = {spec, weights, activations, kv, batch, -1, ops, 0};
    embed(&r);
    if (weights->embedding_norm.dim > 0)
        norm(&r, &weights->embedding_norm, activations->x, NULL, activations->x);
    for (size_t i = 0; i < spec->n_layers; i++) {
        r.layer = (int32_t)i;
        layer(&r, &spec->layers[i], &weights->layers[i]);
    }
    r.layer = -1;
    if (batch->n_logits > 0)
        logits(&r);
    return r.n_ops;
}
