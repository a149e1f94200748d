#include <stdlib.h>
#include <string.h>

#include "model/layers/tied.h"
#include "model/shard.h"

/* A matrix as it is, in float32. */
static ln_status load_table(ln_loader *l, ln_role role, size_t i, size_t n_rows, size_t n_cols,
                            const float **out) {
    ln_source_shape shape = {1, n_rows, n_cols};
    ln_tensor_id id = {.role = role, .layer = i};
    ln_weight_request request;
    LN_TRY(ln_source_matrix(l->checkpoint, ln_shard_whole(l->spec), id, &shape, &request, l->err));
    request.as_f32 = true;
    return ln_load_floats(l, &request, out);
}

/* `first`: the first of its four roles. */
static ln_status compressor(ln_loader *l, size_t i, const ln_compressor_spec *spec, ln_role first,
                            size_t dim, ln_compressor_weights *out) {
    size_t width = spec->overlaps ? 2 * dim : dim;
    const ln_role rows[] = {first, (ln_role)(first + 1)};
    const size_t n_rows[] = {width, width};
    LN_TRY(ln_load_joined(l, rows, n_rows, 2, i, l->spec->dim, &out->rows));
    LN_TRY(load_table(l, (ln_role)(first + 2), i, spec->n_tokens, width, &out->bias));
    return ln_load_norm(l, (ln_role)(first + 3), i, dim, &out->norm);
}

static ln_status indexer(ln_loader *l, size_t i, const ln_attention_spec *spec,
                         ln_layer_weights *w) {
    const ln_indexer_spec *index = &spec->indexer;
    LN_TRY(ln_load_matrix(l, LN_ROLE_INDEX_Q, i, index->n_heads * index->head_dim,
                          spec->tied.q_latent, &w->index_q));
    LN_TRY(ln_load_matrix(l, LN_ROLE_INDEX_WEIGHTS, i, index->n_heads, l->spec->dim,
                          &w->index_weights));
    return compressor(l, i, &spec->compressor, LN_ROLE_INDEX_VALUE, index->head_dim,
                      &w->index_compressor);
}

ln_status ln_load_tied_attention(ln_loader *l, size_t i, const ln_attention_spec *spec,
                                 ln_layer_weights *w) {
    const ln_tied_spec *tied = &spec->tied;
    size_t dim = l->spec->dim, q_rows = spec->n_heads * spec->k_dim;
    ln_source_shape groups = {tied->n_groups, tied->group_width, q_rows / tied->n_groups};
    LN_TRY(ln_load_matrix(l, LN_ROLE_Q_A, i, tied->q_latent, dim, &w->q_a));
    LN_TRY(ln_load_norm(l, LN_ROLE_Q_A_NORM, i, tied->q_latent, &w->q_a_norm));
    LN_TRY(ln_load_matrix(l, LN_ROLE_Q_B, i, q_rows, tied->q_latent, &w->q_b));
    LN_TRY(ln_load_matrix(l, LN_ROLE_K, i, spec->k_dim, dim, &w->k));
    LN_TRY(ln_load_norm(l, LN_ROLE_K_NORM, i, spec->k_dim, &w->k_norm));
    w->q_norm = w->k_norm;
    w->q_norm.weight = NULL;
    LN_TRY(ln_load_matrices(l, LN_ROLE_O_GROUPS, i, &groups, &w->o_groups));
    LN_TRY(ln_load_matrix(l, LN_ROLE_O, i, dim, tied->n_groups * tied->group_width, &w->o));
    if (spec->compressor.n_tokens > 0)
        LN_TRY(compressor(l, i, &spec->compressor, LN_ROLE_COMPRESS_VALUE, spec->k_dim,
                          &w->compressor));
    return spec->indexer.top_k > 0 ? indexer(l, i, spec, w) : LINNET_OK;
}

/* Element `i` of a tensor of whole numbers. */
static int64_t whole_number(const ln_tensor *tensor, size_t i) {
    const uint8_t *data = tensor->data;
    int64_t wide;
    int32_t narrow;
    if (tensor->dtype == LN_DTYPE_I64) {
        memcpy(&wide, data + i * sizeof wide, sizeof wide);
        return wide;
    }
    memcpy(&narrow, data + i * sizeof narrow, sizeof narrow);
    return narrow;
}

static ln_status read_experts(ln_loader *l, const ln_tensor *tensor, const ln_moe_spec *moe,
                              int32_t *experts) {
    for (size_t i = 0; i < (size_t)tensor->n_elems; i++) {
        int64_t number = whole_number(tensor, i);
        if (number < 0 || (uint64_t)number >= moe->n_experts)
            return ln_fail(l->err, LINNET_ERR_FORMAT, "%s: tensor %s names expert %lld of %zu",
                           ln_checkpoint_path(l->checkpoint), tensor->name, (long long)number,
                           moe->n_experts);
        experts[i] = (int32_t)number;
    }
    return LINNET_OK;
}

ln_status ln_load_experts_by_token(ln_loader *l, size_t i, const ln_moe_spec *moe,
                                   const int32_t **out) {
    ln_tensor_id id = {.role = LN_ROLE_EXPERTS_BY_TOKEN, .layer = i};
    const ln_binding *binding;
    const ln_tensor *tensor = ln_family_find(l->spec->family, l->checkpoint, id, &binding);
    const char *path = ln_checkpoint_path(l->checkpoint);
    size_t n = ln_shard_whole(l->spec)->n_vocab * moe->n_used;
    if (tensor == NULL)
        return ln_fail(l->err, LINNET_ERR_FORMAT,
                       "%s: layer %zu has no table of the experts that tokens meet (tid2eid)", path,
                       i);
    if ((tensor->dtype != LN_DTYPE_I64 && tensor->dtype != LN_DTYPE_I32) || tensor->n_elems != n)
        return ln_fail(l->err, LINNET_ERR_FORMAT, "%s: tensor %s does not hold %zu whole numbers",
                       path, tensor->name, n);
    if (l->unused != NULL)
        ln_unused_tensors_mark(l->unused, tensor);
    size_t offset = ln_layout_add(&l->layout, n, sizeof(int32_t));
    if (l->writable == NULL)
        return LINNET_OK;
    int32_t *experts = calloc(n, sizeof *experts);
    if (experts == NULL)
        return ln_fail(l->err, LINNET_ERR_NOMEM, "out of memory for a table of experts");
    ln_status status = read_experts(l, tensor, moe, experts);
    if (status == LINNET_OK) {
        l->writable->vtable->upload(l->writable, l->memory + offset, experts, n * sizeof *experts);
        *out = (const int32_t *)(const void *)(l->memory + offset);
    }
    free(experts);
    return status;
}
