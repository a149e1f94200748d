#include "model/attention/lengths.h"

#include "model/family.h"

/* Added to lengths. */
#define LENGTH_EPS 1e-6f

ln_status ln_spec_read_lengths(const ln_config *config, ln_attention_spec *attention,
                               ln_error *err) {
    double of_heads = 0, of_states = 0;
    LN_TRY(ln_config_real(config, (ln_key){"qk_l2_clip_threshold", ""}, 1e-9, 1e9, &of_heads, err));
    LN_TRY(
        ln_config_real(config, (ln_key){"rel_l2_clip_threshold", ""}, 1e-9, 1e9, &of_states, err));
    if (of_heads == 0 || of_states == 0)
        return ln_fail(err, LINNET_ERR_FORMAT, "%s: key %s is missing",
                       ln_checkpoint_path(config->checkpoint),
                       of_heads == 0 ? "qk_l2_clip_threshold" : "rel_l2_clip_threshold");
    attention->head_limit = (float)of_heads;
    attention->relative_limit = (float)of_states;
    return LINNET_OK;
}

ln_status ln_load_lengths(ln_loader *l, size_t i, const ln_attention_spec *spec,
                          ln_layer_weights *w) {
    if (spec->head_limit == 0)
        return LINNET_OK;
    /* what multiplies each element first */
    LN_TRY(ln_load_value_table(l, LN_ROLE_Q_SCALES, i, false, spec->n_heads * spec->k_dim, NULL,
                               &w->q_scales));
    LN_TRY(ln_load_value_table(l, LN_ROLE_RELATIVE_SCALES, i, false,
                               spec->n_heads * spec->relative_dim, NULL, &w->relative_scales));
    return ln_load_matrix(l, LN_ROLE_TOKEN_SINKS, i, spec->n_heads, l->spec->dim, &w->token_sinks);
}

/* Heads of x at a length of at most `limit`. */
static void clip_norm(recorder *r, size_t n_heads, size_t dim, float limit, float *x) {
    push(r, LN_OP_ROWWISE)->rowwise = (ln_op_rowwise){.function = LN_ROWWISE_CLIP_NORM,
                                                      .n_rows = r->batch->n_tokens * n_heads,
                                                      .dim = dim,
                                                      .eps = LENGTH_EPS,
                                                      .limit = limit,
                                                      .x = x,
                                                      .out = x};
}

void ln_record_lengths(recorder *r, const ln_attention_spec *spec, const ln_layer_weights *w,
                       const float *x) {
    const ln_activations *a = r->a;
    size_t n_tokens = r->batch->n_tokens;
    if (spec->head_limit == 0)
        return;
    scale_rows(r, n_tokens, spec->n_heads * spec->k_dim, a->q, w->q_scales);
    clip_norm(r, spec->n_heads, spec->k_dim, spec->head_limit, a->q);
    clip_norm(r, spec->n_kv_heads, spec->k_dim, spec->head_limit, a->k);
    scale_rows(r, n_tokens, spec->n_heads * spec->relative_dim, a->relative_queries,
               w->relative_scales);
    clip_norm(r, spec->n_heads, spec->relative_dim, spec->relative_limit, a->relative_queries);
    precise_linear(r, &w->token_sinks, x, a->token_sinks);
}
