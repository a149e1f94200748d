#include "model/attention/differential.h"

#include <math.h>
#include <stdlib.h>

/* exp(q . k) */
static ln_status load_lambda(ln_loader *l, size_t layer, ln_role q, ln_role k, size_t n,
                             double *out) {
    bool is_there;
    double sum = 0;
    float *values = calloc(2 * n, sizeof *values);
    if (values == NULL)
        return ln_fail_memory(l->err, "differential attention");
    ln_status status = ln_load_values(l, q, layer, false, n, values, &is_there);
    if (status == LINNET_OK)
        status = ln_load_values(l, k, layer, false, n, values + n, &is_there);
    for (size_t i = 0; i < n; i++)
        sum += (double)values[i] * (double)values[n + i];
    *out = exp(sum);
    free(values);
    return status;
}

ln_status ln_load_differential(ln_loader *l, size_t layer, const ln_attention_spec *spec,
                               ln_layer_weights *w) {
    double initial = 0.8 - 0.6 * exp(-0.3 * (double)layer), first, second;
    ln_source_shape shape = {spec->n_kv_heads, spec->v_dim, l->spec->dim};
    LN_TRY(ln_load_matrices(l, LN_ROLE_V, layer, &shape, &w->v_pairs));
    LN_TRY(load_lambda(l, layer, LN_ROLE_LAMBDA_Q1, LN_ROLE_LAMBDA_K1, spec->k_dim, &first));
    LN_TRY(load_lambda(l, layer, LN_ROLE_LAMBDA_Q2, LN_ROLE_LAMBDA_K2, spec->k_dim, &second));
    const float weights[] = {1.0f, -(float)(first - second + initial)};
    LN_TRY(ln_load_table(l, weights, 2, &w->half_weights));
    w->difference_norm =
        (ln_norm){.kind = LN_NORM_RMS, .eps = l->spec->norm_eps, .dim = spec->v_dim};
    LN_TRY(ln_load_constant(l, (float)(1 - initial), spec->v_dim, &w->difference_norm.weight));
    return ln_load_matrix(l, LN_ROLE_O, layer, l->spec->dim, spec->n_heads * spec->k_dim, &w->o);
}

void ln_record_value_pairs(recorder *r, const ln_attention_spec *spec, const ln_layer_weights *w,
                           const float *x) {
    linear_by_head(r, w->v_pairs, spec->n_kv_heads, x, 0, r->a->v, 0)->rows_per_x =
        spec->n_kv_heads;
}

const float *ln_record_difference(recorder *r, const ln_attention_spec *spec,
                                  const ln_layer_weights *w) {
    const ln_activations *a = r->a;
    size_t dim = spec->n_heads * spec->v_dim;
    push(r, LN_OP_POINTWISE)->pointwise = (ln_op_pointwise){
        .function = LN_POINTWISE_SCALE,
        .n_rows = r->batch->n_tokens,
        .dim = dim,
        .n_gates = 2,
        .x = a->attended,
        .gate = w->half_weights,
        .one_gate = true,
        .out = a->attended,
    };
    push(r, LN_OP_COMBINE)->combine = (ln_op_combine){
        .x = a->attended,
        .n_used = 2,
        .dim = dim / 2,
        .scale = 1.0f,
        .out = a->q,
    };
    norm(r, &w->difference_norm, a->q, NULL, a->q)->n_rows = r->batch->n_tokens * spec->n_heads / 2;
    return a->q;
}
