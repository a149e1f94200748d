#include "model/attention/index_runs.h"

ln_status ln_spec_set_index_runs(const ln_config *config, const char *run_key,
                                 const char *n_tokens_key, size_t n_tokens, ln_spec *spec,
                                 ln_attention_spec *attention, ln_error *err) {
    ln_indexer_spec *indexer = &attention->indexer;
    size_t run = indexer->run_tokens;
    if (n_tokens % run != 0)
        return ln_fail(err, LINNET_ERR_FORMAT, "%s: %s %zu is no multiple of %s %zu",
                       ln_checkpoint_path(config->checkpoint), n_tokens_key, n_tokens, run_key,
                       run);
    indexer->top_k = n_tokens / run;
    if (indexer->shared)
        return LINNET_OK;
    attention->compressor = (ln_compressor_spec){.n_tokens = run, .kv_layer = spec->n_entry_caches};
    spec->n_entry_caches += ln_compressor_caches(&attention->compressor);
    return LINNET_OK;
}

ln_status ln_spec_read_index_runs(const ln_config *config, ln_spec *spec,
                                  ln_attention_spec *attention, ln_error *err) {
    ln_indexer_spec *indexer = &attention->indexer;
    bool has_tail = true;
    indexer->run_tokens = 16;
    LN_TRY(ln_config_flag(config, (ln_key){"", "attention.indexer.kpool_select_tail"}, &has_tail,
                          err));
    if (!has_tail)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                       "%s: key attention.indexer.kpool_select_tail: false is not supported",
                       ln_checkpoint_path(config->checkpoint));
    LN_TRY(ln_config_size(config, (ln_key){"index_kpool", "attention.indexer.kpool"}, 1,
                          LN_MAX_INDEX_RUN, &indexer->run_tokens, err));
    return ln_spec_set_index_runs(config, "index_kpool", "index_topk", indexer->top_k, spec,
                                  attention, err);
}

ln_status ln_load_index_runs(ln_loader *l, size_t i, const ln_indexer_spec *indexer,
                             ln_layer_weights *w) {
    size_t width = indexer->head_dim;
    w->index_compressor.norm = (ln_norm){.kind = LN_NORM_NONE, .dim = width};
    LN_TRY(ln_load_matrix(l, LN_ROLE_INDEX_GATE, i, width, l->spec->dim, &w->index_gate));
    return ln_load_float_matrix(l, LN_ROLE_INDEX_BIAS, i, indexer->run_tokens, width,
                                &w->index_compressor.bias);
}

void ln_record_index_row(recorder *r, const ln_norm *weights, size_t begin) {
    norm_to_columns(r, weights, r->a->index_k, r->a->entry_rows, 2 * weights->dim, begin);
}

void ln_record_run_keys(recorder *r, const ln_compressor_weights *compressor, const ln_rope *rope,
                        const ln_kv_layer *kv) {
    push(r, LN_OP_QKV)->qkv = (ln_op_qkv){.k = r->a->entry_rows, .kv = kv};
    push(r, LN_OP_COMPRESS)->compress = (ln_op_compress){.rows = kv,
                                                         .entries = kv + 1,
                                                         .bias = compressor->bias,
                                                         .norm = &compressor->norm,
                                                         .rope = rope};
}

void ln_record_run_choice(recorder *r, const ln_indexer_spec *spec, const ln_kv_layer *kv) {
    const ln_activations *a = r->a;
    push(r, LN_OP_INDEX)->index = (ln_op_index){.q = a->index_q,
                                                .weights = a->index_weights,
                                                .kv = kv + 1,
                                                .n_heads = spec->n_heads,
                                                .top_k = spec->top_k,
                                                .in_tokens = true,
                                                .positions = a->indices};
}

void ln_record_index_runs(recorder *r, const ln_attention_spec *attention,
                          const ln_layer_weights *w, const float *x) {
    const ln_activations *a = r->a;
    const ln_kv_layer *kv = &r->kv[attention->compressor.kv_layer];
    precise_linear(r, &w->index_k, x, a->index_k);
    ln_record_index_row(r, &w->index_k_norm, 0);
    precise_linear(r, &w->index_gate, x, a->index_k);
    ln_record_index_row(r, &w->index_compressor.norm, w->index_compressor.norm.dim);
    ln_record_run_keys(r, &w->index_compressor, &r->weights->still_rope, kv);
    precise_linear(r, &w->index_q, a->latent_q, a->index_q);
    precise_linear(r, &w->index_weights, x, a->index_weights);
    ln_record_run_choice(r, &attention->indexer, kv);
}
