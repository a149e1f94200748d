#include "model/layers/hyper.h"
#include "model/layers/hyper_gated.h"

/* A function of n_rows rows of `dim`, each with so many gates. */
static ln_op_pointwise *push_rows(recorder *r, ln_pointwise function, size_t n_rows, size_t dim,
                                  size_t n_gates) {
    ln_op_pointwise *op = &push(r, LN_OP_POINTWISE)->pointwise;
    *op = (ln_op_pointwise){
        .function = function, .n_rows = n_rows, .dim = dim, .n_gates = n_gates, .scale = 1.0f};
    return op;
}

/* What a weight [dim] does to rows of x, in place. */
static void change_rows(recorder *r, ln_pointwise function, float *x, const float *weight,
                        size_t dim) {
    ln_op_pointwise *op = push_rows(r, function, r->batch->n_tokens, dim, dim);
    op->x = op->out = x;
    op->gate = weight;
    op->one_gate = true;
}

/* How wide a row of mixes is. */
static size_t mix_width(const recorder *r, size_t n_parts) {
    const ln_spec *spec = r->spec;
    return (n_parts + (n_parts > 1 && spec->hyper.n_rounds > 0 ? spec->hyper.n : 0)) *
           spec->hyper.n;
}

/* weights = most sigmoid(mixes) + eps, of part `part` of n_parts. */
static void make_weights(recorder *r, size_t part, size_t n_parts, float *weights) {
    const ln_weights *w = r->weights;
    size_t n = r->spec->hyper.n, n_tokens = r->batch->n_tokens;
    ln_op_pointwise *op = push_rows(r, LN_POINTWISE_GATE, n_tokens, n, n);
    op->x = w->hyper_most + part * n;
    op->rows_per_x = n_tokens; /* all rows read one */
    op->gate = r->a->hyper_mix;
    op->gate_begin = part * n;
    op->gate_stride = mix_width(r, n_parts);
    op->out = weights;
    if (part == 0 || r->spec->hyper.n_rounds == 0)
        change_rows(r, LN_POINTWISE_ADD, weights, w->hyper_eps, n);
}

/* The matrix by which streams mix. */
static void make_matrix(recorder *r) {
    push(r, LN_OP_ROWWISE)->rowwise = (ln_op_rowwise){
        .function = LN_ROWWISE_SINKHORN,
        .n_rows = r->batch->n_tokens,
        .dim = mix_width(r, 2),
        .n_streams = r->spec->hyper.n,
        .eps = r->spec->hyper.eps,
        .n_rounds = r->spec->hyper.n_rounds,
        .x = r->a->hyper_mix,
        .out = r->a->hyper_matrix,
    };
}

/* x = the sum of the streams by hyper_pre, times a scale. */
static void sum_streams(recorder *r, float scale) {
    push(r, LN_OP_COMBINE)->combine = (ln_op_combine){.x = r->a->hyper,
                                                      .weights = r->a->hyper_pre,
                                                      .n_used = r->spec->hyper.n,
                                                      .dim = r->spec->dim,
                                                      .scale = scale,
                                                      .out = r->a->x};
}

/* The weights of the streams, of which there may be those of what they take; and their sum. */
static void read_streams(recorder *r, const ln_hyper_weights *w, size_t n_parts) {
    const ln_activations *a = r->a;
    size_t width = mix_width(r, n_parts);
    norm(r, &r->weights->hyper_norm, a->hyper, NULL, a->hyper_rows);
    precise_linear(r, &w->mix, a->hyper_rows, a->hyper_mix);
    change_rows(r, LN_POINTWISE_SCALE, a->hyper_mix, w->scale, width);
    change_rows(r, LN_POINTWISE_ADD, a->hyper_mix, w->base, width);
    if (n_parts > 1 && r->spec->hyper.n_rounds > 0)
        make_matrix(r);
    make_weights(r, 0, n_parts, a->hyper_pre);
    if (n_parts > 1)
        make_weights(r, 1, n_parts, a->hyper_post);
    sum_streams(r, 1.0f);
}

/* x = the mean of the streams; hyper_most begins with ones. */
static void average_streams(recorder *r) {
    size_t n = r->spec->hyper.n, n_tokens = r->batch->n_tokens;
    ln_op_pointwise *op = push_rows(r, LN_POINTWISE_CLAMP, n_tokens, n, 0);
    op->x = r->weights->hyper_most;
    op->rows_per_x = n_tokens; /* all rows read one */
    op->limit = INFINITY;
    op->out = r->a->hyper_pre;
    sum_streams(r, 1.0f / (float)n);
}

void ln_record_hyper_begin(recorder *r) {
    size_t n = r->spec->hyper.n;
    if (n == 0)
        return;
    ln_op_pointwise *op = push_rows(r, LN_POINTWISE_CLAMP, n * r->batch->n_tokens, r->spec->dim, 0);
    op->rows_per_x = n;
    op->x = r->a->x;
    op->limit = INFINITY;
    op->out = r->a->hyper;
}

void ln_record_hyper_read(recorder *r, const ln_hyper_weights *w) {
    if (r->spec->hyper.low_rank > 0)
        ln_record_gated_read(r, w);
    else if (r->spec->hyper.n > 0)
        read_streams(r, w, 2);
}

void ln_record_hyper_write(recorder *r) {
    const ln_activations *a = r->a;
    size_t n = r->spec->hyper.n, dim = r->spec->dim, n_rows = n * r->batch->n_tokens;
    if (n == 0)
        return;
    if (r->spec->hyper.n_rounds > 0) {
        push(r, LN_OP_ROWWISE)->rowwise = (ln_op_rowwise){
            .function = LN_ROWWISE_MIX,
            .n_rows = r->batch->n_tokens,
            .dim = dim,
            .n_streams = n,
            .x = a->x,
            .y = a->hyper_post,
            .coefs = a->hyper_matrix,
            .streams = a->hyper,
        };
        return;
    }
    ln_op_pointwise *op = push_rows(r, LN_POINTWISE_SCALE, n_rows, dim, 1);
    op->rows_per_x = n;
    op->x = a->x;
    op->gate = a->hyper_post;
    op->out = a->hyper_rows;
    op = push_rows(r, LN_POINTWISE_ADD, n_rows, dim, dim);
    op->x = a->hyper_rows;
    op->gate = op->out = a->hyper;
}

void ln_record_hyper_end(recorder *r) {
    if (r->spec->hyper.low_rank > 0)
        ln_record_gated_read(r, &r->weights->output_hyper);
    else if (r->spec->hyper.n > 0 && r->spec->hyper.averages)
        average_streams(r);
    else if (r->spec->hyper.n > 0)
        read_streams(r, &r->weights->output_hyper, 1);
}
