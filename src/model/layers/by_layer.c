#include "model/layers/by_layer.h"

#include <math.h>

#include "model/family.h"

enum { MAX_HEADS = 1 << 14, MAX_LOOKUP = 1 << 24 };

/* Heads by what a layer sees: folders have keys for those that see all, unless they list what
 * differs, and GGUF for those that see a window. */
static ln_status read_heads(const ln_config *config, bool windowed, ln_attention_spec *a,
                            ln_error *err) {
    ln_meta_value value;
    bool is_listed = ln_config_find(config, (ln_key){"per_layer_config", ""}, &value, NULL);
    bool k_eq_v = false;
    if (windowed)
        LN_TRY(ln_config_size(config, (ln_key){"", "attention.key_length_swa"}, 1, LN_MAX_DIM,
                              &a->k_dim, err));
    else if (!is_listed)
        LN_TRY(
            ln_config_size(config, (ln_key){"global_head_dim", ""}, 1, LN_MAX_DIM, &a->k_dim, err));
    a->v_dim = a->k_dim;
    LN_TRY(ln_config_flag(config, (ln_key){"attention_k_eq_v", ""}, &k_eq_v, err));
    a->k_is_v = k_eq_v && !windowed;
    if (a->k_is_v && !is_listed)
        LN_TRY(ln_config_size(config, (ln_key){"num_global_key_value_heads", ""}, 1, MAX_HEADS,
                              &a->n_kv_heads, err));
    if (a->n_heads % a->n_kv_heads == 0)
        return LINNET_OK;
    return ln_fail(err, LINNET_ERR_FORMAT, "%s: %zu heads are no multiple of %zu KV heads",
                   ln_checkpoint_path(config->checkpoint), a->n_heads, a->n_kv_heads);
}

/* The last layers attend to keys and values of the last one before them that sees as they do. */
static ln_status read_sharing(const ln_config *config, const ln_spec *spec, ln_attention_spec *a,
                              ln_error *err) {
    size_t n_shared = 0;
    if (spec->family->assists) {
        a->borrows_kv = true;
        return LINNET_OK;
    }
    LN_TRY(ln_config_size(config, (ln_key){"num_kv_shared_layers", "attention.shared_kv_layers"}, 0,
                          spec->n_layers, &n_shared, err));
    size_t first = spec->n_layers - n_shared;
    if (config->layer < first)
        return LINNET_OK;
    for (size_t i = first; i-- > 0;) {
        const ln_attention_spec *owner = &spec->layers[i].attention;
        if (owner->rope != a->rope || owner->n_kv_heads != a->n_kv_heads ||
            owner->k_dim != a->k_dim)
            continue;
        a->borrows_kv = true;
        a->kv_layer = i;
        a->kv_group = owner->kv_group;
        return LINNET_OK;
    }
    return ln_fail(err, LINNET_ERR_FORMAT,
                   "%s: no layer before the last %zu has keys and values that layer %zu can share",
                   ln_checkpoint_path(config->checkpoint), n_shared, config->layer);
}

/* Where lists say all: windowed layers of folders may have heads of their own. */
static ln_status read_listed_heads(const ln_config *config, bool windowed, ln_attention_spec *a,
                                   ln_error *err) {
    static const ln_key heads = {"num_sliding_attention_heads|"
                                 "attention_other_setting.num_attention_heads",
                                 ""};
    static const ln_key kv_heads = {"attention_other_setting.num_attention_groups", ""};
    if (windowed) {
        LN_TRY(ln_config_size(config, heads, 1, MAX_HEADS, &a->n_heads, err));
        LN_TRY(ln_config_size(config, kv_heads, 1, MAX_HEADS, &a->n_kv_heads, err));
    }
    if (a->n_heads % a->n_kv_heads == 0)
        return LINNET_OK;
    return ln_fail(err, LINNET_ERR_FORMAT, "%s: %zu heads are no multiple of %zu KV heads",
                   ln_checkpoint_path(config->checkpoint), a->n_heads, a->n_kv_heads);
}

/* This layer's entry of a list of limits, or the one that counts for all; null and 0 are none. */
static ln_status read_limit(const ln_config *config, ln_key key, float *limit, ln_error *err) {
    ln_meta_value list, item;
    char name[128];
    if (!ln_config_find(config, key, &list, name))
        return LINNET_OK;
    if (list.kind != LN_META_ARRAY)
        item = list;
    else if (!ln_meta_item(&list, config->layer, &item) || item.kind == LN_META_NULL)
        return LINNET_OK;
    double value = item.kind == LN_META_INT     ? (double)item.integer
                   : item.kind == LN_META_FLOAT ? item.real
                                                : -1;
    if (!(value >= 0 && value < 1e9))
        return ln_fail(err, LINNET_ERR_FORMAT, "%s: key %s has no limit for layer %zu",
                       ln_checkpoint_path(config->checkpoint), name, config->layer);
    *limit = (float)value;
    return LINNET_OK;
}

ln_status ln_spec_read_limits(const ln_config *config, ln_ffn_spec *ffn, ln_error *err) {
    static const ln_key experts = {"swiglu_limits|expert_swiglu_limit_list", "swiglu_clamp_exp"};
    static const ln_key shared = {"swiglu_limits_shared|share_expert_swiglu_limit_list",
                                  "swiglu_clamp_shexp"};
    LN_TRY(read_limit(config, experts, &ffn->moe.limit, err));
    return read_limit(config, shared, &ffn->limit, err);
}

/* The latents and heads of a windowed layer, where per_layer_config does not say them. */
static ln_status read_window_latents(const ln_config *config, ln_attention_spec *a, ln_error *err) {
    ln_latent_spec *latent = &a->latent;
    size_t head_dim = 256;
    ln_meta_value value;
    if (ln_config_find(config, (ln_key){"per_layer_config", ""}, &value, NULL))
        return LINNET_OK;
    const struct {
        const char *key;
        size_t usual, *out;
    } sizes[] = {{"swa_num_attention_heads", 64, &a->n_heads},
                 {"swa_q_lora_rank", 1024, &latent->q_latent},
                 {"swa_kv_lora_rank", 1024, &latent->n_latent},
                 {"swa_head_dim", 256, &head_dim},
                 {"swa_qk_nope_head_dim", 192, &latent->n_plain},
                 {"swa_v_head_dim", 128, &latent->v_dim}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        *sizes[i].out = sizes[i].usual;
        LN_TRY(
            ln_config_size(config, (ln_key){sizes[i].key, ""}, 1, LN_MAX_DIM, sizes[i].out, err));
    }
    latent->n_rope = head_dim > latent->n_plain ? head_dim - latent->n_plain : 0;
    LN_TRY(ln_config_size(config, (ln_key){"swa_qk_rope_head_dim", ""}, 1, LN_MAX_DIM,
                          &latent->n_rope, err));
    if (latent->n_rope == 0 || a->n_heads > MAX_HEADS)
        return ln_fail(err, LINNET_ERR_FORMAT,
                       "%s: windowed layers have %zu heads of which %zu "
                       "dimensions rotate",
                       ln_checkpoint_path(config->checkpoint), a->n_heads, latent->n_rope);
    return LINNET_OK;
}

/* The same in GGUF, where queries have latents of one size. */
static ln_status read_window_lengths(const ln_config *config, ln_attention_spec *a, ln_error *err) {
    static const ln_key latent_key = {"", "attention.kv_lora_rank_swa"};
    static const ln_key head_key = {"", "attention.key_length_mla_swa"};
    static const ln_key value_key = {"", "attention.value_length_mla_swa"};
    ln_latent_spec *latent = &a->latent;
    size_t head_dim;
    LN_TRY(ln_config_need_size(config, latent_key, 1, LN_MAX_DIM, &latent->n_latent, err));
    LN_TRY(ln_config_need_size(config, value_key, 1, LN_MAX_DIM, &latent->v_dim, err));
    LN_TRY(ln_config_need_size(config, head_key, latent->n_rope + 1, LN_MAX_DIM, &head_dim, err));
    latent->n_plain = head_dim - latent->n_rope;
    return LINNET_OK;
}

/* Latents by what a layer sees. */
static ln_status read_latents(const ln_config *config, bool windowed, ln_attention_spec *a,
                              ln_error *err) {
    ln_latent_spec *latent = &a->latent;
    if (windowed)
        LN_TRY(config->is_gguf ? read_window_lengths(config, a, err)
                               : read_window_latents(config, a, err));
    latent->k_norm = true;
    if (latent->q_latent == 0 || latent->n_latent == 0)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED, "%s: key %s is missing",
                       ln_checkpoint_path(config->checkpoint),
                       latent->n_latent == 0 ? "kv_lora_rank" : "q_lora_rank");
    a->k_dim = latent->n_latent + latent->n_rope;
    a->v_dim = latent->n_latent;
    a->scale = 1.0f / sqrtf((float)(latent->n_plain + latent->n_rope));
    return LINNET_OK;
}

/* Windowed layers with heads of their own, all of which may be divided by their width. */
static ln_status read_window_heads(const ln_config *config, const ln_family *family, bool windowed,
                                   ln_attention_spec *a, ln_error *err) {
    static const ln_key heads = {"swa_num_attention_heads", ""};
    static const ln_key kv_heads = {"swa_num_key_value_heads", ""};
    if (windowed) {
        LN_TRY(ln_config_size(config, heads, 1, MAX_HEADS, &a->n_heads, err));
        LN_TRY(ln_config_size(config, kv_heads, 1, MAX_HEADS, &a->n_kv_heads, err));
        LN_TRY(ln_config_size(config, (ln_key){"swa_head_dim", ""}, 1, LN_MAX_DIM, &a->k_dim, err));
        a->v_dim = a->k_dim;
    }
    a->scale = 1.0f / (family->divides_by_dim ? (float)a->k_dim : sqrtf((float)a->k_dim));
    a->v_norm = family->v_norm;
    if (a->n_heads % a->n_kv_heads == 0)
        return LINNET_OK;
    return ln_fail(err, LINNET_ERR_FORMAT, "%s: %zu heads are no multiple of %zu KV heads",
                   ln_checkpoint_path(config->checkpoint), a->n_heads, a->n_kv_heads);
}

ln_status ln_spec_read_by_layer(const ln_config *config, const ln_spec *spec, bool windowed,
                                ln_layer_spec *layer, ln_error *err) {
    ln_attention_spec *a = &layer->attention;
    const ln_family *family = spec->family;
    ln_tensor_id v = {.role = LN_ROLE_V, .layer = config->layer};
    bool doubles = false;
    if (family->latents_by_kind)
        return read_latents(config, windowed, a, err);
    if (family->window_heads)
        return read_window_heads(config, family, windowed, a, err);
    if (family->lists_alone || family->gguf_lists)
        return read_listed_heads(config, windowed, a, err);
    if (ln_config_is(config, (ln_key){"use_bidirectional_attention", ""}, "all"))
        return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                       "%s: key use_bidirectional_attention: \"all\" is not supported",
                       ln_checkpoint_path(config->checkpoint));
    LN_TRY(read_heads(config, windowed, a, err));
    a->v_norm = family->v_norm;
    LN_TRY(read_sharing(config, spec, a, err));
    if (config->is_gguf)
        a->k_is_v = !a->borrows_kv && !ln_family_has(family, config->checkpoint, v);
    LN_TRY(ln_config_flag(config, (ln_key){"use_double_wide_mlp", ""}, &doubles, err));
    if (doubles && a->borrows_kv)
        layer->ffn.n_hidden *= 2;
    layer->ffn.moe.beside = family->moe_beside;
    ln_tensor_id scale = {.role = LN_ROLE_LAYER_SCALE, .layer = config->layer};
    layer->scaled = family->layer_scales && ln_family_has(family, config->checkpoint, scale);
    return LINNET_OK;
}

/* Rows of a matrix of this layer; 0: it is not there. */
static size_t rows_of(const ln_config *config, const ln_spec *spec, ln_role role) {
    ln_tensor_id id = {.role = role, .layer = config->layer};
    const ln_binding *binding;
    const ln_tensor *tensor = ln_family_find(spec->family, config->checkpoint, id, &binding);
    return tensor != NULL && tensor->n_dims == 2 && tensor->dims[0] <= LN_MAX_DIM
               ? (size_t)tensor->dims[0]
               : 0;
}

ln_status ln_spec_find_whole_layer(const ln_config *config, const ln_spec *spec, size_t *layer,
                                   ln_error *err) {
    ln_config own = *config;
    for (own.layer = 0; own.layer < spec->n_layers; own.layer++)
        if (rows_of(&own, spec, LN_ROLE_Q) > 0 && rows_of(&own, spec, LN_ROLE_UP) > 0) {
            *layer = own.layer;
            return LINNET_OK;
        }
    return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                   "%s: no layer has both attention and a feed-forward",
                   ln_checkpoint_path(config->checkpoint));
}

ln_status ln_spec_read_tensor_sizes(const ln_config *config, const ln_spec *spec,
                                    ln_layer_spec *layer, ln_error *err) {
    ln_attention_spec *a = &layer->attention;
    size_t q = rows_of(config, spec, LN_ROLE_Q), k = rows_of(config, spec, LN_ROLE_K);
    layer->ffn.n_hidden = rows_of(config, spec, LN_ROLE_UP);
    if (layer->ffn.n_hidden == 0)
        layer->ffn = (ln_ffn_spec){0};
    if (q == 0 && rows_of(config, spec, LN_ROLE_O) > 0)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                       "%s: layer %zu has a matrix in the place of attention",
                       ln_checkpoint_path(config->checkpoint), config->layer);
    if (q == 0) {
        *a = (ln_attention_spec){.rope = -1};
        return LINNET_OK;
    }
    a->n_heads = q / a->k_dim;
    a->n_kv_heads = k / a->k_dim;
    if (a->n_heads <= MAX_HEADS && a->n_kv_heads > 0 && a->n_heads % a->n_kv_heads == 0)
        return LINNET_OK;
    return ln_fail(err, LINNET_ERR_FORMAT, "%s: layer %zu cannot have %zu heads and %zu KV heads",
                   ln_checkpoint_path(config->checkpoint), config->layer, a->n_heads,
                   a->n_kv_heads);
}

/* Of a head that may rotate. */
static size_t rotating_dim(const ln_attention_spec *a) {
    return a->latent.n_latent > 0 ? a->latent.n_rope : a->k_dim;
}

ln_status ln_spec_rope_head_dim(const ln_config *config, const ln_spec *spec, size_t rope,
                                size_t *head_dim, ln_error *err) {
    *head_dim = 0;
    for (size_t i = 0; i < spec->n_layers; i++) {
        const ln_attention_spec *a = &spec->layers[i].attention;
        if (a->rope != (int)rope)
            continue;
        if (*head_dim > 0 && *head_dim != rotating_dim(a))
            return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                           "%s: layers that rotate alike have heads of %zu and %zu",
                           ln_checkpoint_path(config->checkpoint), *head_dim, rotating_dim(a));
        *head_dim = rotating_dim(a);
    }
    if (*head_dim == 0) /* nobody rotates by it */
        *head_dim = rotating_dim(&spec->layers[0].attention);
    return LINNET_OK;
}

ln_status ln_spec_read_lookup(const ln_config *config, ln_spec *spec, ln_error *err) {
    ln_tensor_id id = {.role = LN_ROLE_LOOKUP_EMBEDDING};
    const ln_binding *binding;
    if (!spec->family->lookup)
        return LINNET_OK;
    LN_TRY(ln_config_size(
        config, (ln_key){"hidden_size_per_layer_input", "embedding_length_per_layer_input"}, 0,
        LN_MAX_DIM / spec->n_layers, &spec->lookup_dim, err));
    const ln_tensor *tensor = ln_family_find(spec->family, config->checkpoint, id, &binding);
    if (spec->lookup_dim == 0)
        return LINNET_OK;
    if (tensor == NULL || tensor->n_dims != 2 || tensor->dims[0] == 0 ||
        tensor->dims[0] > MAX_LOOKUP)
        return ln_fail(err, LINNET_ERR_FORMAT, "%s: the embeddings of layers are missing",
                       ln_checkpoint_path(config->checkpoint));
    spec->n_lookup = (size_t)tensor->dims[0];
    return LINNET_OK;
}
