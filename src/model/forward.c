#include "model/forward.h"

#include "backend/values.h"
#include "model/attention/record.h"
#include "model/ffn/record.h"
#include "model/layers/altup.h"
#include "model/layers/block_residual.h"
#include "model/layers/cycles.h"
#include "model/layers/hyper.h"
#include "model/layers/lookup_record.h"
#include "model/layers/ngrams.h"
#include "model/layers/shared_block.h"
#include "model/layers/wanted_rows.h"
#include "model/mixer/record.h"
#include "model/mixer/short_convs.h"
#include "model/recorder.h"
#include "model/results.h"

enum {
    OPS_PER_LAYER = 80,
    OPS_OF_MESSAGES = 48,
    OPS_OF_SHARED = 6, /* a shared expert that the router weighs */
    OPS_OUTSIDE = 16 + LN_MAX_AUX_LAYERS,
    OPS_OF_RANKS = 4,
    OPS_OF_STAGES = 4
};

size_t ln_forward_max_ops(const ln_spec *spec) {
    size_t of_ranks = spec->ranks.n > 0 ? OPS_OF_RANKS : 0, of_shared = 0;
    size_t of_messages = spec->message_rank > 0 ? OPS_OF_MESSAGES : 0;
    size_t of_stages = 2 * (size_t)LN_MAX_BORDERS + OPS_OF_STAGES;
    for (size_t i = 0; i < spec->n_layers; i++)
        of_shared += OPS_OF_SHARED * spec->layers[i].ffn.moe.n_shared;
    return (spec->n_layers + spec->n_encoder_layers) * (OPS_PER_LAYER + of_messages + of_ranks) +
           of_shared + OPS_OUTSIDE + of_ranks + (spec->ranks.layers.n > 0 ? of_stages : 0);
}

size_t ln_forward_max_head_ops(const ln_spec *spec) {
    bool is_stack = spec->assisted_dim > 0 || spec->dflash.block_tokens > 0;
    size_t n_layers = is_stack ? spec->n_layers : 1;
    return n_layers * OPS_PER_LAYER + OPS_OUTSIDE;
}

/* x = matrix of the embedding + positions. */
static void embed_in(recorder *r, const ln_weight *learned) {
    const ln_weight *matrix = &r->weights->embedding_in;
    push(r, LN_OP_EMBED)->embed = (ln_op_embed){
        .table = &r->weights->embedding, .scale = r->spec->embedding_scale, .out = r->a->normed};
    push(r, LN_OP_EMBED)->embed = (ln_op_embed){.table = &r->weights->no_tokens,
                                                .learned = learned->data != NULL ? learned : NULL,
                                                .learned_offset = r->spec->learned_offset,
                                                .scale = 1.0f,
                                                .out = r->a->x};
    push(r, LN_OP_LINEAR)->linear =
        (ln_op_linear){.weight = matrix,
                       .n_rows = r->batch->n_tokens,
                       .x = gather(r, matrix, r->batch->n_tokens, r->a->normed),
                       .residual = r->a->x,
                       .scale = 1.0f,
                       .out = r->a->x};
}

static void embed(recorder *r) {
    const ln_weights *w = r->weights;
    const ln_weight *learned = r->encoder ? &w->encoder.learned_positions : &w->learned_positions;
    bool is_part = r->spec->ranks.n > 0; /* the first rank adds positions */
    bool is_own = r->encoder && r->spec->n_encoder_vocab > 0;
    const ln_slice *vocab = is_own ? &r->spec->ranks.encoder_vocab : &r->spec->ranks.vocab;
    if (r->spec->embedded_dim > 0) {
        embed_in(r, learned);
        return;
    }
    push(r, LN_OP_EMBED)->embed = (ln_op_embed){
        .table = is_own ? &w->encoder.embedding : &w->embedding,
        .learned = learned->data != NULL && r->spec->ranks.rank == 0 ? learned : NULL,
        .types = w->token_types.data != NULL ? &w->token_types : NULL,
        .learned_offset = r->spec->learned_offset,
        .scale = r->spec->embedding_scale,
        .is_part = is_part,
        .part_begin = vocab->begin,
        .out = r->a->x,
    };
    if (is_part)
        all_reduce(r, r->a->x, NULL, r->a->x);
}

/* What queries are multiplied with, by the positions of the batch. */
static void find_query_scales(recorder *r) {
    if (r->spec->has_query_scales)
        push(r, LN_OP_EMBED)->embed = (ln_op_embed){.table = &r->weights->no_tokens,
                                                    .learned = &r->weights->query_scales,
                                                    .scale = 1.0f,
                                                    .out = r->a->query_scales};
}

/* norm(x) where the layer has a norm there, else x itself */
static const float *pre_norm(recorder *r, const ln_norm *weights, float *out) {
    if (weights->dim == 0)
        return r->a->x;
    norm(r, weights, r->a->x, NULL, out);
    return out;
}

/* x = x sigmoid(gate silu(low x)), where the norm that gave x has such a gate. */
static void gate_norm(recorder *r, const ln_weight *low, const ln_weight *gate, float *x) {
    const ln_activations *a = r->a;
    if (low->n_rows == 0)
        return;
    linear(r, low, x, a->norm_low)->activation = LN_ACT_SILU;
    linear(r, gate, a->norm_low, a->norm_gate);
    push(r, LN_OP_POINTWISE)->pointwise = (ln_op_pointwise){
        .function = LN_POINTWISE_GATE,
        .n_rows = r->batch->n_tokens,
        .dim = r->spec->dim,
        .n_gates = r->spec->dim,
        .x = x,
        .gate = a->norm_gate,
        .out = x,
    };
}

/* With norms after the blocks, x is normalised in place once a block has added to it. */
static void after_norm(recorder *r, const ln_layer_spec *spec, const ln_norm *weights) {
    if (spec->placement == LN_PLACE_AFTER)
        norm(r, weights, r->a->x, NULL, r->a->x);
}

/* x scaled, and shifted, by element, where there is something to do it by. */
static void scale_stream(recorder *r, const float *scale, const float *shift) {
    size_t n_tokens = r->batch->n_tokens, dim = r->spec->dim;
    if (scale != NULL)
        scale_rows(r, n_tokens, dim, r->a->x, scale);
    if (shift != NULL)
        push(r, LN_OP_POINTWISE)->pointwise = (ln_op_pointwise){.function = LN_POINTWISE_ADD,
                                                                .n_rows = n_tokens,
                                                                .dim = dim,
                                                                .n_gates = dim,
                                                                .x = r->a->x,
                                                                .gate = shift,
                                                                .one_gate = true,
                                                                .scale = 1.0f,
                                                                .out = r->a->x};
}

/* Where blocks read the norm of x and add to it, x becomes what stays of the norm; where x is
 * weighted or scaled, what stays of it. */
static void keep(recorder *r, const ln_norm *weights, const float *scale, const float *shift) {
    if (weights->dim > 0)
        norm(r, weights, r->a->x, NULL, r->a->x);
    scale_stream(r, scale, shift);
}

static void layer(recorder *r, const ln_layer_spec *spec, const ln_layer_weights *w) {
    r->layer_spec = spec;
    bool after = spec->placement == LN_PLACE_AFTER;
    bool parallel = spec->placement == LN_PLACE_PARALLEL;
    ln_record_first_router(r, &spec->ffn, w);
    ln_record_ngrams(r, spec, w);
    ln_record_hyper_read(r, &w->attention_hyper);
    const float *x = after                        ? r->a->x
                     : spec->attention.in_dim > 0 ? r->a->pairs
                                                  : pre_norm(r, &w->attention_norm, r->a->normed);
    const float *ffn_x = x;
    gate_norm(r, &w->attention_norm_low, &w->attention_norm_gate, r->a->normed);
    if (parallel && w->ffn_norm.dim > 0)
        ffn_x = pre_norm(r, &w->ffn_norm, r->a->ffn_normed);
    const float *mixer_x = x;
    if (w->mixer.in_norm.dim > 0)
        mixer_x = pre_norm(r, &w->mixer.in_norm, r->a->ffn_normed);
    keep(r, &w->attention_kept, w->attention_residual_scale, w->attention_residual_shift);
    bool convolves = ln_has_short_convs(&spec->mixer);
    r->apart = convolves ? r->a->conv_in : NULL;
    if (spec->attention.n_heads > 0)
        ln_record_attention(r, &spec->attention, w, x);
    if (convolves)
        ln_record_short_conv_to_stream(r, LN_CONV_ATTENTION);
    else if (spec->mixer.kind != LN_MIXER_NONE && !spec->attention.convolved)
        ln_record_mixer(r, &spec->mixer, w, mixer_x);
    after_norm(r, spec, &w->attention_norm);
    if (spec->has_cross) {
        x = after ? r->a->x : pre_norm(r, &w->cross_norm, r->a->normed);
        ln_record_cross_attention(r, &spec->attention, w, x);
        after_norm(r, spec, &w->cross_norm);
    }
    ln_record_hyper_write(r);
    if (spec->ffn.n_hidden > 0 || spec->ffn.moe.n_experts > 0) {
        if (ln_record_wanted_rows(r, spec, w))
            ffn_x = r->a->x;
        ln_record_hyper_read(r, &w->ffn_hyper);
        if (!parallel && !after)
            ffn_x = pre_norm(r, &w->ffn_norm, r->a->ffn_normed);
        gate_norm(r, &w->ffn_norm_low, &w->ffn_norm_gate, r->a->ffn_normed);
        keep(r, &w->ffn_kept, w->ffn_residual_scale, w->ffn_residual_shift);
        ln_record_feed_forward(r, &spec->ffn, w, ffn_x);
        scale_stream(r, NULL, w->experts_bias);
        if (convolves)
            ln_record_short_conv_to_stream(r, LN_CONV_FFN);
        after_norm(r, spec, &w->ffn_norm);
        ln_record_hyper_write(r);
    }
    r->apart = NULL;
    if (spec->takes_shortcut)
        ln_record_shortcut(r);
    ln_record_layer_end(r, spec, w);
}

/* A recurrent layer that reads the residual stream plus what a block gives of it. */
static void layer_behind_block(recorder *r, const ln_layer_spec *spec, const ln_layer_weights *w) {
    r->layer_spec = spec;
    const float *x = ln_record_block_input(r, w);
    r->apart = r->a->block;
    ln_record_attention(r, &spec->attention, w, x);
    r->apart = NULL;
    ln_record_mixer(r, &spec->mixer, w, ln_record_block_output(r, w));
}

/* A layer of Gemma 3n, which runs on the first of several streams. */
static void altup_layer(recorder *r, const ln_layer_spec *spec, const ln_layer_weights *w) {
    r->layer_spec = spec;
    ln_record_altup_predict(r, w);
    const float *x = pre_norm(r, &w->attention_norm, r->a->normed);
    ln_record_laurel(r, w, x);
    ln_record_attention(r, &spec->attention, w, x);
    ln_record_add_laurel(r);
    ln_record_feed_forward(r, &spec->ffn, w, pre_norm(r, &w->ffn_norm, r->a->ffn_normed));
    ln_record_altup_correct(r, spec, w);
}

/* Keys and values of the encoder's output for every layer of the decoder. */
static void cache_cross(recorder *r, const float *x) {
    for (size_t i = r->weights->first_layer; i < r->weights->end_layer; i++) {
        const ln_layer_weights *w = &r->weights->layers[i];
        r->layer = (int32_t)i;
        score_linear(r, &r->spec->layers[i].attention, &w->cross_k, x, r->a->k);
        linear(r, &w->cross_v, x, r->a->v);
        push(r, LN_OP_QKV)->qkv =
            (ln_op_qkv){.k = r->a->k, .v = r->a->v, .kv = &r->kv[r->spec->n_layers + i]};
    }
}

/* Where experts are chosen, a small error anywhere before may choose others; and a delta rule feeds
 * its errors back to itself: all is precise. */
static void keep_choices(recorder *r) {
    bool any = false;
    for (size_t i = 0; i < r->spec->n_layers; i++) {
        ln_mixer mixer = r->spec->layers[i].mixer.kind;
        any |= r->spec->layers[i].ffn.moe.n_experts > 0;
        any |= mixer == LN_MIXER_DELTA || mixer == LN_MIXER_KDA;
    }
    for (size_t i = 0; any && i < r->n_ops; i++)
        if (r->ops[i].kind == LN_OP_LINEAR)
            r->ops[i].linear.precise = true;
        else if (r->ops[i].kind == LN_OP_ATTENTION)
            r->ops[i].attention.precise = true;
}

/* What the stage before this one has made, or what the next one goes on with. */
static void pass_borders(recorder *r, bool sends) {
    const ln_mesh *mesh = &r->spec->ranks.mesh;
    size_t n = ln_mesh_in_stage(mesh), other = sends ? mesh->rank + n : mesh->rank - n;
    ln_border borders[LN_MAX_BORDERS];
    size_t n_borders = ln_activations_borders(r->spec, r->a, borders);
    for (size_t i = 0; i < n_borders; i++)
        ln_record_rank_pass(r, other, sends, r->batch->n_tokens, borders[i].width, borders[i].at);
}

/* The encoder's output, which the stages hand on. */
static void encode(recorder *r) {
    const ln_mesh *mesh = &r->spec->ranks.mesh;
    size_t n = ln_mesh_in_stage(mesh), n_tokens = r->batch->n_tokens, dim = r->spec->dim;
    float *x = r->a->x, *out = r->a->normed;
    if (ln_spec_follows(r->spec)) {
        ln_record_rank_pass(r, mesh->rank - n, false, n_tokens, dim, out);
    } else {
        embed(r);
        if (r->weights->encoder.embedding_norm.dim > 0)
            norm(r, &r->weights->encoder.embedding_norm, x, NULL, x);
        for (size_t i = 0; i < r->spec->n_encoder_layers; i++) {
            r->layer = (int32_t)i;
            layer(r, &r->spec->encoder_layers[i], &r->weights->encoder.layers[i]);
        }
        norm(r, &r->weights->encoder.output_norm, x, NULL, out);
    }
    if (ln_spec_leads(r->spec))
        ln_record_rank_pass(r, mesh->rank + n, true, n_tokens, dim, out);
}

size_t ln_forward_record_encoder(const ln_spec *spec, const ln_weights *weights,
                                 const ln_activations *activations, const ln_kv_layer *kv,
                                 const ln_batch *batch, ln_op *ops) {
    recorder r = {.spec = spec,
                  .max_ops = ln_forward_max_ops(spec),
                  .weights = weights,
                  .a = activations,
                  .kv = kv,
                  .batch = batch,
                  .layer = -1,
                  .encoder = true,
                  .layer_kv = &kv[2 * spec->n_layers],
                  .ops = ops};
    encode(&r);
    cache_cross(&r, activations->normed);
    ln_values_number(ops, r.n_ops);
    return r.n_ops;
}

/* norm(x), from this column on of what the head reads. */
static void norm_to_pairs(recorder *r, const ln_norm *weights, const float *x, size_t begin) {
    norm_to_columns(r, weights, x, r->a->pairs, 2 * r->spec->dim, begin);
}

/* What the head reads: a norm of the model's hidden states, and of embeddings, side by side. The
 * rows of x are read before embeddings are written over them. */
static void head_input(recorder *r, const ln_head_input *in) {
    const ln_activations *a = r->a;
    size_t dim = r->spec->dim;
    size_t of_hidden = r->spec->family->head_hidden_first ? 0 : dim, of_token = dim - of_hidden;
    norm(r, in->norm, a->x, NULL, a->normed)->rows = in->rows;
    norm_to_pairs(r, &r->weights->head.hidden_norm, a->normed, of_hidden);
    embed(r);
    norm_to_pairs(r, &r->weights->head.token_norm, a->x, of_token);
    linear(r, &r->weights->head.input, a->pairs, a->x);
}

/* The same of a head of its own folder: an embedding, then a hidden state. What becomes of the
 * hidden states begins its residual stream. */
static void eagle_input(recorder *r, const ln_head_input *in) {
    const ln_activations *a = r->a;
    const ln_weights *w = r->weights;
    bool has_aux = in->aux_hidden != NULL;
    ln_op_norm *hidden = has_aux ? norm(r, &w->head.aux_norm, in->aux_hidden, NULL, a->aux_hidden)
                                 : norm(r, &w->copy, a->x, NULL, a->normed);
    hidden->rows = in->rows;
    if (has_aux)
        linear(r, &w->head.input, a->aux_hidden, a->normed);
    embed(r);
    norm_to_pairs(r, &w->head.token_norm, a->x, 0);
    norm_to_pairs(r, &w->head.hidden_norm, a->normed, r->spec->dim);
    norm(r, r->spec->eagle.norm_before_residual ? &w->head.hidden_norm : &w->copy, a->normed, NULL,
         a->x);
}

/* The same of an assistant: an embedding and a hidden state of the model, as wide as these are. */
static void assistant_input(recorder *r, const ln_head_input *in) {
    const ln_activations *a = r->a;
    const ln_weights *w = r->weights;
    size_t dim = r->spec->assisted_dim;
    const float *hidden = in->aux_hidden != NULL ? in->aux_hidden : a->aux_hidden;
    norm_to_columns(r, in->norm, hidden, a->pairs, 2 * dim, dim)->rows = in->rows;
    push(r, LN_OP_EMBED)->embed = (ln_op_embed){
        .table = &w->embedding, .scale = r->spec->embedding_scale, .out = a->aux_hidden};
    norm_to_columns(r, &w->head.aux_norm, a->aux_hidden, a->pairs, 2 * dim, 0);
    linear(r, &w->head.input, a->pairs, a->x);
}

static void assistant(recorder *r, const ln_head_input *in) {
    const ln_spec *spec = r->spec;
    assistant_input(r, in);
    for (size_t i = 0; i < spec->n_layers; i++) {
        r->layer_kv = &r->kv[spec->layers[i].attention.kv_layer];
        layer(r, &spec->layers[i], &r->weights->layers[i]);
    }
    ln_record_logits(r);
    linear(r, &r->weights->head.state, r->a->normed, r->a->aux_hidden);
}

/* Keys and values of hidden states of the model for each layer that drafts blocks. */
static void cache_hidden(recorder *r, const ln_head_input *in) {
    const ln_activations *a = r->a;
    const ln_weights *w = r->weights;
    norm(r, &w->head.aux_norm, in->aux_hidden, NULL, a->aux_hidden)->rows = in->rows;
    linear(r, &w->head.input, a->aux_hidden, a->x);
    norm(r, &w->head.hidden_norm, a->x, NULL, a->normed);
    for (size_t i = 0; i < r->spec->n_layers; i++) {
        r->layer_spec = &r->spec->layers[i];
        r->layer_kv = &r->kv[i];
        ln_record_keys(r, &r->layer_spec->attention, &w->layers[i], a->normed);
    }
}

/* Blocks of tokens, of which masks stand for those that are to be drafted. */
static void draft_blocks(recorder *r) {
    embed(r);
    for (size_t i = 0; i < r->spec->n_layers; i++) {
        r->layer_kv = &r->kv[i];
        layer(r, &r->spec->layers[i], &r->weights->layers[i]);
    }
    ln_record_logits(r);
}

size_t ln_forward_record_head(const ln_spec *spec, const ln_weights *weights,
                              const ln_activations *activations, const ln_kv_layer *kv,
                              const ln_batch *batch, const ln_head_input *in, ln_op *ops) {
    recorder r = {.spec = spec,
                  .max_ops = ln_forward_max_ops(spec),
                  .weights = weights,
                  .a = activations,
                  .batch = batch,
                  .layer = (int32_t)spec->n_layers,
                  .kv = kv,
                  .layer_kv = kv,
                  .ops = ops};
    if (spec->dflash.block_tokens > 0 && in->aux_hidden != NULL) {
        cache_hidden(&r, in);
    } else if (spec->dflash.block_tokens > 0) {
        draft_blocks(&r);
    } else if (spec->assisted_dim > 0) {
        assistant(&r, in);
    } else {
        if (spec->eagle.is_head)
            eagle_input(&r, in);
        else
            head_input(&r, in);
        layer(&r, spec->head, weights->layers);
        if (batch->n_logits > 0)
            ln_record_logits(&r);
    }
    ln_values_number(ops, r.n_ops);
    return r.n_ops;
}

/* Keeps the residual stream in front of a layer for a head that drafts. */
static void keep_aux_hidden(recorder *r, size_t layer) {
    const ln_aux_layers *aux_layers = &r->spec->aux_layers;
    for (size_t i = 0; i < aux_layers->n; i++) {
        if (aux_layers->layers[i] != layer)
            continue;
        norm_to_columns(r, &r->weights->copy, r->a->x, r->a->aux_hidden,
                        aux_layers->n * r->spec->dim, i * r->spec->dim);
    }
}

size_t ln_forward_record(const ln_spec *spec, const ln_weights *weights,
                         const ln_activations *activations, const ln_kv_layer *kv,
                         const ln_batch *batch, ln_op *ops) {
    recorder r = {.spec = spec,
                  .max_ops = ln_forward_max_ops(spec),
                  .weights = weights,
                  .a = activations,
                  .kv = kv,
                  .batch = batch,
                  .layer = -1,
                  .ops = ops};
    if (weights->first_layer == 0) {
        embed(&r);
        scale_stream(&r, weights->embedding_scales, weights->embedding_shifts);
        ln_record_lookup(&r);
        ln_record_altup_begin(&r);
    }
    if (weights->embedding_norm.dim > 0)
        norm(&r, &weights->embedding_norm, activations->x, NULL, activations->x);
    if (weights->first_layer == 0) {
        ln_record_hyper_begin(&r);
        ln_record_block_begin(&r);
    }
    if (ln_spec_follows(spec))
        pass_borders(&r, false);
    find_query_scales(&r);
    for (size_t i = weights->first_layer; i < weights->end_layer; i++) {
        r.layer = (int32_t)i;
        keep_aux_hidden(&r, i);
        ln_record_cycle(&r, i);
        r.layer_kv = &kv[ln_kv_layer_index(spec, spec->layers[i].attention.kv_layer)];
        if (spec->layers[i].shared.is_there)
            layer_behind_block(&r, &spec->layers[i], &weights->layers[i]);
        else if (spec->residual.n_blocks > 0)
            ln_record_residual_layer(&r, &spec->layers[i], &weights->layers[i]);
        else if (spec->n_streams > 0)
            altup_layer(&r, &spec->layers[i], &weights->layers[i]);
        else
            layer(&r, &spec->layers[i], &weights->layers[i]);
    }
    keep_aux_hidden(&r, spec->n_layers);
    r.layer = -1;
    if (ln_spec_leads(spec))
        pass_borders(&r, true);
    bool is_end = weights->end_layer == spec->n_layers;
    if (is_end && batch->n_logits + batch->n_hidden > 0) {
        ln_record_altup_end(&r);
        ln_record_hyper_end(&r);
        ln_record_block_residual_end(&r);
    }
    if (is_end && batch->n_hidden > 0)
        ln_record_hidden_states(&r);
    if (is_end && batch->n_logits > 0)
        ln_record_logits(&r);
    keep_choices(&r);
    for (size_t i = 0; i < r.n_ops; i++)
        ops[i].batch = batch;
    ln_values_number(ops, r.n_ops);
    return r.n_ops;
}

size_t ln_forward_record_results(const ln_spec *spec, const ln_activations *activations,
                                 const ln_batch *batch, ln_op *ops) {
    recorder r = {.spec = spec,
                  .max_ops = ln_forward_max_ops(spec),
                  .a = activations,
                  .batch = batch,
                  .layer = -1,
                  .ops = ops};
    ln_record_results(&r);
    return r.n_ops;
}
