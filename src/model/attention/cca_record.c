#include "model/attention/cca.h"
#include "model/mixer/record.h"
#include "model/mixer/shape.h"

/* Queries, keys and both halves of values, side by side in rows of conv_in, which are as wide as
 * what convolutions read. Queries and keys stay. */
static void project_all(recorder *r, const ln_layer_weights *w, size_t stride, const float *x) {
    const ln_activations *a = r->a;
    const ln_weight *const all[] = {&w->q, &w->k, &w->v, &w->v_delayed};
    const ln_norm *const copies[] = {&w->conv_copies[0], &w->conv_copies[1], &w->conv_copies[2],
                                     &w->conv_copies[2]};
    float *const to[] = {a->q, a->k, a->v, a->v};
    size_t begin = 0;
    lora_shrink(r, x, 4, all);
    for (size_t i = 0; i < 4; begin += all[i++]->n_rows) {
        linear(r, all[i], x, to[i]);
        norm_to_columns(r, copies[i], to[i], a->conv_in, stride, begin);
    }
}

/* Both convolutions: conv_in has values then, in their columns, and conv_out heads. */
static void convolve(recorder *r, const ln_mixer_spec *m, const ln_layer_weights *w,
                     size_t stride) {
    const ln_activations *a = r->a;
    push(r, LN_OP_GATHER)->gather = (ln_op_gather){.columns = r->weights->conv_columns,
                                                   .n_rows = r->batch->n_tokens,
                                                   .dim = stride,
                                                   .x = a->conv_in,
                                                   .out = a->conv_out};
    push(r, LN_OP_CONV)->conv = (ln_op_conv){.x = a->conv_out,
                                             .weight = w->mixer.conv,
                                             .bias = w->mixer.conv_bias,
                                             .cache = ln_record_state_cache(r),
                                             .out = a->conv_in};
    linear_by_head(r, w->head_convs, ln_mixer_conv_units(m), a->conv_in, 0, a->conv_out, 0);
}

/* What queries and keys were before: (q + k) / 2 by head, in mixer_out, and in a->k the means of
 * those of a key's heads. */
static void average(recorder *r, const ln_attention_spec *spec) {
    const ln_activations *a = r->a;
    size_t n_tokens = r->batch->n_tokens, per_kv = spec->n_heads / spec->n_kv_heads;
    push(r, LN_OP_POINTWISE)->pointwise = (ln_op_pointwise){.function = LN_POINTWISE_ADD,
                                                            .n_rows = n_tokens * spec->n_heads,
                                                            .dim = spec->k_dim,
                                                            .rows_per_x = per_kv,
                                                            .n_gates = spec->k_dim,
                                                            .x = a->k,
                                                            .gate = a->q,
                                                            .scale = 0.5f,
                                                            .out = a->mixer_out};
    push(r, LN_OP_GATHER)->gather = (ln_op_gather){.columns = r->weights->group_columns,
                                                   .n_rows = n_tokens,
                                                   .dim = spec->n_heads * spec->k_dim,
                                                   .x = a->mixer_out,
                                                   .out = a->mixer_gate};
    push(r, LN_OP_COMBINE)->combine = (ln_op_combine){.x = a->mixer_gate,
                                                      .n_used = per_kv,
                                                      .dim = spec->n_kv_heads * spec->k_dim,
                                                      .scale = 1.0f / (float)per_kv,
                                                      .out = a->k};
}

/* out = x + columns of rows of `from`; one_x: x is one row for all */
static void add_columns(recorder *r, size_t dim, const float *x, bool one_x, const float *from,
                        size_t begin, size_t stride, float *out) {
    size_t n_tokens = r->batch->n_tokens;
    push(r, LN_OP_POINTWISE)->pointwise = (ln_op_pointwise){.function = LN_POINTWISE_ADD,
                                                            .n_rows = n_tokens,
                                                            .dim = dim,
                                                            .rows_per_x = one_x ? n_tokens : 1,
                                                            .n_gates = dim,
                                                            .x = x,
                                                            .gate = from,
                                                            .gate_begin = begin,
                                                            .gate_stride = stride,
                                                            .scale = 1.0f,
                                                            .out = out};
}

void ln_record_cca(recorder *r, const ln_attention_spec *spec, const ln_layer_weights *w,
                   const float *x) {
    const ln_activations *a = r->a;
    const ln_mixer_spec *m = &r->layer_spec->mixer;
    size_t stride = ln_mixer_conv_dim(m, r->spec->dim),
           of_heads = ln_mixer_conv_units(m) * m->v_dim;
    size_t n_q = spec->n_heads * spec->k_dim, n_k = spec->n_kv_heads * spec->k_dim;
    project_all(r, w, stride, x);
    average(r, spec);
    convolve(r, m, w, stride);
    add_columns(r, n_q, a->mixer_out, false, a->conv_out, 0, of_heads, a->q);
    add_columns(r, n_k, a->k, false, a->conv_out, n_q, of_heads, a->k);
    add_columns(r, m->n_values, r->weights->zeros, true, a->conv_in,
                m->n_heads * m->v_dim * m->n_head_taps, stride, a->v);
}
