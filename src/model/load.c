#include "model/load.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "model/attention/cca.h"
#include "model/attention/key_bias.h"
#include "model/attention/load.h"
#include "model/attention/mixture.h"
#include "model/attention/positions_load.h"
#include "model/family.h"
#include "model/ffn/experts_load.h"
#include "model/layers/altup.h"
#include "model/layers/blend.h"
#include "model/layers/block_residual.h"
#include "model/layers/cycles.h"
#include "model/layers/hyper.h"
#include "model/layers/lookup_load.h"
#include "model/layers/ngrams.h"
#include "model/layers/residual_scales.h"
#include "model/layers/shared_block.h"
#include "model/layers/sinusoids.h"
#include "model/load_tensor.h"
#include "model/mixer/load.h"
#include "model/shard.h"
#include "model/xielu.h"

static ln_status xielu(ln_loader *l, size_t layer, ln_xielu *out) {
    ln_xielu stored;
    LN_TRY(ln_xielu_read(l->checkpoint, l->spec, layer, l->unused, l->writable != NULL, &stored,
                         l->err));
    *out = ln_xielu_of(&stored);
    return LINNET_OK;
}

/* Experts that are rows of tables, and what chooses them. */
static ln_status retrieved(ln_loader *l, const ln_ffn_spec *ffn, size_t i, ln_layer_weights *w) {
    size_t dim = l->spec->dim, n = ffn->retrieved.n_experts, n_keys = ffn->retrieved.n_keys;
    if (n == 0)
        return LINNET_OK;
    LN_TRY(ln_load_matrix(l, LN_ROLE_ROUTER, i, 2 * n_keys, dim, &w->router));
    LN_TRY(ln_load_numbered(l, LN_ROLE_RETRIEVED_DOWN, i, 0, n, dim, &w->retrieved_down));
    return ln_load_numbered(l, LN_ROLE_RETRIEVED_UP, i, 0, dim, n, &w->retrieved_up);
}

static ln_status feed_forward(ln_loader *l, const ln_layer_spec *layer, size_t i,
                              ln_layer_weights *w) {
    const ln_ffn_spec *ffn = &layer->ffn;
    size_t dim = l->spec->dim;
    if (ffn->moe.n_experts > 0)
        LN_TRY(ln_load_experts(l, i, layer, w));
    if (ffn->n_hidden == 0 || (ffn->moe.n_experts > 0 && !ffn->moe.beside && !ffn->moe.shortcut))
        return LINNET_OK;
    if (ffn->xielu)
        LN_TRY(xielu(l, i, &w->xielu));
    if (ffn->out_norm)
        LN_TRY(ln_load_norm(l, LN_ROLE_FFN_OUT_NORM, i, ffn->n_hidden, &w->ffn_out_norm));
    if (ffn->gated)
        LN_TRY(ln_load_matrix(l, LN_ROLE_GATE, i, ffn->n_hidden, dim, &w->gate));
    LN_TRY(ln_load_matrix(l, LN_ROLE_UP, i, ffn->n_hidden, dim, &w->up));
    LN_TRY(retrieved(l, ffn, i, w));
    return ln_load_matrix(l, LN_ROLE_DOWN, i, dim, ffn->n_hidden, &w->down);
}

/* What attention and a recurrent layer read: the same norm, unless they are beside one another and
 * their scales differ. */
static ln_status first_norms(ln_loader *l, const ln_layer_spec *layer, size_t i,
                             ln_layer_weights *w) {
    size_t dim = l->spec->dim;
    bool is_beside = layer->attention.n_heads > 0 && layer->mixer.kind != LN_MIXER_NONE;
    float of_attention = layer->attention.in_scale, of_mixer = layer->mixer.in_scale;
    if (!is_beside || (of_attention == 1.0f && of_mixer == 1.0f))
        return ln_load_norm(l, LN_ROLE_ATTENTION_NORM, i, dim, &w->attention_norm);
    if (of_attention != of_mixer)
        LN_TRY(ln_load_scaled_norm(l, LN_ROLE_ATTENTION_NORM, i, dim, of_mixer, &w->mixer.in_norm));
    return ln_load_scaled_norm(l, LN_ROLE_ATTENTION_NORM, i, dim, of_attention, &w->attention_norm);
}

/* What the residual stream keeps where it is normalised before a block. */
static ln_status kept_norms(ln_loader *l, const ln_layer_spec *layer, size_t i,
                            ln_layer_weights *w) {
    size_t dim = l->spec->dim;
    LN_TRY(ln_load_scaled_norm(l, LN_ROLE_ATTENTION_NORM, i, dim, layer->attention_keep,
                               &w->attention_kept));
    return ln_load_scaled_norm(l, LN_ROLE_FFN_NORM, i, dim, layer->ffn_keep, &w->ffn_kept);
}

/* What gates the norms before attention and mixtures. */
static ln_status norm_gates(ln_loader *l, const ln_layer_spec *layer, size_t i,
                            ln_layer_weights *w) {
    size_t dim = l->spec->dim, rank = l->spec->norm_gate_rank;
    if (rank == 0)
        return LINNET_OK;
    LN_TRY(ln_load_matrix(l, LN_ROLE_ATTENTION_NORM_LOW, i, rank, dim, &w->attention_norm_low));
    LN_TRY(ln_load_matrix(l, LN_ROLE_ATTENTION_NORM_GATE, i, dim, rank, &w->attention_norm_gate));
    if (layer->ffn.moe.n_experts == 0)
        return LINNET_OK;
    LN_TRY(ln_load_matrix(l, LN_ROLE_FFN_NORM_LOW, i, rank, dim, &w->ffn_norm_low));
    return ln_load_matrix(l, LN_ROLE_FFN_NORM_GATE, i, dim, rank, &w->ffn_norm_gate);
}

/* Where layers that are not parallel have a norm of their own name, others have none of it. */
static ln_status check_sequential(const ln_loader *l, const ln_layer_spec *layer, ln_tensor_id id) {
    const ln_family *family = l->spec->family;
    ln_checkpoint_format format = ln_checkpoint_get_format(l->checkpoint);
    bool is_sequential = layer->placement != LN_PLACE_PARALLEL;
    const ln_binding *found, *own;
    char name[LN_TENSOR_NAME_BYTES];
    ln_family_find(family, l->checkpoint, id, &found);
    size_t i = 0;
    do
        own = ln_family_binding(family, format, id, i++);
    while (own != NULL && !own->sequential);
    if (own == NULL || (found == own) == is_sequential)
        return LINNET_OK;
    ln_binding_name(own, format, id, name);
    return ln_fail(l->err, LINNET_ERR_FORMAT, "%s: tensor %s %s", ln_checkpoint_path(l->checkpoint),
                   name, is_sequential ? "is missing" : "is not one of parallel layers");
}

/* The norms before blocks and behind them; layers that have but one kind may have its names for the
 * other. */
static ln_status block_norms(ln_loader *l, const ln_layer_spec *layer, size_t i,
                             ln_layer_weights *w) {
    size_t dim = l->spec->dim;
    bool differs = l->spec->family->mixers_normed_first || l->spec->family->norm_post_key != NULL;
    bool has_block = layer->attention.n_heads > 0 || layer->mixer.kind != LN_MIXER_NONE;
    bool has_ffn = layer->ffn.n_hidden > 0 || layer->ffn.moe.n_experts > 0;
    bool has_first = !differs || layer->placement == LN_PLACE_PRE;
    bool has_post = (!differs || layer->placement == LN_PLACE_POST) && !l->spec->family->blends;
    if (has_first && has_block)
        LN_TRY(first_norms(l, layer, i, w));
    if (has_post)
        LN_TRY(ln_load_norm(l, LN_ROLE_ATTENTION_POST_NORM, i, dim, &w->attention_post_norm));
    if (has_first && has_ffn) {
        ln_tensor_id id = {.role = LN_ROLE_FFN_NORM, .layer = i, .stem = l->stem};
        LN_TRY(check_sequential(l, layer, id));
        LN_TRY(ln_load_norm(l, LN_ROLE_FFN_NORM, i, dim, &w->ffn_norm));
    }
    if (l->spec->family->averages_blocks) { /* x is the sum of all blocks, not divided by the root
                                               of their number */
        w->attention_norm.eps *= (float)(2 * i + 1);
        w->ffn_norm.eps *= (float)(2 * i + 2);
    }
    return has_post ? ln_load_norm(l, LN_ROLE_FFN_POST_NORM, i, dim, &w->ffn_post_norm) : LINNET_OK;
}

/* A recurrent layer behind a block, which is loaded once for all layers that share it. */
static ln_status behind_block(ln_loader *l, const ln_layer_spec *layer, size_t i,
                              ln_layer_weights *w) {
    size_t from = layer->shared.source, dim = l->spec->dim;
    bool is_loaded = from < i && from >= l->first_layer;
    if (is_loaded && l->weights->layers != NULL)
        *w = l->weights->layers[from];
    if (!is_loaded) {
        LN_TRY(ln_load_norm(l, LN_ROLE_BLOCK_NORM, from, 2 * dim, &w->block.norm));
        LN_TRY(ln_load_attention(l, from, &layer->attention, w));
        LN_TRY(ln_load_norm(l, LN_ROLE_FFN_NORM, from, dim, &w->ffn_norm));
        LN_TRY(feed_forward(l, layer, from, w));
    }
    LN_TRY(ln_load_block(l, i, layer, &w->block));
    LN_TRY(ln_load_norm(l, LN_ROLE_ATTENTION_NORM, i, dim, &w->attention_norm));
    return ln_load_mixer(l, i, layer, &w->mixer);
}

static ln_status layer_weights(ln_loader *l, const ln_layer_spec *layer, size_t i,
                               ln_layer_weights *w) {
    *w = (ln_layer_weights){0};
    if (layer->shared.is_there)
        return behind_block(l, layer, i, w);
    if (l->spec->unit_range == 0)
        LN_TRY(block_norms(l, layer, i, w));
    LN_TRY(norm_gates(l, layer, i, w));
    LN_TRY(ln_load_blend(l, layer, i, w));
    LN_TRY(ln_load_residual_scales(l, i, w));
    if (layer->placement == LN_PLACE_NORMED && l->spec->unit_range == 0)
        LN_TRY(kept_norms(l, layer, i, w));
    if (layer->attention.n_heads > 0)
        LN_TRY(ln_load_attention(l, i, &layer->attention, w));
    LN_TRY(ln_load_mixer(l, i, layer, &w->mixer));
    if (layer->has_cross)
        LN_TRY(ln_load_cross_attention(l, i, &layer->attention, w));
    LN_TRY(ln_load_layer_lookup(l, layer, i, w));
    LN_TRY(ln_load_layer_altup(l, i, w));
    LN_TRY(ln_load_layer_hyper(l, i, w));
    LN_TRY(ln_load_block_residual(l, i, layer, w));
    LN_TRY(ln_load_layer_ngrams(l, layer, i, w));
    LN_TRY(feed_forward(l, layer, i, w));
    return ln_load_unit_layer(l, layer, i, w);
}

/* An output whose rows are divided by their length, in float32. */
static ln_status unit_output(ln_loader *l, ln_tensor_id id, ln_weight *weight) {
    ln_source_shape shape = {1, l->spec->n_vocab, l->spec->dim};
    ln_weight_request request;
    ln_cut cut = ln_shard_cut(l->spec, id);
    LN_TRY(ln_source_matrix(l->checkpoint, ln_shard_whole(l->spec), id, &shape, &request, l->err));
    ln_weight_source *source = &request.sources[0];
    if (source->packed.kind == LN_PACKED_NONE)
        source->packed = ln_packed_unit_rows(source->tensor, shape.n_rows, shape.n_cols);
    if (source->packed.kind != LN_PACKED_UNIT_ROWS)
        return ln_fail(l->err, LINNET_ERR_UNSUPPORTED,
                       "%s: tensor %s: a quantised output cannot be normalised",
                       ln_checkpoint_path(l->checkpoint), source->tensor->name);
    LN_TRY(ln_cut_request(&cut, &request, l->err));
    return ln_load_weight(l, &request, weight);
}

/* Rows of the vocabulary that are here. */
static size_t vocab_rows(const ln_loader *l) {
    return l->spec->ranks.vocab.n > 0 ? l->spec->ranks.vocab.n : l->spec->n_vocab;
}

/* The output's bias that suppresses tokens: -FLT_MAX, as in the reference, for those; 0 for others.
 */
static ln_status suppression_bias(ln_loader *l, const float **out) {
    size_t n = vocab_rows(l), begin = l->spec->ranks.vocab.begin;
    const char *words = l->spec->family->suppressed_prefix, *key;
    ln_meta_value map, id;
    void *position = NULL;
    float *bias = calloc(n, sizeof *bias);
    if (bias == NULL)
        return ln_fail_memory(l->err, "the output's bias");
    if (ln_checkpoint_get_format(l->checkpoint) == LN_FORMAT_GGUF) {
        for (size_t i = 4; i < 8196; i++)
            if (i >= begin && i - begin < n)
                bias[i - begin] = -FLT_MAX;
    } else if (ln_checkpoint_meta(l->checkpoint, "vocabulary_map", &map)) {
        while (ln_meta_entry(&map, &position, &key, &id))
            if (strncmp(key, words, strlen(words)) == 0 && id.kind == LN_META_INT &&
                id.integer >= (int64_t)begin && id.integer - (int64_t)begin < (int64_t)n)
                bias[id.integer - (int64_t)begin] = -FLT_MAX;
    }
    ln_status status = ln_load_table(l, bias, n, out);
    free(bias);
    return status;
}

static ln_status output(ln_loader *l) {
    const ln_binding *binding;
    const ln_spec *spec = l->spec;
    ln_weights *w = l->weights;
    ln_tensor_id id = {.role = LN_ROLE_OUTPUT};
    ln_role role = spec->tied ? LN_ROLE_EMBEDDING : LN_ROLE_OUTPUT;
    w->output = w->embedding;
    if (spec->bidirectional) /* there are no logits */
        return LINNET_OK;
    if (!spec->tied && spec->unit_output)
        LN_TRY(unit_output(l, id, &w->output));
    else if (!spec->tied || l->first_layer > 0)
        LN_TRY(ln_load_matrix(l, role, 0, vocab_rows(l), ln_embedded_dim(spec), &w->output));
    else
        ln_load_adapters_of(l, LN_ROLE_OUTPUT, spec->n_vocab, ln_embedded_dim(spec), &w->output);
    LN_TRY(ln_load_unit_output(l, &w->output_scales));
    if (spec->family->suppressed_prefix != NULL)
        return suppression_bias(l, &w->output.bias);
    id.role = LN_ROLE_OUTPUT_BIAS;
    if (spec->tied && ln_family_find(spec->family, l->checkpoint, id, &binding) == NULL)
        id = (ln_tensor_id){.role = LN_ROLE_OUTPUT, .is_bias = true};
    if (ln_family_find(spec->family, l->checkpoint, id, &binding) == NULL)
        return LINNET_OK;
    return ln_load_vector(l, id, vocab_rows(l), &w->output.bias);
}

/* A norm in front of the logits; one that does nothing when the family has none. */
static ln_status last_norm(ln_loader *l, ln_norm *out) {
    bool is_behind = l->spec->family->norm_before_key != NULL &&
                     l->spec->layers[0].placement == LN_PLACE_AFTER; /* as the last block's is */
    *out = (ln_norm){0};
    if (l->spec->unit_range > 0)
        return ln_load_unit_norm(l, l->spec->dim, out);
    if (!is_behind)
        LN_TRY(ln_load_norm(l, LN_ROLE_OUTPUT_NORM, 0, l->spec->dim, out));
    if (l->spec->family->averages_blocks)
        out->eps *= (float)(2 * l->spec->n_layers + 1);
    if (out->dim == 0)
        *out = (ln_norm){.kind = LN_NORM_NONE, .dim = l->spec->dim};
    return LINNET_OK;
}

/* What the output reads instead of the last norm. */
static ln_status output_dense(ln_loader *l) {
    ln_weights *w = l->weights;
    size_t dim = l->spec->dim;
    if (l->spec->embedded_dim > 0)
        LN_TRY(ln_load_matrix(l, LN_ROLE_OUTPUT_IN, 0, l->spec->embedded_dim, dim, &w->output_in));
    if (!l->spec->output_dense)
        return LINNET_OK;
    LN_TRY(ln_load_matrix(l, LN_ROLE_OUTPUT_DENSE, 0, dim, dim, &w->output_dense));
    return ln_load_norm(l, LN_ROLE_OUTPUT_DENSE_NORM, 0, dim, &w->output_dense_norm);
}

/* The layers of a stack; `layers` is NULL while planning. */
static ln_status stack(ln_loader *l, const ln_layer_spec *specs, size_t n_layers,
                       ln_layer_weights **layers) {
    ln_layer_weights planned = {0};
    char stem[64];
    size_t offset = ln_layout_add(&l->table_layout, n_layers, sizeof **layers);
    if (l->table != NULL)
        *layers = (ln_layer_weights *)(void *)(l->table + offset);
    for (size_t i = 0; i < n_layers; i++) {
        ln_layer_weights *w = *layers != NULL ? &(*layers)[i] : &planned;
        if (!l->encoder && (i < l->first_layer || i >= l->end_layer))
            continue;
        size_t same = ln_cycle_layer(l->spec, l->first_layer, i);
        if (same < i && *layers != NULL)
            *w = (*layers)[same];
        if (same < i)
            continue;
        if (l->spec->cycle_layers > 0)
            ln_cycle_stem(l->spec, i, stem);
        l->stem = l->spec->cycle_layers > 0 ? stem : l->stem;
        LN_TRY(layer_weights(l, &specs[i], l->encoder ? i : ln_cycle_stored(l->spec, i), w));
    }
    l->stem = l->spec->cycle_layers > 0 ? NULL : l->stem;
    return LINNET_OK;
}

static ln_status encoder(ln_loader *l) {
    const ln_spec *spec = l->spec;
    ln_weights *w = l->weights;
    if (spec->n_encoder_layers == 0 || l->first_layer > 0)
        return LINNET_OK;
    l->encoder = true;
    if (spec->n_encoder_vocab > 0)
        LN_TRY(
            ln_load_matrix(l, LN_ROLE_EMBEDDING, 0,
                           spec->ranks.n > 0 ? spec->ranks.encoder_vocab.n : spec->n_encoder_vocab,
                           spec->dim, &w->encoder.embedding));
    LN_TRY(ln_load_learned_positions(l, &w->encoder.learned_positions));
    LN_TRY(ln_load_norm(l, LN_ROLE_EMBEDDING_NORM, 0, spec->dim, &w->encoder.embedding_norm));
    LN_TRY(last_norm(l, &w->encoder.output_norm));
    LN_TRY(ln_load_relative_bias(l, &w->encoder.relative_bias));
    LN_TRY(stack(l, spec->encoder_layers, spec->n_encoder_layers, &w->encoder.layers));
    l->encoder = false;
    return LINNET_OK;
}

/* What comes before the first layer. */
static ln_status embedding(ln_loader *l) {
    const ln_spec *spec = l->spec;
    ln_weights *w = l->weights;
    size_t width = ln_embedded_dim(spec);
    LN_TRY(ln_load_matrix(l, LN_ROLE_EMBEDDING, 0, vocab_rows(l), width, &w->embedding));
    if (spec->embedded_dim > 0) {
        LN_TRY(ln_load_no_tokens(l, spec->dim));
        LN_TRY(ln_load_matrix(l, LN_ROLE_EMBEDDING_IN, 0, spec->dim, width, &w->embedding_in));
    }
    LN_TRY(ln_load_learned_positions(l, &w->learned_positions));
    if (spec->n_types > 0)
        LN_TRY(
            ln_load_matrix(l, LN_ROLE_TOKEN_TYPES, 0, spec->n_types, spec->dim, &w->token_types));
    LN_TRY(ln_load_embedding_scales(l));
    LN_TRY(ln_load_lookup(l));
    LN_TRY(ln_load_altup_begin(l));
    return ln_load_norm(l, LN_ROLE_EMBEDDING_NORM, 0, spec->dim, &w->embedding_norm);
}

/* One of the head's own tensors, or the model's. */
static ln_status head_matrix(ln_loader *l, ln_role role, const ln_weight *of_model,
                             ln_weight *weight) {
    const ln_spec *spec = l->spec;
    ln_tensor_id id = {.role = role, .layer = spec->n_layers, .stem = l->stem};
    if (ln_family_has(spec->family, l->checkpoint, id))
        return ln_load_matrix(l, role, spec->n_layers, spec->n_vocab, spec->dim, weight);
    if (of_model != NULL)
        *weight = *of_model;
    return LINNET_OK;
}

/* A head that drafts, instead of the model. */
static ln_status head(ln_loader *l) {
    const ln_spec *spec = l->spec;
    const ln_weights *model = l->options.model;
    ln_weights *w = l->weights;
    ln_layer_weights planned = {0};
    size_t i = spec->n_layers;
    l->stem = spec->family->head_stem;
    w->copy = (ln_norm){.kind = LN_NORM_NONE, .dim = spec->dim};
    LN_TRY(head_matrix(l, LN_ROLE_HEAD_EMBEDDING, model != NULL ? &model->embedding : NULL,
                       &w->embedding));
    LN_TRY(head_matrix(l, LN_ROLE_HEAD_OUTPUT, model != NULL ? &model->output : NULL, &w->output));
    LN_TRY(ln_load_norm(l, LN_ROLE_HEAD_TOKEN_NORM, i, spec->dim, &w->head.token_norm));
    LN_TRY(ln_load_norm(l, LN_ROLE_HEAD_HIDDEN_NORM, i, spec->dim, &w->head.hidden_norm));
    LN_TRY(ln_load_norm(l, LN_ROLE_HEAD_NORM, i, spec->dim, &w->output_norm));
    if (w->output_norm.dim == 0 && model != NULL)
        w->output_norm = model->output_norm;
    LN_TRY(ln_load_matrix(l, LN_ROLE_HEAD_INPUT, i, spec->dim, 2 * spec->dim, &w->head.input));
    for (size_t rope = 0; rope < spec->n_ropes && model != NULL; rope++)
        w->ropes[rope] = model->ropes[rope];
    if (model != NULL)
        w->alibi_slopes = model->alibi_slopes;
    size_t offset = ln_layout_add(&l->table_layout, 1, sizeof *w->layers);
    if (l->table != NULL)
        w->layers = (ln_layer_weights *)(void *)(l->table + offset);
    LN_TRY(layer_weights(l, spec->mtp, i, w->layers != NULL ? w->layers : &planned));
    LN_TRY(ln_layout_check(&l->table_layout, "table of the head's weights", l->err));
    return ln_layout_check(&l->layout, "weights of the head", l->err);
}

/* A head of its own folder, which reads hidden states of another model. */
static ln_status eagle(ln_loader *l) {
    const ln_spec *spec = l->spec;
    const ln_eagle_spec *own = &spec->eagle;
    const ln_weights *model = l->options.model;
    ln_weights *w = l->weights;
    size_t n_aux_layers = own->aux_layers.n > 0 ? own->aux_layers.n : 3;
    w->copy = (ln_norm){.kind = LN_NORM_NONE, .dim = spec->dim};
    size_t n_read = n_aux_layers * own->model_dim;
    w->head.aux_norm = (ln_norm){.kind = LN_NORM_NONE, .dim = n_read};
    if (own->norm_before_fc)
        LN_TRY(ln_load_norm(l, LN_ROLE_HEAD_NORM, 0, n_read, &w->head.aux_norm));
    if (own->n_embedded > 0)
        LN_TRY(ln_load_matrix(l, LN_ROLE_EMBEDDING, 0, own->n_embedded, spec->dim, &w->embedding));
    else if (model != NULL)
        w->embedding = model->embedding;
    LN_TRY(ln_load_norm(l, LN_ROLE_HEAD_TOKEN_NORM, 0, spec->dim, &w->head.token_norm));
    LN_TRY(ln_load_norm(l, LN_ROLE_HEAD_HIDDEN_NORM, 0, spec->dim, &w->head.hidden_norm));
    LN_TRY(ln_load_matrix(l, LN_ROLE_HEAD_INPUT, 0, spec->dim, n_read, &w->head.input));
    LN_TRY(last_norm(l, &w->output_norm));
    LN_TRY(output(l));
    LN_TRY(ln_load_ropes(l));
    LN_TRY(stack(l, spec->layers, spec->n_layers, &w->layers));
    LN_TRY(ln_layout_check(&l->table_layout, "table of the head's weights", l->err));
    return ln_layout_check(&l->layout, "weights of the head", l->err);
}

/* An assistant, which reads embeddings and hidden states of another model. */
static ln_status assistant(ln_loader *l) {
    const ln_spec *spec = l->spec;
    ln_weights *w = l->weights;
    size_t dim = spec->assisted_dim;
    w->copy = (ln_norm){.kind = LN_NORM_NONE, .dim = spec->dim};
    w->head.aux_norm = (ln_norm){.kind = LN_NORM_NONE, .dim = dim};
    if (l->options.model != NULL)
        w->embedding = l->options.model->embedding;
    LN_TRY(ln_load_matrix(l, LN_ROLE_HEAD_INPUT, 0, spec->dim, 2 * dim, &w->head.input));
    LN_TRY(ln_load_matrix(l, LN_ROLE_HEAD_STATE, 0, dim, spec->dim, &w->head.state));
    LN_TRY(last_norm(l, &w->output_norm));
    LN_TRY(output(l));
    LN_TRY(ln_load_ropes(l));
    LN_TRY(stack(l, spec->layers, spec->n_layers, &w->layers));
    LN_TRY(ln_layout_check(&l->table_layout, "table of the assistant's weights", l->err));
    return ln_layout_check(&l->layout, "weights of the assistant", l->err);
}

/* Layers that draft blocks: embedding and output are the model's, unless they are there. */
static ln_status dflash(ln_loader *l) {
    const ln_spec *spec = l->spec;
    const ln_eagle_spec *own = &spec->eagle;
    const ln_weights *model = l->options.model;
    ln_weights *w = l->weights;
    size_t n_read = own->aux_layers.n * own->model_dim;
    w->copy = (ln_norm){.kind = LN_NORM_NONE, .dim = spec->dim};
    w->head.aux_norm = (ln_norm){.kind = LN_NORM_NONE, .dim = n_read};
    if (own->n_embedded > 0)
        LN_TRY(ln_load_matrix(l, LN_ROLE_EMBEDDING, 0, own->n_embedded, spec->dim, &w->embedding));
    else if (model != NULL)
        w->embedding = model->embedding;
    LN_TRY(ln_load_matrix(l, LN_ROLE_HEAD_INPUT, 0, spec->dim, n_read, &w->head.input));
    LN_TRY(ln_load_norm(l, LN_ROLE_HEAD_HIDDEN_NORM, 0, spec->dim, &w->head.hidden_norm));
    LN_TRY(last_norm(l, &w->output_norm));
    if (spec->dflash.has_output)
        LN_TRY(output(l));
    else if (model != NULL)
        w->output = model->output;
    LN_TRY(ln_load_ropes(l));
    LN_TRY(stack(l, spec->layers, spec->n_layers, &w->layers));
    LN_TRY(ln_layout_check(&l->table_layout, "table of the drafter's weights", l->err));
    return ln_layout_check(&l->layout, "weights of the drafter", l->err);
}

static ln_status walk(ln_loader *l) {
    const ln_spec *spec = l->spec;
    ln_weights *w = l->weights;
    size_t end = l->options.end_layer;
    if (l->options.head && !spec->family->drafts)
        return head(l);
    if (l->options.only_experts)
        return ln_load_only_experts(l);
    l->first_layer = w->first_layer = l->options.first_layer;
    l->end_layer = w->end_layer = end > 0 ? end : spec->n_layers;
    if (spec->dflash.block_tokens > 0)
        return dflash(l);
    if (spec->eagle.is_head)
        return eagle(l);
    if (spec->assisted_dim > 0)
        return assistant(l);
    w->copy = (ln_norm){.kind = LN_NORM_NONE, .dim = spec->dim};
    if (l->first_layer == 0)
        LN_TRY(embedding(l));
    if (l->end_layer == spec->n_layers) {
        LN_TRY(last_norm(l, &w->output_norm));
        LN_TRY(ln_load_altup_end(l));
        LN_TRY(ln_load_hyper_end(l));
        LN_TRY(ln_load_block_residual_end(l));
        LN_TRY(output_dense(l));
        LN_TRY(output(l));
    }
    LN_TRY(ln_load_ropes(l));
    LN_TRY(ln_load_index_columns(l));
    LN_TRY(ln_load_choice_columns(l));
    LN_TRY(ln_load_cca_columns(l));
    LN_TRY(ln_load_key_bias_rows(l));
    LN_TRY(ln_load_cycles(l));
    LN_TRY(ln_load_messages(l));
    LN_TRY(ln_load_zeros(l));
    LN_TRY(ln_load_query_scales(l));
    LN_TRY(ln_load_hyper(l));
    LN_TRY(ln_load_ngrams(l));
    LN_TRY(ln_load_alibi(l));
    LN_TRY(ln_load_relative_bias(l, &w->relative_bias));
    LN_TRY(stack(l, spec->layers, spec->n_layers, &w->layers));
    LN_TRY(encoder(l));
    LN_TRY(ln_layout_check(&l->table_layout, "table of the weights", l->err));
    LN_TRY(ln_layout_check(&l->adapter, "adapters", l->err));
    return ln_layout_check(&l->layout, "weights", l->err);
}

ln_status ln_weights_plan_bytes(const ln_checkpoint *checkpoint, const ln_spec *spec,
                                const ln_weights_options *options, const ln_backend *backend,
                                ln_weights_plan *plan, ln_error *err) {
    ln_weights weights = {0};
    ln_unused_tensors unused;
    LN_TRY(ln_unused_tensors_init(&unused, checkpoint, err));
    ln_loader l = {.checkpoint = checkpoint,
                   .spec = spec,
                   .backend = backend,
                   .options = *options,
                   .unused = &unused,
                   .weights = &weights,
                   .err = err};
    ln_status status = walk(&l);
    bool is_whole = !l.options.head || spec->dflash.block_tokens > 0;
    if (status == LINNET_OK && is_whole && l.first_layer == 0 && l.end_layer == spec->n_layers &&
        spec->ranks.mesh.n_expert <= 1 && options->experts_apart == 0)
        status = ln_unused_tensors_check(&unused, spec, err);
    ln_unused_tensors_free(&unused);
    LN_TRY(status);
    *plan = (ln_weights_plan){.prepared_bytes = l.layout.bytes,
                              .mapped_bytes = l.mapped_bytes,
                              .table_bytes = l.table_layout.bytes,
                              .adapter_bytes = l.adapter.bytes,
                              .experts = l.expert_sizes};
    return LINNET_OK;
}

ln_status ln_weights_load(const ln_checkpoint *checkpoint, const ln_spec *spec,
                          const ln_weights_options *options, ln_backend *backend,
                          ln_weights *weights, ln_error *err) {
    size_t ctx_tokens = options->ctx_tokens;
    ln_weights_plan plan;
    *weights = (ln_weights){0};
    if (spec->max_ctx_tokens > 0 && ctx_tokens > spec->max_ctx_tokens)
        return ln_fail(err, LINNET_ERR_LIMIT,
                       "a context of %zu tokens is more than the %zu positions of %s", ctx_tokens,
                       spec->max_ctx_tokens, ln_checkpoint_path(checkpoint));
    LN_TRY(ln_weights_plan_bytes(checkpoint, spec, options, backend, &plan, err));
    LN_TRY(ln_reserve(plan.table_bytes, "table of the weights", &weights->table, err));
    weights->table_bytes = plan.table_bytes;
    ln_status status =
        backend->vtable->reserve(backend, plan.prepared_bytes, "weights", &weights->memory, err);
    if (status == LINNET_OK) {
        weights->memory_bytes = plan.prepared_bytes;
        weights->adapter_bytes = plan.adapter_bytes;
        ln_loader l = {.checkpoint = checkpoint,
                       .spec = spec,
                       .backend = backend,
                       .writable = backend,
                       .memory = weights->memory,
                       .table = weights->table,
                       .total_bytes = plan.prepared_bytes + plan.mapped_bytes,
                       .options = *options,
                       .weights = weights,
                       .err = err};
        status = walk(&l);
        if (backend->vtable->finish_weights != NULL) {
            ln_status end =
                backend->vtable->finish_weights(backend, status == LINNET_OK ? err : NULL);
            status = status == LINNET_OK ? end : status;
        }
        if (status == LINNET_OK)
            ln_load_tell(&l);
        if (status == LINNET_OK)
            status = ln_checkpoint_check(checkpoint, err);
        ln_checkpoint_drop_pages(checkpoint); /* what became copies was read once */
    }
    if (status != LINNET_OK)
        ln_weights_free(weights, backend);
    return status;
}

void ln_weights_free(ln_weights *weights, ln_backend *backend) {
    backend->vtable->release(backend, weights->memory, weights->memory_bytes);
    ln_unreserve(weights->table, weights->table_bytes);
    *weights = (ln_weights){0};
}
