#include "model/layers/altup.h"
#include "model/layers/lookup_record.h"

/* One matrix for each of the other streams. */
static void linear_by_stream(recorder *r, const ln_weight *weights, const float *x,
                             size_t rows_per_x, float *out) {
    size_t n = r->spec->n_streams;
    push(r, LN_OP_LINEAR)->linear = (ln_op_linear){
        .weight = weights,
        .groups = {.n_groups = n},
        .n_rows = r->batch->n_tokens * n,
        .rows_per_x = rows_per_x,
        .x = x,
        .scale = 1.0f,
        .out = out,
    };
}

/* Rows of the other streams at the size of x. */
static void match(recorder *r, float *rows) {
    push(r, LN_OP_ROWWISE)->rowwise = (ln_op_rowwise){
        .function = LN_ROWWISE_MATCH,
        .n_rows = r->batch->n_tokens * r->spec->n_streams,
        .dim = r->spec->dim,
        .n_streams = r->spec->n_streams,
        .x = rows,
        .y = r->a->x,
        .out = rows,
    };
}

void ln_record_altup_begin(recorder *r) {
    if (r->spec->n_streams == 0)
        return;
    linear_by_stream(r, r->weights->altup_begin, r->a->x, r->spec->n_streams, r->a->streams);
    match(r, r->a->streams);
}

/* x = the mean of all streams */
void ln_record_altup_end(recorder *r) {
    const ln_activations *a = r->a;
    if (r->spec->n_streams == 0)
        return;
    linear_by_stream(r, r->weights->altup_end, a->streams, 1, a->stream_rows);
    match(r, a->stream_rows);
    push(r, LN_OP_COMBINE)->combine =
        (ln_op_combine){.x = a->stream_rows,
                        .n_used = r->spec->n_streams,
                        .dim = r->spec->dim,
                        .shared = a->x,
                        .scale = 1.0f / (float)(r->spec->n_streams + 1),
                        .out = a->x};
}

/* a->stream_coefs = coefs tanh(router norm(x) / dim) */
static void choose(recorder *r, const ln_layer_weights *w, const ln_weight *coefs) {
    const ln_activations *a = r->a;
    norm(r, &w->altup_norm, a->x, NULL, a->normed);
    precise_linear(r, &w->altup_router, a->normed, a->stream_router)->softcap = 1.0f;
    precise_linear(r, coefs, a->stream_router, a->stream_coefs);
}

void ln_record_altup_predict(recorder *r, const ln_layer_weights *w) {
    const ln_activations *a = r->a;
    choose(r, w, &w->altup_predict);
    push(r, LN_OP_ROWWISE)->rowwise = (ln_op_rowwise){
        .function = LN_ROWWISE_PREDICT,
        .n_rows = r->batch->n_tokens,
        .dim = r->spec->dim,
        .n_streams = r->spec->n_streams,
        .x = a->x,
        .coefs = a->stream_coefs,
        .streams = a->streams,
        .out = a->predicted,
    };
    norm(r, &r->weights->copy, a->predicted, NULL, a->x);
}

void ln_record_laurel(recorder *r, const ln_layer_weights *w, const float *normed) {
    const ln_activations *a = r->a;
    linear(r, &w->laurel_left, normed, a->laurel_low);
    linear(r, &w->laurel_right, a->laurel_low, a->laurel);
    norm(r, &w->laurel_norm, a->laurel, normed, a->laurel);
}

static ln_op_pointwise *push_rows(recorder *r, ln_pointwise function, size_t n_rows) {
    ln_op_pointwise *op = &push(r, LN_OP_POINTWISE)->pointwise;
    *op = (ln_op_pointwise){.function = function,
                            .n_rows = n_rows,
                            .dim = r->spec->dim,
                            .n_gates = r->spec->dim,
                            .scale = 1.0f};
    return op;
}

/* x = (x + laurel) / sqrt(2) */
void ln_record_add_laurel(recorder *r) {
    ln_op_pointwise *op = push_rows(r, LN_POINTWISE_ADD, r->batch->n_tokens);
    op->x = r->a->x;
    op->gate = r->a->laurel;
    op->scale = sqrtf(0.5f);
    op->out = r->a->x;
}

void ln_record_altup_correct(recorder *r, const ln_layer_spec *spec, const ln_layer_weights *w) {
    const ln_activations *a = r->a;
    const float *first = a->x;
    choose(r, w, &w->altup_correct);
    push(r, LN_OP_ROWWISE)->rowwise = (ln_op_rowwise){
        .function = LN_ROWWISE_CORRECT,
        .n_rows = r->batch->n_tokens,
        .dim = r->spec->dim,
        .n_streams = r->spec->n_streams,
        .x = a->x,
        .y = a->predicted,
        .coefs = a->stream_coefs,
        .streams = a->streams,
        .out = a->x,
    };
    if (r->spec->scales_stream) {
        ln_op_pointwise *scale = push_rows(r, LN_POINTWISE_SCALE, r->batch->n_tokens);
        scale->x = a->x;
        scale->gate = w->altup_scale;
        scale->one_gate = true;
        scale->out = a->ffn_normed;
        first = a->ffn_normed;
    }
    ln_record_gated_lookup(r, spec, w, first);
    linear(r, &w->lookup_out, a->lookup_gate, a->normed);
    norm(r, &w->lookup_post_norm, a->normed, NULL, a->normed);
    ln_op_pointwise *add = push_rows(r, LN_POINTWISE_ADD, r->batch->n_tokens * r->spec->n_streams);
    add->rows_per_x = r->spec->n_streams;
    add->x = a->normed;
    add->gate = a->streams;
    add->out = a->streams;
}
