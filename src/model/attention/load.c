#include "model/attention/load.h"

#include <math.h>
#include <stdlib.h>

#include "model/attention/cca.h"
#include "model/attention/compressed.h"
#include "model/attention/differential.h"
#include "model/attention/index_means.h"
#include "model/attention/index_runs.h"
#include "model/attention/key_bias.h"
#include "model/attention/lengths.h"
#include "model/attention/mixture.h"
#include "model/attention/relative_logits.h"
#include "model/family.h"
#include "model/layers/lookup_load.h"

static ln_status qk_norms(ln_loader *l, size_t layer, const ln_attention_spec *spec,
                          ln_layer_weights *w) {
    if (spec->qk_norm != LN_QK_NORM_NONE && spec->bare_qk_norm) {
        w->q_norm = (ln_norm){.kind = l->spec->norm_kind, .eps = l->spec->norm_eps};
        w->q_norm.dim = spec->k_dim;
        w->k_norm = w->q_norm;
        return LINNET_OK;
    }
    if (spec->qk_norm == LN_QK_NORM_OWN) {
        LN_TRY(
            ln_load_norm_by_head(l, LN_ROLE_Q_NORM, layer, spec->n_heads, spec->k_dim, &w->q_norm));
        LN_TRY(ln_load_norm_by_head(l, LN_ROLE_K_NORM, layer, spec->n_kv_heads, spec->k_dim,
                                    &w->k_norm));
        if (l->spec->family->qk_layer_norm) {
            w->q_norm.kind = w->k_norm.kind = LN_NORM_LAYER;
            w->q_norm.eps = w->k_norm.eps = 1e-5f;
        }
        return LINNET_OK;
    }
    size_t q_heads = spec->qk_norm == LN_QK_NORM_FULL ? spec->n_heads : 1;
    size_t k_heads = spec->qk_norm == LN_QK_NORM_FULL ? spec->n_kv_heads : 1;
    if (spec->qk_norm == LN_QK_NORM_NONE)
        return LINNET_OK;
    LN_TRY(ln_load_norm(l, LN_ROLE_Q_NORM, layer, q_heads * spec->k_dim, &w->q_norm));
    return ln_load_norm(l, LN_ROLE_K_NORM, layer, k_heads * spec->k_dim, &w->k_norm);
}

/* What queries of each head are multiplied with: a scale of the logarithm, and a bias. */
static ln_status log_scales(ln_loader *l, size_t i, ln_role role, size_t n, const float **scale,
                            const float **bias) {
    LN_TRY(ln_load_vector(l, (ln_tensor_id){.role = role, .layer = i}, n, scale));
    return ln_load_vector(l, (ln_tensor_id){.role = (ln_role)(role + 1), .layer = i}, n, bias);
}

/* Its norms are LayerNorms whatever the others are. */
static ln_status indexer(ln_loader *l, size_t i, const ln_attention_spec *spec,
                         ln_layer_weights *w) {
    const ln_indexer_spec *index = &spec->indexer;
    size_t dim = l->spec->dim;
    if (index->top_k == 0 || index->shared)
        return LINNET_OK;
    size_t q_cols = spec->latent.q_latent > 0 ? spec->latent.q_latent : dim;
    LN_TRY(ln_load_matrix(l, LN_ROLE_INDEX_Q, i, index->n_heads * index->head_dim, q_cols,
                          &w->index_q));
    LN_TRY(ln_load_norm(l, LN_ROLE_INDEX_Q_NORM, i, dim, &w->index_q_norm));
    w->index_q_norm.kind = LN_NORM_LAYER;
    w->index_q_norm.eps = 1e-6f;
    if (spec->scales_by_log)
        LN_TRY(log_scales(l, i, LN_ROLE_INDEX_LOG_SCALE, index->n_heads, &w->index_log_scale,
                          &w->index_log_bias));
    LN_TRY(ln_load_matrix(l, LN_ROLE_INDEX_K, i, index->head_dim, dim, &w->index_k));
    LN_TRY(ln_load_norm(l, LN_ROLE_INDEX_K_NORM, i, index->head_dim, &w->index_k_norm));
    w->index_k_norm.kind = LN_NORM_LAYER;
    w->index_k_norm.eps = index->turns_last ? l->spec->norm_eps : 1e-6f;
    if (index->run_tokens > 0)
        LN_TRY(ln_load_index_runs(l, i, index, w));
    return ln_load_matrix(l, LN_ROLE_INDEX_WEIGHTS, i, index->n_heads, dim, &w->index_weights);
}

static ln_status borrowing_attention(ln_loader *l, size_t i, const ln_attention_spec *spec,
                                     ln_layer_weights *w) {
    size_t dim = l->spec->dim;
    if (spec->qk_norm != LN_QK_NORM_NONE)
        LN_TRY(ln_load_norm(l, LN_ROLE_Q_NORM, i, spec->k_dim, &w->q_norm));
    LN_TRY(ln_load_matrix(l, LN_ROLE_Q, i, spec->n_heads * spec->k_dim, dim, &w->q));
    ln_load_skip_borrowed(l, i);
    return ln_load_matrix(l, LN_ROLE_O, i, dim, spec->n_heads * spec->v_dim, &w->o);
}

static ln_status latent_norm(ln_loader *l, ln_role role, size_t i, size_t dim, ln_norm *out) {
    bool is_gguf = ln_checkpoint_get_format(l->checkpoint) == LN_FORMAT_GGUF;
    if (!l->spec->family->scales_latents || is_gguf) /* there the weights have it */
        return ln_load_norm(l, role, i, dim, out);
    float factor = (float)sqrt((double)l->spec->dim / (double)dim);
    return ln_load_scaled_norm(l, role, i, dim, factor, out);
}

static ln_status latent_attention(ln_loader *l, size_t i, const ln_attention_spec *spec,
                                  ln_layer_weights *w) {
    const ln_latent_spec *latent = &spec->latent;
    size_t dim = l->spec->dim, q_rows = spec->n_heads * (latent->n_plain + latent->n_rope);
    size_t q_cols = latent->pairs ? 2 * latent->q_latent : latent->q_latent;
    if (latent->q_latent > 0) {
        LN_TRY(ln_load_matrix(l, LN_ROLE_Q_A, i, latent->q_latent, dim, &w->q_a));
        LN_TRY(latent_norm(l, LN_ROLE_Q_A_NORM, i, latent->q_latent, &w->q_a_norm));
        w->q_a_norm.eps = l->spec->latent_norm_eps;
        LN_TRY(ln_load_matrix(l, LN_ROLE_Q_B, i, q_rows, q_cols, &w->q_b));
        w->latent_copy = (ln_norm){.kind = LN_NORM_NONE, .dim = latent->q_latent};
    } else {
        LN_TRY(ln_load_matrix(l, LN_ROLE_Q, i, q_rows, dim, &w->q));
    }
    if (spec->gate != LN_GATE_NONE)
        LN_TRY(ln_load_matrix(l, LN_ROLE_ATTENTION_GATE, i, spec->n_heads * ln_gate_width(spec),
                              latent->pairs ? q_cols : dim, &w->attention_gate));
    LN_TRY(indexer(l, i, spec, w));
    if (spec->scales_by_log)
        LN_TRY(
            log_scales(l, i, LN_ROLE_Q_LOG_SCALE, spec->n_heads, &w->q_log_scale, &w->q_log_bias));
    LN_TRY(ln_load_matrix(l, LN_ROLE_KV_A, i, latent->n_latent + latent->n_rope, dim, &w->kv_a));
    if (latent->k_norm) {
        LN_TRY(ln_load_matrix(l, LN_ROLE_K_ROPE, i, latent->n_rope, dim, &w->k_rope));
        LN_TRY(ln_load_norm(l, LN_ROLE_K_ROPE_NORM, i, latent->n_rope, &w->k_rope_norm));
    }
    LN_TRY(latent_norm(l, LN_ROLE_KV_A_NORM, i, latent->n_latent, &w->kv_a_norm));
    w->kv_a_norm.eps = l->spec->latent_norm_eps;
    ln_source_shape k = {spec->n_heads, latent->n_latent, latent->n_plain};
    ln_source_shape v = {spec->n_heads, latent->v_dim, latent->n_latent};
    LN_TRY(ln_load_matrices(l, LN_ROLE_K_B, i, &k, &w->k_b));
    LN_TRY(ln_load_matrices(l, LN_ROLE_V_B, i, &v, &w->v_b));
    return ln_load_matrix(l, LN_ROLE_O, i, dim, spec->n_heads * latent->v_dim, &w->o);
}

/* A bias of the output's gate that all elements of a head share. */
static ln_status gate_bias(ln_loader *l, size_t i, const ln_attention_spec *spec, ln_weight *gate) {
    const ln_slice *part = &l->spec->layers[i].part.heads;
    size_t n_whole = part->n > 0 ? part->of : spec->n_heads, width = ln_gate_width(spec);
    bool is_there;
    if (!l->spec->family->gate_bias_by_head)
        return LINNET_OK;
    float *biases = calloc(n_whole + spec->n_heads * width, sizeof *biases);
    if (biases == NULL)
        return ln_fail_memory(l->err, "biases of a gate");
    ln_status status =
        ln_load_values(l, LN_ROLE_ATTENTION_GATE_BIAS, i, false, n_whole, biases, &is_there);
    for (size_t j = 0; j < spec->n_heads * width; j++)
        biases[n_whole + j] = biases[part->begin + j / width];
    if (status == LINNET_OK)
        status = ln_load_table(l, biases + n_whole, spec->n_heads * width, &gate->bias);
    free(biases);
    return status;
}

ln_status ln_load_attention(ln_loader *l, size_t i, const ln_attention_spec *spec,
                            ln_layer_weights *w) {
    size_t dim = l->spec->dim;
    size_t in_dim = spec->in_dim > 0 ? spec->in_dim : dim;
    if (spec->sinks)
        LN_TRY(ln_load_vector(l, (ln_tensor_id){.role = LN_ROLE_SINKS, .layer = i, .stem = l->stem},
                              spec->n_heads, &w->sinks));
    if (spec->latent.n_latent > 0)
        return latent_attention(l, i, spec, w);
    if (spec->compressed.q_latent > 0)
        return ln_load_compressed_attention(l, i, spec, w);
    if (spec->convolved)
        return ln_load_cca(l, i, spec, w);
    if (spec->has_key_bias)
        return ln_load_biased_attention(l, i, spec, w);
    if (spec->out_norm)
        LN_TRY(ln_load_norm(l, LN_ROLE_ATTENTION_OUT_NORM, i, spec->n_heads * spec->v_dim,
                            &w->attention_out_norm));
    if (spec->borrows_kv)
        return borrowing_attention(l, i, spec, w);
    if (spec->n_experts > 0)
        return ln_load_attention_mixture(l, i, spec, w);
    LN_TRY(qk_norms(l, i, spec, w));
    LN_TRY(ln_load_relative_logits(l, i, spec, w));
    LN_TRY(ln_load_lengths(l, i, spec, w));
    if (spec->indexer.top_k > 0)
        LN_TRY(ln_load_index_means(l, i, &spec->indexer, w));
    if (spec->v_norm || spec->k_is_v)
        w->v_norm = (ln_norm){.kind = spec->v_norm ? l->spec->norm_kind : LN_NORM_NONE,
                              .eps = l->spec->norm_eps,
                              .dim = spec->v_dim};
    size_t n_gates = spec->n_heads * (spec->gate == LN_GATE_BY_ELEMENT ? spec->v_dim : 1);
    if (spec->gate != LN_GATE_NONE)
        LN_TRY(ln_load_matrix(l, LN_ROLE_ATTENTION_GATE, i, n_gates, dim, &w->attention_gate));
    LN_TRY(gate_bias(l, i, spec, &w->attention_gate));
    LN_TRY(ln_load_matrix(l, LN_ROLE_Q, i, spec->n_heads * spec->k_dim, in_dim, &w->q));
    LN_TRY(ln_load_matrix(l, LN_ROLE_K, i, spec->n_kv_heads * spec->k_dim, in_dim, &w->k));
    if (spec->differential)
        return ln_load_differential(l, i, spec, w);
    if (!spec->k_is_v)
        LN_TRY(ln_load_matrix(l, LN_ROLE_V, i, spec->n_kv_heads * spec->v_dim, in_dim, &w->v));
    return ln_load_matrix(l, LN_ROLE_O, i, dim, spec->n_heads * spec->v_dim, &w->o);
}

ln_status ln_load_cross_attention(ln_loader *l, size_t i, const ln_attention_spec *spec,
                                  ln_layer_weights *w) {
    size_t dim = l->spec->dim, q_dim = spec->n_heads * spec->k_dim;
    LN_TRY(ln_load_norm(l, LN_ROLE_CROSS_NORM, i, dim, &w->cross_norm));
    LN_TRY(ln_load_matrix(l, LN_ROLE_CROSS_Q, i, q_dim, dim, &w->cross_q));
    LN_TRY(ln_load_matrix(l, LN_ROLE_CROSS_K, i, q_dim, dim, &w->cross_k));
    LN_TRY(ln_load_matrix(l, LN_ROLE_CROSS_V, i, q_dim, dim, &w->cross_v));
    return ln_load_matrix(l, LN_ROLE_CROSS_O, i, dim, q_dim, &w->cross_o);
}
