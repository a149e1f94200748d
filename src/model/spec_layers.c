#include "model/spec_layers.h"

#include <math.h>

#include "model/activations.h"
#include "model/attention/cca.h"
#include "model/attention/compressed.h"
#include "model/attention/lengths.h"
#include "model/attention/pattern.h"
#include "model/attention/relative_logits.h"
#include "model/attention/spec.h"
#include "model/family.h"
#include "model/ffn/hash_routing.h"
#include "model/ffn/spec.h"
#include "model/heads/head_spec.h"
#include "model/layers/altup.h"
#include "model/layers/block_residual.h"
#include "model/layers/by_layer.h"
#include "model/layers/hyper.h"
#include "model/layers/ngrams.h"
#include "model/layers/normed_spec.h"
#include "model/layers/shared_block.h"
#include "model/mixer/short_convs.h"
#include "model/mixer/spec.h"
#include "model/rope.h"
#include "model/spec_blocks.h"

/* The group of layers of this kind and window, made when it is new. */
static ln_status kv_group_of(const ln_config *config, ln_spec *spec, ln_kv_kind kind, size_t window,
                             size_t *group, ln_error *err) {
    for (size_t i = 0; i < spec->n_kv_groups; i++)
        if (spec->kv_groups[i].kind == kind && spec->kv_groups[i].window == window) {
            *group = i;
            spec->kv_groups[i].n_layers++;
            return LINNET_OK;
        }
    if (spec->n_kv_groups == LN_MAX_KV_GROUPS)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                       "%s: its layers have more than %d kinds of window",
                       ln_checkpoint_path(config->checkpoint), LN_MAX_KV_GROUPS);
    *group = spec->n_kv_groups++;
    spec->kv_groups[*group] = (ln_kv_group_spec){.kind = kind, .window = window, .n_layers = 1};
    return LINNET_OK;
}

/* The tables of rotation; `latent`: their head is the part of a latent's that rotates. head_dim 0:
 * of the layers that rotate so. */
static ln_status read_ropes(const ln_config *config, ln_arena *arena, ln_spec *spec,
                            size_t head_dim, bool latent, ln_error *err) {
    const ln_family *family = spec->family;
    if (spec->positions != LN_POSITIONS_ROPE)
        return LINNET_OK;
    spec->n_ropes = family->local_rope ? 2 : 1;
    for (size_t i = 0; i < spec->n_ropes; i++) {
        size_t own_dim = head_dim;
        ln_config own = *config; /* as the first layer that rotates so has it */
        while (head_dim == 0 && own.layer + 1 < spec->n_layers &&
               spec->layers[own.layer].attention.rope != (int)i)
            own.layer++;
        if (head_dim == 0)
            LN_TRY(ln_spec_rope_head_dim(config, spec, i, &own_dim, err));
        ln_rope_source source = {.style = config->is_gguf ? family->gguf_rope : family->hf_rope,
                                 .head_dim = own_dim,
                                 .whole_head = latent,
                                 .gguf_whole = family->gguf_whole_rope,
                                 .fraction = config->is_gguf ? 0 : family->rope_fraction,
                                 .is_half = config->is_gguf && family->gguf_half_rope && i == 0,
                                 .whole_yarn = config->is_gguf && family->gguf_whole_yarn,
                                 .local = i == 1,
                                 .by_fraction = family->rope_by_fraction,
                                 .lists_flags = family->rope_rule == LN_ROPE_LISTED,
                                 .local_theta = family->local_theta};
        if (family->lists_alone && !config->is_gguf)
            source.local_theta = 0; /* a list has it */
        if (family->compressed_attention)
            LN_TRY(ln_spec_read_compressed_fraction(config, own_dim, &source.fraction, err));
        bool interleaved = source.style == LN_ROPE_INTERLEAVED;
        ln_meta_value sections;
        if (family->gguf_half_sections && config->is_gguf &&
            ln_config_find(config, (ln_key){"", "rope.dimension_sections"}, &sections, NULL))
            interleaved = false;
        LN_TRY(ln_config_flag(config, (ln_key){"rope_interleave", ""}, &interleaved, err));
        source.style = interleaved ? LN_ROPE_INTERLEAVED : LN_ROPE_HALF;
        LN_TRY(ln_rope_read(&own, &source, arena, &spec->ropes[i], err));
        if (family->compressed_attention) {
            spec->ropes[i].truncate = true; /* whatever config.json says */
            if (spec->ropes[i].attention_factor == 0)
                spec->ropes[i].attention_factor = 1; /* it is not derived */
        }
        if (family->still_latents)
            spec->ropes[i] = (ln_rope_spec){.style = source.style,
                                            .n_dims = own_dim,
                                            .theta = 1,
                                            .scaling = LN_ROPE_PROPORTIONAL,
                                            .factor = 1};
    }
    return LINNET_OK;
}

static ln_status read_placement(const ln_config *config, const ln_family *family,
                                ln_placement *placement, ln_error *err) {
    bool before = true, post = false;
    *placement = family->placement;
    if (family->norm_post_key != NULL)
        LN_TRY(ln_config_flag(config, (ln_key){family->norm_post_key, family->norm_post_key}, &post,
                              err));
    if (post)
        *placement = LN_PLACE_POST;
    if (family->norm_before_key != NULL)
        LN_TRY(ln_config_flag(config, (ln_key){family->norm_before_key, ""}, &before, err));
    if (!before)
        *placement = LN_PLACE_AFTER;
    ln_key key = {family->parallel_key, family->parallel_key};
    if (family->hf_parallel_key != NULL)
        key = (ln_key){family->hf_parallel_key, ""};
    if (key.hf == NULL)
        return LINNET_OK;
    bool parallel = *placement == LN_PLACE_PARALLEL;
    LN_TRY(ln_config_flag(config, key, &parallel, err));
    *placement = parallel ? LN_PLACE_PARALLEL : LN_PLACE_PRE;
    bool is_new = false; /* Falcon's: the reference lacks norms of layers that are not parallel */
    LN_TRY(ln_config_flag(config, (ln_key){"new_decoder_architecture", ""}, &is_new, err));
    if (is_new && !parallel)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                       "%s: key %s: false is not supported with new_decoder_architecture",
                       ln_checkpoint_path(config->checkpoint), key.hf);
    return LINNET_OK;
}

/* What all layers of a stack share. */
static ln_status read_layer(const ln_config *config, ln_spec *spec, bool encoder,
                            ln_layer_spec *layer, ln_error *err) {
    *layer = (ln_layer_spec){0};
    LN_TRY(read_placement(config, spec->family, &layer->placement, err));
    LN_TRY(ln_spec_read_attention(config, spec, encoder, &layer->attention, err));
    LN_TRY(ln_spec_read_mixer(config, spec, &layer->mixer, err));
    LN_TRY(ln_spec_read_cca(config, &layer->attention, &layer->mixer, err));
    layer->attention.alibi = spec->positions == LN_POSITIONS_ALIBI;
    layer->attention.relative = spec->n_relative_buckets > 0;
    layer->attention.sees_all = encoder || spec->bidirectional;
    return ln_spec_read_ffn(config, spec, encoder, &layer->ffn, err);
}

/* Latent attention under YaRN: the scores take the magnitude that the rotation leaves out. */
static float latent_yarn_scale(const ln_rope_spec *rope) {
    if (rope->scaling != LN_ROPE_YARN || rope->mscale_all_dim <= 0 || rope->factor <= 1)
        return 1.0f;
    double magnitude = 0.1 * rope->mscale_all_dim * log(rope->factor) + 1.0;
    return (float)(magnitude * magnitude);
}

static ln_layer_spec *new_layers(const ln_config *config, ln_arena *arena, size_t n,
                                 ln_error *err) {
    ln_layer_spec *layers = ln_arena_alloc(arena, n, sizeof *layers);
    if (layers == NULL)
        ln_fail(err, LINNET_ERR_NOMEM, "out of memory reading %s",
                ln_checkpoint_path(config->checkpoint));
    return layers;
}

/* Keys and values of cross-attention have the shape of the queries. */
static ln_status check_heads(const ln_config *config, const ln_attention_spec *attention,
                             ln_error *err) {
    if (attention->n_kv_heads == attention->n_heads && attention->k_dim == attention->v_dim)
        return LINNET_OK;
    return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                   "%s: with an encoder, %zu KV heads for %zu heads, of %zu and %zu dimensions",
                   ln_checkpoint_path(config->checkpoint), attention->n_kv_heads,
                   attention->n_heads, attention->k_dim, attention->v_dim);
}

static ln_status check_head_dims(const ln_config *config, const ln_attention_spec *attention,
                                 ln_error *err) {
    size_t largest = attention->k_dim > attention->v_dim ? attention->k_dim : attention->v_dim;
    if (attention->indexer.head_dim > largest)
        largest = attention->indexer.head_dim;
    if (largest <= LN_MAX_HEAD_DIM)
        return LINNET_OK;
    return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                   "%s: attention heads of %zu dimensions; at most %d are supported",
                   ln_checkpoint_path(config->checkpoint), largest, LN_MAX_HEAD_DIM);
}

/* Leaves a layer of one block nothing else. */
static ln_status keep_block(const ln_config *config, const ln_spec *spec, size_t i,
                            ln_layer_spec *layer, ln_error *err) {
    ln_block block;
    LN_TRY(ln_spec_layer_block(config, spec, i, &block, &layer->ffn.n_hidden, err));
    if (block != LN_BLOCK_ATTENTION)
        layer->attention = (ln_attention_spec){.rope = -1};
    if (block == LN_BLOCK_DENSE)
        layer->ffn.moe = (ln_moe_spec){0};
    if (block == LN_BLOCK_MIXER || block == LN_BLOCK_ATTENTION)
        layer->ffn = (ln_ffn_spec){0};
    if (block != LN_BLOCK_EXPERTS || layer->ffn.moe.n_experts > 0)
        return LINNET_OK;
    return ln_fail(err, LINNET_ERR_FORMAT, "%s: layer %zu is a mixture of no experts",
                   ln_checkpoint_path(config->checkpoint), i);
}

/* Makes a layer recurrent, if it is one of those; with attention beside or without. */
static ln_status read_own_mixer(const ln_config *config, ln_spec *spec, size_t i,
                                ln_layer_spec *layer, ln_error *err) {
    bool has_mixer;
    if (spec->family->one_block)
        LN_TRY(keep_block(config, spec, i, layer, err));
    LN_TRY(ln_spec_layer_has_mixer(config, spec, i, &has_mixer, err));
    if (!has_mixer) {
        layer->mixer = (ln_mixer_spec){0};
        return LINNET_OK;
    }
    spec->has_mixers = true;
    LN_TRY(ln_spec_check_mixer_activation(config, spec->family, layer->mixer.kind, err));
    LN_TRY(kv_group_of(config, spec, LN_KV_STATE, 0, &layer->mixer.state_group, err));
    LN_TRY(kv_group_of(config, spec, LN_KV_TAIL, 0, &layer->mixer.tail_group, err));
    if (spec->family->shared_blocks)
        LN_TRY(ln_spec_read_shared_block(config, spec, i, layer, err));
    else if (!spec->family->mixers_beside)
        layer->attention = (ln_attention_spec){.rope = -1};
    if (spec->family->mixers_normed_first)
        layer->placement = LN_PLACE_PRE;
    return LINNET_OK;
}

/* How wide dense layers among mixtures are, where that has a key of its own. */
static ln_status read_first_hidden(const ln_config *config, const ln_family *family,
                                   size_t *n_hidden, ln_error *err) {
    if (family->first_hidden_key == NULL)
        return LINNET_OK;
    return ln_config_size(config, (ln_key){family->first_hidden_key, ""}, 1, LN_MAX_DIM, n_hidden,
                          err);
}

/* Dense layers before mixtures rotate, too, unless every Nth of them sees all. */
static ln_status rotate_dense(const ln_config *config, int *rope, ln_error *err) {
    size_t period = 1;
    LN_TRY(ln_config_size(config, (ln_key){"prefix_dense_sliding_window_pattern", ""}, 0,
                          LN_MAX_LAYERS, &period, err));
    if (period == 1)
        *rope = 0;
    return LINNET_OK;
}

/* Whether a layer has an indexer: all, or those that see all, unless they are said not to. */
static ln_status is_indexed(const ln_config *config, const ln_family *family, bool windowed,
                            bool *indexed, ln_error *err) {
    ln_meta_value value, word;
    char name[128];
    bool is_named,
        has_layers = ln_config_find(config, (ln_key){"per_layer_config", ""}, &value, NULL);
    *indexed = family->indexer && !(windowed && family->latents_by_kind);
    if (!*indexed || !family->latents_by_kind)
        return LINNET_OK;
    *indexed = true; /* older folders call such layers full_attention */
    if (has_layers && ln_spec_layer_word(config, config->layer, name, &word, &is_named) && is_named)
        *indexed = ln_list_has("indexed_attention", word.string.data, word.string.bytes);
    return ln_config_flag(config, (ln_key){"use_dsa", ""}, indexed, err);
}

/* The latent of a layer that may not rotate, which must be its own. */
static ln_status read_plain_latent(const ln_config *config, size_t layer,
                                   ln_attention_spec *attention, ln_error *err) {
    ln_latent_spec *latent = &attention->latent;
    ln_meta_value list, item;
    char name[128];
    if (ln_config_find(config, (ln_key){"kv_source_layers", ""}, &list, name) &&
        (!ln_meta_item(&list, layer, &item) || item.kind != LN_META_INT ||
         item.integer != (int64_t)layer))
        return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                       "%s: key %s: layer %zu reads latents of another layer",
                       ln_checkpoint_path(config->checkpoint), name, layer);
    if (attention->rope >= 0)
        return LINNET_OK;
    latent->n_plain += latent->n_rope;
    latent->n_rope = 0;
    attention->k_dim = latent->n_latent;
    return LINNET_OK;
}

/* Where the rows and entries of a compressor are. */
static ln_status read_entry_groups(const ln_config *config, ln_spec *spec,
                                   ln_compressor_spec *compressor, ln_error *err) {
    if (compressor->n_tokens == 0)
        return LINNET_OK;
    size_t n_rows = (compressor->overlaps ? 2 : 1) * compressor->n_tokens;
    LN_TRY(kv_group_of(config, spec, LN_KV_OWN, n_rows, &compressor->row_group, err));
    return kv_group_of(config, spec, LN_KV_OWN, 0, &compressor->entry_group, err);
}

/* What follows from a layer's heads and window: short convolutions, relative logits. */
static ln_status read_by_heads(const ln_config *config, const ln_spec *spec, size_t window,
                               ln_layer_spec *layer, ln_error *err) {
    ln_spec_size_short_convs(spec->dim, layer);
    layer->mixer.is_even = spec->family->even_convs;
    layer->mixer.dynamic = spec->family->even_convs && window == 0;
    if (spec->family->limits_lengths)
        LN_TRY(ln_spec_read_lengths(config, &layer->attention, err));
    if (!spec->family->relative_logits)
        return LINNET_OK;
    return ln_spec_read_relative_logits(config, window, &layer->attention, err);
}

/* Whether a layer has experts, or *dense, and the limits of its activations. */
static ln_status read_own_ffn(const ln_config *config, const ln_spec *spec, size_t i,
                              ln_layer_spec *layer, bool *dense, ln_error *err) {
    ln_meta_value list;
    ln_tensor_id router = {.role = LN_ROLE_ROUTER, .layer = i};
    bool is_listed = ln_config_find(config, (ln_key){"mlp_layer_types", ""}, &list, NULL);
    LN_TRY(ln_spec_layer_is_dense(config, spec->n_layers, i, dense, err));
    if (config->is_gguf ? spec->family->gguf_dense_by_router
                        : spec->family->dense_by_router && !is_listed)
        *dense = !ln_family_has(spec->family, config->checkpoint, router);
    layer->takes_shortcut = spec->family->shortcut && i % 2 == 1;
    if (*dense || layer->takes_shortcut) {
        layer->ffn.moe = (ln_moe_spec){.limits_before = layer->ffn.moe.limits_before};
        LN_TRY(read_first_hidden(config, spec->family, &layer->ffn.n_hidden, err));
    }
    return spec->family->limit_lists ? ln_spec_read_limits(config, &layer->ffn, err) : LINNET_OK;
}

/* What differs from layer to layer: window, rotation, mixture. */
static ln_status read_own(const ln_config *config, ln_spec *spec, size_t i, size_t window,
                          ln_layer_spec *layer, ln_error *err) {
    ln_attention_spec *attention = &layer->attention;
    bool idle, windowed, dense, indexed;
    LN_TRY(ln_spec_layer_is_idle(config, spec->family, i, &idle, err));
    if (idle) {
        *layer = (ln_layer_spec){.placement = layer->placement, .attention.rope = -1};
        return LINNET_OK;
    }
    LN_TRY(read_own_ffn(config, spec, i, layer, &dense, err));
    LN_TRY(read_own_mixer(config, spec, i, layer, err));
    LN_TRY(ln_spec_layer_ngrams(config, spec, i, layer, err));
    LN_TRY(ln_spec_read_normed(config, layer, err));
    if (spec->family->sized_by_tensors)
        LN_TRY(ln_spec_read_tensor_sizes(config, spec, layer, err));
    if (attention->n_heads == 0)
        return LINNET_OK;
    LN_TRY(ln_spec_layer_is_windowed(config, spec, i, window, &windowed, err));
    LN_TRY(ln_spec_layer_rope(config, spec, i, window, windowed, &attention->rope, err));
    if (dense && spec->family->rope_rule == LN_ROPE_WINDOWED_OR_DENSE)
        LN_TRY(rotate_dense(config, &attention->rope, err));
    LN_TRY(ln_spec_read_own_attention(config, spec, windowed, attention, err));
    spec->logs_positions |= attention->scales_by_log;
    spec->has_query_scales |= attention->scales_by_table || attention->scales_by_log;
    if (spec->family->plain_latents)
        LN_TRY(read_plain_latent(config, i, attention, err));
    LN_TRY(is_indexed(config, spec->family, windowed, &indexed, err));
    if (indexed)
        LN_TRY(ln_spec_read_indexer(config, spec, i, attention, err));
    if (spec->family->hash_routing)
        LN_TRY(ln_spec_read_hash_routing(config, i, &layer->ffn.moe.hash_routed, err));
    if (spec->family->compressed_attention)
        LN_TRY(ln_spec_read_compressed(config, spec, i, window, attention, err));
    LN_TRY(read_entry_groups(config, spec, &attention->compressor, err));
    attention->kv_layer = spec->bidirectional ? 0 : i;
    if (config->by_layer)
        LN_TRY(ln_spec_read_by_layer(config, spec, windowed, layer, err));
    size_t seen = windowed ? window : 0;
    LN_TRY(read_by_heads(config, spec, seen, layer, err));
    attention->window = spec->family->chunked ? 0 : seen;
    attention->chunk = spec->family->chunked ? seen : 0;
    if (!attention->borrows_kv)
        LN_TRY(kv_group_of(config, spec, LN_KV_OWN, spec->bidirectional ? 0 : seen,
                           &attention->kv_group, err));
    layer->has_cross = spec->n_encoder_layers > 0;
    if (!layer->has_cross)
        return LINNET_OK;
    LN_TRY(check_heads(config, attention, err));
    return kv_group_of(config, spec, LN_KV_CROSS, 0, &layer->cross_kv_group, err);
}

/* The encoder's layers are alike; they cache for one step only. */
static ln_status read_encoder(const ln_config *config, ln_arena *arena, ln_spec *spec,
                              ln_error *err) {
    ln_layer_spec common;
    size_t start = 0, group;
    if (!spec->family->has_encoder)
        return LINNET_OK;
    LN_TRY(ln_config_need_size(
        config, (ln_key){"encoder_layers|num_layers|num_hidden_layers", "block_count"}, 1,
        LN_MAX_LAYERS, &spec->n_encoder_layers, err));
    LN_TRY(ln_config_need_size(config, (ln_key){"decoder_start_token_id", "decoder_start_token_id"},
                               0, spec->n_vocab - 1, &start, err));
    spec->decoder_start_id = (int32_t)start;
    LN_TRY(read_layer(config, spec, true, &common, err));
    LN_TRY(check_heads(config, &common.attention, err));
    LN_TRY(check_head_dims(config, &common.attention, err));
    LN_TRY(kv_group_of(config, spec, LN_KV_ENCODER, 0, &group, err));
    common.attention.kv_group = group;
    spec->encoder_layers = new_layers(config, arena, spec->n_encoder_layers, err);
    if (spec->encoder_layers == NULL)
        return LINNET_ERR_NOMEM;
    for (size_t i = 0; i < spec->n_encoder_layers; i++)
        spec->encoder_layers[i] = common;
    return LINNET_OK;
}

/* Whether a matrix stands between the last norm and the output, and its activation. */
static ln_status read_output_dense(const ln_config *config, ln_spec *spec, ln_error *err) {
    static const ln_key key = {"classifier_activation", ""};
    ln_tensor_id id = {.role = LN_ROLE_OUTPUT_DENSE};
    spec->output_dense = !spec->lacks_output && !config->is_gguf &&
                         ln_family_binding(spec->family, LN_FORMAT_HF, id, 0) != NULL;
    spec->output_activation = LN_ACT_GELU;
    if (!spec->output_dense)
        return LINNET_OK;
    return ln_spec_read_activation(config, key, &spec->output_activation, err);
}

/* An embedding of another width, with a matrix behind it and one in front of the output. */
static ln_status read_embedded_dim(const ln_config *config, ln_spec *spec, ln_error *err) {
    size_t width = spec->dim;
    if (ln_family_binding(spec->family, LN_FORMAT_HF, (ln_tensor_id){.role = LN_ROLE_EMBEDDING_IN},
                          0) == NULL)
        return LINNET_OK;
    LN_TRY(ln_config_size(config, (ln_key){"word_embed_proj_dim", ""}, 1, spec->dim, &width, err));
    spec->embedded_dim = width < spec->dim ? width : 0;
    return LINNET_OK;
}

/* How many tokens a windowed layer sees. */
static ln_status read_window(const ln_config *config, const ln_spec *spec, size_t *window,
                             ln_error *err) {
    const ln_family *family = spec->family;
    size_t before = 0; /* tokens before its own that one sees */
    ln_key key = {family->chunk_key != NULL ? family->chunk_key : "sliding_window",
                  "attention.sliding_window|attention.chunk_size"};
    *window = family->chunked && config->is_gguf ? 8192 : 0; /* its files do not say it */
    LN_TRY(ln_config_size(config, key, 0, INT32_MAX, window, err));
    if (family->halves_window) {
        *window /= 2;
        LN_TRY(ln_config_size(config, (ln_key){"sliding_window", ""}, 0, INT32_MAX, window, err));
    }
    if (family->before_key != NULL)
        LN_TRY(
            ln_config_size(config, (ln_key){family->before_key, ""}, 0, INT32_MAX, &before, err));
    *window = before > 0 ? before + 1 : *window;
    if (spec->bidirectional && *window > 0) /* all of it, to both sides */
        *window = *window / 2 + 1;
    return LINNET_OK;
}

/* Caches of indexers and compressors are behind those of all layers, and then those of n-grams. */
static void number_caches(ln_spec *spec) {
    size_t first = ln_kv_layer_index(spec, spec->n_layers);
    size_t n_before = spec->n_entry_caches > 0 ? spec->n_entry_caches : spec->n_indexers;
    for (size_t i = 0; i < spec->n_layers; i++) {
        ln_attention_spec *attention = &spec->layers[i].attention;
        attention->indexer.kv_layer += first;
        attention->compressor.kv_layer += first;
        spec->layers[i].ngrams.kv_layer = first + n_before + 4 * spec->layers[i].ngrams.number;
    }
}

ln_status ln_spec_read_layers(const ln_config *config, ln_arena *arena, ln_spec *spec,
                              ln_error *err) {
    ln_layer_spec common;
    size_t window = 0;
    ln_config first = *config;
    if (spec->family->sized_by_tensors)
        LN_TRY(ln_spec_find_whole_layer(config, spec, &first.layer, err));
    LN_TRY(read_layer(&first, spec, false, &common, err));
    bool is_latent = common.attention.latent.n_latent > 0;
    size_t rope_dim = is_latent ? common.attention.latent.n_rope : common.attention.k_dim;
    rope_dim -= common.attention.has_key_bias ? LN_KEY_BIAS_DIMS : 0;
    if (!config->by_layer)
        LN_TRY(read_ropes(config, arena, spec, rope_dim, is_latent, err));
    if (is_latent && !config->by_layer && spec->ropes[0].n_dims != rope_dim)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                       "%s: latent attention that rotates %zu of %zu dimensions",
                       ln_checkpoint_path(config->checkpoint), spec->ropes[0].n_dims, rope_dim);
    if (is_latent)
        common.attention.scale *= latent_yarn_scale(&spec->ropes[0]);
    LN_TRY(read_window(config, spec, &window, err));
    LN_TRY(read_output_dense(config, spec, err));
    LN_TRY(read_embedded_dim(config, spec, err));
    LN_TRY(ln_spec_read_hyper(config, spec, err));
    LN_TRY(ln_spec_read_ngrams(config, spec, err));
    LN_TRY(read_encoder(config, arena, spec, err));
    spec->layers = new_layers(config, arena, spec->n_layers + 1, err); /* and a head's */
    if (spec->layers == NULL)
        return LINNET_ERR_NOMEM;
    for (size_t i = 0; i < spec->n_layers; i++) {
        ln_config own = *config;
        own.layer = i;
        spec->layers[i] = common;
        if (config->by_layer && !spec->family->sized_by_tensors)
            LN_TRY(read_layer(&own, spec, false, &spec->layers[i], err));
        LN_TRY(read_own(&own, spec, i, window, &spec->layers[i], err));
        LN_TRY(check_head_dims(&own, &spec->layers[i].attention, err));
    }
    number_caches(spec);
    if (config->by_layer)
        LN_TRY(read_ropes(config, arena, spec, 0, is_latent, err));
    ln_spec_read_head(config, spec);
    LN_TRY(ln_spec_read_block_residual(config, spec, err));
    LN_TRY(ln_spec_read_lookup(config, spec, err));
    return ln_spec_read_altup(config, spec, err);
}
