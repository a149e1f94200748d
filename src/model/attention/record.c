#include "model/attention/record.h"

#include "model/attention/cca.h"
#include "model/attention/compressed.h"
#include "model/attention/differential.h"
#include "model/attention/index_means.h"
#include "model/attention/key_bias.h"
#include "model/attention/latent.h"
#include "model/attention/lengths.h"
#include "model/attention/mixture.h"
#include "model/attention/relative_logits.h"
#include "model/layers/shared_block.h"
#include "model/mixer/short_convs.h"

/* Values by head, from what keys are before their norm where these are the same. */
static void norm_values(recorder *r, const ln_attention_spec *spec, const ln_norm *weights) {
    push(r, LN_OP_NORM)->norm = (ln_op_norm){
        .norm = weights,
        .n_rows = r->batch->n_tokens * spec->n_kv_heads,
        .x = spec->k_is_v ? r->a->k : r->a->v,
        .out = r->a->v,
    };
}

/* Norms of q and k over all heads, where what they give is clamped before it rotates. */
static void norm_whole(recorder *r, const ln_layer_weights *w) {
    norm(r, &w->q_norm, r->a->q, NULL, r->a->q);
    norm(r, &w->k_norm, r->a->k, NULL, r->a->k);
}

/* Rows of x by what the table has for the positions of their tokens. */
static void scale_by_position(recorder *r, size_t dim, float *x) {
    push(r, LN_OP_POINTWISE)->pointwise = (ln_op_pointwise){.function = LN_POINTWISE_SCALE,
                                                            .n_rows = r->batch->n_tokens,
                                                            .dim = dim,
                                                            .n_gates = 1,
                                                            .x = x,
                                                            .gate = r->a->query_scales,
                                                            .gate_stride = LN_QUERY_SCALE_WIDTH,
                                                            .out = x};
}

/* Norms of q and k by head where q is scaled between its norm and the cache. */
static void norm_and_scale(recorder *r, const ln_attention_spec *spec, const ln_layer_weights *w,
                           ln_qk_norm *qk_norm) {
    const ln_activations *a = r->a;
    size_t n_tokens = r->batch->n_tokens;
    if (!spec->scales_by_table)
        return;
    if (*qk_norm == LN_QK_NORM_HEAD) {
        norm(r, &w->q_norm, a->q, NULL, a->q)->n_rows = n_tokens * spec->n_heads;
        norm(r, &w->k_norm, a->k, NULL, a->k)->n_rows = n_tokens * spec->n_kv_heads;
        *qk_norm = LN_QK_NORM_NONE;
    }
    scale_by_position(r, spec->n_heads * spec->k_dim, a->q);
    if (spec->relative_dim > 0)
        scale_by_position(r, spec->n_heads * spec->relative_dim, a->relative_queries);
}

static void clamp(recorder *r, float *x, size_t dim, float limit) {
    push(r, LN_OP_POINTWISE)->pointwise = (ln_op_pointwise){
        .function = LN_POINTWISE_CLAMP,
        .n_rows = r->batch->n_tokens,
        .dim = dim,
        .x = x,
        .limit = limit,
        .out = x,
    };
}

/* q, k and v within the limit that they may have; *qk_norm: what is still to be done. */
static void clip_heads(recorder *r, const ln_attention_spec *spec, const ln_layer_weights *w,
                       ln_qk_norm *qk_norm) {
    if (spec->clip == 0.0f)
        return;
    if (spec->qk_norm == LN_QK_NORM_FULL)
        norm_whole(r, w);
    *qk_norm = LN_QK_NORM_NONE;
    clamp(r, r->a->q, spec->n_heads * spec->k_dim, spec->clip);
    clamp(r, r->a->k, spec->n_kv_heads * spec->k_dim, spec->clip);
    clamp(r, r->a->v, spec->n_kv_heads * spec->v_dim, spec->clip);
}

/* k and v, of what queries read or of their own inputs. */
static void project_keys(recorder *r, const ln_attention_spec *spec, const ln_layer_weights *w,
                         const float *x) {
    const ln_activations *a = r->a;
    const float *of_keys = r->key_input != NULL ? r->key_input : x;
    const float *of_values = r->value_input != NULL ? r->value_input : x;
    score_linear(r, spec, &w->k, of_keys, ln_short_conv_input(r, a->k));
    ln_record_short_conv(r, LN_CONV_KEYS, of_keys, a->k);
    if (spec->differential)
        ln_record_value_pairs(r, spec, w, x);
    else if (!spec->k_is_v)
        linear(r, &w->v, of_values, ln_short_conv_input(r, a->v));
    ln_record_short_conv(r, LN_CONV_VALUES, of_values, a->v);
    if (w->v_norm.dim > 0)
        norm_values(r, spec, &w->v_norm);
}

/* What adapters multiply with first, of those matrices that read x. */
static void adapt(recorder *r, const ln_attention_spec *spec, const ln_layer_weights *w,
                  const float *x) {
    const ln_weight *const all[] = {&w->q, &w->k, &w->v, &w->attention_gate};
    const ln_weight *const some[] = {&w->q, &w->attention_gate};
    if (r->key_input != NULL)
        lora_shrink(r, x, 2, some);
    else
        lora_shrink(r, x, spec->borrows_kv ? 1 : 4, all);
}

/* q, k and v of x; q alone where the cache is an earlier layer's. */
static void make_heads(recorder *r, const ln_attention_spec *spec, const ln_layer_weights *w,
                       const float *x) {
    const ln_activations *a = r->a;
    adapt(r, spec, w, x);
    if (spec->n_experts > 0)
        ln_record_expert_queries(r, spec, w, x);
    else
        score_linear(r, spec, &w->q, x, a->q);
    if (!spec->borrows_kv)
        project_keys(r, spec, w, x);
    if (w->block.q.low.n_rows > 0) {
        ln_record_low(r, &w->block.q, x, a->q);
        ln_record_low(r, &w->block.k, x, a->k);
        ln_record_low(r, &w->block.v, x, a->v);
    }
    if (spec->gate != LN_GATE_NONE)
        linear(r, &w->attention_gate, x, a->output_gate);
    if (w->output_gate_scales != NULL)
        scale_rows(r, r->batch->n_tokens, w->attention_gate.n_rows, a->output_gate,
                   w->output_gate_scales);
    ln_record_relative_logits(r, spec, w, x);
    ln_record_lengths(r, spec, w, x);
}

/* The same, finished and cached. */
static void project(recorder *r, const ln_attention_spec *spec, const ln_layer_weights *w,
                    const float *x) {
    const ln_activations *a = r->a;
    ln_qk_norm qk_norm = spec->has_key_bias ? LN_QK_NORM_NONE : spec->qk_norm;
    if (spec->convolved)
        ln_record_cca(r, spec, w, x);
    else if (spec->has_key_bias)
        ln_record_biased_heads(r, spec, w, x);
    else
        make_heads(r, spec, w, x);
    clip_heads(r, spec, w, &qk_norm);
    norm_and_scale(r, spec, w, &qk_norm);
    push(r, LN_OP_QKV)->qkv = (ln_op_qkv){
        .q = a->q,
        .k = spec->borrows_kv ? NULL : a->k,
        .v = spec->borrows_kv ? NULL : a->v,
        .n_heads = spec->n_heads,
        .qk_norm = qk_norm,
        .q_norm = &w->q_norm,
        .k_norm = &w->k_norm,
        .norm_after_rope = spec->norm_after_rope,
        .q_scale = spec->q_scale,
        .rope = spec->rope >= 0 ? &r->weights->ropes[spec->rope] : NULL,
        .kv = r->layer_kv,
    };
    if (w->q_out_scales != NULL)
        scale_rows(r, r->batch->n_tokens, spec->n_heads * spec->k_dim, a->q, w->q_out_scales);
}

void ln_record_keys(recorder *r, const ln_attention_spec *spec, const ln_layer_weights *w,
                    const float *x) {
    project_keys(r, spec, w, x);
    push(r, LN_OP_QKV)->qkv = (ln_op_qkv){
        .k = r->a->k,
        .v = r->a->v,
        .qk_norm = spec->qk_norm,
        .q_norm = &w->q_norm,
        .k_norm = &w->k_norm,
        .norm_after_rope = spec->norm_after_rope,
        .rope = spec->rope >= 0 ? &r->weights->ropes[spec->rope] : NULL,
        .kv = r->layer_kv,
    };
}

static ln_relative_bias relative_bias(const recorder *r) {
    return (ln_relative_bias){
        .table = r->encoder ? r->weights->encoder.relative_bias : r->weights->relative_bias,
        .n_buckets = r->spec->n_relative_buckets,
        .max_distance = r->spec->relative_max_distance,
        .both_ways = r->encoder || r->spec->bidirectional,
    };
}

/* attended = attended * sigmoid(gate), which stands beside q, k and v: a linear right behind the
 * attention is taken for what reads its result. */
static void gate_output(recorder *r, const ln_attention_spec *spec, const ln_layer_weights *w) {
    bool is_latent = spec->latent.n_latent > 0;
    float *x = is_latent ? r->a->latent_heads : r->a->attended;
    push(r, LN_OP_POINTWISE)->pointwise = (ln_op_pointwise){
        .function = spec->softplus_gate ? LN_POINTWISE_SOFTPLUS_GATE : LN_POINTWISE_GATE,
        .n_rows = r->batch->n_tokens,
        .dim = spec->n_heads * (is_latent ? spec->latent.v_dim : spec->v_dim),
        .n_gates = w->attention_gate.n_rows,
        .x = x,
        .gate = r->a->output_gate,
        .out = x,
    };
}

/* Those that divide the layer's attention, or NULL. */
static ln_collectives *ranks_of_heads(const recorder *r) {
    return r->layer_spec->part.heads.n > 0 ? r->a->tensor_ranks : NULL;
}

void ln_record_attention(recorder *r, const ln_attention_spec *spec, const ln_layer_weights *w,
                         const float *x) {
    const ln_activations *a = r->a;
    bool is_latent = spec->latent.n_latent > 0;
    if (spec->compressed.q_latent > 0) {
        ln_record_compressed_attention(r, spec, w, x);
        return;
    }
    if (!is_latent && spec->indexer.top_k > 0)
        ln_record_index_means(r, spec, w, x);
    if (is_latent)
        ln_record_latent_heads(r, spec, w, x);
    else
        project(r, spec, w, x);
    push(r, LN_OP_ATTENTION)->attention = (ln_op_attention){
        .q = a->q,
        .kv = r->layer_kv,
        .n_heads = spec->n_heads,
        .scale = spec->scale,
        .softcap = spec->softcap,
        .window = spec->window,
        .chunk = spec->chunk,
        .alibi_slopes = spec->alibi ? r->weights->alibi_slopes : NULL,
        .sinks = spec->head_limit > 0 ? a->token_sinks : w->sinks,
        .own_sinks = spec->head_limit > 0,
        .relative = spec->relative ? relative_bias(r) : (ln_relative_bias){0},
        .relative_logits = ln_relative_logits_of(r, spec, w),
        .sees_all = spec->sees_all,
        .indices = spec->indexer.top_k > 0 ? a->indices : NULL,
        .top_k = ln_index_width(spec->indexer.top_k, spec->indexer.run_tokens),
        .run_tokens = spec->indexer.run_tokens,
        .out = a->attended,
    };
    if (is_latent)
        linear_by_head(r, w->v_b, spec->n_heads, a->attended, 0, a->latent_heads, 0);
    if (spec->head_norm)
        norm(r, &w->head_norm, a->attended, NULL, a->attended)->n_rows =
            r->batch->n_tokens * spec->n_heads;
    if (spec->gate != LN_GATE_NONE)
        gate_output(r, spec, w);
    if (spec->out_norm)
        norm(r, &w->attention_out_norm, a->attended, NULL, a->attended);
    const float *heads = is_latent ? a->latent_heads : a->attended;
    if (spec->n_experts > 0) {
        ln_record_expert_outputs(r, spec, w);
        return;
    }
    if (spec->differential)
        heads = ln_record_difference(r, spec, w);
    if (w->attention_post_scale != NULL)
        linear_to_scaled_stream(r, &w->o, w->attention_post_scale, &w->attention_post_norm, heads,
                                ranks_of_heads(r));
    else
        scaled_linear_to_stream(r, &w->o, &w->attention_post_norm, heads, spec->v_scale,
                                ranks_of_heads(r));
}

void ln_record_cross_attention(recorder *r, const ln_attention_spec *spec,
                               const ln_layer_weights *w, const float *x) {
    score_linear(r, spec, &w->cross_q, x, r->a->q);
    push(r, LN_OP_ATTENTION)->attention = (ln_op_attention){
        .q = r->a->q,
        .kv = &r->kv[r->spec->n_layers + (size_t)r->layer],
        .n_heads = spec->n_heads,
        .scale = spec->scale,
        .sees_all = true,
        .out = r->a->attended,
    };
    scaled_linear_to_stream(r, &w->cross_o, NULL, r->a->attended, 1.0f, ranks_of_heads(r));
}
