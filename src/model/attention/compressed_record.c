#include "model/attention/compressed.h"

/* Queries and the keys that are values, finished; keys go to the cache. */
static void project(recorder *r, const ln_attention_spec *spec, const ln_layer_weights *w,
                    const float *x) {
    const ln_activations *a = r->a;
    precise_linear(r, &w->q_a, x, a->latent_q);
    norm(r, &w->q_a_norm, a->latent_q, NULL, a->latent_q);
    precise_linear(r, &w->q_b, a->latent_q, a->q);
    precise_linear(r, &w->k, x, a->k);
    push(r, LN_OP_QKV)->qkv = (ln_op_qkv){
        .q = a->q,
        .k = a->k,
        .n_heads = spec->n_heads,
        .qk_norm = LN_QK_NORM_HEAD,
        .q_norm = &w->q_norm,
        .k_norm = &w->k_norm,
        .rope = &r->weights->ropes[spec->rope],
        .kv = r->layer_kv,
    };
}

/* The entries of runs that the step completes, which come to the cache `kv` + 1 by way of rows in
 * `kv`. */
static void compress(recorder *r, const ln_attention_spec *spec, const ln_compressor_weights *w,
                     const float *x, const ln_kv_layer *kv) {
    precise_linear(r, &w->rows, x, r->a->entry_rows);
    push(r, LN_OP_QKV)->qkv = (ln_op_qkv){.k = r->a->entry_rows, .kv = kv};
    push(r, LN_OP_COMPRESS)->compress = (ln_op_compress){.rows = kv,
                                                         .entries = kv + 1,
                                                         .overlaps = spec->compressor.overlaps,
                                                         .bias = w->bias,
                                                         .norm = &w->norm,
                                                         .rope = &r->weights->ropes[spec->rope]};
}

/* The entries that attention is to read. Scores are without their positive factors, which do not
 * change their order. */
static void choose_entries(recorder *r, const ln_attention_spec *spec, const ln_layer_weights *w,
                           const float *x, const ln_kv_layer *kv) {
    const ln_activations *a = r->a;
    const ln_indexer_spec *index = &spec->indexer;
    compress(r, spec, &w->index_compressor, x, kv);
    precise_linear(r, &w->index_q, a->latent_q, a->index_q);
    precise_linear(r, &w->index_weights, x, a->index_weights);
    push(r, LN_OP_QKV)->qkv = (ln_op_qkv){.q = a->index_q,
                                          .n_heads = index->n_heads,
                                          .rope = &r->weights->ropes[spec->rope],
                                          .kv = kv + 1};
    push(r, LN_OP_INDEX)->index = (ln_op_index){.q = a->index_q,
                                                .weights = a->index_weights,
                                                .kv = kv + 1,
                                                .n_heads = index->n_heads,
                                                .top_k = index->top_k,
                                                .positions = a->indices};
}

void ln_record_compressed_attention(recorder *r, const ln_attention_spec *spec,
                                    const ln_layer_weights *w, const float *x) {
    const ln_activations *a = r->a;
    bool is_compressed = spec->compressor.n_tokens > 0, is_chosen = spec->indexer.top_k > 0;
    const ln_kv_layer *caches = is_compressed ? &r->kv[spec->compressor.kv_layer] : NULL;
    project(r, spec, w, x);
    if (is_compressed)
        compress(r, spec, &w->compressor, x, caches);
    if (is_chosen)
        choose_entries(r, spec, w, x, caches + 2);
    push(r, LN_OP_ATTENTION)->attention = (ln_op_attention){
        .q = a->q,
        .kv = r->layer_kv,
        .n_heads = spec->n_heads,
        .scale = spec->scale,
        .window = spec->window,
        .sinks = w->sinks,
        .indices = is_chosen ? a->indices : NULL,
        .top_k = spec->indexer.top_k,
        .entries = is_compressed ? caches + 1 : NULL,
        .out = a->attended,
    };
    push(r, LN_OP_QKV)->qkv = (ln_op_qkv){.q = a->attended,
                                          .n_heads = spec->n_heads,
                                          .rope = &r->weights->back_ropes[spec->rope],
                                          .kv = r->layer_kv};
    linear_by_head(r, w->o_groups, spec->compressed.n_groups, a->attended, 0, a->latent_heads, 0);
    linear_to_stream(r, &w->o, NULL, a->latent_heads);
}
