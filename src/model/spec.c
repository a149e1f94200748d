#include "model/spec.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "model/config.h"
#include "model/family.h"
#include "model/rope.h"

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

/* The vocabulary is the embedding's first dimension; config.json must agree. */
static ln_status read_vocab(const ln_config *config, ln_spec *spec, ln_error *err) {
    char name[128];
    const char *path = ln_checkpoint_path(config->checkpoint);
    ln_checkpoint_format format = ln_checkpoint_get_format(config->checkpoint);
    if (!ln_family_tensor_name(spec->family, format, LN_ROLE_EMBEDDING, 0, name, sizeof name - 8))
        return ln_fail(err, LINNET_ERR_UNSUPPORTED, "%s: the family %s has no names for %s files",
                       path, spec->family->name, config->is_gguf ? "GGUF" : "Hugging Face");
    strcat(name, ".weight");
    const ln_tensor *tensor = ln_checkpoint_find(config->checkpoint, name);
    if (tensor == NULL)
        return ln_fail(err, LINNET_ERR_FORMAT, "%s: tensor %s is missing", path, name);
    if (tensor->n_dims != 2 || tensor->dims[0] == 0 || tensor->dims[0] > MAX_VOCAB)
        return ln_fail(err, LINNET_ERR_FORMAT, "%s: tensor %s has an impossible shape", path, name);
    spec->n_vocab = (size_t)tensor->dims[0];
    size_t claimed = spec->n_vocab;
    LN_TRY(ln_config_size(config, (ln_key){"vocab_size", ""}, 1, MAX_VOCAB, &claimed, err));
    if (claimed != spec->n_vocab)
        return ln_fail(err, LINNET_ERR_FORMAT, "%s: tensor %s has %zu rows, but vocab_size is %zu",
                       path, name, spec->n_vocab, claimed);
    return LINNET_OK;
}

static ln_status read_attention(const ln_config *config, ln_spec *spec,
                                ln_attention_spec *attention, ln_error *err) {
    const char *path = ln_checkpoint_path(config->checkpoint);
    LN_TRY(ln_config_need_size(
        config, (ln_key){"num_attention_heads|n_head|num_heads", "attention.head_count"}, 1,
        MAX_HEADS, &attention->n_heads, err));
    attention->n_kv_heads = attention->n_heads;
    LN_TRY(ln_config_size(config,
                          (ln_key){"num_key_value_heads|num_kv_heads", "attention.head_count_kv"},
                          1, MAX_HEADS, &attention->n_kv_heads, err));
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
    attention->scale = (float)(1.0 / sqrt((double)attention->k_dim));
    attention->qk_norm = spec->family->qk_norm;
    return LINNET_OK;
}

static ln_status read_activation(const ln_config *config, ln_activation *activation,
                                 ln_error *err) {
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
    if (!ln_config_find(config, key, &value, name))
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

static ln_status read_common(const ln_config *config, ln_spec *spec, ln_error *err) {
    LN_TRY(ln_config_need_size(config, (ln_key){"hidden_size|n_embd|d_model", "embedding_length"},
                               1, MAX_DIM, &spec->dim, err));
    LN_TRY(ln_config_need_size(config,
                               (ln_key){"num_hidden_layers|n_layer|num_layers", "block_count"}, 1,
                               LN_MAX_LAYERS, &spec->n_layers, err));
    spec->ctx_tokens = 2048;
    LN_TRY(ln_config_size(config, (ln_key){"max_position_embeddings|n_positions", "context_length"},
                          1, INT32_MAX, &spec->ctx_tokens, err));
    double eps = spec->norm_kind == LN_NORM_LAYER ? 1e-5 : 1e-6;
    LN_TRY(ln_config_real(config,
                          (ln_key){"rms_norm_eps|layer_norm_epsilon|layer_norm_eps|norm_epsilon",
                                   "attention.layer_norm_rms_epsilon|attention.layer_norm_epsilon"},
                          0, 1, &eps, err));
    spec->norm_eps = (float)eps;
    LN_TRY(ln_config_flag(config, (ln_key){"tie_word_embeddings", ""}, &spec->tied, err));
    return read_vocab(config, spec, err);
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
    if (spec->family->window == LN_WINDOW_ABOVE) {
        bool use = false;
        size_t from = spec->n_layers;
        LN_TRY(ln_config_flag(config, (ln_key){"use_sliding_window", ""}, &use, err));
        LN_TRY(ln_config_size(config, (ln_key){"max_window_layers", ""}, 0, SIZE_MAX, &from, err));
        *windowed = use && layer >= from;
    }
    return LINNET_OK;
}

static ln_status read_layers(const ln_config *config, ln_arena *arena, ln_spec *spec,
                             ln_error *err) {
    ln_layer_spec common = {.placement = spec->family->placement,
                            .ffn = {.gated = true, .activation = LN_ACT_SILU}};
    LN_TRY(read_attention(config, spec, &common.attention, err));
    LN_TRY(read_activation(config, &common.ffn.activation, err));
    common.ffn.n_hidden = 4 * spec->dim;
    LN_TRY(ln_config_size(config,
                          (ln_key){"intermediate_size|n_inner|ffn_dim|d_ff", "feed_forward_length"},
                          1, MAX_DIM, &common.ffn.n_hidden, err));
    LN_TRY(ln_rope_read(config, config->is_gguf ? spec->family->gguf_rope : spec->family->hf_rope,
                        common.attention.k_dim, &spec->ropes[0], err));
    spec->n_ropes = 1;
    size_t window = 0;
    LN_TRY(ln_config_size(config, (ln_key){"sliding_window", "attention.sliding_window"}, 0,
                          INT32_MAX, &window, err));
    spec->layers = ln_arena_alloc(arena, spec->n_layers, sizeof *spec->layers);
    if (spec->layers == NULL)
        return ln_fail(err, LINNET_ERR_NOMEM, "out of memory reading %s",
                       ln_checkpoint_path(config->checkpoint));
    for (size_t i = 0; i < spec->n_layers; i++) {
        ln_layer_spec *layer = &spec->layers[i];
        bool windowed;
        *layer = common;
        LN_TRY(layer_is_windowed(config, spec, i, &windowed, err));
        layer->attention.window = windowed ? window : 0;
        LN_TRY(kv_group_of(config, spec, layer->attention.window, &layer->attention.kv_group, err));
    }
    return LINNET_OK;
}

ln_status ln_spec_read(const ln_checkpoint *checkpoint, ln_arena *arena, ln_spec *spec,
                       ln_error *err) {
    ln_config config = {.checkpoint = checkpoint,
                        .is_gguf = ln_checkpoint_get_format(checkpoint) == LN_FORMAT_GGUF};
    *spec = (ln_spec){.embedding_scale = 1.0f, .residual_scale = 1.0f, .logit_scale = 1.0f};
    LN_TRY(find_family(&config, spec, err));
    spec->norm_kind = spec->family->norm;
    LN_TRY(read_common(&config, spec, err));
    return read_layers(&config, arena, spec, err);
}
