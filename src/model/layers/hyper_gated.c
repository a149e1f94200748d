#include "model/layers/hyper_gated.h"

#include <stdlib.h>

#include "model/family.h"

ln_status ln_load_gated_streams(ln_loader *l) {
    const ln_spec *spec = l->spec;
    float most[LN_MAX_HYPER];
    l->weights->stream_norm =
        (ln_norm){.kind = LN_NORM_RMS, .eps = spec->norm_eps, .dim = spec->dim};
    for (size_t i = 0; i < spec->hyper.n; i++)
        most[i] = spec->hyper.magnitude;
    return ln_load_table(l, most, spec->hyper.n, &l->weights->hyper_most);
}

ln_status ln_load_gated_hyper(ln_loader *l, size_t i, ln_role mix, ln_role norm,
                              ln_hyper_weights *out) {
    size_t n = l->spec->hyper.n, width = n * l->spec->dim, rank = l->spec->hyper.low_rank;
    ln_norm weights;
    LN_TRY(ln_load_norm(l, norm, i, width, &weights));
    out->norm = weights.weight;
    LN_TRY(ln_load_matrix(l, (ln_role)(norm + 1), i, rank, width, &out->low));
    LN_TRY(ln_load_matrix(l, (ln_role)(norm + 2), i, width, rank, &out->gate));
    return mix == LN_ROLE_COUNT ? LINNET_OK : ln_load_matrix(l, mix, i, n, width, &out->mix);
}

/* out = x times the sigmoid of gate, element by element */
static void gate_rows(recorder *r, size_t dim, const float *x, const float *gate, float *out) {
    push(r, LN_OP_POINTWISE)->pointwise = (ln_op_pointwise){.function = LN_POINTWISE_GATE,
                                                            .n_rows = r->batch->n_tokens,
                                                            .dim = dim,
                                                            .n_gates = dim,
                                                            .x = x,
                                                            .gate = gate,
                                                            .out = out};
}

void ln_record_stream_norm(recorder *r, const float *streams, const float *weights, float *normed) {
    size_t n = r->spec->hyper.n, n_tokens = r->batch->n_tokens;
    norm(r, &r->weights->stream_norm, streams, NULL, normed)->n_rows = n * n_tokens;
    scale_rows(r, n_tokens, n * r->spec->dim, normed, weights);
}

/* hyper_post = magnitude sigmoid(mix normed / n) */
static void weight_streams(recorder *r, const ln_weight *mix) {
    const ln_activations *a = r->a;
    size_t n = r->spec->hyper.n, n_tokens = r->batch->n_tokens;
    precise_linear(r, mix, a->hyper_rows, a->hyper_mix)->scale = 1.0f / (float)n;
    push(r, LN_OP_POINTWISE)->pointwise =
        (ln_op_pointwise){.function = LN_POINTWISE_GATE,
                          .n_rows = n_tokens,
                          .dim = n,
                          .rows_per_x = n_tokens, /* all rows read one */
                          .n_gates = n,
                          .x = r->weights->hyper_most,
                          .gate = a->hyper_mix,
                          .out = a->hyper_post};
}

void ln_record_gated_read(recorder *r, const ln_hyper_weights *w) {
    const ln_activations *a = r->a;
    size_t n = r->spec->hyper.n, dim = r->spec->dim;
    ln_record_stream_norm(r, a->hyper, w->norm, a->hyper_rows);
    precise_linear(r, &w->low, a->hyper_rows, a->hyper_low)->scale = 1.0f / (float)n;
    gate_rows(r, r->spec->hyper.low_rank, a->hyper_low, a->hyper_low, a->hyper_low); /* SiLU */
    precise_linear(r, &w->gate, a->hyper_low, a->hyper_gate);
    gate_rows(r, n * dim, a->hyper_rows, a->hyper_gate, a->hyper_gate);
    push(r, LN_OP_COMBINE)->combine = (ln_op_combine){
        .x = a->hyper_gate, .n_used = n, .dim = dim, .scale = 1.0f / (float)n, .out = a->x};
    if (w->mix.n_rows > 0)
        weight_streams(r, &w->mix);
}
