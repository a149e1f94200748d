#include "model/attention/mixture.h"

#include <stdlib.h>

/* ---- weights ----------------------------------------------------------------------------- */

ln_status ln_load_attention_mixture(ln_loader *l, size_t layer, const ln_attention_spec *spec,
                                    ln_layer_weights *w) {
    size_t dim = l->spec->dim, n = spec->n_experts, width = spec->n_kv_heads * spec->k_dim;
    ln_source_shape q = {n, width, dim}, o = {n, dim, width};
    LN_TRY(ln_load_matrix(l, LN_ROLE_ATTENTION_ROUTER, layer, n, dim, &w->attention_router));
    LN_TRY(ln_load_matrices(l, LN_ROLE_EXPERT_Q, layer, &q, &w->q_experts));
    LN_TRY(ln_load_matrix(l, LN_ROLE_K, layer, width, dim, &w->k));
    LN_TRY(ln_load_matrix(l, LN_ROLE_V, layer, width, dim, &w->v));
    return ln_load_matrices(l, LN_ROLE_EXPERT_O, layer, &o, &w->o_experts);
}

/* Columns (major, minor, element) of rows (minor, major, element). */
static ln_status load_columns(ln_loader *l, size_t n_major, size_t n_minor, size_t dim,
                              const int32_t **out) {
    size_t n = n_major * n_minor * dim;
    int32_t *columns = calloc(n, sizeof *columns);
    if (columns == NULL)
        return ln_fail_memory(l->err, "the order of columns");
    for (size_t i = 0; i < n; i++) {
        size_t major = i / dim / n_minor, minor = i / dim % n_minor;
        columns[i] = (int32_t)((minor * n_major + major) * dim + i % dim);
    }
    ln_status status = ln_load_columns(l, columns, n, out);
    free(columns);
    return status;
}

ln_status ln_load_choice_columns(ln_loader *l) {
    const ln_attention_spec *a = &l->spec->layers[0].attention;
    if (a->n_experts == 0)
        return LINNET_OK;
    LN_TRY(load_columns(l, a->n_kv_heads, a->n_used, a->k_dim, &l->weights->head_columns));
    return load_columns(l, a->n_used, a->n_kv_heads, a->k_dim, &l->weights->choice_columns);
}

/* ---- a step ------------------------------------------------------------------------------ */

static void choose(recorder *r, const ln_attention_spec *spec, const ln_layer_weights *w,
                   const float *x) {
    const ln_activations *a = r->a;
    precise_linear(r, &w->attention_router, x, a->router);
    push(r, LN_OP_ROUTE)->route = (ln_op_route){
        .logits = a->router,
        .router = LN_ROUTER_SOFTMAX_CHOSEN,
        .n_experts = spec->n_experts,
        .n_used = spec->n_used,
        .scale = 1.0f,
        .experts = a->experts,
        .weights = a->expert_weights,
    };
    push(r, LN_OP_GROUP)->group = (ln_op_group){
        .experts = a->experts,
        .n_rows = r->batch->n_tokens * spec->n_used,
        .n_experts = spec->n_experts,
        .order = a->expert_order,
        .starts = a->expert_starts,
    };
}

/* A linear whose rows (token, choice) meet the expert that was chosen. */
static void linear_by_choice(recorder *r, const ln_attention_spec *spec, const ln_weight *weights,
                             size_t rows_per_x, const float *x, float *out) {
    push(r, LN_OP_LINEAR)->linear = (ln_op_linear){
        .weight = weights,
        .groups = {.n_groups = spec->n_experts,
                   .order = r->a->expert_order,
                   .starts = r->a->expert_starts},
        .n_rows = r->batch->n_tokens * spec->n_used,
        .rows_per_x = rows_per_x,
        .rows_per_token = spec->n_used,
        .x = x,
        .scale = 1.0f,
        .precise = true,
        .out = out,
    };
}

static void reorder(recorder *r, const ln_attention_spec *spec, const int32_t *columns,
                    const float *x, float *out) {
    push(r, LN_OP_GATHER)->gather = (ln_op_gather){.columns = columns,
                                                   .n_rows = r->batch->n_tokens,
                                                   .dim = spec->n_heads * spec->k_dim,
                                                   .x = x,
                                                   .out = out};
}

void ln_record_expert_queries(recorder *r, const ln_attention_spec *spec, const ln_layer_weights *w,
                              const float *x) {
    choose(r, spec, w, x);
    linear_by_choice(r, spec, w->q_experts, spec->n_used, x, r->a->expert_hidden);
    reorder(r, spec, r->weights->head_columns, r->a->expert_hidden, r->a->q);
}

void ln_record_expert_outputs(recorder *r, const ln_attention_spec *spec,
                              const ln_layer_weights *w) {
    const ln_activations *a = r->a;
    reorder(r, spec, r->weights->choice_columns, a->attended, a->expert_hidden);
    linear_by_choice(r, spec, w->o_experts, 1, a->expert_hidden, a->expert_out);
    push(r, LN_OP_COMBINE)->combine = (ln_op_combine){
        .x = a->expert_out,
        .weights = a->expert_weights,
        .n_used = spec->n_used,
        .dim = r->spec->dim,
        .residual = a->x,
        .scale = r->spec->residual_scale,
        .out = a->x,
    };
}
