#include "model/attention/relative_logits.h"

#include <stdlib.h>

#include "model/family.h"

enum { MAX_DIM = 1 << 10, MAX_DISTANCES = 1 << 20 };

ln_status ln_spec_read_relative_logits(const ln_config *config, size_t window,
                                       ln_attention_spec *attention, ln_error *err) {
    LN_TRY(ln_config_need_size(config, (ln_key){"d_rel", ""}, 1, MAX_DIM, &attention->relative_dim,
                               err));
    attention->n_distances = window;
    if (window > MAX_DISTANCES)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                       "%s: relative logits in a window of %zu tokens; at most %d are supported",
                       ln_checkpoint_path(config->checkpoint), window, MAX_DISTANCES);
    if (window > 0)
        return LINNET_OK;
    return ln_config_need_size(config, (ln_key){"rel_extent", ""}, 1, MAX_DISTANCES,
                               &attention->n_distances, err);
}

/* [column][distance] becomes [distance][column]. */
static ln_status load_embeddings(ln_loader *l, size_t i, const ln_attention_spec *spec,
                                 const float **out) {
    size_t dim = spec->relative_dim, n = dim * spec->n_distances;
    bool is_there;
    float *stored = calloc(2 * n, sizeof *stored);
    if (stored == NULL)
        return ln_fail_memory(l->err, "relative embeddings");
    float *embeddings = stored + n;
    ln_status status =
        ln_load_values(l, LN_ROLE_RELATIVE_EMBEDDINGS, i, false, n, stored, &is_there);
    for (size_t at = 0; at < n && status == LINNET_OK; at++)
        embeddings[at] = stored[at % dim * spec->n_distances + at / dim];
    if (status == LINNET_OK)
        status = ln_load_table(l, embeddings, n, out);
    free(stored);
    return status;
}

ln_status ln_load_relative_logits(ln_loader *l, size_t i, const ln_attention_spec *spec,
                                  ln_layer_weights *w) {
    if (spec->relative_dim == 0)
        return LINNET_OK;
    LN_TRY(ln_load_matrix(l, LN_ROLE_RELATIVE_QUERIES, i, spec->n_heads * spec->relative_dim,
                          l->spec->dim, &w->relative_queries));
    return load_embeddings(l, i, spec, &w->relative_embeddings);
}

void ln_record_relative_logits(recorder *r, const ln_attention_spec *spec,
                               const ln_layer_weights *w, const float *x) {
    if (spec->relative_dim > 0)
        precise_linear(r, &w->relative_queries, x, r->a->relative_queries);
}

ln_relative_logits ln_relative_logits_of(const recorder *r, const ln_attention_spec *spec,
                                         const ln_layer_weights *w) {
    if (spec->relative_dim == 0)
        return (ln_relative_logits){0};
    return (ln_relative_logits){.queries = r->a->relative_queries,
                                .table = w->relative_embeddings,
                                .dim = spec->relative_dim,
                                .n_distances = spec->n_distances};
}
