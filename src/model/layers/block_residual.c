#include "model/layers/block_residual.h"

#include <stdlib.h>
#include <string.h>

#include "model/attention/record.h"
#include "model/family.h"
#include "model/ffn/record.h"
#include "model/layers/cycles.h"
#include "model/mixer/record.h"
#include "model/mixer/short_convs.h"

/* Of norms of streams, unless that is the model's. */
#define STREAM_EPS 1e-6f

ln_status ln_spec_read_block_residual(const ln_config *config, ln_spec *spec, ln_error *err) {
    size_t n = 0;
    if (!spec->family->block_residual)
        return LINNET_OK;
    static const ln_key key = {"n_layers_per_attn_res_block|attn_res_block_size",
                               "attn_res.block_size"};
    LN_TRY(ln_config_need_size(config, key, 1, LN_MAX_LAYERS, &n, err));
    spec->residual.n_layers = n;
    spec->residual.raw_values = spec->family->raw_residual;
    spec->residual.eps = spec->family->raw_residual ? spec->norm_eps : STREAM_EPS;
    spec->residual.n_blocks = (ln_spec_stored_layers(spec) + n - 1) / n;
    if (spec->loop_begin % n != 0 || spec->loop_layers % n != 0)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                       "%s: layers %zu to %zu, which run again, are no whole blocks of %zu",
                       ln_checkpoint_path(config->checkpoint), spec->loop_begin,
                       spec->loop_begin + spec->loop_layers, n);
    if (spec->residual.n_blocks < LN_MAX_MIXED)
        return LINNET_OK;
    return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                   "%s: %zu blocks of attention residuals are too many; at most %d are supported",
                   ln_checkpoint_path(config->checkpoint), spec->residual.n_blocks,
                   LN_MAX_MIXED - 1);
}

/* Queries [n][dim]. */
static ln_status load_queries(ln_loader *l, ln_role role, size_t i, size_t n, const float **out) {
    return ln_load_value_table(l, role, i, false, n * l->spec->dim, NULL, out);
}

/* What lets messages join what a layer that runs again reads. */
static ln_status load_message_gates(ln_loader *l, size_t i, ln_layer_weights *w) {
    const ln_spec *spec = l->spec;
    size_t rank = spec->message_rank, dim = spec->dim;
    if (rank == 0 || i < spec->loop_begin || i >= spec->loop_begin + spec->loop_layers)
        return LINNET_OK;
    for (size_t g = 0; g < LN_MESSAGE_GATES; g++) {
        ln_role down = (ln_role)(LN_ROLE_Q_MESSAGE_DOWN + 3 * g);
        ln_message_gate *gate = &w->message_gates[g];
        LN_TRY(ln_load_matrix(l, down, i, rank, 2 * dim, &gate->down));
        LN_TRY(ln_load_matrix(l, (ln_role)(down + 1), i, dim, rank, &gate->forget));
        LN_TRY(ln_load_matrix(l, (ln_role)(down + 2), i, dim, rank, &gate->gain));
    }
    return LINNET_OK;
}

/* One query, which folders have in two parts: a matrix of one row, and what it is multiplied with.
 */
static ln_status load_score(ln_loader *l, ln_role role, ln_role norm_role, size_t i,
                            const float **out) {
    size_t dim = l->spec->dim;
    bool is_there, has_norm;
    float *query = calloc(2 * dim, sizeof *query);
    if (query == NULL)
        return ln_fail_memory(l->err, "a query of streams");
    ln_status status = ln_load_values(l, role, i, false, dim, query, &is_there);
    if (status == LINNET_OK)
        status = ln_load_values(l, norm_role, i, false, dim, query + dim, &has_norm);
    for (size_t j = 0; j < dim && status == LINNET_OK && has_norm; j++)
        query[j] *= query[dim + j];
    if (status == LINNET_OK)
        status = ln_load_table(l, query, dim, out);
    free(query);
    return status;
}

ln_status ln_load_block_residual(ln_loader *l, size_t i, const ln_layer_spec *layer,
                                 ln_layer_weights *w) {
    bool is_apart = layer->mixer.dynamic; /* queries, keys and values read other sums */
    if (l->spec->residual.n_blocks == 0)
        return LINNET_OK;
    if (l->spec->residual.raw_values) {
        LN_TRY(load_score(l, LN_ROLE_ATTENTION_QUERIES, LN_ROLE_ATTENTION_QUERY_NORM, i,
                          &w->attention_queries));
        return load_score(l, LN_ROLE_FFN_QUERY, LN_ROLE_FFN_QUERY_NORM, i, &w->ffn_query);
    }
    if (i > 0) /* the first layer reads the embedding, so names count from the second one on */
        LN_TRY(load_queries(l, LN_ROLE_ATTENTION_QUERIES, i - 1, is_apart ? 3 : 1,
                            &w->attention_queries));
    LN_TRY(load_queries(l, LN_ROLE_FFN_QUERY, i, 1, &w->ffn_query));
    LN_TRY(load_message_gates(l, i, w));
    if (!is_apart)
        return LINNET_OK;
    LN_TRY(ln_load_norm(l, LN_ROLE_KEY_INPUT_NORM, i, l->spec->dim, &w->key_input_norm));
    return ln_load_norm(l, LN_ROLE_VALUE_INPUT_NORM, i, l->spec->dim, &w->value_input_norm);
}

/* Queries of messages of each layer in one tensor, as transformers has them in memory: for queries,
 * keys, values and feed-forwards. */
static ln_status split_messages(ln_loader *l, size_t n_layers) {
    size_t dim = l->spec->dim, n = 2 * n_layers * dim;
    bool is_there;
    float *both = calloc(4 * n, sizeof *both);
    if (both == NULL)
        return ln_fail_memory(l->err, "queries of messages");
    float *of_keys = both + n, *stored = of_keys + n;
    ln_status status =
        ln_load_values(l, LN_ROLE_MESSAGE_QUERIES, 0, false, 2 * n, stored, &is_there);
    for (size_t i = 0; i < n_layers; i++) {
        const float *four = stored + 4 * i * dim;
        memcpy(both + 2 * i * dim, four, dim * sizeof *both);
        memcpy(both + (2 * i + 1) * dim, four + 3 * dim, dim * sizeof *both);
        memcpy(of_keys + 2 * i * dim, four + dim, 2 * dim * sizeof *both);
    }
    if (status == LINNET_OK)
        status = ln_load_table(l, both, n, &l->weights->message_queries);
    if (status == LINNET_OK)
        status = ln_load_table(l, of_keys, n, &l->weights->kv_message_queries);
    free(both);
    return status;
}

ln_status ln_load_messages(ln_loader *l) {
    size_t n = 2 * l->spec->loop_layers;
    ln_tensor_id id = {.role = LN_ROLE_MESSAGE_QUERIES};
    const ln_binding *binding;
    if (l->spec->message_rank == 0)
        return LINNET_OK;
    const ln_tensor *tensor = ln_family_find(l->spec->family, l->checkpoint, id, &binding);
    if (tensor != NULL && tensor->n_elems == 2 * n * l->spec->dim)
        return split_messages(l, l->spec->loop_layers);
    LN_TRY(load_queries(l, LN_ROLE_MESSAGE_QUERIES, 0, n, &l->weights->message_queries));
    return load_queries(l, LN_ROLE_KV_MESSAGE_QUERIES, 0, n, &l->weights->kv_message_queries);
}

ln_status ln_load_block_residual_end(ln_loader *l) {
    if (l->spec->residual.n_blocks == 0)
        return LINNET_OK;
    if (l->spec->residual.raw_values)
        return load_score(l, LN_ROLE_OUTPUT_QUERY, LN_ROLE_OUTPUT_QUERY_NORM, 0,
                          &l->weights->output_query);
    return load_queries(l, LN_ROLE_OUTPUT_QUERY, 0, 1, &l->weights->output_query);
}

/* out = what a query makes of the first n_used of n_streams streams and x. */
static void attend(recorder *r, const float *query, size_t n_streams, size_t n_used, const float *x,
                   float *streams, float *out) {
    push(r, LN_OP_ROWWISE)->rowwise = (ln_op_rowwise){.function = LN_ROWWISE_STREAM_ATTENTION,
                                                      .n_rows = r->batch->n_tokens,
                                                      .dim = r->spec->dim,
                                                      .n_streams = n_streams,
                                                      .n_used = n_used,
                                                      .eps = r->spec->residual.eps,
                                                      .query = query,
                                                      .raw_values = r->spec->residual.raw_values,
                                                      .x = x,
                                                      .streams = streams,
                                                      .out = out};
}

/* The same of the first n_used blocks and x. */
static void attend_to_streams(recorder *r, const float *query, size_t n_used, float *out) {
    attend(r, query, r->spec->residual.n_blocks, n_used, r->a->x, r->a->block_streams, out);
}

/* ---- messages of the run before ----------------------------------------------------------- */

/* The run of a layer that runs again, from 0 on; 0 of others, too. */
static size_t run_of(const ln_spec *spec, size_t layer) {
    bool is_looped = spec->message_rank > 0 && layer >= spec->loop_begin &&
                     layer < spec->loop_begin + spec->n_loops * spec->loop_layers;
    return is_looped ? (layer - spec->loop_begin) / spec->loop_layers : 0;
}

static void copy(recorder *r, const float *x, float *out) {
    norm(r, &r->weights->copy, x, NULL, out);
}

/* Each run begins with what the first one began with, and keeps what the one before gave. */
static void begin_run(recorder *r, size_t layer, size_t run) {
    const ln_spec *spec = r->spec;
    size_t begin = spec->loop_begin + run * spec->loop_layers;
    if (spec->message_rank == 0 || layer != begin)
        return;
    if (run == 0) {
        copy(r, r->a->x, r->a->cycle_high);
        return;
    }
    copy(r, r->a->x, r->a->cycle_low);
    copy(r, r->a->cycle_high, r->a->x);
}

/* A block's stream at its end, for the run behind this one, where that wants it. */
static void keep_for_next_run(recorder *r, size_t layer, size_t run) {
    const ln_spec *spec = r->spec;
    size_t n = spec->message_rank > 0 ? ln_spec_loop_blocks(spec) : 0;
    size_t begin = spec->loop_begin + run * spec->loop_layers;
    if (n < 2 || layer <= begin || layer >= begin + spec->loop_layers || run + 1 >= spec->n_loops)
        return;
    size_t block = (layer - begin) / spec->residual.n_layers - 1;
    norm_to_columns(r, &r->weights->copy, r->a->x, r->a->message_streams[run % 2],
                    n > 2 ? (n - 1) * spec->dim : 0, block * spec->dim);
}

/* x = y + x, or x * y with `scales`. */
static void combine(recorder *r, bool scales, const float *y, float *x) {
    push(r, LN_OP_POINTWISE)->pointwise =
        (ln_op_pointwise){.function = scales ? LN_POINTWISE_SCALE : LN_POINTWISE_ADD,
                          .n_rows = r->batch->n_tokens,
                          .dim = r->spec->dim,
                          .n_gates = r->spec->dim,
                          .x = y,
                          .gate = x,
                          .scale = 1.0f,
                          .out = x};
}

/* tanh(scale * a row of gates) */
static void tanh_gate(recorder *r, const ln_weight *weight, float scale, float *out) {
    ln_op_linear *p = precise_linear(r, weight, r->a->message_low, out);
    p->scale = scale;
    p->softcap = 1.0f;
}

/* x = (1 - tanh forget) x + tanh gain * message, in runs behind the first; message number `which`
 * of the run before. */
static void take_message(recorder *r, const ln_layer_weights *w, size_t which, float *x) {
    const ln_activations *a = r->a;
    const ln_spec *spec = r->spec;
    size_t layer = (size_t)r->layer, run = run_of(spec, layer), dim = spec->dim;
    if (run == 0)
        return;
    const ln_message_gate *gate = &w->message_gates[which];
    size_t index = 2 * ((layer - spec->loop_begin) % spec->loop_layers);
    bool is_of_keys = which == 1 || which == 2;
    const float *queries =
        is_of_keys ? r->weights->kv_message_queries : r->weights->message_queries;
    size_t n = ln_spec_loop_blocks(spec) - 1;
    float *streams = n > 0 ? a->message_streams[(run - 1) % 2] : a->block_streams; /* or not read */
    attend(r, queries + (index + (which >= 2)) * dim, n > 0 ? n : spec->residual.n_blocks, n,
           a->cycle_low, streams, a->message);
    norm_to_columns(r, &r->weights->cycle_norm, x, a->message_pairs, 2 * dim, 0);
    norm_to_columns(r, &r->weights->cycle_norm, a->message, a->message_pairs, 2 * dim, dim);
    precise_linear(r, &gate->down, a->message_pairs, a->message_low);
    tanh_gate(r, &gate->forget, -1.0f, a->message_forget);
    tanh_gate(r, &gate->gain, 1.0f, a->message_gain);
    combine(r, true, x, a->message_forget);
    combine(r, true, a->message, a->message_gain);
    combine(r, false, a->message_forget, x);
    combine(r, false, a->message_gain, x);
}

/* ---- layers ------------------------------------------------------------------------------- */

/* out = the norm of what query number `index` of attention gives, or of x in the first layer. */
static void attention_input(recorder *r, const ln_layer_weights *w, size_t index, size_t n_used,
                            const ln_norm *weights, float *out) {
    const float *x = r->a->x;
    bool is_apart = r->layer_spec->mixer.dynamic; /* else there is one query */
    if (w->attention_queries != NULL && n_used > 0) {
        attend_to_streams(r, w->attention_queries + (is_apart ? index : 0) * r->spec->dim, n_used,
                          out);
        take_message(r, w, index, out);
        x = out;
    }
    norm(r, weights, x, NULL, out);
}

/* x is the stream of a block that has ended: it goes to its place, number n_used. */
static void end_block(recorder *r, size_t n_used) {
    size_t dim = r->spec->dim, n_blocks = r->spec->residual.n_blocks;
    size_t stride = n_blocks > 1 ? n_blocks * dim : 0; /* 0: dense */
    norm_to_columns(r, &r->weights->copy, r->a->x, r->a->block_streams, stride, n_used * dim);
}

/* A layer whose blocks give to the stream at once. */
static void plain_layer(recorder *r, const ln_layer_spec *spec, const ln_layer_weights *w,
                        size_t n_used, bool begins) {
    const ln_activations *a = r->a;
    attention_input(r, w, 0, n_used, &w->attention_norm, a->normed);
    if (begins)
        end_block(r, n_used++);
    r->restarts = begins;
    if (spec->attention.n_heads > 0)
        ln_record_attention(r, &spec->attention, w, a->normed);
    else
        ln_record_mixer(r, &spec->mixer, w, a->normed);
    r->restarts = false;
    attend_to_streams(r, w->ffn_query, n_used, a->ffn_normed);
    norm(r, &w->ffn_norm, a->ffn_normed, NULL, a->ffn_normed);
    ln_record_feed_forward(r, &spec->ffn, w, a->ffn_normed);
}

void ln_record_residual_layer(recorder *r, const ln_layer_spec *spec, const ln_layer_weights *w) {
    const ln_activations *a = r->a;
    size_t layer = (size_t)r->layer, run = run_of(r->spec, layer);
    size_t stored = ln_cycle_stored(r->spec, layer), per_block = r->spec->residual.n_layers;
    size_t n_used = (stored + per_block - 1) / per_block; /* blocks that have ended before it */
    bool begins = stored % per_block == 0, is_dynamic = spec->mixer.dynamic;
    r->layer_spec = spec;
    if (!ln_has_short_convs(&spec->mixer)) {
        plain_layer(r, spec, w, n_used, begins);
        return;
    }
    begin_run(r, layer, run);
    attention_input(r, w, 0, n_used, &w->attention_norm, a->normed);
    if (is_dynamic || run > 0) {
        attention_input(r, w, 1, n_used, is_dynamic ? &w->key_input_norm : &w->attention_norm,
                        a->key_input);
        attention_input(r, w, 2, n_used, is_dynamic ? &w->value_input_norm : &w->attention_norm,
                        a->value_input);
        r->key_input = a->key_input;
        r->value_input = a->value_input;
    }
    r->apart = a->conv_in;
    ln_record_attention(r, &spec->attention, w, a->normed);
    r->key_input = r->value_input = NULL;
    if (begins) { /* the stream begins anew */
        end_block(r, n_used);
        keep_for_next_run(r, layer, run);
        ln_record_short_conv(r, LN_CONV_ATTENTION, NULL, a->x);
        n_used++;
    } else {
        ln_record_short_conv_to_stream(r, LN_CONV_ATTENTION);
    }
    attend_to_streams(r, w->ffn_query, n_used, a->ffn_normed);
    take_message(r, w, 3, a->ffn_normed);
    norm(r, &w->ffn_norm, a->ffn_normed, NULL, a->ffn_normed);
    ln_record_feed_forward(r, &spec->ffn, w, a->ffn_normed);
    ln_record_short_conv_to_stream(r, LN_CONV_FFN);
    r->apart = NULL;
}

void ln_record_block_residual_end(recorder *r) {
    if (r->spec->residual.n_blocks > 0)
        attend_to_streams(r, r->weights->output_query, r->spec->residual.n_blocks, r->a->x);
}
