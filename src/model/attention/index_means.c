#include "model/attention/index_means.h"

#include "model/attention/index_runs.h"

/* ---- reading --------------------------------------------------------------------------------- */

/* Tokens of a run: GGUF lists them by layer. */
static ln_status read_run(const ln_config *config, size_t layer, size_t *n_tokens, ln_error *err) {
    ln_meta_value list, item;
    if (!config->is_gguf)
        return ln_config_need_size(config, (ln_key){"indexer_compress_ratio", ""}, 1,
                                   LN_MAX_INDEX_RUN, n_tokens, err);
    bool is_listed =
        ln_config_find(config, (ln_key){"", "attention.compress_ratios"}, &list, NULL) &&
        ln_meta_item(&list, layer, &item) && item.kind == LN_META_INT;
    if (!is_listed || item.integer < 1 || item.integer > LN_MAX_INDEX_RUN)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                       "%s: key attention.compress_ratios names no runs for attention in layer %zu",
                       ln_checkpoint_path(config->checkpoint), layer);
    *n_tokens = (size_t)item.integer;
    return LINNET_OK;
}

ln_status ln_spec_read_index_means(const ln_config *config, ln_spec *spec, size_t layer,
                                   ln_attention_spec *attention, ln_error *err) {
    ln_indexer_spec *indexer = &attention->indexer;
    size_t budget, n_kv_heads = 1;
    LN_TRY(ln_config_need_size(config, (ln_key){"indexer_n_heads", "attention.indexer.head_count"},
                               1, LN_MAX_DIM, &indexer->n_heads, err));
    LN_TRY(ln_config_need_size(config, (ln_key){"indexer_head_dim", "attention.indexer.key_length"},
                               1, LN_MAX_HEAD_DIM, &indexer->head_dim, err));
    LN_TRY(ln_config_need_size(config, (ln_key){"indexer_budget", "attention.indexer.top_k"}, 1,
                               INT32_MAX, &budget, err));
    LN_TRY(read_run(config, layer, &indexer->run_tokens, err));
    LN_TRY(ln_config_size(config, (ln_key){"indexer_kv_heads", ""}, 1, 1, &n_kv_heads, err));
    if (indexer->head_dim < spec->ropes[0].n_dims ||
        indexer->n_heads * indexer->head_dim > LN_MAX_DIM)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                       "%s: an indexer of %zu heads of %zu, of which %zu dimensions rotate",
                       ln_checkpoint_path(config->checkpoint), indexer->n_heads, indexer->head_dim,
                       spec->ropes[0].n_dims);
    LN_TRY(ln_spec_set_index_runs(config, "indexer_compress_ratio", "indexer_budget", budget, spec,
                                  attention, err));
    spec->n_indexers++;
    return LINNET_OK;
}

/* ---- loading --------------------------------------------------------------------------------- */

ln_status ln_load_index_means(ln_loader *l, size_t i, const ln_indexer_spec *indexer,
                              ln_layer_weights *w) {
    size_t width = indexer->head_dim, dim = l->spec->dim;
    LN_TRY(ln_load_matrix(l, LN_ROLE_INDEX_Q, i, indexer->n_heads * width, dim, &w->index_q));
    LN_TRY(ln_load_matrix(l, LN_ROLE_INDEX_K, i, width, dim, &w->index_k));
    LN_TRY(ln_load_norm(l, LN_ROLE_INDEX_Q_NORM, i, width, &w->index_q_norm));
    LN_TRY(ln_load_norm(l, LN_ROLE_INDEX_NORM, i, width, &w->index_compressor.norm));
    w->index_k_norm = (ln_norm){.kind = LN_NORM_NONE, .dim = width};
    LN_TRY(ln_load_constant(l, 1.0f, indexer->n_heads, &w->index_ones));
    LN_TRY(ln_load_constant(l, 0.0f, indexer->run_tokens * width, &w->index_zeros));
    w->index_compressor.bias = w->index_zeros;
    w->index_zero_norm = (ln_norm){
        .kind = LN_NORM_RMS, .eps = l->spec->norm_eps, .dim = width, .weight = w->index_zeros};
    return LINNET_OK;
}

/* ---- recording ------------------------------------------------------------------------------- */

/* With gates of zero, what a compressor gives is the norm of a mean. Scores are without their
 * positive factor, which does not change their order. */
void ln_record_index_means(recorder *r, const ln_attention_spec *attention,
                           const ln_layer_weights *w, const float *x) {
    const ln_activations *a = r->a;
    const ln_indexer_spec *spec = &attention->indexer;
    const ln_kv_layer *kv = &r->kv[attention->compressor.kv_layer];
    const ln_rope *rope = &r->weights->ropes[attention->rope];
    precise_linear(r, &w->index_k, x, a->index_k);
    ln_record_index_row(r, &w->index_k_norm, 0);
    ln_record_index_row(r, &w->index_zero_norm, w->index_k_norm.dim);
    ln_record_run_keys(r, &w->index_compressor, rope, kv);
    precise_linear(r, &w->index_q, x, a->index_q);
    push(r, LN_OP_QKV)->qkv = (ln_op_qkv){.q = a->index_q,
                                          .n_heads = spec->n_heads,
                                          .qk_norm = LN_QK_NORM_HEAD,
                                          .q_norm = &w->index_q_norm,
                                          .k_norm = &w->index_q_norm,
                                          .rope = rope,
                                          .kv = kv + 1};
    push(r, LN_OP_POINTWISE)->pointwise =
        (ln_op_pointwise){.function = LN_POINTWISE_CLAMP,
                          .n_rows = r->batch->n_tokens,
                          .dim = spec->n_heads,
                          .rows_per_x = r->batch->n_tokens, /* all rows read one */
                          .x = w->index_ones,
                          .limit = INFINITY,
                          .out = a->index_weights};
    ln_record_run_choice(r, spec, kv);
}
