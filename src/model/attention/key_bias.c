#include "model/attention/key_bias.h"

ln_status ln_load_key_bias_rows(ln_loader *l) {
    const ln_attention_spec *a = &l->spec->layers[0].attention;
    const float of_query[LN_KEY_BIAS_DIMS] = {1.0f / a->scale}, of_key[LN_KEY_BIAS_DIMS] = {1.0f};
    if (!a->has_key_bias)
        return LINNET_OK;
    LN_TRY(ln_load_table(l, of_query, LN_KEY_BIAS_DIMS, &l->weights->query_bias_row));
    return ln_load_table(l, of_key, LN_KEY_BIAS_DIMS, &l->weights->key_bias_row);
}

ln_status ln_load_biased_attention(ln_loader *l, size_t layer, const ln_attention_spec *spec,
                                   ln_layer_weights *w) {
    size_t dim = l->spec->dim, width = spec->k_dim - LN_KEY_BIAS_DIMS, n_kv = spec->n_kv_heads;
    ln_tensor_id rates = {.role = LN_ROLE_KEY_BIAS_RATE, .layer = layer};
    w->key_bias_copy = (ln_norm){.kind = LN_NORM_NONE, .dim = LN_KEY_BIAS_DIMS};
    LN_TRY(ln_load_norm(l, LN_ROLE_Q_NORM, layer, width, &w->q_norm));
    LN_TRY(ln_load_norm(l, LN_ROLE_K_NORM, layer, width, &w->k_norm));
    LN_TRY(ln_load_matrix(l, LN_ROLE_Q, layer, spec->n_heads * width, dim, &w->q));
    LN_TRY(ln_load_matrix(l, LN_ROLE_K, layer, n_kv * width, dim, &w->k));
    LN_TRY(ln_load_matrix(l, LN_ROLE_V, layer, n_kv * spec->v_dim, dim, &w->v));
    LN_TRY(ln_load_matrix(l, LN_ROLE_KEY_BIAS, layer, n_kv, n_kv * spec->v_dim, &w->key_bias));
    LN_TRY(ln_load_vector(l, rates, n_kv, &w->key_bias_rates));
    return ln_load_matrix(l, LN_ROLE_O, layer, dim, spec->n_heads * spec->v_dim, &w->o);
}

/* The beginnings of heads, or what is behind: out = norm(x), of rows (token, head). */
static void fill_heads(recorder *r, const ln_attention_spec *spec, size_t n_heads,
                       const ln_norm *weights, const float *x, size_t begin, float *out) {
    ln_op_norm *p = norm(r, weights, x, NULL, out);
    p->n_rows = r->batch->n_tokens * n_heads;
    p->out_stride = spec->k_dim;
    p->out_begin = begin;
}

/* What is behind heads: one row for all, or that row times a number for each. */
static void fill_ends(recorder *r, const ln_attention_spec *spec, size_t n_heads,
                      const ln_layer_weights *w, const float *row, const float *factors,
                      float *out) {
    float *ends = r->a->key_bias_rows;
    size_t n_rows = r->batch->n_tokens * n_heads;
    push(r, LN_OP_POINTWISE)->pointwise =
        (ln_op_pointwise){.function = factors != NULL ? LN_POINTWISE_SCALE : LN_POINTWISE_ADD,
                          .n_rows = n_rows,
                          .dim = LN_KEY_BIAS_DIMS,
                          .rows_per_x = n_rows,
                          .n_gates = 1,
                          .x = row,
                          .gate = factors,
                          .scale = 1.0f,
                          .out = ends};
    fill_heads(r, spec, n_heads, &w->key_bias_copy, ends, spec->k_dim - LN_KEY_BIAS_DIMS, out);
}

void ln_record_biased_heads(recorder *r, const ln_attention_spec *spec, const ln_layer_weights *w,
                            const float *x) {
    const ln_activations *a = r->a;
    const ln_weight *const all[] = {&w->q, &w->k, &w->v};
    size_t n_kv = spec->n_kv_heads;
    lora_shrink(r, x, 3, all);
    score_linear(r, spec, &w->q, x, a->attended);
    fill_heads(r, spec, spec->n_heads, &w->q_norm, a->attended, 0, a->q);
    fill_ends(r, spec, spec->n_heads, w, r->weights->query_bias_row, NULL, a->q);
    score_linear(r, spec, &w->k, x, a->attended);
    fill_heads(r, spec, n_kv, &w->k_norm, a->attended, 0, a->k);
    linear(r, &w->v, x, a->v);
    precise_linear(r, &w->key_bias, a->v, a->key_biases);
    push(r, LN_OP_POINTWISE)->pointwise = (ln_op_pointwise){.function = LN_POINTWISE_EXP_SOFTPLUS,
                                                            .n_rows = r->batch->n_tokens,
                                                            .dim = n_kv,
                                                            .n_gates = n_kv,
                                                            .x = a->key_biases,
                                                            .gate = w->key_bias_rates,
                                                            .one_gate = true,
                                                            .out = a->key_biases};
    fill_ends(r, spec, n_kv, w, r->weights->key_bias_row, a->key_biases, a->k);
}
