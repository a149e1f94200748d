#include "model/layers/block_residual.h"

#include "model/attention/record.h"
#include "model/family.h"
#include "model/ffn/record.h"
#include "model/mixer/short_convs.h"

/* Of norms of streams, whatever the model's are. */
#define STREAM_EPS 1e-6f

ln_status ln_spec_read_block_residual(const ln_config *config, ln_spec *spec, ln_error *err) {
    size_t n = 0;
    if (!spec->family->block_residual)
        return LINNET_OK;
    LN_TRY(ln_config_need_size(config, (ln_key){"n_layers_per_attn_res_block", ""}, 1,
                               LN_MAX_LAYERS, &n, err));
    spec->residual.n_layers = n;
    spec->residual.n_blocks = (spec->n_layers + n - 1) / n;
    if (spec->residual.n_blocks < LN_MAX_MIXED)
        return LINNET_OK;
    return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                   "%s: key n_layers_per_attn_res_block: %zu blocks are too many; at most %d are "
                   "supported",
                   ln_checkpoint_path(config->checkpoint), spec->residual.n_blocks,
                   LN_MAX_MIXED - 1);
}

/* Queries [n][dim]. */
static ln_status load_queries(ln_loader *l, ln_role role, size_t i, size_t n, const float **out) {
    return ln_load_value_table(l, role, i, false, n * l->spec->dim, NULL, out);
}

ln_status ln_load_block_residual(ln_loader *l, size_t i, const ln_layer_spec *layer,
                                 ln_layer_weights *w) {
    bool is_apart = layer->mixer.dynamic; /* queries, keys and values read other sums */
    if (l->spec->residual.n_blocks == 0)
        return LINNET_OK;
    if (i > 0) /* the first layer reads the embedding, so names count from the second one on */
        LN_TRY(load_queries(l, LN_ROLE_ATTENTION_QUERIES, i - 1, is_apart ? 3 : 1,
                            &w->attention_queries));
    LN_TRY(load_queries(l, LN_ROLE_FFN_QUERY, i, 1, &w->ffn_query));
    if (!is_apart)
        return LINNET_OK;
    LN_TRY(ln_load_norm(l, LN_ROLE_KEY_INPUT_NORM, i, l->spec->dim, &w->key_input_norm));
    return ln_load_norm(l, LN_ROLE_VALUE_INPUT_NORM, i, l->spec->dim, &w->value_input_norm);
}

ln_status ln_load_block_residual_end(ln_loader *l) {
    if (l->spec->residual.n_blocks == 0)
        return LINNET_OK;
    return load_queries(l, LN_ROLE_OUTPUT_QUERY, 0, 1, &l->weights->output_query);
}

/* out = what a query makes of the first n_used blocks and x. */
static void attend_to_streams(recorder *r, const float *query, size_t n_used, float *out) {
    push(r, LN_OP_ROWWISE)->rowwise = (ln_op_rowwise){.function = LN_ROWWISE_STREAM_ATTENTION,
                                                      .n_rows = r->batch->n_tokens,
                                                      .dim = r->spec->dim,
                                                      .n_streams = r->spec->residual.n_blocks,
                                                      .n_used = n_used,
                                                      .eps = STREAM_EPS,
                                                      .query = query,
                                                      .x = r->a->x,
                                                      .streams = r->a->block_streams,
                                                      .out = out};
}

/* out = the norm of what query number `index` of attention gives, or of x in the first layer. */
static void attention_input(recorder *r, const ln_layer_weights *w, size_t index, size_t n_used,
                            const ln_norm *weights, float *out) {
    const float *x = r->a->x;
    if (w->attention_queries != NULL) {
        attend_to_streams(r, w->attention_queries + index * r->spec->dim, n_used, out);
        x = out;
    }
    norm(r, weights, x, NULL, out);
}

void ln_record_residual_layer(recorder *r, const ln_layer_spec *spec, const ln_layer_weights *w) {
    const ln_activations *a = r->a;
    size_t layer = (size_t)r->layer, per_block = r->spec->residual.n_layers;
    size_t dim = r->spec->dim, n_blocks = r->spec->residual.n_blocks;
    size_t n_used = (layer + per_block - 1) / per_block; /* blocks that have ended before it */
    bool begins = layer % per_block == 0;
    r->layer_spec = spec;
    attention_input(r, w, 0, n_used, &w->attention_norm, a->normed);
    if (spec->mixer.dynamic) {
        attention_input(r, w, 1, n_used, &w->key_input_norm, a->key_input);
        attention_input(r, w, 2, n_used, &w->value_input_norm, a->value_input);
        r->key_input = a->key_input;
        r->value_input = a->value_input;
    }
    r->apart = a->conv_in;
    ln_record_attention(r, &spec->attention, w, a->normed);
    r->key_input = r->value_input = NULL;
    if (begins) {                                          /* the stream begins anew */
        size_t stride = n_blocks > 1 ? n_blocks * dim : 0; /* 0: dense */
        norm_to_columns(r, &r->weights->copy, a->x, a->block_streams, stride, n_used * dim);
        ln_record_short_conv(r, LN_CONV_ATTENTION, NULL, a->x);
        n_used++;
    } else {
        ln_record_short_conv_to_stream(r, LN_CONV_ATTENTION);
    }
    attend_to_streams(r, w->ffn_query, n_used, a->ffn_normed);
    norm(r, &w->ffn_norm, a->ffn_normed, NULL, a->ffn_normed);
    ln_record_feed_forward(r, &spec->ffn, w, a->ffn_normed);
    ln_record_short_conv_to_stream(r, LN_CONV_FFN);
    r->apart = NULL;
}

void ln_record_block_residual_end(recorder *r) {
    if (r->spec->residual.n_blocks > 0)
        attend_to_streams(r, r->weights->output_query, r->spec->residual.n_blocks, r->a->x);
}
