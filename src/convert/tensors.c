#include "convert/plan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "convert/compressed.h"
#include "convert/dflash.h"
#include "convert/hyper.h"
#include "convert/ngrams.h"
#include "convert/parts.h"
#include "convert/sparse_blocks.h"
#include "format/quants.h"
#include "model/layers/cycles.h"
#include "model/rope.h"
#include "model/xielu.h"

/* What makes keys and values of a latent, as the folder has it: of which values are rows. */
static ln_status joined_kv_b(ln_convert_plan *plan, ln_tensor_id id, const ln_attention_spec *a) {
    const ln_latent_spec *l = &a->latent;
    ln_source_shape shape = {a->n_heads, l->v_dim, l->n_latent};
    ln_weight_request request;
    LN_TRY(ln_source_matrix(plan->checkpoint, plan->spec, id, &shape, &request, plan->err));
    ln_weight_source *source = &request.sources[0];
    source->row_begin = 0;
    source->n_rows = source->run_rows = a->n_heads * (l->n_plain + l->v_dim);
    return ln_convert_request(plan, id, 1, &request, ln_convert_as_is, false);
}

/* A norm of heads with weights [n_heads][dim], in one tensor or in one for each head. */
static ln_status norm_by_head(ln_convert_plan *plan, ln_tensor_id id, size_t n_heads, size_t dim) {
    bool numbered = ln_family_is_numbered(plan->spec->family, plan->checkpoint, id);
    ln_source_shape shape = {1, n_heads, dim};
    if (numbered)
        shape = (ln_source_shape){n_heads, 1, dim};
    for (id.expert = 0; id.expert < n_heads; id.expert++) {
        ln_weight_request request;
        LN_TRY(ln_source_matrix(plan->checkpoint, plan->spec, id, &shape, &request, plan->err));
        request.sources[0].row_begin = numbered ? 0 : id.expert * dim;
        request.sources[0].n_rows = request.sources[0].run_rows = dim;
        request.n_cols = 1;
        LN_TRY(ln_convert_request(plan, id, n_heads, &request, ln_convert_as_is, true));
    }
    return LINNET_OK;
}
/* A norm of a latent, in whose weights files have a scale of it. */
static ln_status latent_norm(ln_convert_plan *plan, ln_tensor_id id, size_t n) {
    ln_weight_request request;
    ln_convert_part part = {.scale = (float)sqrt((double)plan->spec->dim / (double)n)};
    if (!plan->spec->family->scales_latents)
        return ln_convert_norm(plan, id, n);
    LN_TRY(ln_source_vector(plan->checkpoint, plan->spec, id, n, &request, plan->err));
    return ln_convert_request(plan, id, 1, &request, part, true);
}

static ln_status latent(ln_convert_plan *plan, ln_tensor_id id, const ln_attention_spec *a) {
    const ln_latent_spec *l = &a->latent;
    size_t dim = plan->spec->dim, q_rows = a->n_heads * (l->n_plain + l->n_rope);
    if (l->q_latent > 0) {
        LN_TRY(ln_convert_matrix(plan, ln_id_as(id, LN_ROLE_Q_A), l->q_latent, dim));
        LN_TRY(latent_norm(plan, ln_id_as(id, LN_ROLE_Q_A_NORM), l->q_latent));
        LN_TRY(ln_convert_matrix(plan, ln_id_as(id, LN_ROLE_Q_B), q_rows, l->q_latent));
    } else {
        LN_TRY(ln_convert_matrix(plan, ln_id_as(id, LN_ROLE_Q), q_rows, dim));
    }
    const ln_indexer_spec *index = &a->indexer;
    if (index->top_k > 0 && !index->shared) {
        LN_TRY(ln_convert_matrix(plan, ln_id_as(id, LN_ROLE_INDEX_Q),
                                 index->n_heads * index->head_dim, l->q_latent));
        LN_TRY(ln_convert_matrix(plan, ln_id_as(id, LN_ROLE_INDEX_K), index->head_dim, dim));
        LN_TRY(ln_convert_norm(plan, ln_id_as(id, LN_ROLE_INDEX_K_NORM), index->head_dim));
        LN_TRY(ln_convert_matrix(plan, ln_id_as(id, LN_ROLE_INDEX_WEIGHTS), index->n_heads, dim));
    }
    if (index->top_k > 0 && !index->shared && index->run_tokens > 0) {
        LN_TRY(ln_convert_matrix(plan, ln_id_as(id, LN_ROLE_INDEX_GATE), index->head_dim, dim));
        LN_TRY(ln_convert_matrix(plan, ln_id_as(id, LN_ROLE_INDEX_BIAS), index->run_tokens,
                                 index->head_dim));
    }
    LN_TRY(ln_convert_matrix(plan, ln_id_as(id, LN_ROLE_KV_A), l->n_latent + l->n_rope, dim));
    LN_TRY(latent_norm(plan, ln_id_as(id, LN_ROLE_KV_A_NORM), l->n_latent));
    if (l->k_norm)
        LN_TRY(ln_convert_norm(plan, ln_id_as(id, LN_ROLE_K_ROPE_NORM), l->n_rope));
    if (ln_convert_joins_kv_b(plan)) {
        LN_TRY(joined_kv_b(plan, ln_id_as(id, LN_ROLE_V_B), a));
    } else {
        LN_TRY(ln_convert_matrices(plan, ln_id_as(id, LN_ROLE_K_B), a->n_heads, l->n_latent,
                                   l->n_plain));
        LN_TRY(ln_convert_matrices(plan, ln_id_as(id, LN_ROLE_V_B), a->n_heads, l->v_dim,
                                   l->n_latent));
    }
    size_t n_gates = a->n_heads * (a->gate == LN_GATE_BY_ELEMENT ? l->v_dim : 1);
    if (a->gate != LN_GATE_NONE)
        LN_TRY(ln_convert_matrix(plan, ln_id_as(id, LN_ROLE_ATTENTION_GATE), n_gates, dim));
    return ln_convert_matrix(plan, ln_id_as(id, LN_ROLE_O), dim, a->n_heads * l->v_dim);
}

/* Keys and values that a folder holds go along, although nothing reads them. */
static ln_status borrowing_attention(ln_convert_plan *plan, ln_tensor_id id,
                                     const ln_attention_spec *a) {
    size_t dim = plan->spec->dim, kv_rows = a->n_kv_heads * a->k_dim;
    ln_tensor_id k = ln_id_as(id, LN_ROLE_K), v = ln_id_as(id, LN_ROLE_V);
    ln_tensor_id k_norm = ln_id_as(id, LN_ROLE_K_NORM);
    LN_TRY(ln_convert_norm(plan, ln_id_as(id, LN_ROLE_Q_NORM), a->k_dim));
    if (ln_convert_has(plan, k_norm))
        LN_TRY(ln_convert_norm(plan, k_norm, a->k_dim));
    LN_TRY(ln_convert_matrix(plan, ln_id_as(id, LN_ROLE_Q), a->n_heads * a->k_dim, dim));
    if (ln_convert_has(plan, k))
        LN_TRY(ln_convert_matrix(plan, k, kv_rows, dim));
    if (ln_convert_has(plan, v))
        LN_TRY(ln_convert_matrix(plan, v, kv_rows, dim));
    return ln_convert_matrix(plan, ln_id_as(id, LN_ROLE_O), dim, a->n_heads * a->v_dim);
}

/* Whether the file has queries and the output's gate in one matrix, head by head. */
static bool is_joined(const ln_convert_plan *plan, ln_tensor_id id) {
    const ln_binding *binding =
        ln_family_binding(plan->target, LN_FORMAT_GGUF, ln_id_as(id, LN_ROLE_ATTENTION_GATE), 0);
    return binding != NULL && binding->gguf_part == LN_PART_Q_GATE_BY_HEAD;
}

static ln_status gated_queries(ln_convert_plan *plan, ln_tensor_id id, const ln_attention_spec *a) {
    static const ln_role roles[] = {LN_ROLE_Q, LN_ROLE_ATTENTION_GATE};
    ln_source_shape shape = {1, a->n_heads * a->k_dim, plan->spec->dim};
    for (size_t i = 0; i < 2 * a->n_heads; i++) {
        ln_convert_slice slice = {i / 2 * a->k_dim, a->k_dim};
        LN_TRY(ln_convert_rows_of(plan, ln_id_as(id, roles[i % 2]), &shape, slice, ln_convert_as_is,
                                  1));
    }
    return LINNET_OK;
}

/* Numbers, such as factors that divide the frequencies, as a vector of their own. */
static ln_status add_factors(ln_convert_plan *plan, const char *name, const float *factors,
                             size_t n) {
    ln_convert_part part = {.n_units = n, .n_cols = 1, .scale = 1};
    float *copy = malloc(n * sizeof *copy);
    if (copy == NULL)
        return ln_convert_no_memory(plan);
    memcpy(copy, factors, n * sizeof *copy);
    part.values = copy;
    ln_status status = ln_convert_append(plan, name, 1, &part, true);
    if (status != LINNET_OK)
        free(copy);
    return status; /* the plan owns the copy now: NOLINT(clang-analyzer-unix.Malloc) */
}

/* Weights of q/k norms: the scale of scores, and ones. */
static ln_status qk_scale(ln_convert_plan *plan, size_t layer, const ln_attention_spec *a) {
    float *values = calloc(a->k_dim, sizeof *values);
    if (values == NULL)
        return ln_convert_no_memory(plan);
    ln_status status = LINNET_OK;
    for (size_t i = 0; i < 2 && status == LINNET_OK; i++) {
        char name[LN_TENSOR_NAME_BYTES];
        float value = i == 0 ? (float)((double)a->scale / ln_convert_default_scale(plan)) : 1.0f;
        for (size_t j = 0; j < a->k_dim; j++)
            values[j] = value;
        snprintf(name, sizeof name, "blk.%zu.attn_%c_norm.weight", layer, i == 0 ? 'q' : 'k');
        status = add_factors(plan, name, values, a->k_dim);
    }
    free(values);
    return status;
}

static ln_status attention(ln_convert_plan *plan, ln_tensor_id id, const ln_attention_spec *a) {
    size_t dim = plan->spec->dim;
    size_t q_heads = a->qk_norm == LN_QK_NORM_FULL ? a->n_heads : 1;
    size_t k_heads = a->qk_norm == LN_QK_NORM_FULL ? a->n_kv_heads : 1;
    if (a->sinks)
        LN_TRY(ln_convert_vector(plan, ln_id_as(id, LN_ROLE_SINKS), a->n_heads, 0));
    if (a->latent.n_latent > 0)
        return latent(plan, id, a);
    if (plan->spec->family->compressed_attention)
        return ln_convert_compressed(plan, id, a);
    if (a->borrows_kv)
        return borrowing_attention(plan, id, a);
    if (a->qk_norm == LN_QK_NORM_OWN) {
        LN_TRY(norm_by_head(plan, ln_id_as(id, LN_ROLE_Q_NORM), a->n_heads, a->k_dim));
        LN_TRY(norm_by_head(plan, ln_id_as(id, LN_ROLE_K_NORM), a->n_kv_heads, a->k_dim));
    } else if (a->qk_norm != LN_QK_NORM_NONE && !a->bare_qk_norm) {
        LN_TRY(ln_convert_norm(plan, ln_id_as(id, LN_ROLE_Q_NORM), q_heads * a->k_dim));
        LN_TRY(ln_convert_norm(plan, ln_id_as(id, LN_ROLE_K_NORM), k_heads * a->k_dim));
    }
    if (ln_convert_weighs_qk(plan))
        LN_TRY(qk_scale(plan, id.layer, a));
    if (plan->spec->family->index_means)
        LN_TRY(ln_convert_index_means(plan, id, &a->indexer));
    if (is_joined(plan, id)) {
        LN_TRY(gated_queries(plan, id, a));
        LN_TRY(ln_convert_matrix(plan, ln_id_as(id, LN_ROLE_K), a->n_kv_heads * a->k_dim, dim));
        LN_TRY(ln_convert_matrix(plan, ln_id_as(id, LN_ROLE_V), a->n_kv_heads * a->v_dim, dim));
        return ln_convert_matrix(plan, ln_id_as(id, LN_ROLE_O), dim, a->n_heads * a->v_dim);
    }
    size_t n_gates = a->n_heads * (a->gate == LN_GATE_BY_ELEMENT ? a->v_dim : 1);
    if (a->gate != LN_GATE_NONE)
        LN_TRY(ln_convert_matrix(plan, ln_id_as(id, LN_ROLE_ATTENTION_GATE), n_gates, dim));
    LN_TRY(ln_convert_matrix(plan, ln_id_as(id, LN_ROLE_Q), a->n_heads * a->k_dim, dim));
    LN_TRY(ln_convert_matrix(plan, ln_id_as(id, LN_ROLE_K), a->n_kv_heads * a->k_dim, dim));
    if (!a->k_is_v)
        LN_TRY(ln_convert_matrix(plan, ln_id_as(id, LN_ROLE_V), a->n_kv_heads * a->v_dim, dim));
    return ln_convert_matrix(plan, ln_id_as(id, LN_ROLE_O), dim, a->n_heads * a->v_dim);
}

static ln_status cross_attention(ln_convert_plan *plan, ln_tensor_id id,
                                 const ln_attention_spec *a) {
    size_t dim = plan->spec->dim, q_dim = a->n_heads * a->k_dim;
    LN_TRY(ln_convert_norm(plan, ln_id_as(id, LN_ROLE_CROSS_NORM), dim));
    LN_TRY(ln_convert_matrix(plan, ln_id_as(id, LN_ROLE_CROSS_Q), q_dim, dim));
    LN_TRY(ln_convert_matrix(plan, ln_id_as(id, LN_ROLE_CROSS_K), q_dim, dim));
    LN_TRY(ln_convert_matrix(plan, ln_id_as(id, LN_ROLE_CROSS_V), q_dim, dim));
    return ln_convert_matrix(plan, ln_id_as(id, LN_ROLE_CROSS_O), dim, q_dim);
}

static ln_status experts(ln_convert_plan *plan, ln_tensor_id id, const ln_moe_spec *moe) {
    size_t dim = plan->spec->dim, width = moe->n_latent > 0 ? moe->n_latent : dim;
    ln_tensor_id bias = ln_id_as(id, LN_ROLE_ROUTER_BIAS);
    LN_TRY(ln_convert_matrix(plan, ln_id_as(id, LN_ROLE_ROUTER), moe->n_experts, dim));
    if (moe->hash_routed)
        LN_TRY(ln_convert_hash_experts(plan, id, moe));
    else if (ln_family_binding(plan->spec->family, LN_FORMAT_HF, bias, 0) != NULL)
        LN_TRY(ln_convert_vector(plan, bias, moe->n_experts, 0));
    if (!plan->spec->family->plain_ffn)
        LN_TRY(ln_convert_matrices(plan, ln_id_as(id, LN_ROLE_EXPERT_GATE), moe->n_experts,
                                   moe->n_hidden, width));
    LN_TRY(ln_convert_matrices(plan, ln_id_as(id, LN_ROLE_EXPERT_UP), moe->n_experts, moe->n_hidden,
                               width));
    LN_TRY(ln_convert_matrices(plan, ln_id_as(id, LN_ROLE_EXPERT_DOWN), moe->n_experts, width,
                               moe->n_hidden));
    if (moe->n_latent > 0) {
        LN_TRY(ln_convert_matrix(plan, ln_id_as(id, LN_ROLE_EXPERT_LATENT_IN), width, dim));
        LN_TRY(ln_convert_matrix(plan, ln_id_as(id, LN_ROLE_EXPERT_LATENT_OUT), dim, width));
        LN_TRY(ln_convert_norm(plan, ln_id_as(id, LN_ROLE_EXPERT_LATENT_NORM), width));
    }
    if (moe->shared_hidden == 0)
        return LINNET_OK;
    if (!plan->spec->family->plain_ffn)
        LN_TRY(ln_convert_matrix(plan, ln_id_as(id, LN_ROLE_SHARED_GATE), moe->shared_hidden, dim));
    LN_TRY(ln_convert_matrix(plan, ln_id_as(id, LN_ROLE_SHARED_UP), moe->shared_hidden, dim));
    LN_TRY(ln_convert_matrix(plan, ln_id_as(id, LN_ROLE_SHARED_DOWN), dim, moe->shared_hidden));
    if (!moe->shared_gate)
        return LINNET_OK;
    return ln_convert_vector(plan, ln_id_as(id, LN_ROLE_SHARED_ROUTER), dim, 0);
}

static ln_status layer_streams(ln_convert_plan *plan, ln_tensor_id id) {
    const ln_spec *spec = plan->spec;
    size_t dim = spec->dim, n = spec->n_streams + 1, rank = spec->laurel_rank;
    if (spec->n_streams == 0)
        return LINNET_OK;
    LN_TRY(ln_convert_norm(plan, ln_id_as(id, LN_ROLE_ALTUP_NORM), dim));
    LN_TRY(ln_convert_matrix(plan, ln_id_as(id, LN_ROLE_ALTUP_ROUTER), n, dim));
    LN_TRY(ln_convert_matrix(plan, ln_id_as(id, LN_ROLE_ALTUP_PREDICT), n * n, n));
    LN_TRY(ln_convert_matrix(plan, ln_id_as(id, LN_ROLE_ALTUP_CORRECT), n, n));
    LN_TRY(ln_convert_vector(plan, ln_id_as(id, LN_ROLE_ALTUP_SCALE), dim, 0));
    LN_TRY(ln_convert_matrix(plan, ln_id_as(id, LN_ROLE_LAUREL_LEFT), rank, dim));
    LN_TRY(ln_convert_matrix(plan, ln_id_as(id, LN_ROLE_LAUREL_RIGHT), dim, rank));
    return ln_convert_norm(plan, ln_id_as(id, LN_ROLE_LAUREL_NORM), dim);
}

/* What Gemma's layers have beside attention and feed-forward. */
static ln_status layer_lookup(ln_convert_plan *plan, ln_tensor_id id, const ln_layer_spec *spec) {
    size_t dim = plan->spec->dim, lookup_dim = plan->spec->lookup_dim;
    const ln_moe_spec *moe = &spec->ffn.moe;
    if (spec->scaled)
        LN_TRY(ln_convert_vector(plan, ln_id_as(id, LN_ROLE_LAYER_SCALE), 1, 0));
    if (lookup_dim > 0) {
        LN_TRY(ln_convert_matrix(plan, ln_id_as(id, LN_ROLE_LOOKUP_GATE), lookup_dim, dim));
        LN_TRY(ln_convert_matrix(plan, ln_id_as(id, LN_ROLE_LOOKUP_OUT), dim, lookup_dim));
        LN_TRY(ln_convert_norm(plan, ln_id_as(id, LN_ROLE_LOOKUP_POST_NORM), dim));
    }
    if (moe->n_experts == 0 || !moe->beside)
        return LINNET_OK;
    LN_TRY(ln_convert_norm(plan, ln_id_as(id, LN_ROLE_DENSE_POST_NORM), dim));
    LN_TRY(ln_convert_norm(plan, ln_id_as(id, LN_ROLE_EXPERTS_NORM), dim));
    LN_TRY(ln_convert_norm(plan, ln_id_as(id, LN_ROLE_EXPERTS_POST_NORM), dim));
    LN_TRY(ln_convert_vector(plan, ln_id_as(id, LN_ROLE_ROUTER_NORM), dim, 0));
    return ln_convert_vector(plan, ln_id_as(id, LN_ROLE_EXPERT_SCALE), moe->n_experts, 0);
}

static ln_status feed_forward(ln_convert_plan *plan, ln_tensor_id id, const ln_ffn_spec *ffn) {
    size_t dim = plan->spec->dim, n_hidden = ffn->n_hidden;
    if (ffn->moe.n_experts > 0)
        LN_TRY(experts(plan, id, &ffn->moe));
    if (n_hidden == 0 || (ffn->moe.n_experts > 0 && !ffn->moe.beside))
        return LINNET_OK;
    ln_xielu xielu; /* goes with the metadata */
    if (ffn->xielu)
        LN_TRY(ln_xielu_read(plan->checkpoint, plan->spec, id.layer, &plan->unused, false, &xielu,
                             plan->err));
    if (ffn->gated)
        LN_TRY(ln_convert_matrix(plan, ln_id_as(id, LN_ROLE_GATE), n_hidden, dim));
    LN_TRY(ln_convert_matrix(plan, ln_id_as(id, LN_ROLE_UP), n_hidden, dim));
    return ln_convert_matrix(plan, ln_id_as(id, LN_ROLE_DOWN), dim, n_hidden);
}

/* Numbers of the folder, as they are. */
static ln_status read_values(ln_convert_plan *plan, ln_tensor_id id, size_t n, float *values) {
    const ln_binding *binding;
    const ln_tensor *tensor = ln_family_find(plan->spec->family, plan->checkpoint, id, &binding);
    ln_weight_request request;
    size_t begin;
    if (tensor == NULL ||
        !ln_source_values(plan->spec, binding->hf_part, id, n, tensor, &begin)) /* says why */
        return ln_source_vector(plan->checkpoint, plan->spec, id, n, &request, plan->err);
    ln_unused_tensors_mark(&plan->unused, tensor);
    ln_dequantize_row(tensor->dtype, tensor->data, values, n);
    return LINNET_OK;
}

/* A query of streams, whose two parts of folders are one vector there. */
static ln_status stream_query(ln_convert_plan *plan, ln_tensor_id id, ln_role role, ln_role norm) {
    size_t dim = plan->spec->dim;
    ln_role roles[] = {role, norm};
    ln_convert_part part = {.n_units = dim, .n_cols = 1, .scale = 1};
    char name[LN_TENSOR_NAME_BYTES];
    if (plan->spec->residual.n_blocks == 0)
        return LINNET_OK;
    float *query = calloc(2 * dim, sizeof *query);
    if (query == NULL)
        return ln_convert_no_memory(plan);
    ln_status status = LINNET_OK;
    for (size_t i = 0; i < 2 && status == LINNET_OK; i++)
        status = read_values(plan, ln_id_as(id, roles[i]), dim, query + i * dim);
    for (size_t i = 0; i < dim; i++)
        query[i] *= query[dim + i];
    const ln_binding *binding =
        ln_family_binding(plan->target, LN_FORMAT_GGUF, ln_id_as(id, role), 0);
    part.values = query;
    if (status == LINNET_OK) {
        ln_binding_name(binding, LN_FORMAT_GGUF, id, name);
        status = ln_convert_append(plan, name, 1, &part, true);
    }
    if (status != LINNET_OK)
        free(query);
    return status; /* the plan owns it now: NOLINT(clang-analyzer-unix.Malloc) */
}

static ln_status layer(ln_convert_plan *plan, const ln_layer_spec *spec, ln_tensor_id id) {
    size_t dim = plan->spec->dim;
    const ln_family *family = plan->spec->family;
    bool has_attention = !family->sized_by_tensors || spec->attention.n_heads > 0;
    bool has_ffn = !family->sized_by_tensors || spec->ffn.n_hidden > 0;
    if (has_attention)
        LN_TRY(ln_convert_norm(plan, ln_id_as(id, LN_ROLE_ATTENTION_NORM), dim));
    LN_TRY(ln_convert_norm(plan, ln_id_as(id, LN_ROLE_ATTENTION_POST_NORM), dim));
    if (!family->one_block && has_ffn) /* where it is the same norm */
        LN_TRY(ln_convert_norm(plan, ln_id_as(id, LN_ROLE_FFN_NORM), dim));
    LN_TRY(ln_convert_norm(plan, ln_id_as(id, LN_ROLE_FFN_POST_NORM), dim));
    size_t out_dim = spec->attention.n_heads * spec->attention.v_dim;
    if (spec->attention.out_norm)
        LN_TRY(ln_convert_norm(plan, ln_id_as(id, LN_ROLE_ATTENTION_OUT_NORM), out_dim));
    if (spec->ffn.out_norm)
        LN_TRY(ln_convert_norm(plan, ln_id_as(id, LN_ROLE_FFN_OUT_NORM), spec->ffn.n_hidden));
    if (spec->mixer.kind != LN_MIXER_NONE)
        LN_TRY(ln_convert_mixer(plan, id, &spec->mixer));
    if (spec->attention.n_heads > 0)
        LN_TRY(attention(plan, id, &spec->attention));
    if (spec->has_cross)
        LN_TRY(cross_attention(plan, id, &spec->attention));
    LN_TRY(layer_lookup(plan, id, spec));
    LN_TRY(layer_streams(plan, id));
    LN_TRY(ln_convert_layer_hyper(plan, id));
    LN_TRY(stream_query(plan, id, LN_ROLE_ATTENTION_QUERIES, LN_ROLE_ATTENTION_QUERY_NORM));
    LN_TRY(stream_query(plan, id, LN_ROLE_FFN_QUERY, LN_ROLE_FFN_QUERY_NORM));
    LN_TRY(ln_convert_ngrams(plan, id));
    LN_TRY(ln_convert_block_indexer(plan, id));
    return feed_forward(plan, id, &spec->ffn);
}

/* ---- the whole model -------------------------------------------------------------------- */

static ln_status unit_output(ln_convert_plan *plan, ln_tensor_id id, const ln_source_shape *shape) {
    ln_weight_request request;
    LN_TRY(ln_source_matrix(plan->checkpoint, plan->spec, id, shape, &request, plan->err));
    ln_weight_source *source = &request.sources[0];
    if (source->packed.kind == LN_PACKED_NONE)
        source->packed = ln_packed_unit_rows(source->tensor, shape->n_rows, shape->n_cols);
    return ln_convert_request(plan, id, 1, &request, ln_convert_as_is, false);
}

/* The output. Where an architecture scales the logits because it is tied, a copy of the embedding,
 * or of an output equal to it, with the scale in it: not every reader would multiply by it. */
static ln_status output(ln_convert_plan *plan) {
    const ln_spec *spec = plan->spec;
    ln_tensor_id id = {.role = LN_ROLE_OUTPUT};
    ln_source_shape shape = {1, spec->n_vocab, spec->dim};
    if (spec->bidirectional || spec->family->drafts_blocks)
        return LINNET_OK;
    if (!spec->tied && spec->unit_output)
        return unit_output(plan, id, &shape);
    if (!spec->tied && (!plan->target->scale_tied_logits || spec->logit_scale == 1.0f))
        return ln_convert_matrix_of(plan, id, &shape);
    const ln_binding *binding;
    ln_tensor_id bias = {.role = LN_ROLE_OUTPUT, .is_bias = true};
    bool differs = plan->target->gguf_folds_scales && spec->logit_scale != spec->embedding_scale;
    if (ln_family_find(spec->family, plan->checkpoint, bias, &binding) != NULL)
        return ln_fail(plan->err, LINNET_ERR_UNSUPPORTED,
                       "%s: GGUF's \"%s\" has no form for a bias of a tied output",
                       ln_checkpoint_path(plan->checkpoint), plan->architecture);
    if (!plan->target->scale_tied_logits && !differs)
        return LINNET_OK;
    ln_tensor_id source = {.role = spec->tied ? LN_ROLE_EMBEDDING : LN_ROLE_OUTPUT};
    ln_weight_request request;
    ln_convert_part part = {.scale = spec->logit_scale};
    LN_TRY(ln_source_matrix(plan->checkpoint, spec, source, &shape, &request, plan->err));
    return ln_convert_request(plan, id, 1, &request, part, false);
}

/* Readers want a row for each token: those past the table have its first. */
static ln_status fill_lookup(ln_convert_plan *plan, ln_tensor_id id, size_t width) {
    ln_source_shape shape = {1, plan->spec->n_lookup, width};
    for (size_t i = plan->spec->n_lookup; i < plan->spec->n_vocab; i++) {
        ln_weight_request request;
        LN_TRY(ln_source_matrix(plan->checkpoint, plan->spec, id, &shape, &request, plan->err));
        request.sources[0].n_rows = request.sources[0].run_rows = 1;
        LN_TRY(ln_convert_request(plan, id, 1, &request, ln_convert_as_is, false));
    }
    return LINNET_OK;
}

/* The matrices between streams. */
static ln_status streams(ln_convert_plan *plan) {
    const ln_spec *spec = plan->spec;
    ln_tensor_id begin = {.role = LN_ROLE_ALTUP_BEGIN}, end = {.role = LN_ROLE_ALTUP_END};
    if (spec->n_streams == 0)
        return LINNET_OK;
    LN_TRY(ln_convert_matrices(plan, begin, spec->n_streams, spec->dim, spec->dim));
    return ln_convert_matrices(plan, end, spec->n_streams, spec->dim, spec->dim);
}

/* Tables of the layers' embeddings. */
static ln_status lookup(ln_convert_plan *plan) {
    const ln_spec *spec = plan->spec;
    ln_tensor_id id = {.role = LN_ROLE_LOOKUP_EMBEDDING};
    size_t width = spec->n_layers * spec->lookup_dim;
    if (width == 0)
        return LINNET_OK;
    LN_TRY(ln_convert_matrix(plan, id, spec->n_lookup, width));
    LN_TRY(fill_lookup(plan, id, width));
    LN_TRY(ln_convert_matrix(plan, ln_id_as(id, LN_ROLE_LOOKUP_PROJECTION), width, spec->dim));
    return ln_convert_norm(plan, ln_id_as(id, LN_ROLE_LOOKUP_NORM), spec->lookup_dim);
}

/* Pairs that do not turn are told by factors that leave nothing of their frequencies. */
static ln_status turning_factors(ln_convert_plan *plan, const ln_rope_spec *rope) {
    size_t n = rope->n_dims / 2;
    bool is_proportional = rope->scaling == LN_ROPE_PROPORTIONAL;
    float *factors = calloc(n, sizeof *factors);
    if (factors == NULL)
        return ln_convert_no_memory(plan);
    for (size_t i = 0; i < n; i++)
        factors[i] = !is_proportional       ? 1.0f
                     : i >= rope->n_turning ? 1e30f
                     : rope->factor > 0     ? (float)rope->factor
                                            : 1.0f;
    ln_status status = add_factors(plan, "rope_freqs.weight", factors, n);
    free(factors);
    return status;
}

static ln_status rope_factors(ln_convert_plan *plan) {
    const ln_rope_spec *rope = &plan->spec->ropes[0];
    size_t n = rope->n_dims / 2;
    if (plan->spec->n_ropes == 0)
        return LINNET_OK;
    if (rope->scaling == LN_ROPE_LONGROPE) {
        LN_TRY(add_factors(plan, "rope_factors_long.weight", rope->long_factors, n));
        return add_factors(plan, "rope_factors_short.weight", rope->short_factors, n);
    }
    if (plan->target->gguf_turning)
        return turning_factors(plan, rope);
    if (rope->scaling != LN_ROPE_LLAMA3)
        return LINNET_OK;
    ln_rope_spec plain = *rope;
    plain.scaling = LN_ROPE_PLAIN;
    float *factors = calloc(2 * n, sizeof *factors);
    if (factors == NULL)
        return ln_convert_no_memory(plan);
    size_t n_stored = plan->target->gguf_half_rope ? 2 * n : n; /* the rest is not read */
    ln_rope_fill(&plain, plan->spec->ctx_tokens, NULL, factors);
    ln_rope_fill(rope, plan->spec->ctx_tokens, NULL, factors + n);
    for (size_t i = 0; i < n; i++)
        factors[i] /= factors[n + i];
    for (size_t i = n; i < n_stored; i++)
        factors[i] = 1.0f;
    ln_status status = add_factors(plan, "rope_freqs.weight", factors, n_stored);
    free(factors);
    return status;
}

static ln_status stack(ln_convert_plan *plan, const ln_layer_spec *layers, size_t n_layers,
                       bool encoder) {
    const ln_spec *spec = plan->spec;
    ln_tensor_id id = {.encoder = encoder};
    LN_TRY(ln_convert_norm(plan, ln_id_as(id, LN_ROLE_EMBEDDING_NORM), spec->dim));
    LN_TRY(ln_convert_norm(plan, ln_id_as(id, LN_ROLE_OUTPUT_NORM), spec->dim));
    if (spec->positions == LN_POSITIONS_RELATIVE)
        LN_TRY(ln_convert_matrix(plan, ln_id_as(id, LN_ROLE_RELATIVE_BIAS),
                                 spec->n_relative_buckets, layers[0].attention.n_heads));
    n_layers = spec->repeats ? spec->loop_layers : n_layers; /* which are stored once */
    for (id.layer = 0; id.layer < n_layers && spec->cycle_layers == 0; id.layer++)
        LN_TRY(layer(plan, &layers[id.layer], id));
    return LINNET_OK;
}

/* The layers of the low stack, then those of the high one, and what the low one begins with. */
static ln_status cycles(ln_convert_plan *plan) {
    const ln_spec *spec = plan->spec;
    size_t n = spec->cycle_layers, high = n > 0 ? (spec->cycle_stacks - 1) * n : 0;
    char stem[64];
    ln_tensor_id begin = {.role = LN_ROLE_CYCLE_BEGIN}, id = {.stem = stem};
    if (n == 0)
        return LINNET_OK;
    LN_TRY(ln_convert_vector(plan, begin, spec->dim, 0));
    for (size_t i = 0; i < 2 * n; i++) {
        size_t from = i < n ? i : high + i - n;
        ln_cycle_stem(spec, from, stem);
        id.layer = i;
        LN_TRY(layer(plan, &spec->layers[from], id));
    }
    return LINNET_OK;
}

/* The head that drafts, a layer behind the last one. */
static ln_status head(ln_convert_plan *plan) {
    const ln_spec *spec = plan->spec;
    static const ln_role norms[] = {LN_ROLE_HEAD_TOKEN_NORM, LN_ROLE_HEAD_HIDDEN_NORM,
                                    LN_ROLE_HEAD_NORM};
    static const ln_role tables[] = {LN_ROLE_HEAD_OUTPUT, LN_ROLE_HEAD_EMBEDDING};
    ln_tensor_id id = {.layer = spec->n_layers, .stem = spec->family->head_stem};
    if (!ln_convert_has_head(plan))
        return LINNET_OK;
    LN_TRY(layer(plan, spec->mtp, id));
    LN_TRY(ln_convert_matrix(plan, ln_id_as(id, LN_ROLE_HEAD_INPUT), spec->dim, 2 * spec->dim));
    for (size_t i = 0; i < sizeof norms / sizeof *norms; i++)
        LN_TRY(ln_convert_norm(plan, ln_id_as(id, norms[i]), spec->dim));
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        if (ln_convert_has(plan, ln_id_as(id, tables[i])))
            LN_TRY(ln_convert_matrix(plan, ln_id_as(id, tables[i]), spec->n_vocab, spec->dim));
    return LINNET_OK;
}

/* What an assistant reads of the model, and what its next draft reads. */
static ln_status assistant(ln_convert_plan *plan) {
    const ln_spec *spec = plan->spec;
    ln_tensor_id id = {.role = LN_ROLE_HEAD_INPUT};
    if (!spec->family->assists)
        return LINNET_OK;
    LN_TRY(ln_convert_matrix(plan, id, spec->dim, 2 * spec->assisted_dim));
    return ln_convert_matrix(plan, ln_id_as(id, LN_ROLE_HEAD_STATE), spec->assisted_dim, spec->dim);
}

static int compare_parts(const void *a, const void *b) {
    const ln_convert_part *left = a, *right = b;
    if (left->tensor != right->tensor)
        return left->tensor < right->tensor ? -1 : 1;
    return left->begin < right->begin ? -1 : left->begin > right->begin;
}

static void sort_parts(ln_convert_plan *plan) {
    qsort(plan->parts, plan->n_parts, sizeof *plan->parts, compare_parts);
    for (size_t i = plan->n_parts; i-- > 0;) {
        ln_convert_tensor *tensor = &plan->tensors[plan->parts[i].tensor];
        tensor->first_part = i;
        tensor->n_parts++;
        tensor->plan = plan;
    }
}

ln_status ln_convert_plan_tensors(ln_convert_plan *plan) {
    const ln_spec *spec = plan->spec;
    ln_tensor_id id = {.role = LN_ROLE_EMBEDDING};
    LN_TRY(ln_unused_tensors_init(&plan->unused, plan->checkpoint, plan->err));
    if (!spec->family->assists && !spec->family->drafts_blocks)
        LN_TRY(ln_convert_matrix(plan, id, spec->n_vocab, spec->dim));
    if (spec->positions == LN_POSITIONS_LEARNED)
        LN_TRY(ln_convert_matrix(plan, ln_id_as(id, LN_ROLE_LEARNED_POSITIONS), spec->n_learned,
                                 spec->dim));
    if (spec->n_types > 0)
        LN_TRY(
            ln_convert_matrix(plan, ln_id_as(id, LN_ROLE_TOKEN_TYPES), spec->n_types, spec->dim));
    LN_TRY(lookup(plan));
    LN_TRY(streams(plan));
    LN_TRY(ln_convert_output_hyper(plan));
    LN_TRY(stream_query(plan, id, LN_ROLE_OUTPUT_QUERY, LN_ROLE_OUTPUT_QUERY_NORM));
    LN_TRY(output(plan));
    LN_TRY(rope_factors(plan));
    if (spec->n_encoder_layers > 0)
        LN_TRY(stack(plan, spec->encoder_layers, spec->n_encoder_layers, true));
    LN_TRY(stack(plan, spec->layers, spec->n_layers, false));
    LN_TRY(cycles(plan));
    LN_TRY(head(plan));
    LN_TRY(assistant(plan));
    LN_TRY(ln_convert_dflash(plan));
    sort_parts(plan);
    return ln_unused_tensors_check(&plan->unused, spec, plan->err);
}
