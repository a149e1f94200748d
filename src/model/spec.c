#include "model/spec.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "model/config.h"
#include "model/family.h"
#include "model/rope.h"
#include "model/spec_blocks.h"

/* No tensor of a real model is wider; products of two of these fit in 64 bits. */
enum { MAX_DIM = 1 << 20, MAX_HEADS = 1 << 14, MAX_VOCAB = 1 << 24 };

/* True when `word` is one of the '|'-separated words of `list`. */
static bool list_has(const char *list, const char *word, size_t n_bytes) {
    while (*list != '\0') {
        size_t length = strcspn(list, "|");
        if (length == n_bytes && memcmp(list, word, length) == 0)
            return true;
        list += length + (list[length] == '|');
    }
    return false;
}

static ln_status find_family(ln_config *config, ln_spec *spec, ln_error *err) {
    const char *key = config->is_gguf ? "general.architecture" : "model_type";
    const char *path = ln_checkpoint_path(config->checkpoint);
    ln_meta_value value;
    if (!ln_checkpoint_meta(config->checkpoint, key, &value))
        return ln_fail(err, LINNET_ERR_FORMAT, "%s: key %s is missing", path, key);
    if (value.kind != LN_META_STRING)
        return ln_fail(err, LINNET_ERR_FORMAT, "%s: key %s is not a string", path, key);
    for (size_t i = 0; ln_families[i] != NULL; i++) {
        const ln_family *family = ln_families[i];
        const char *names = config->is_gguf ? family->gguf : family->hf_types;
        if (names == NULL || !list_has(names, value.string.data, value.string.bytes) ||
            value.string.bytes >= sizeof config->arch)
            continue;
        spec->family = family;
        memcpy(config->arch, value.string.data, value.string.bytes);
        config->arch[value.string.bytes] = '\0';
        return LINNET_OK;
    }
    return ln_fail(err, LINNET_ERR_UNSUPPORTED, "%s: the architecture \"%.*s\" is not supported",
                   path, (int)(value.string.bytes < 64 ? value.string.bytes : 64),
                   value.string.data);
}

/* Variants that this family's data does not describe are refused rather than computed wrongly. */
static ln_status check_refused(const ln_config *config, const ln_family *family, ln_error *err) {
    const char *keys = family->refused;
    while (!config->is_gguf && *keys != '\0') {
        size_t length = strcspn(keys, "|");
        char key[64];
        bool is_set = false;
        snprintf(key, sizeof key, "%.*s", (int)length, keys);
        LN_TRY(ln_config_flag(config, (ln_key){key, ""}, &is_set, err));
        if (is_set)
            return ln_fail(err, LINNET_ERR_UNSUPPORTED, "%s: key %s: true is not supported",
                           ln_checkpoint_path(config->checkpoint), key);
        keys += length + (keys[length] == '|');
    }
    return LINNET_OK;
}

/* The first dimension of a table that must be there. */
static ln_status read_table_rows(const ln_config *config, const ln_spec *spec, ln_role role,
                                 size_t *n_rows, ln_error *err) {
    const char *path = ln_checkpoint_path(config->checkpoint);
    ln_checkpoint_format format = ln_checkpoint_get_format(config->checkpoint);
    const ln_binding *binding;
    char name[LN_TENSOR_NAME_BYTES];
    ln_tensor_id id = {.role = role};
    const ln_tensor *tensor = ln_family_find(spec->family, config->checkpoint, id, &binding);
    if (tensor == NULL) {
        binding = ln_family_binding(spec->family, format, role, 0);
        if (binding == NULL)
            return ln_fail(err, LINNET_ERR_UNSUPPORTED, "%s: no table of this kind in family %s",
                           path, spec->family->name);
        ln_binding_name(binding, format, id, name);
        return ln_fail(err, LINNET_ERR_FORMAT, "%s: tensor %s is missing", path, name);
    }
    if (tensor->n_dims != 2 || tensor->dims[0] == 0 || tensor->dims[0] > MAX_VOCAB)
        return ln_fail(err, LINNET_ERR_FORMAT, "%s: tensor %s has an impossible shape", path,
                       tensor->name);
    *n_rows = (size_t)tensor->dims[0];
    return LINNET_OK;
}

/* The vocabulary is the embedding's first dimension; config.json must agree. */
static ln_status read_vocab(const ln_config *config, ln_spec *spec, ln_error *err) {
    LN_TRY(read_table_rows(config, spec, LN_ROLE_EMBEDDING, &spec->n_vocab, err));
    size_t claimed = spec->n_vocab;
    LN_TRY(ln_config_size(config, (ln_key){"vocab_size", ""}, 1, MAX_VOCAB, &claimed, err));
    if (claimed != spec->n_vocab)
        return ln_fail(err, LINNET_ERR_FORMAT,
                       "%s: the embedding has %zu rows, but vocab_size is %zu",
                       ln_checkpoint_path(config->checkpoint), spec->n_vocab, claimed);
    return LINNET_OK;
}

static ln_status read_kv_heads(const ln_config *config, size_t n_heads, size_t *n_kv_heads,
                               ln_error *err) {
    bool multi_query = false, grouped = true; /* Falcon says it in two flags */
    *n_kv_heads = n_heads;
    LN_TRY(ln_config_flag(config, (ln_key){"multi_query", ""}, &multi_query, err));
    LN_TRY(ln_config_flag(config, (ln_key){"new_decoder_architecture", ""}, &grouped, err));
    if (multi_query && !grouped) {
        *n_kv_heads = 1;
        return LINNET_OK;
    }
    return ln_config_size(config,
                          (ln_key){"num_key_value_heads|num_kv_heads", "attention.head_count_kv"},
                          1, MAX_HEADS, n_kv_heads, err);
}

/* 1 / sqrt(head dim), unless the checkpoint gives it, or the number under the root. */
static ln_status read_attention_scale(const ln_config *config, const ln_spec *spec,
                                      ln_attention_spec *attention, ln_error *err) {
    /* Gemma 2 and 3 at 27B; their GGUF files do not say it */
    bool by_dim =
        config->is_gguf && ((strcmp(config->arch, "gemma2") == 0 && spec->n_layers == 46) ||
                            (strcmp(config->arch, "gemma3") == 0 && spec->n_layers == 62));
    const ln_latent_spec *latent = &attention->latent;
    double under_root = by_dim                 ? (double)spec->dim / (double)attention->n_heads
                        : latent->n_latent > 0 ? (double)(latent->n_plain + latent->n_rope)
                                               : (double)attention->k_dim;
    LN_TRY(ln_config_real(config, (ln_key){"query_pre_attn_scalar", ""}, 1e-9, 1e12, &under_root,
                          err));
    double scale = 1.0 / sqrt(under_root);
    LN_TRY(ln_config_real(config, (ln_key){"attention_multiplier", "attention.scale"}, 1e-12, 1e12,
                          &scale, err));
    attention->scale = (float)scale;
    return LINNET_OK;
}

static ln_status read_attention(const ln_config *config, ln_spec *spec,
                                ln_attention_spec *attention, ln_error *err) {
    const char *path = ln_checkpoint_path(config->checkpoint);
    LN_TRY(ln_config_need_size(
        config, (ln_key){"num_attention_heads|n_head|num_heads", "attention.head_count"}, 1,
        MAX_HEADS, &attention->n_heads, err));
    LN_TRY(read_kv_heads(config, attention->n_heads, &attention->n_kv_heads, err));
    if (attention->n_heads % attention->n_kv_heads != 0)
        return ln_fail(err, LINNET_ERR_FORMAT, "%s: %zu heads are no multiple of %zu KV heads",
                       path, attention->n_heads, attention->n_kv_heads);
    attention->k_dim = spec->dim / attention->n_heads;
    LN_TRY(ln_config_size(config, (ln_key){"head_dim", "attention.key_length"}, 1, MAX_DIM,
                          &attention->k_dim, err));
    if (attention->k_dim == 0)
        return ln_fail(err, LINNET_ERR_FORMAT, "%s: %zu heads do not fit %zu dimensions", path,
                       attention->n_heads, spec->dim);
    attention->v_dim = attention->k_dim;
    LN_TRY(ln_config_size(config, (ln_key){"", "attention.value_length"}, 1, MAX_DIM,
                          &attention->v_dim, err));
    LN_TRY(ln_spec_read_latent(config, attention, err));
    attention->qk_norm = spec->family->qk_norm;
    attention->sinks = spec->family->sinks;
    attention->rope = -1;
    double softcap = 0;
    LN_TRY(ln_config_real(config, (ln_key){"attn_logit_softcapping", "attn_logit_softcapping"}, 0,
                          1e9, &softcap, err));
    attention->softcap = (float)softcap;
    return read_attention_scale(config, spec, attention, err);
}

static ln_status read_activation(const ln_config *config, const ln_family *family,
                                 ln_activation *activation, ln_error *err) {
    static const struct {
        const char *names;
        ln_activation activation;
    } known[] = {
        {"silu|swish", LN_ACT_SILU},
        {"gelu", LN_ACT_GELU},
        {"gelu_new|gelu_pytorch_tanh|gelu_fast|gelu_tanh", LN_ACT_GELU_TANH},
        {"relu", LN_ACT_RELU},
        {"relu2|relu_squared", LN_ACT_RELU_SQUARED},
    };
    static const ln_key key = {"hidden_activation|hidden_act|activation_function|activation", ""};
    ln_meta_value value;
    char name[128];
    *activation = family->activation;
    if (family->fixed_activation || !ln_config_find(config, key, &value, name))
        return LINNET_OK;
    if (value.kind == LN_META_STRING)
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            if (list_has(known[i].names, value.string.data, value.string.bytes)) {
                *activation = known[i].activation;
                return LINNET_OK;
            }
    return ln_fail(err, LINNET_ERR_UNSUPPORTED, "%s: key %s: this activation is not supported",
                   ln_checkpoint_path(config->checkpoint), name);
}

static ln_status read_scales(const ln_config *config, ln_spec *spec, ln_error *err) {
    double embedding = spec->family->scale_embedding ? sqrt((double)spec->dim) : 1.0;
    double residual = 1.0, logit = 1.0, softcap = 0.0;
    LN_TRY(ln_config_real(config, (ln_key){"embedding_multiplier", "embedding_scale"}, -1e9, 1e9,
                          &embedding, err));
    LN_TRY(ln_config_real(config, (ln_key){"residual_multiplier", "residual_scale"}, -1e9, 1e9,
                          &residual, err));
    LN_TRY(ln_config_real(config, (ln_key){"logit_scale|logits_scaling", "logit_scale"}, 1e-9, 1e9,
                          &logit, err));
    LN_TRY(ln_config_real(config, (ln_key){"final_logit_softcapping", "final_logit_softcapping"}, 0,
                          1e9, &softcap, err));
    spec->embedding_scale = (float)embedding;
    spec->residual_scale = (float)residual;
    spec->logit_scale = (float)(spec->family->divide_logits ? 1.0 / logit : logit);
    spec->logit_softcap = (float)softcap;
    return LINNET_OK;
}

static ln_status read_positions(const ln_config *config, ln_spec *spec, ln_error *err) {
    const ln_family *family = spec->family;
    ln_meta_value value;
    spec->positions = family->positions;
    if (family->rope_key != NULL &&
        ln_config_find(config, (ln_key){family->rope_key, ""}, &value, NULL))
        spec->positions = LN_POSITIONS_ROPE;
    if (spec->positions != LN_POSITIONS_LEARNED)
        return LINNET_OK;
    LN_TRY(read_table_rows(config, spec, LN_ROLE_LEARNED_POSITIONS, &spec->n_learned, err));
    spec->learned_offset = family->learned_offset;
    if (spec->n_learned <= spec->learned_offset)
        return ln_fail(err, LINNET_ERR_FORMAT, "%s: the table of positions has only %zu rows",
                       ln_checkpoint_path(config->checkpoint), spec->n_learned);
    spec->max_ctx_tokens = spec->n_learned - spec->learned_offset;
    if (spec->ctx_tokens > spec->max_ctx_tokens)
        spec->ctx_tokens = spec->max_ctx_tokens;
    return LINNET_OK;
}

static ln_status read_common(const ln_config *config, ln_spec *spec, ln_error *err) {
    LN_TRY(ln_config_need_size(config, (ln_key){"hidden_size|n_embd|d_model", "embedding_length"},
                               1, MAX_DIM, &spec->dim, err));
    LN_TRY(ln_config_need_size(config,
                               (ln_key){"num_hidden_layers|n_layer|num_layers", "block_count"}, 1,
                               LN_MAX_LAYERS, &spec->n_layers, err));
    spec->ctx_tokens = 2048;
    LN_TRY(
        ln_config_size(config,
                       (ln_key){"max_position_embeddings|n_positions|model_max_length|seq_length",
                                "context_length"},
                       1, INT32_MAX, &spec->ctx_tokens, err));
    double eps = spec->norm_kind == LN_NORM_LAYER ? 1e-5 : 1e-6;
    LN_TRY(ln_config_real(config,
                          (ln_key){"rms_norm_eps|layer_norm_epsilon|layer_norm_eps|norm_epsilon",
                                   "attention.layer_norm_rms_epsilon|attention.layer_norm_epsilon"},
                          0, 1, &eps, err));
    spec->norm_eps = (float)eps;
    LN_TRY(ln_config_flag(config, (ln_key){"tie_word_embeddings", ""}, &spec->tied, err));
    LN_TRY(read_vocab(config, spec, err));
    LN_TRY(read_scales(config, spec, err));
    return read_positions(config, spec, err);
}

/* The group of layers with this window, made when it is new. */
static ln_status kv_group_of(const ln_config *config, ln_spec *spec, size_t window, size_t *group,
                             ln_error *err) {
    for (size_t i = 0; i < spec->n_kv_groups; i++)
        if (spec->kv_groups[i].window == window) {
            *group = i;
            spec->kv_groups[i].n_layers++;
            return LINNET_OK;
        }
    if (spec->n_kv_groups == LN_MAX_KV_GROUPS)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                       "%s: its layers have more than %d kinds of window",
                       ln_checkpoint_path(config->checkpoint), LN_MAX_KV_GROUPS);
    *group = spec->n_kv_groups++;
    spec->kv_groups[*group] = (ln_kv_group_spec){.window = window, .n_layers = 1};
    return LINNET_OK;
}

/* Whether a layer is windowed: by its entry in layer_types, or by the family's rule. */
static ln_status layer_is_windowed(const ln_config *config, const ln_spec *spec, size_t layer,
                                   bool *windowed, ln_error *err) {
    ln_meta_value types, item;
    char name[128];
    *windowed = false;
    if (ln_config_find(config, (ln_key){"layer_types", ""}, &types, name)) {
        if (!ln_meta_item(&types, layer, &item) || item.kind != LN_META_STRING)
            return ln_fail(err, LINNET_ERR_FORMAT, "%s: key %s has no name for layer %zu",
                           ln_checkpoint_path(config->checkpoint), name, layer);
        *windowed = list_has("sliding_attention", item.string.data, item.string.bytes);
        if (!*windowed && !list_has("full_attention", item.string.data, item.string.bytes))
            return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                           "%s: key %s: the kind \"%.*s\" of layer %zu is not supported",
                           ln_checkpoint_path(config->checkpoint), name,
                           (int)(item.string.bytes < 64 ? item.string.bytes : 64), item.string.data,
                           layer);
        return LINNET_OK;
    }
    if (spec->family->window == LN_WINDOW_ALL)
        *windowed = true;
    if (spec->family->window == LN_WINDOW_PERIOD) {
        size_t period = spec->family->window_period;
        LN_TRY(ln_config_size(config,
                              (ln_key){"sliding_window_pattern|_sliding_window_pattern", ""}, 1,
                              LN_MAX_LAYERS, &period, err));
        *windowed = (layer + 1) % period != 0;
    }
    if (spec->family->window == LN_WINDOW_ABOVE) {
        bool use = false;
        size_t from = spec->n_layers;
        LN_TRY(ln_config_flag(config, (ln_key){"use_sliding_window", ""}, &use, err));
        LN_TRY(ln_config_size(config, (ln_key){"max_window_layers", ""}, 0, SIZE_MAX, &from, err));
        *windowed = use && layer >= from;
    }
    return LINNET_OK;
}

/* The table by which a layer rotates, or -1. */
static ln_status layer_rope(const ln_config *config, const ln_spec *spec, size_t layer,
                            bool windowed, int *rope, ln_error *err) {
    bool rotates = spec->positions == LN_POSITIONS_ROPE;
    ln_meta_value list, item;
    char name[128];
    if (spec->family->rope_rule == LN_ROPE_WINDOWED_LAYERS)
        rotates = rotates && windowed;
    if (spec->family->rope_rule == LN_ROPE_LISTED_LAYERS) {
        size_t interval = 4;
        LN_TRY(ln_config_size(config, (ln_key){"no_rope_layer_interval", ""}, 1, LN_MAX_LAYERS,
                              &interval, err));
        rotates = (layer + 1) % interval != 0;
        if (ln_config_find(config, (ln_key){"no_rope_layers", ""}, &list, name)) {
            if (!ln_meta_item(&list, layer, &item) || item.kind != LN_META_INT)
                return ln_fail(err, LINNET_ERR_FORMAT, "%s: key %s has no number for layer %zu",
                               ln_checkpoint_path(config->checkpoint), name, layer);
            rotates = item.integer != 0; /* the list names the layers that do rotate */
        }
    }
    *rope = !rotates ? -1 : spec->family->local_rope && windowed ? 1 : 0;
    return LINNET_OK;
}

static ln_status read_ropes(const ln_config *config, ln_arena *arena, ln_spec *spec,
                            size_t head_dim, ln_error *err) {
    const ln_family *family = spec->family;
    if (spec->positions != LN_POSITIONS_ROPE)
        return LINNET_OK;
    spec->n_ropes = family->local_rope ? 2 : 1;
    for (size_t i = 0; i < spec->n_ropes; i++) {
        ln_rope_source source = {.style = config->is_gguf ? family->gguf_rope : family->hf_rope,
                                 .head_dim = head_dim,
                                 .local = i == 1,
                                 .local_theta = family->local_theta};
        LN_TRY(ln_rope_read(config, &source, arena, &spec->ropes[i], err));
    }
    return LINNET_OK;
}

static ln_status read_placement(const ln_config *config, const ln_family *family,
                                ln_placement *placement, ln_error *err) {
    *placement = family->placement;
    if (family->parallel_key == NULL)
        return LINNET_OK;
    bool parallel = *placement == LN_PLACE_PARALLEL;
    LN_TRY(ln_config_flag(config, (ln_key){family->parallel_key, family->parallel_key}, &parallel,
                          err));
    *placement = parallel ? LN_PLACE_PARALLEL : LN_PLACE_PRE;
    return LINNET_OK;
}

/* What all layers share. */
static ln_status read_layer(const ln_config *config, ln_spec *spec, ln_layer_spec *layer,
                            ln_error *err) {
    *layer = (ln_layer_spec){.ffn = {.gated = !spec->family->plain_ffn}};
    LN_TRY(read_placement(config, spec->family, &layer->placement, err));
    LN_TRY(read_attention(config, spec, &layer->attention, err));
    layer->attention.alibi = spec->positions == LN_POSITIONS_ALIBI;
    LN_TRY(read_activation(config, spec->family, &layer->ffn.activation, err));
    layer->ffn.n_hidden = 4 * spec->dim;
    LN_TRY(ln_config_size(
        config,
        (ln_key){"intermediate_size|ffn_hidden_size|n_inner|ffn_dim|d_ff", "feed_forward_length"},
        1, MAX_DIM, &layer->ffn.n_hidden, err));
    return ln_spec_read_moe(config, spec->family, layer->ffn.n_hidden, &layer->ffn.moe, err);
}

/* Latent attention under YaRN: the scores take the magnitude that the rotation leaves out. */
static float latent_yarn_scale(const ln_rope_spec *rope) {
    if (rope->scaling != LN_ROPE_YARN || rope->mscale_all_dim <= 0 || rope->factor <= 1)
        return 1.0f;
    double magnitude = 0.1 * rope->mscale_all_dim * log(rope->factor) + 1.0;
    return (float)(magnitude * magnitude);
}

static ln_status read_layers(const ln_config *config, ln_arena *arena, ln_spec *spec,
                             ln_error *err) {
    ln_layer_spec common;
    size_t window = 0;
    LN_TRY(read_layer(config, spec, &common, err));
    bool is_latent = common.attention.latent.n_latent > 0;
    size_t rope_dim = is_latent ? common.attention.latent.n_rope : common.attention.k_dim;
    LN_TRY(read_ropes(config, arena, spec, rope_dim, err));
    if (is_latent)
        common.attention.scale *= latent_yarn_scale(&spec->ropes[0]);
    LN_TRY(ln_config_size(config, (ln_key){"sliding_window", "attention.sliding_window"}, 0,
                          INT32_MAX, &window, err));
    spec->layers = ln_arena_alloc(arena, spec->n_layers, sizeof *spec->layers);
    if (spec->layers == NULL)
        return ln_fail(err, LINNET_ERR_NOMEM, "out of memory reading %s",
                       ln_checkpoint_path(config->checkpoint));
    for (size_t i = 0; i < spec->n_layers; i++) {
        ln_attention_spec *attention = &spec->layers[i].attention;
        bool windowed, dense;
        spec->layers[i] = common;
        LN_TRY(ln_spec_layer_is_dense(config, i, &dense, err));
        if (dense)
            spec->layers[i].ffn.moe = (ln_moe_spec){0};
        LN_TRY(layer_is_windowed(config, spec, i, &windowed, err));
        LN_TRY(layer_rope(config, spec, i, windowed, &attention->rope, err));
        attention->window = windowed ? window : 0;
        LN_TRY(kv_group_of(config, spec, attention->window, &attention->kv_group, err));
    }
    return LINNET_OK;
}

ln_status ln_spec_read(const ln_checkpoint *checkpoint, ln_arena *arena, ln_spec *spec,
                       ln_error *err) {
    ln_config config = {.checkpoint = checkpoint,
                        .is_gguf = ln_checkpoint_get_format(checkpoint) == LN_FORMAT_GGUF};
    *spec = (ln_spec){0};
    LN_TRY(find_family(&config, spec, err));
    LN_TRY(check_refused(&config, spec->family, err));
    spec->norm_kind = config.is_gguf ? spec->family->gguf_norm : spec->family->norm;
    LN_TRY(read_common(&config, spec, err));
    return read_layers(&config, arena, spec, err);
}
