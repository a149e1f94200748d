#include "model/layers/hyper_gated.h"
#include "model/layers/ngrams.h"

static void convolve(recorder *r, const ln_kv_layer *states, const float *x, const float *weight,
                     bool silu, float *out) {
    push(r, LN_OP_CONV)->conv = (ln_op_conv){
        .x = x, .weight = weight, .silu = silu, .cache = states->recurrent, .out = out};
}

/* ngram_rows = the rows of each token's n-grams */
static void look_up(recorder *r, const ln_ngrams *table, const ln_kv_layer *states) {
    const ln_activations *a = r->a;
    push(r, LN_OP_EMBED)->embed =
        (ln_op_embed){.table = &r->weights->token_ids, .scale = 1.0f, .out = a->ngram_tokens};
    convolve(r, states, a->ngram_tokens, r->weights->token_taps, false, a->ngram_before);
    push(r, LN_OP_EMBED)->embed =
        (ln_op_embed){.ngrams = table, .before = a->ngram_before, .out = a->ngram_rows};
}

/* hyper_rows = for each stream, value times the sigmoid of the root of key . stream */
static void gate_values(recorder *r, const ln_ngram_weights *w) {
    const ln_activations *a = r->a;
    size_t n_rows = r->spec->hyper.n * r->batch->n_tokens, dim = r->spec->dim;
    linear(r, &w->key, a->ngram_rows, a->conv_in);
    linear(r, &w->value, a->ngram_rows, a->normed);
    ln_record_stream_norm(r, a->conv_in, w->key_norm, a->conv_in);
    ln_record_stream_norm(r, a->hyper, w->stream_norm, a->hyper_rows);
    push(r, LN_OP_ROWWISE)->rowwise = (ln_op_rowwise){.function = LN_ROWWISE_SIGNED_ROOT,
                                                      .n_rows = n_rows,
                                                      .dim = dim,
                                                      .x = a->conv_in,
                                                      .y = a->hyper_rows,
                                                      .out = a->hyper_post};
    push(r, LN_OP_POINTWISE)->pointwise = (ln_op_pointwise){.function = LN_POINTWISE_GATE,
                                                            .n_rows = n_rows,
                                                            .dim = dim,
                                                            .rows_per_x = r->spec->hyper.n,
                                                            .n_gates = 1,
                                                            .x = a->normed,
                                                            .gate = a->hyper_post,
                                                            .out = a->hyper_rows};
}

/* streams += x */
static void add_to_streams(recorder *r, const float *x) {
    size_t width = r->spec->hyper.n * r->spec->dim;
    push(r, LN_OP_POINTWISE)->pointwise = (ln_op_pointwise){.function = LN_POINTWISE_ADD,
                                                            .n_rows = r->batch->n_tokens,
                                                            .dim = width,
                                                            .n_gates = width,
                                                            .x = x,
                                                            .gate = r->a->hyper,
                                                            .scale = 1.0f,
                                                            .out = r->a->hyper};
}

void ln_record_ngrams(recorder *r, const ln_layer_spec *spec, const ln_layer_weights *w) {
    const ln_activations *a = r->a;
    if (!spec->ngrams.is_there)
        return;
    const ln_kv_layer *kv = &r->kv[spec->ngrams.kv_layer];
    look_up(r, &w->ngram.table, kv);
    gate_values(r, &w->ngram);
    add_to_streams(r, a->hyper_rows);
    ln_record_stream_norm(r, a->hyper_rows, w->ngram.conv_norm, a->conv_in);
    convolve(r, kv + 2, a->conv_in, w->ngram.taps, true, a->conv_out);
    add_to_streams(r, a->conv_out);
}
