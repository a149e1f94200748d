#include "model/forward.h"

#include "backend/values.h"
#include "model/layers/altup.h"
#include "model/layers/attention_mixture.h"
#include "model/layers/cycles.h"
#include "model/layers/differential.h"
#include "model/layers/ffn_record.h"
#include "model/layers/hyper.h"
#include "model/layers/lookup_record.h"
#include "model/layers/shared_block.h"
#include "model/layers/tied.h"
#include "model/layers/wanted_rows.h"
#include "model/mixer/record.h"
#include "model/recorder.h"

enum {
    OPS_PER_LAYER = 80,
    OPS_OUTSIDE = 16 + LN_MAX_AUX_LAYERS,
    OPS_OF_RANKS = 4,
    OPS_OF_STAGES = 4
};

size_t ln_forward_max_ops(const ln_spec *spec) {
    size_t of_ranks = spec->ranks.n > 0 ? OPS_OF_RANKS : 0;
    size_t of_stages = 2 * (size_t)LN_MAX_BORDERS + OPS_OF_STAGES;
    return (spec->n_layers + spec->n_encoder_layers) * (OPS_PER_LAYER + of_ranks) + OPS_OUTSIDE +
           of_ranks + (spec->ranks.layers.n > 0 ? of_stages : 0);
}

size_t ln_forward_max_head_ops(void) {
    return OPS_PER_LAYER + OPS_OUTSIDE;
}

/* x = matrix of the embedding + positions. */
static void embed_in(recorder *r, const ln_weight *learned) {
    const ln_weight *matrix = &r->weights->embedding_in;
    push(r, LN_OP_EMBED)->embed = (ln_op_embed){
        .table = &r->weights->embedding, .scale = r->spec->embedding_scale, .out = r->a->normed};
    push(r, LN_OP_EMBED)->embed = (ln_op_embed){.table = &r->weights->no_tokens,
                                                .learned = learned->data != NULL ? learned : NULL,
                                                .learned_offset = r->spec->learned_offset,
                                                .scale = 1.0f,
                                                .out = r->a->x};
    push(r, LN_OP_LINEAR)->linear =
        (ln_op_linear){.weight = matrix,
                       .n_rows = r->batch->n_tokens,
                       .x = gather(r, matrix, r->batch->n_tokens, r->a->normed),
                       .residual = r->a->x,
                       .scale = 1.0f,
                       .out = r->a->x};
}

static void embed(recorder *r) {
    const ln_weights *w = r->weights;
    const ln_weight *learned = r->encoder ? &w->encoder.learned_positions : &w->learned_positions;
    bool is_part = r->spec->ranks.n > 0; /* the first rank adds positions */
    if (r->spec->embedded_dim > 0) {
        embed_in(r, learned);
        return;
    }
    push(r, LN_OP_EMBED)->embed = (ln_op_embed){
        .table = &w->embedding,
        .learned = learned->data != NULL && r->spec->ranks.rank == 0 ? learned : NULL,
        .types = w->token_types.data != NULL ? &w->token_types : NULL,
        .learned_offset = r->spec->learned_offset,
        .scale = r->spec->embedding_scale,
        .is_part = is_part,
        .part_begin = r->spec->ranks.vocab.begin,
        .out = r->a->x,
    };
    if (is_part)
        all_reduce(r, r->a->x, NULL, r->a->x);
}

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

/* What queries are multiplied with, by the positions of the batch. */
static void find_query_scales(recorder *r) {
    if (r->spec->has_query_scales)
        push(r, LN_OP_EMBED)->embed = (ln_op_embed){.table = &r->weights->no_tokens,
                                                    .learned = &r->weights->query_scales,
                                                    .scale = 1.0f,
                                                    .out = r->a->query_scales};
}

/* Norms of q and k by head where q is scaled between its norm and the cache. */
static void norm_and_scale(recorder *r, const ln_attention_spec *spec, const ln_layer_weights *w,
                           ln_qk_norm *qk_norm) {
    const ln_activations *a = r->a;
    size_t n_tokens = r->batch->n_tokens;
    if (!spec->scales_by_table)
        return;
    if (*qk_norm == LN_QK_NORM_HEAD) {
        norm(r, &w->q_norm, a->q, NULL, a->q);
        r->ops[r->n_ops - 1].norm.n_rows = n_tokens * spec->n_heads;
        norm(r, &w->k_norm, a->k, NULL, a->k);
        r->ops[r->n_ops - 1].norm.n_rows = n_tokens * spec->n_kv_heads;
        *qk_norm = LN_QK_NORM_NONE;
    }
    push(r, LN_OP_POINTWISE)->pointwise = (ln_op_pointwise){.function = LN_POINTWISE_SCALE,
                                                            .n_rows = n_tokens,
                                                            .dim = spec->n_heads * spec->k_dim,
                                                            .n_gates = 1,
                                                            .x = a->q,
                                                            .gate = a->query_scales,
                                                            .gate_stride = LN_QUERY_SCALE_WIDTH,
                                                            .out = a->q};
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

/* q, k and v, finished and cached; q alone where the cache is an earlier layer's. */
static void project(recorder *r, const ln_attention_spec *spec, const ln_layer_weights *w,
                    const float *x) {
    const ln_activations *a = r->a;
    const ln_weight *const all[] = {&w->q, &w->k, &w->v, &w->attention_gate};
    lora_shrink(r, x, spec->borrows_kv ? 1 : 4, all);
    if (spec->n_experts > 0)
        ln_record_expert_queries(r, spec, w, x);
    else
        score_linear(r, spec, &w->q, x, a->q);
    if (!spec->borrows_kv) {
        score_linear(r, spec, &w->k, x, a->k);
        if (spec->differential)
            ln_record_value_pairs(r, spec, w, x);
        else if (!spec->k_is_v)
            linear(r, &w->v, x, a->v);
        if (w->v_norm.dim > 0)
            norm_values(r, spec, &w->v_norm);
    }
    if (w->block.q.low.n_rows > 0) {
        ln_record_low(r, &w->block.q, x, a->q);
        ln_record_low(r, &w->block.k, x, a->k);
        ln_record_low(r, &w->block.v, x, a->v);
    }
    if (spec->gate != LN_GATE_NONE)
        linear(r, &w->attention_gate, x, a->output_gate);
    ln_qk_norm qk_norm = spec->qk_norm;
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
}

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
    norm(r, &w->latent_copy, r->a->latent_q, NULL, r->a->latent_pair);
    r->ops[r->n_ops - 1].norm.out_stride = 2 * latent->q_latent;
    r->ops[r->n_ops - 1].norm.out_begin = begin;
}

/* The latent and, behind it, the key that rotates, in whose place its norm comes. */
static void project_kv(recorder *r, const ln_latent_spec *latent, const ln_layer_weights *w,
                       const float *x) {
    const ln_activations *a = r->a;
    precise_linear(r, &w->kv_a, x, a->k);
    if (!latent->k_norm)
        return;
    precise_linear(r, &w->k_rope, x, a->v);
    norm(r, &w->k_rope_norm, a->v, NULL, a->k);
    r->ops[r->n_ops - 1].norm.out_stride = latent->n_latent + latent->n_rope;
    r->ops[r->n_ops - 1].norm.out_begin = latent->n_latent;
}

/* Latent attention with the up-projections absorbed: the query meets the cached latent itself. */
static void project_latent(recorder *r, const ln_attention_spec *spec, const ln_layer_weights *w,
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

static void attention(recorder *r, const ln_attention_spec *spec, const ln_layer_weights *w,
                      const float *x) {
    const ln_activations *a = r->a;
    bool is_latent = spec->latent.n_latent > 0;
    if (spec->tied.q_latent > 0) {
        ln_record_tied_attention(r, spec, w, x);
        return;
    }
    if (is_latent)
        project_latent(r, spec, w, x);
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
        .sinks = w->sinks,
        .relative = spec->relative ? relative_bias(r) : (ln_relative_bias){0},
        .sees_all = spec->sees_all,
        .indices = spec->indexer.top_k > 0 ? a->indices : NULL,
        .top_k = spec->indexer.top_k,
        .out = a->attended,
    };
    if (is_latent)
        linear_by_head(r, w->v_b, spec->n_heads, a->attended, 0, a->latent_heads, 0);
    if (spec->head_norm) {
        norm(r, &w->head_norm, a->attended, NULL, a->attended);
        r->ops[r->n_ops - 1].norm.n_rows = r->batch->n_tokens * spec->n_heads;
    }
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
    if (r->apart != NULL) {
        linear(r, &w->o, heads, r->apart);
        return;
    }
    scaled_linear_to_stream(r, &w->o, &w->attention_post_norm, heads, spec->v_scale,
                            ranks_of_heads(r));
}

/* norm(x) where the layer has a norm there, else x itself */
static const float *pre_norm(recorder *r, const ln_norm *weights, float *out) {
    if (weights->dim == 0)
        return r->a->x;
    norm(r, weights, r->a->x, NULL, out);
    return out;
}

/* x = x sigmoid(gate silu(low x)), where the norm that gave x has such a gate. */
static void gate_norm(recorder *r, const ln_weight *low, const ln_weight *gate, float *x) {
    const ln_activations *a = r->a;
    if (low->n_rows == 0)
        return;
    linear(r, low, x, a->norm_low);
    r->ops[r->n_ops - 1].linear.activation = LN_ACT_SILU;
    linear(r, gate, a->norm_low, a->norm_gate);
    push(r, LN_OP_POINTWISE)->pointwise = (ln_op_pointwise){
        .function = LN_POINTWISE_GATE,
        .n_rows = r->batch->n_tokens,
        .dim = r->spec->dim,
        .n_gates = r->spec->dim,
        .x = x,
        .gate = a->norm_gate,
        .out = x,
    };
}

/* Attention to the encoder's output, which is in the cache. */
static void cross_attention(recorder *r, const ln_attention_spec *spec, const ln_layer_weights *w,
                            const float *x) {
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

/* With norms after the blocks, x is normalised in place once a block has added to it. */
static void after_norm(recorder *r, const ln_layer_spec *spec, const ln_norm *weights) {
    if (spec->placement == LN_PLACE_AFTER)
        norm(r, weights, r->a->x, NULL, r->a->x);
}

/* Where blocks read the norm of x and add to it, x becomes what stays of the norm; where x is
 * weighed, what stays of it. */
static void keep(recorder *r, const ln_norm *weights, const float *stays) {
    if (weights->dim > 0)
        norm(r, weights, r->a->x, NULL, r->a->x);
    if (stays != NULL)
        scale_rows(r, r->batch->n_tokens, r->spec->dim, r->a->x, stays);
}

static void layer(recorder *r, const ln_layer_spec *spec, const ln_layer_weights *w) {
    r->layer_spec = spec;
    bool after = spec->placement == LN_PLACE_AFTER;
    bool parallel = spec->placement == LN_PLACE_PARALLEL;
    ln_record_hyper_read(r, &w->attention_hyper);
    const float *x = after                        ? r->a->x
                     : spec->attention.in_dim > 0 ? r->a->pairs
                                                  : pre_norm(r, &w->attention_norm, r->a->normed);
    const float *ffn_x = x;
    gate_norm(r, &w->attention_norm_low, &w->attention_norm_gate, r->a->normed);
    if (parallel && w->ffn_norm.dim > 0)
        ffn_x = pre_norm(r, &w->ffn_norm, r->a->ffn_normed);
    const float *mixer_x = x;
    if (w->mixer.in_norm.dim > 0)
        mixer_x = pre_norm(r, &w->mixer.in_norm, r->a->ffn_normed);
    keep(r, &w->attention_kept, w->attention_stays);
    if (spec->attention.n_heads > 0)
        attention(r, &spec->attention, w, x);
    if (spec->mixer.kind != LN_MIXER_NONE)
        ln_record_mixer(r, &spec->mixer, w, mixer_x);
    after_norm(r, spec, &w->attention_norm);
    if (spec->has_cross) {
        x = after ? r->a->x : pre_norm(r, &w->cross_norm, r->a->normed);
        cross_attention(r, &spec->attention, w, x);
        after_norm(r, spec, &w->cross_norm);
    }
    ln_record_hyper_write(r);
    if (spec->ffn.n_hidden > 0 || spec->ffn.moe.n_experts > 0) {
        if (ln_record_wanted_rows(r, spec, w))
            ffn_x = r->a->x;
        ln_record_hyper_read(r, &w->ffn_hyper);
        if (!parallel && !after)
            ffn_x = pre_norm(r, &w->ffn_norm, r->a->ffn_normed);
        gate_norm(r, &w->ffn_norm_low, &w->ffn_norm_gate, r->a->ffn_normed);
        keep(r, &w->ffn_kept, w->ffn_stays);
        ln_record_feed_forward(r, &spec->ffn, w, ffn_x);
        after_norm(r, spec, &w->ffn_norm);
        ln_record_hyper_write(r);
    }
    if (spec->takes_shortcut)
        ln_record_shortcut(r);
    ln_record_layer_end(r, spec, w);
}

/* A recurrent layer that reads the residual stream plus what a block gives of it. */
static void layer_behind_block(recorder *r, const ln_layer_spec *spec, const ln_layer_weights *w) {
    r->layer_spec = spec;
    const float *x = ln_record_block_input(r, w);
    r->apart = r->a->block;
    attention(r, &spec->attention, w, x);
    r->apart = NULL;
    ln_record_mixer(r, &spec->mixer, w, ln_record_block_output(r, w));
}

/* A layer of Gemma 3n, which runs on the first of several streams. */
static void altup_layer(recorder *r, const ln_layer_spec *spec, const ln_layer_weights *w) {
    r->layer_spec = spec;
    ln_record_altup_predict(r, w);
    const float *x = pre_norm(r, &w->attention_norm, r->a->normed);
    ln_record_laurel(r, w, x);
    attention(r, &spec->attention, w, x);
    ln_record_add_laurel(r);
    ln_record_feed_forward(r, &spec->ffn, w, pre_norm(r, &w->ffn_norm, r->a->ffn_normed));
    ln_record_altup_correct(r, spec, w);
}

/* norm(act(matrix of x)) of rows whose logits are wanted, in place; the residual stream has been
 * read by then. */
static void output_dense(recorder *r, size_t n_rows, float *x) {
    const ln_weight *dense = &r->weights->output_dense;
    const float *gathered = gather(r, dense, n_rows, x);
    push(r, LN_OP_LINEAR)->linear = (ln_op_linear){.weight = dense,
                                                   .activation = r->spec->output_activation,
                                                   .n_rows = n_rows,
                                                   .x = gathered,
                                                   .scale = 1.0f,
                                                   .out = r->a->x};
    norm(r, &r->weights->output_dense_norm, r->a->x, NULL, x);
    r->ops[r->n_ops - 1].norm.n_rows = n_rows;
}

/* What the output reads where it is narrower than x. */
static const float *output_in(recorder *r, size_t n_rows, const float *x) {
    const ln_weight *matrix = &r->weights->output_in;
    const float *gathered = gather(r, matrix, n_rows, x);
    push(r, LN_OP_LINEAR)->linear = (ln_op_linear){
        .weight = matrix, .n_rows = n_rows, .x = gathered, .scale = 1.0f, .out = r->a->x};
    return r->a->x;
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
    if (r->spec->output_dense)
        output_dense(r, n_rows, r->a->normed);
    const float *x = r->a->normed;
    if (r->spec->embedded_dim > 0)
        x = output_in(r, n_rows, x);
    const ln_weight *output = &r->weights->output;
    if (r->batch->logit_adapters.n_runs > 0)
        lora_shrink_rows(r, &r->batch->logit_adapters,
                         (ln_op_lora_shrink){.n_rows = n_rows, .x = x}, 1, &output);
    x = gather(r, output, n_rows, x);
    push(r, LN_OP_LINEAR)->linear = (ln_op_linear){
        .weight = output,
        .n_rows = n_rows,
        .x = x,
        .scale = r->spec->logit_scale,
        .softcap = r->spec->logit_softcap,
        .out = r->spec->ranks.n > 0 ? r->a->logits_part : r->a->logits,
    };
    let_lora_expand(r, &r->batch->logit_adapters);
    if (r->spec->ranks.n > 0)
        push(r, LN_OP_RANK_GATHER)->rank_gather = (ln_op_rank_gather){
            .ranks = r->a->stage_ranks,
            .n_rows = n_rows,
            .n_cols = r->spec->n_vocab,
            .x = r->a->logits_part,
            .scratch = r->a->rank_scratch,
            .out = r->a->logits,
        };
}

/* Hidden states behind the output norm, where the last block has left ffn_normed. */
static void hidden_states(recorder *r) {
    push(r, LN_OP_NORM)->norm = (ln_op_norm){
        .norm = &r->weights->output_norm,
        .n_rows = r->batch->n_hidden,
        .rows = r->batch->hidden_rows,
        .x = r->a->x,
        .out = r->a->ffn_normed,
    };
}

/* Keys and values of the encoder's output for every layer of the decoder. */
static void cache_cross(recorder *r, const float *x) {
    for (size_t i = r->weights->first_layer; i < r->weights->end_layer; i++) {
        const ln_layer_weights *w = &r->weights->layers[i];
        r->layer = (int32_t)i;
        score_linear(r, &r->spec->layers[i].attention, &w->cross_k, x, r->a->k);
        linear(r, &w->cross_v, x, r->a->v);
        push(r, LN_OP_QKV)->qkv =
            (ln_op_qkv){.k = r->a->k, .v = r->a->v, .kv = &r->kv[r->spec->n_layers + i]};
    }
}

/* Where experts are chosen, a small error anywhere before may choose others; and a delta rule feeds
 * its errors back to itself: all is precise. */
static void keep_choices(recorder *r) {
    bool any = false;
    for (size_t i = 0; i < r->spec->n_layers; i++) {
        ln_mixer mixer = r->spec->layers[i].mixer.kind;
        any |= r->spec->layers[i].ffn.moe.n_experts > 0;
        any |= mixer == LN_MIXER_DELTA || mixer == LN_MIXER_KDA;
    }
    for (size_t i = 0; any && i < r->n_ops; i++)
        if (r->ops[i].kind == LN_OP_LINEAR)
            r->ops[i].linear.precise = true;
        else if (r->ops[i].kind == LN_OP_ATTENTION)
            r->ops[i].attention.precise = true;
}

/* Rows go to a rank, or come from it. */
static void pass_rows(recorder *r, size_t other, bool sends, size_t n_rows, size_t dim, float *x) {
    push(r, LN_OP_RANK_PASS)->rank_pass = (ln_op_rank_pass){.ranks = r->a->all_ranks,
                                                            .other = other,
                                                            .sends = sends,
                                                            .n_rows = n_rows,
                                                            .dim = dim,
                                                            .x = x};
}

/* What the stage before this one has made, or what the next one goes on with. */
static void pass_borders(recorder *r, bool sends) {
    const ln_mesh *mesh = &r->spec->ranks.mesh;
    size_t n = ln_mesh_in_stage(mesh), other = sends ? mesh->rank + n : mesh->rank - n;
    ln_border borders[LN_MAX_BORDERS];
    size_t n_borders = ln_activations_borders(r->spec, r->a, borders);
    for (size_t i = 0; i < n_borders; i++)
        pass_rows(r, other, sends, r->batch->n_tokens, borders[i].width, borders[i].at);
}

/* What the last stage has made comes to rank 0. */
static void pass_results(recorder *r) {
    const ln_mesh *mesh = &r->spec->ranks.mesh;
    size_t of_logits = ln_mesh_rank_of_logits(mesh);
    bool sends = mesh->rank == of_logits;
    if (r->spec->ranks.layers.n == 0 || (!sends && mesh->rank > 0))
        return;
    size_t other = sends ? 0 : of_logits;
    if (r->batch->n_hidden > 0)
        pass_rows(r, other, sends, r->batch->n_hidden, r->spec->dim, r->a->ffn_normed);
    if (r->batch->n_logits > 0)
        pass_rows(r, other, sends, r->batch->n_logits, r->spec->n_vocab, r->a->logits);
}

/* The encoder's output, which the stages hand on. */
static void encode(recorder *r) {
    const ln_mesh *mesh = &r->spec->ranks.mesh;
    size_t n = ln_mesh_in_stage(mesh), n_tokens = r->batch->n_tokens, dim = r->spec->dim;
    float *x = r->a->x, *out = r->a->normed;
    if (ln_spec_follows(r->spec)) {
        pass_rows(r, mesh->rank - n, false, n_tokens, dim, out);
    } else {
        embed(r);
        if (r->weights->encoder.embedding_norm.dim > 0)
            norm(r, &r->weights->encoder.embedding_norm, x, NULL, x);
        for (size_t i = 0; i < r->spec->n_encoder_layers; i++) {
            r->layer = (int32_t)i;
            layer(r, &r->spec->encoder_layers[i], &r->weights->encoder.layers[i]);
        }
        norm(r, &r->weights->encoder.output_norm, x, NULL, out);
    }
    if (ln_spec_leads(r->spec))
        pass_rows(r, mesh->rank + n, true, n_tokens, dim, out);
}

size_t ln_forward_record_encoder(const ln_spec *spec, const ln_weights *weights,
                                 const ln_activations *activations, const ln_kv_layer *kv,
                                 const ln_batch *batch, ln_op *ops) {
    recorder r = {.spec = spec,
                  .weights = weights,
                  .a = activations,
                  .kv = kv,
                  .batch = batch,
                  .layer = -1,
                  .encoder = true,
                  .layer_kv = &kv[2 * spec->n_layers],
                  .ops = ops};
    encode(&r);
    cache_cross(&r, activations->normed);
    ln_values_number(ops, r.n_ops);
    return r.n_ops;
}

/* norm(x), from this column on of what the head reads. */
static void norm_to_pairs(recorder *r, const ln_norm *weights, const float *x, size_t begin) {
    norm(r, weights, x, NULL, r->a->pairs);
    r->ops[r->n_ops - 1].norm.out_stride = 2 * r->spec->dim;
    r->ops[r->n_ops - 1].norm.out_begin = begin;
}

/* What the head reads: a norm of the model's hidden states, and of embeddings, side by side. The
 * rows of x are read before embeddings are written over them. */
static void head_input(recorder *r, const ln_head_input *in) {
    const ln_activations *a = r->a;
    size_t dim = r->spec->dim;
    size_t of_hidden = r->spec->family->head_hidden_first ? 0 : dim, of_token = dim - of_hidden;
    norm(r, in->norm, a->x, NULL, a->normed);
    r->ops[r->n_ops - 1].norm.rows = in->rows;
    norm_to_pairs(r, &r->weights->head.hidden_norm, a->normed, of_hidden);
    embed(r);
    norm_to_pairs(r, &r->weights->head.token_norm, a->x, of_token);
    linear(r, &r->weights->head.input, a->pairs, a->x);
}

/* The same of a head of its own folder: an embedding, then a hidden state. What becomes of the
 * hidden states begins its residual stream. */
static void eagle_input(recorder *r, const ln_head_input *in) {
    const ln_activations *a = r->a;
    const ln_weights *w = r->weights;
    bool has_aux = in->aux_hidden != NULL;
    norm(r, has_aux ? &w->head.aux_norm : &w->copy, has_aux ? in->aux_hidden : a->x, NULL,
         has_aux ? a->aux_hidden : a->normed);
    r->ops[r->n_ops - 1].norm.rows = in->rows;
    if (has_aux)
        linear(r, &w->head.input, a->aux_hidden, a->normed);
    embed(r);
    norm_to_pairs(r, &w->head.token_norm, a->x, 0);
    norm_to_pairs(r, &w->head.hidden_norm, a->normed, r->spec->dim);
    norm(r, r->spec->eagle.norm_stays ? &w->head.hidden_norm : &w->copy, a->normed, NULL, a->x);
}

size_t ln_forward_record_head(const ln_spec *spec, const ln_weights *weights,
                              const ln_activations *activations, const ln_kv_layer *kv,
                              const ln_batch *batch, const ln_head_input *in, ln_op *ops) {
    recorder r = {.spec = spec,
                  .weights = weights,
                  .a = activations,
                  .batch = batch,
                  .layer = (int32_t)spec->n_layers,
                  .layer_kv = kv,
                  .ops = ops};
    if (spec->eagle.is_head)
        eagle_input(&r, in);
    else
        head_input(&r, in);
    layer(&r, spec->head, weights->layers);
    if (batch->n_logits > 0)
        logits(&r);
    ln_values_number(ops, r.n_ops);
    return r.n_ops;
}

/* Keeps the residual stream in front of a layer for a head that drafts. */
static void keep_aux_hidden(recorder *r, size_t layer) {
    const ln_aux_layers *aux_layers = &r->spec->aux_layers;
    for (size_t i = 0; i < aux_layers->n; i++) {
        if (aux_layers->layers[i] != layer)
            continue;
        norm(r, &r->weights->copy, r->a->x, NULL, r->a->aux_hidden);
        r->ops[r->n_ops - 1].norm.out_stride = aux_layers->n * r->spec->dim;
        r->ops[r->n_ops - 1].norm.out_begin = i * r->spec->dim;
    }
}

size_t ln_forward_record(const ln_spec *spec, const ln_weights *weights,
                         const ln_activations *activations, const ln_kv_layer *kv,
                         const ln_batch *batch, ln_op *ops) {
    recorder r = {.spec = spec,
                  .weights = weights,
                  .a = activations,
                  .kv = kv,
                  .batch = batch,
                  .layer = -1,
                  .ops = ops};
    if (weights->first_layer == 0) {
        embed(&r);
        ln_record_lookup(&r);
        ln_record_altup_begin(&r);
    }
    if (weights->embedding_norm.dim > 0)
        norm(&r, &weights->embedding_norm, activations->x, NULL, activations->x);
    if (weights->first_layer == 0) {
        ln_record_hyper_begin(&r);
        ln_record_block_begin(&r);
    }
    if (ln_spec_follows(spec))
        pass_borders(&r, false);
    find_query_scales(&r);
    for (size_t i = weights->first_layer; i < weights->end_layer; i++) {
        r.layer = (int32_t)i;
        keep_aux_hidden(&r, i);
        ln_record_cycle(&r, i);
        r.layer_kv = &kv[ln_kv_layer_index(spec, spec->layers[i].attention.kv_layer)];
        if (spec->layers[i].shared.is_there)
            layer_behind_block(&r, &spec->layers[i], &weights->layers[i]);
        else if (spec->n_streams > 0)
            altup_layer(&r, &spec->layers[i], &weights->layers[i]);
        else
            layer(&r, &spec->layers[i], &weights->layers[i]);
    }
    keep_aux_hidden(&r, spec->n_layers);
    r.layer = -1;
    if (ln_spec_leads(spec))
        pass_borders(&r, true);
    bool is_end = weights->end_layer == spec->n_layers;
    if (is_end && batch->n_logits + batch->n_hidden > 0) {
        ln_record_altup_end(&r);
        ln_record_hyper_end(&r);
    }
    if (is_end && batch->n_hidden > 0)
        hidden_states(&r);
    if (is_end && batch->n_logits > 0)
        logits(&r);
    keep_choices(&r);
    for (size_t i = 0; i < r.n_ops; i++)
        ops[i].batch = batch;
    ln_values_number(ops, r.n_ops);
    return r.n_ops;
}

size_t ln_forward_record_results(const ln_spec *spec, const ln_activations *activations,
                                 const ln_batch *batch, ln_op *ops) {
    recorder r = {.spec = spec, .a = activations, .batch = batch, .layer = -1, .ops = ops};
    pass_results(&r);
    return r.n_ops;
}
