#include "model/attention/compressed.h"

/* `first`: the first of its four roles. */
static ln_status compressor(ln_loader *l, size_t i, const ln_compressor_spec *spec, ln_role first,
                            size_t dim, ln_compressor_weights *out) {
    size_t width = spec->overlaps ? 2 * dim : dim;
    const ln_role rows[] = {first, (ln_role)(first + 1)};
    const size_t n_rows[] = {width, width};
    LN_TRY(ln_load_joined(l, rows, n_rows, 2, i, l->spec->dim, &out->rows));
    LN_TRY(ln_load_float_matrix(l, (ln_role)(first + 2), i, spec->n_tokens, width, &out->bias));
    return ln_load_norm(l, (ln_role)(first + 3), i, dim, &out->norm);
}

static ln_status indexer(ln_loader *l, size_t i, const ln_attention_spec *spec,
                         ln_layer_weights *w) {
    const ln_indexer_spec *index = &spec->indexer;
    LN_TRY(ln_load_matrix(l, LN_ROLE_INDEX_Q, i, index->n_heads * index->head_dim,
                          spec->compressed.q_latent, &w->index_q));
    LN_TRY(ln_load_matrix(l, LN_ROLE_INDEX_WEIGHTS, i, index->n_heads, l->spec->dim,
                          &w->index_weights));
    return compressor(l, i, &spec->compressor, LN_ROLE_INDEX_VALUE, index->head_dim,
                      &w->index_compressor);
}

ln_status ln_load_compressed_attention(ln_loader *l, size_t i, const ln_attention_spec *spec,
                                       ln_layer_weights *w) {
    const ln_compressed_spec *compressed = &spec->compressed;
    size_t dim = l->spec->dim, q_rows = spec->n_heads * spec->k_dim;
    ln_source_shape groups = {compressed->n_groups, compressed->group_width,
                              q_rows / compressed->n_groups};
    LN_TRY(ln_load_matrix(l, LN_ROLE_Q_A, i, compressed->q_latent, dim, &w->q_a));
    LN_TRY(ln_load_norm(l, LN_ROLE_Q_A_NORM, i, compressed->q_latent, &w->q_a_norm));
    LN_TRY(ln_load_matrix(l, LN_ROLE_Q_B, i, q_rows, compressed->q_latent, &w->q_b));
    LN_TRY(ln_load_matrix(l, LN_ROLE_K, i, spec->k_dim, dim, &w->k));
    LN_TRY(ln_load_norm(l, LN_ROLE_K_NORM, i, spec->k_dim, &w->k_norm));
    w->q_norm = w->k_norm;
    w->q_norm.weight = NULL;
    LN_TRY(ln_load_matrices(l, LN_ROLE_O_GROUPS, i, &groups, &w->o_groups));
    LN_TRY(ln_load_matrix(l, LN_ROLE_O, i, dim, compressed->n_groups * compressed->group_width,
                          &w->o));
    if (spec->compressor.n_tokens > 0)
        LN_TRY(compressor(l, i, &spec->compressor, LN_ROLE_COMPRESS_VALUE, spec->k_dim,
                          &w->compressor));
    return spec->indexer.top_k > 0 ? indexer(l, i, spec, w) : LINNET_OK;
}
