#include "model/attention/latent.h"

#include "model/attention/index_runs.h"

/* Rows of heads of an indexer with what rotates first. */
static float *turn_heads(recorder *r, size_t dim, const float *x, float *out) {
    push(r, LN_OP_GATHER)->gather = (ln_op_gather){.columns = r->weights->index_columns,
                                                   .n_rows = r->batch->n_tokens,
                                                   .dim = dim,
                                                   .x = x,
                                                   .out = out};
    return out;
}

/* Rows of heads of `dim` times scale log(1 + position) + bias of each head, in place. */
static void scale_by_log(recorder *r, size_t n_heads, size_t dim, const float *scale,
                         const float *bias, float *x) {
    size_t n_tokens = r->batch->n_tokens;
    ln_op_pointwise op = {.function = LN_POINTWISE_SCALE,
                          .n_rows = n_tokens,
                          .dim = n_heads,
                          .rows_per_x = n_tokens, /* all rows read one */
                          .n_gates = 1,
                          .x = scale,
                          .gate = r->a->query_scales,
                          .gate_stride = LN_QUERY_SCALE_WIDTH,
                          .scale = 1.0f,
                          .out = r->a->head_scales};
    push(r, LN_OP_POINTWISE)->pointwise = op;
    op.function = LN_POINTWISE_ADD;
    op.rows_per_x = 0;
    op.n_gates = n_heads;
    op.gate_stride = 0;
    op.x = r->a->head_scales;
    op.gate = bias;
    op.one_gate = true;
    push(r, LN_OP_POINTWISE)->pointwise = op;
    push(r, LN_OP_POINTWISE)->pointwise = (ln_op_pointwise){.function = LN_POINTWISE_SCALE,
                                                            .n_rows = n_tokens,
                                                            .dim = n_heads * dim,
                                                            .n_gates = n_heads,
                                                            .x = x,
                                                            .gate = r->a->head_scales,
                                                            .out = x};
}

/* The positions that the attention is to read, which later layers may share. */
static void choose_positions(recorder *r, const ln_attention_spec *attention,
                             const ln_layer_weights *w, const float *x) {
    const ln_activations *a = r->a;
    const ln_indexer_spec *spec = &attention->indexer;
    if (spec->run_tokens > 0) {
        ln_record_index_runs(r, attention, w, x);
        return;
    }
    const ln_kv_layer *kv = &r->kv[spec->kv_layer];
    if (w->index_q_norm.dim > 0)
        norm(r, &w->index_q_norm, x, NULL, a->ffn_normed);
    precise_linear(r, &w->index_q, w->index_q_norm.dim > 0 ? a->ffn_normed : a->latent_q,
                   a->index_q);
    if (attention->scales_by_log)
        scale_by_log(r, spec->n_heads, spec->head_dim, w->index_log_scale, w->index_log_bias,
                     a->index_q);
    precise_linear(r, &w->index_k, x, a->index_k);
    norm(r, &w->index_k_norm, a->index_k, NULL, a->index_k);
    precise_linear(r, &w->index_weights, x, a->index_weights);
    float *q = a->index_q, *k = a->index_k;
    if (spec->turns_last) { /* q's memory is free for k then */
        q = turn_heads(r, spec->n_heads * spec->head_dim, q, a->index_turned);
        k = turn_heads(r, spec->head_dim, k, a->index_q);
    }
    push(r, LN_OP_QKV)->qkv =
        (ln_op_qkv){.q = q,
                    .k = k,
                    .n_heads = spec->n_heads,
                    .rope = attention->rope >= 0 ? &r->weights->index_rope : NULL,
                    .kv = kv};
    push(r, LN_OP_INDEX)->index = (ln_op_index){.q = q,
                                                .weights = a->index_weights,
                                                .kv = kv,
                                                .n_heads = spec->n_heads,
                                                .top_k = spec->top_k,
                                                .positions = a->indices};
}

/* The latent of the queries, from column `begin` of the pair on. */
static void copy_latent(recorder *r, const ln_latent_spec *latent, const ln_layer_weights *w,
                        size_t begin) {
    norm_to_columns(r, &w->latent_copy, r->a->latent_q, r->a->latent_pair, 2 * latent->q_latent,
                    begin);
}

/* The latent and, behind it, the key that rotates, in whose place its norm comes. */
static void project_kv(recorder *r, const ln_latent_spec *latent, const ln_layer_weights *w,
                       const float *x) {
    const ln_activations *a = r->a;
    precise_linear(r, &w->kv_a, x, a->k);
    if (!latent->k_norm)
        return;
    precise_linear(r, &w->k_rope, x, a->v);
    norm_to_columns(r, &w->k_rope_norm, a->v, a->k, latent->n_latent + latent->n_rope,
                    latent->n_latent);
}

/* Latent attention with the up-projections absorbed: the query meets the cached latent itself. */
void ln_record_latent_heads(recorder *r, const ln_attention_spec *spec, const ln_layer_weights *w,
                            const float *x) {
    const ln_activations *a = r->a;
    const ln_latent_spec *latent = &spec->latent;
    if (latent->q_latent > 0) {
        precise_linear(r, &w->q_a, x, a->latent_q);
        if (latent->pairs)
            copy_latent(r, latent, w, latent->q_latent);
        norm(r, &w->q_a_norm, a->latent_q, NULL, a->latent_q);
        if (latent->pairs)
            copy_latent(r, latent, w, 0);
        if (spec->indexer.top_k > 0 && !spec->indexer.shared)
            choose_positions(r, spec, w, x);
        precise_linear(r, &w->q_b, latent->pairs ? a->latent_pair : a->latent_q, a->latent_heads);
    } else {
        if (spec->indexer.top_k > 0 && !spec->indexer.shared)
            choose_positions(r, spec, w, x);
        precise_linear(r, &w->q, x, a->latent_heads);
    }
    if (spec->scales_by_log)
        scale_by_log(r, spec->n_heads, latent->n_plain + latent->n_rope, w->q_log_scale,
                     w->q_log_bias, a->latent_heads);
    if (spec->q_scale.beta != 0.0f)
        push(r, LN_OP_POINTWISE)->pointwise = (ln_op_pointwise){
            .function = LN_POINTWISE_QUERY_SCALE,
            .n_rows = r->batch->n_tokens,
            .dim = spec->n_heads * (latent->n_plain + latent->n_rope),
            .x = a->latent_heads,
            .q_scale = spec->q_scale,
            .out = a->latent_heads,
        };
    if (spec->gate != LN_GATE_NONE)
        linear(r, &w->attention_gate, latent->pairs ? a->latent_pair : x, a->output_gate);
    project_kv(r, latent, w, x);
    push(r, LN_OP_LATENT)->latent = (ln_op_latent){
        .q = a->latent_heads,
        .latent = a->k,
        .norm = &w->kv_a_norm,
        .rope = spec->rope >= 0 ? &r->weights->ropes[spec->rope] : &r->weights->still_rope,
        .n_heads = spec->n_heads,
        .n_plain = latent->n_plain,
        .kv = r->layer_kv,
        .out = a->q,
    };
    linear_by_head(r, w->k_b, spec->n_heads, a->latent_heads, latent->n_plain + latent->n_rope,
                   a->q, spec->k_dim);
}
