#include "model/mixer/spec.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/family.h"
#include "model/layers/cycles.h"

/* Of lightning attention's norm, whatever config.json says. */
#define LIGHTNING_EPS 1e-6f

enum { MAX_MIXER_HEADS = 1 << 14, MAX_TAPS = 32, MAX_SELECTIVE_STATE = 1024 };

/* The keys of a kind's sizes. */
typedef struct mixer_keys {
    ln_key n_heads, n_k_heads, k_dim, v_dim, n_taps;
} mixer_keys;

static const mixer_keys *keys_of(const ln_mixer_spec *mixer) {
    static const mixer_keys delta = {
        .n_heads = {"linear_num_value_heads", "ssm.time_step_rank"},
        .n_k_heads = {"linear_num_key_heads", "ssm.group_count"},
        .k_dim = {"linear_key_head_dim", "ssm.state_size"},
        .v_dim = {"linear_value_head_dim", ""},
        .n_taps = {"linear_conv_kernel_dim", "ssm.conv_kernel"},
    };
    static const mixer_keys ssd = {
        .n_heads = {"mamba_n_heads|mamba_num_heads|n_mamba_heads|num_heads", "ssm.time_step_rank"},
        .n_k_heads = {"mamba_n_groups|mamba_ngroups|n_groups", "ssm.group_count"},
        .k_dim = {"mamba_d_state|ssm_state_size|state_size", "ssm.state_size"},
        .v_dim = {"mamba_d_head|mamba_head_dim|head_dim", ""},
        .n_taps = {"mamba_d_conv|conv_kernel", "ssm.conv_kernel"},
    };
    static const mixer_keys kda = {
        .n_heads = {"linear_attn_config.num_heads|linear_num_heads", "attention.head_count"},
        .n_k_heads = {"linear_attn_config.num_heads|linear_num_heads", "attention.head_count"},
        .k_dim = {"linear_attn_config.head_dim|linear_head_dim", "kda.head_dim"},
        .v_dim = {"linear_attn_config.head_dim|linear_head_dim", "kda.head_dim"},
        .n_taps = {"linear_attn_config.short_conv_kernel_size|linear_conv_kernel_dim",
                   "ssm.conv_kernel"},
    };
    static const mixer_keys plain_kda = {
        .n_heads = {"linear_num_heads|num_attention_heads", "attention.head_count"},
        .n_k_heads = {"linear_num_heads|num_attention_heads", "attention.head_count"},
        .k_dim = {"linear_head_dim|head_dim", "kda.head_dim"},
        .v_dim = {"linear_head_dim|head_dim", "kda.head_dim"},
        .n_taps = {"linear_conv_kernel_dim|short_conv_kernel_size", "ssm.conv_kernel"},
    };
    if (mixer->kind == LN_MIXER_KDA)
        return mixer->is_low ? &kda : &plain_kda;
    return mixer->kind == LN_MIXER_DELTA ? &delta : &ssd;
}

/* How wide all heads are together: GGUF says it, folders where a head's width is missing. */
static ln_status read_inner_size(const ln_config *config, size_t dim, ln_mixer_spec *mixer,
                                 ln_error *err) {
    size_t inner = mixer->n_heads * mixer->v_dim, factor = 2;
    if (inner == 0) {
        LN_TRY(ln_config_size(config, (ln_key){"mamba_expand|expand", ""}, 1, 64, &factor, err));
        inner = factor * dim;
    }
    LN_TRY(ln_config_size(config, (ln_key){"mamba_d_ssm", "ssm.inner_size"}, 1, LN_MAX_DIM, &inner,
                          err));
    if (mixer->v_dim == 0 && inner % mixer->n_heads == 0)
        mixer->v_dim = inner / mixer->n_heads;
    if (mixer->v_dim > 0 && inner == mixer->n_heads * mixer->v_dim)
        return LINNET_OK;
    return ln_fail(err, LINNET_ERR_FORMAT, "%s: %zu recurrent heads do not share %zu dimensions",
                   ln_checkpoint_path(config->checkpoint), mixer->n_heads, inner);
}

/* Heads and their keys' width, of which some families know what they are where keys are missing. */
static ln_status read_heads(const ln_config *config, const ln_spec *spec, const mixer_keys *keys,
                            ln_mixer_spec *mixer, ln_error *err) {
    size_t *n_heads = &mixer->n_heads, *n_k_heads = &mixer->n_k_heads;
    if (!spec->family->mixer_from_heads || config->is_gguf) {
        LN_TRY(ln_config_need_size(config, keys->n_heads, 1, MAX_MIXER_HEADS, n_heads, err));
        LN_TRY(ln_config_need_size(config, keys->n_k_heads, 1, MAX_MIXER_HEADS, n_k_heads, err));
        return ln_config_need_size(config, keys->k_dim, 1, LN_MAX_DIM, &mixer->k_dim, err);
    }
    static const ln_key heads_key = {"num_attention_heads", ""};
    LN_TRY(ln_config_need_size(config, heads_key, 1, MAX_MIXER_HEADS, n_heads, err));
    *n_k_heads = *n_heads;
    LN_TRY(ln_config_size(config, keys->n_heads, 1, MAX_MIXER_HEADS, n_heads, err));
    LN_TRY(ln_config_size(config, keys->n_k_heads, 1, MAX_MIXER_HEADS, n_k_heads, err));
    mixer->k_dim = 3 * spec->dim / (4 * *n_k_heads);
    LN_TRY(ln_config_size(config, keys->k_dim, 1, LN_MAX_DIM, &mixer->k_dim, err));
    mixer->v_dim = 2 * mixer->k_dim;
    if (mixer->k_dim > 0)
        return LINNET_OK;
    return ln_fail(err, LINNET_ERR_FORMAT, "%s: %zu recurrent heads do not share %zu dimensions",
                   ln_checkpoint_path(config->checkpoint), *n_k_heads, spec->dim);
}

static ln_status read_sizes(const ln_config *config, const ln_spec *spec, ln_mixer_spec *mixer,
                            ln_error *err) {
    const mixer_keys *keys = keys_of(mixer);
    LN_TRY(read_heads(config, spec, keys, mixer, err));
    if (!ln_config_is(config, keys->v_dim, "auto"))
        LN_TRY(ln_config_size(config, keys->v_dim, 1, LN_MAX_DIM, &mixer->v_dim, err));
    LN_TRY(ln_config_need_size(config, keys->n_taps, 1, MAX_TAPS, &mixer->n_taps, err));
    LN_TRY(read_inner_size(config, spec->dim, mixer, err));
    if (mixer->n_heads % mixer->n_k_heads != 0)
        return ln_fail(err, LINNET_ERR_FORMAT,
                       "%s: %zu recurrent heads are no multiple of %zu heads of keys",
                       ln_checkpoint_path(config->checkpoint), mixer->n_heads, mixer->n_k_heads);
    size_t width = 2 * mixer->n_k_heads * mixer->k_dim + mixer->n_heads * mixer->v_dim;
    if (mixer->n_k_heads > LN_MAX_DIM / mixer->k_dim || mixer->k_dim > LN_MAX_DIM / mixer->v_dim ||
        width > LN_MAX_DIM)
        return ln_fail(err, LINNET_ERR_FORMAT, "%s: %zu recurrent heads of %zu x %zu are too large",
                       ln_checkpoint_path(config->checkpoint), mixer->n_heads, mixer->k_dim,
                       mixer->v_dim);
    return LINNET_OK;
}

/* Mamba 1: one head, or several that make its steps, keys and queries; what makes steps has a rank,
 * and maybe a norm, as keys and queries have. */
static ln_status read_selective(const ln_config *config, const ln_spec *spec, ln_mixer_spec *mixer,
                                ln_error *err) {
    static const ln_key rank_key = {"mamba_dt_rank|time_step_rank", "ssm.time_step_rank"};
    static const ln_key eps_key = {"mixer_rms_eps", "ssm.dt_b_c_rms_eps"};
    ln_tensor_id id = {.role = LN_ROLE_MIXER_A_NORM};
    ln_checkpoint_format format = config->is_gguf ? LN_FORMAT_GGUF : LN_FORMAT_HF;
    size_t factor = 2;
    bool is_normed = ln_family_binding(spec->family, format, id, 0) != NULL;
    double eps = 0;
    mixer->n_heads = mixer->n_k_heads = 1;
    mixer->by_head = spec->family->mixer_keys_by_head;
    if (mixer->by_head)
        LN_TRY(ln_config_size(config, (ln_key){"n_mamba_heads", ""}, 1, MAX_MIXER_HEADS,
                              &mixer->n_k_heads, err));
    LN_TRY(ln_config_size(config, (ln_key){"mamba_expand|expand", ""}, 1, 64, &factor, err));
    mixer->v_dim = factor * spec->dim;
    LN_TRY(
        ln_config_size(config, (ln_key){"", "ssm.inner_size"}, 1, LN_MAX_DIM, &mixer->v_dim, err));
    LN_TRY(ln_config_need_size(config, (ln_key){"mamba_d_state|state_size", "ssm.state_size"}, 1,
                               MAX_SELECTIVE_STATE, &mixer->k_dim, err));
    LN_TRY(ln_config_need_size(config, (ln_key){"mamba_d_conv|conv_kernel", "ssm.conv_kernel"}, 1,
                               MAX_TAPS, &mixer->n_taps, err));
    mixer->low_rank = (spec->dim + 15) / 16;
    if (!ln_config_is(config, rank_key, "auto"))
        LN_TRY(ln_config_size(config, rank_key, 1, LN_MAX_DIM, &mixer->low_rank, err));
    LN_TRY(ln_config_flag(config, (ln_key){"", "ssm.dt_b_c_rms"}, &is_normed, err));
    if (is_normed)
        eps = (double)spec->norm_eps;
    LN_TRY(ln_config_real(config, eps_key, 0, 1, &eps, err));
    mixer->control_eps = (float)eps;
    if (mixer->v_dim % mixer->n_k_heads != 0)
        return ln_fail(err, LINNET_ERR_FORMAT,
                       "%s: %zu recurrent heads do not share %zu dimensions",
                       ln_checkpoint_path(config->checkpoint), mixer->n_k_heads, mixer->v_dim);
    size_t most = LN_MAX_DIM / mixer->n_k_heads; /* of a row of all heads' */
    if (mixer->v_dim <= LN_MAX_DIM && mixer->low_rank <= most && mixer->k_dim <= most)
        return LINNET_OK;
    return ln_fail(err, LINNET_ERR_FORMAT, "%s: recurrent layers of %zu dimensions are too large",
                   ln_checkpoint_path(config->checkpoint), mixer->v_dim);
}

/* KDA's own: whether decay and gate go through few dimensions, and a bound of decays, which of
 * Kimi's folders is there where its key is. */
static ln_status read_kda(const ln_config *config, const ln_family *family, ln_mixer_spec *mixer,
                          ln_error *err) {
    static const ln_key bound_key = {
        "linear_attn_config.gate_lower_bound|linear_lower_bound|kda_lower_bound",
        "kda.gate_lower_bound"};
    static const ln_key kimi_key = {"linear_attn_config.gate_lower_bound", "kda.gate_lower_bound"};
    ln_tensor_id low_gate = {.role = LN_ROLE_MIXER_GATE_LOW};
    ln_meta_value value;
    bool has_low_gate = ln_family_binding(family, config->is_gguf ? LN_FORMAT_GGUF : LN_FORMAT_HF,
                                          low_gate, 0) != NULL;
    bool is_bounded =
        ln_config_find(config, kimi_key, &value, NULL) || (config->is_gguf && !mixer->is_low);
    double least = 0;
    mixer->sigmoid_gate = true;
    mixer->low_rank = mixer->is_low ? mixer->k_dim : 0;
    mixer->gate_rank = has_low_gate ? mixer->k_dim : 0;
    LN_TRY(ln_config_flag(config, (ln_key){"kda_safe_gate", "kda.safe_gate"}, &is_bounded, err));
    if (!is_bounded)
        return LINNET_OK;
    LN_TRY(ln_config_real(config, bound_key, -1e9, -1e-9, &least, err));
    if (least == 0)
        return ln_fail(err, LINNET_ERR_FORMAT, "%s: key %s is missing",
                       ln_checkpoint_path(config->checkpoint),
                       config->is_gguf ? "kda.gate_lower_bound" : "kda_lower_bound");
    mixer->bound = -(float)least;
    return LINNET_OK;
}

/* The activation of the output's gate: SiLU where nothing says it. */
static ln_status read_delta_gate(const ln_config *config, const ln_spec *spec, ln_mixer_spec *mixer,
                                 ln_error *err) {
    static const ln_key key = {"output_gate_type", ""};
    ln_meta_value value;
    char name[128];
    mixer->sigmoid_gate = ln_config_is(config, key, "sigmoid") ||
                          (config->is_gguf && spec->family->gguf_sigmoid_gates);
    if (mixer->sigmoid_gate || !ln_config_find(config, key, &value, name) ||
        ln_config_is(config, key, "silu"))
        return LINNET_OK;
    return ln_fail(err, LINNET_ERR_UNSUPPORTED, "%s: key %s is neither silu nor sigmoid",
                   ln_checkpoint_path(config->checkpoint), name);
}

/* Lightning attention: heads are those of attention; q, k and v go through the activation. */
static ln_status read_lightning(const ln_config *config, const ln_spec *spec, ln_mixer_spec *mixer,
                                ln_error *err) {
    LN_TRY(ln_config_need_size(config, (ln_key){"num_attention_heads", "attention.head_count"}, 1,
                               MAX_MIXER_HEADS, &mixer->n_heads, err));
    mixer->k_dim = spec->dim / mixer->n_heads;
    LN_TRY(ln_config_size(config, (ln_key){"head_dim", "attention.key_length"}, 1, LN_MAX_DIM,
                          &mixer->k_dim, err));
    if (mixer->k_dim == 0 || 3 * mixer->n_heads * mixer->k_dim > LN_MAX_DIM)
        return ln_fail(err, LINNET_ERR_FORMAT, "%s: %zu recurrent heads of %zu are impossible",
                       ln_checkpoint_path(config->checkpoint), mixer->n_heads, mixer->k_dim);
    mixer->n_k_heads = mixer->n_heads;
    mixer->v_dim = mixer->k_dim;
    mixer->n_taps = 1; /* the activation alone */
    mixer->has_norm = true;
    mixer->norm_eps = LIGHTNING_EPS;
    mixer->sigmoid_gate = true;
    return LINNET_OK;
}

/* RG-LRU: one head as wide as all of the layer; its gates have a block for each of attention's. */
static ln_status read_lru(const ln_config *config, const ln_spec *spec, ln_mixer_spec *mixer,
                          ln_error *err) {
    mixer->n_heads = mixer->n_k_heads = mixer->k_dim = 1;
    mixer->v_dim = spec->dim;
    mixer->n_taps = 4;
    LN_TRY(ln_config_size(config, (ln_key){"lru_width", ""}, 1, LN_MAX_DIM, &mixer->v_dim, err));
    LN_TRY(ln_config_size(config, (ln_key){"conv1d_width", ""}, 1, MAX_TAPS, &mixer->n_taps, err));
    LN_TRY(ln_config_need_size(config, (ln_key){"num_attention_heads", ""}, 1, MAX_MIXER_HEADS,
                               &mixer->n_gate_blocks, err));
    if (mixer->v_dim % mixer->n_gate_blocks == 0)
        return LINNET_OK;
    return ln_fail(err, LINNET_ERR_FORMAT, "%s: %zu heads do not share lru_width %zu",
                   ln_checkpoint_path(config->checkpoint), mixer->n_gate_blocks, mixer->v_dim);
}

/* Folders write an infinite limit as a string or an object. */
static float number_of(const ln_meta_value *value, float otherwise) {
    return value->kind == LN_META_FLOAT ? (float)value->real
           : value->kind == LN_META_INT ? (float)value->integer
                                        : otherwise;
}

/* Falcon-H1's: what the parts of the input, and the output, are multiplied with. GGUF has weights
 * that are. */
static ln_status read_multipliers(const ln_config *config, ln_mixer_spec *mixer, ln_error *err) {
    ln_meta_value list, item;
    double in = 1, out = 1;
    float *parts[] = {&mixer->gate_scale, &mixer->conv_scales[0], &mixer->conv_scales[1],
                      &mixer->conv_scales[2], &mixer->decay_scale};
    LN_TRY(ln_config_real(config, (ln_key){"ssm_in_multiplier", ""}, -1e9, 1e9, &in, err));
    LN_TRY(ln_config_real(config, (ln_key){"ssm_out_multiplier", ""}, -1e9, 1e9, &out, err));
    mixer->in_scale = (float)in;
    mixer->out_scale = (float)out;
    if (!ln_config_find(config, (ln_key){"ssm_multipliers", ""}, &list, NULL))
        return LINNET_OK;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (!ln_meta_item(&list, i, &item) || !isfinite(number_of(&item, NAN)))
            return ln_fail(err, LINNET_ERR_FORMAT, "%s: key ssm_multipliers has not 5 numbers",
                           ln_checkpoint_path(config->checkpoint));
        *parts[i] = number_of(&item, 1.0f);
    }
    return LINNET_OK;
}

static ln_status read_step_limits(const ln_config *config, const ln_family *family,
                                  ln_mixer_spec *mixer, ln_error *err) {
    ln_meta_value limits, item;
    const ln_key key = {"mamba_time_step_limit|time_step_limit", "ssm.time_step_limit"};
    double least = 0;
    char name[128];
    if (family->least_time_step && !config->is_gguf) {
        LN_TRY(ln_config_real(config, (ln_key){"mamba_dt_min|time_step_min", ""}, 0, 1e9, &least,
                              err));
        mixer->dt_min = (float)least;
        return LINNET_OK;
    }
    if (!ln_config_find(config, key, &limits, name))
        return LINNET_OK;
    mixer->dt_min = ln_meta_item(&limits, 0, &item) ? number_of(&item, NAN) : NAN;
    if (ln_meta_item(&limits, 1, &item))
        mixer->dt_max = number_of(&item, INFINITY);
    if (mixer->dt_min <= mixer->dt_max && mixer->dt_max > 0)
        return LINNET_OK;
    return ln_fail(err, LINNET_ERR_FORMAT, "%s: key %s has no limits of time steps",
                   ln_checkpoint_path(config->checkpoint), name);
}

/* Mamba 2's own: limits of its time steps, and parts of the norm. */
static ln_status read_ssd(const ln_config *config, const ln_family *family, ln_mixer_spec *mixer,
                          ln_error *err) {
    mixer->n_norm_groups = family->mixer_norm_groups ? mixer->n_k_heads : 1;
    mixer->has_norm = true;
    mixer->gate_first = true;
    LN_TRY(ln_config_flag(config, (ln_key){"mamba_rms_norm", ""}, &mixer->has_norm, err));
    bool norm_first = false;
    LN_TRY(ln_config_flag(config, (ln_key){"mamba_norm_before_gate", "ssm.norm_before_gate"},
                          &norm_first, err));
    mixer->gate_first = !norm_first;
    if (config->is_gguf && family->mixers_beside)
        mixer->has_norm =
            ln_family_has(family, config->checkpoint, (ln_tensor_id){.role = LN_ROLE_MIXER_NORM});
    LN_TRY(read_multipliers(config, mixer, err));
    return read_step_limits(config, family, mixer, err);
}

ln_status ln_spec_read_mixer(const ln_config *config, const ln_spec *spec, ln_mixer_spec *mixer,
                             ln_error *err) {
    const ln_family *family = spec->family;
    *mixer = (ln_mixer_spec){.kind = family->mixer,
                             .tiled = config->is_gguf && family->gguf_tiled_heads,
                             .dt_max = INFINITY,
                             .norm_eps = spec->norm_eps,
                             .in_scale = 1.0f,
                             .gate_scale = 1.0f,
                             .decay_scale = 1.0f,
                             .conv_scales = {1.0f, 1.0f, 1.0f},
                             .out_scale = 1.0f};
    /* convolutions of attention have its heads */
    if (mixer->kind == LN_MIXER_NONE || mixer->kind == LN_MIXER_CCA)
        return LINNET_OK;
    if (mixer->kind == LN_MIXER_SHORT_CONVS)
        return ln_config_need_size(config, (ln_key){"conv_kernel_size|sconv_kernel_size", ""}, 1,
                                   MAX_TAPS, &mixer->n_taps, err);
    if (mixer->kind == LN_MIXER_CONV)
        return ln_config_need_size(config, (ln_key){"conv_L_cache", "shortconv.l_cache"}, 1,
                                   MAX_TAPS, &mixer->n_taps, err);
    mixer->n_norm_groups = 1;
    if (mixer->kind == LN_MIXER_SELECTIVE)
        return read_selective(config, spec, mixer, err);
    if (mixer->kind == LN_MIXER_LIGHTNING)
        return read_lightning(config, spec, mixer, err);
    if (mixer->kind == LN_MIXER_LRU)
        return read_lru(config, spec, mixer, err);
    ln_tensor_id low = {.role = LN_ROLE_MIXER_A_LOW};
    mixer->is_low =
        ln_family_binding(family, config->is_gguf ? LN_FORMAT_GGUF : LN_FORMAT_HF, low, 0) != NULL;
    LN_TRY(read_sizes(config, spec, mixer, err));
    mixer->has_norm = true;
    mixer->n_norm_groups = mixer->n_heads;
    if (family->mixer_eps > 0)
        mixer->norm_eps = (float)family->mixer_eps;
    LN_TRY(ln_config_flag(config, (ln_key){"linear_allow_neg_eigval", ""}, &mixer->doubles_b, err));
    if (mixer->kind == LN_MIXER_KDA)
        LN_TRY(read_kda(config, family, mixer, err));
    if (mixer->kind == LN_MIXER_DELTA)
        LN_TRY(read_delta_gate(config, spec, mixer, err));
    return mixer->kind == LN_MIXER_SSD ? read_ssd(config, family, mixer, err) : LINNET_OK;
}

ln_status ln_spec_check_mixer_activation(const ln_config *config, const ln_family *family,
                                         ln_mixer kind, ln_error *err) {
    /* hidden_act is that of the block, where there is one */
    ln_key key = {family->shared_blocks ? "hidden_mamba_act" : "mamba_hidden_act|hidden_act", ""};
    ln_meta_value activation;
    char name[128];
    if (family->situ || kind == LN_MIXER_CONV || kind == LN_MIXER_LRU ||
        kind == LN_MIXER_SHORT_CONVS || kind == LN_MIXER_CCA ||
        !ln_config_find(config, key, &activation, name) || ln_config_is(config, key, "silu") ||
        ln_config_is(config, key, "swish"))
        return LINNET_OK;
    return ln_fail(err, LINNET_ERR_UNSUPPORTED, "%s: key %s: recurrent layers take silu alone",
                   ln_checkpoint_path(config->checkpoint), name);
}

/* ---- which layers ------------------------------------------------------------------------ */

/* By an entry for each layer: a word, a flag, or a number of KV heads; false: there is no list. */
static ln_status is_listed(const ln_config *config, const ln_family *family, size_t layer,
                           bool *has_list, bool *listed, ln_error *err) {
    static const ln_key key = {"layer_types|layers_block_type",
                               "attention.recurrent_layers|attention.head_count_kv"};
    ln_meta_value list, item;
    char name[128];
    *has_list = ln_config_find(config, key, &list, name) &&
                (list.kind == LN_META_ARRAY || list.kind == LN_META_STRING);
    if (!*has_list)
        return LINNET_OK;
    if (!ln_config_entry(&list, layer, &item))
        return ln_fail(err, LINNET_ERR_FORMAT, "%s: key %s has nothing for layer %zu",
                       ln_checkpoint_path(config->checkpoint), name, layer);
    *listed = item.kind == LN_META_STRING
                  ? ln_list_has(family->mixer_word, item.string.data, item.string.bytes)
              : item.kind == LN_META_BOOL ? item.boolean
                                          : item.kind == LN_META_INT && item.integer == 0;
    return LINNET_OK;
}

/* By a list of words that goes on from its beginning where it ends. */
static ln_status is_in_cycle(const ln_config *config, const ln_family *family, size_t layer,
                             bool *has_list, bool *listed, ln_error *err) {
    ln_meta_value list, item;
    *has_list = ln_config_find(config, (ln_key){"block_types", ""}, &list, NULL);
    if (!*has_list)
        return LINNET_OK;
    if (list.kind != LN_META_ARRAY || list.array.count == 0 ||
        !ln_meta_item(&list, layer % (size_t)list.array.count, &item) ||
        item.kind != LN_META_STRING)
        return ln_fail(err, LINNET_ERR_FORMAT, "%s: key block_types has no word for layer %zu",
                       ln_checkpoint_path(config->checkpoint), layer);
    *listed = ln_list_has(family->mixer_word, item.string.data, item.string.bytes);
    if (*listed || ln_list_has("attention", item.string.data, item.string.bytes))
        return LINNET_OK;
    return ln_fail(err, LINNET_ERR_FORMAT, "%s: key block_types has no known kind for layer %zu",
                   ln_checkpoint_path(config->checkpoint), layer);
}

/* By a letter for each layer, or by a word. */
static ln_status find_block(const ln_config *config, const ln_family *family, size_t layer,
                            ln_block *block, ln_error *err) {
    static const char letters[] = "M*-E";
    ln_meta_value list, item;
    char name[128];
    const char *found = NULL;
    if (ln_config_find(config, (ln_key){"hybrid_override_pattern", ""}, &list, name) &&
        list.kind == LN_META_STRING) {
        if (layer < list.string.bytes && list.string.data[layer] != '\0')
            found = strchr(letters, list.string.data[layer]);
    } else if (ln_config_find(config, (ln_key){"layers_block_type|layer_types", ""}, &list, name) &&
               ln_meta_item(&list, layer, &item) && item.kind == LN_META_STRING) {
        const char *attention =
            family->loops ? "full_attention|sliding_attention" : "full_attention|attention";
        const char *words[] = {family->mixer_word, attention, "mlp", "moe"};
        for (size_t i = 0; i < 4 && found == NULL; i++)
            if (ln_list_has(words[i], item.string.data, item.string.bytes))
                found = &letters[i];
    } else {
        snprintf(name, sizeof name, "layers_block_type");
    }
    if (found == NULL)
        return ln_fail(err, LINNET_ERR_FORMAT, "%s: key %s has no known kind for layer %zu",
                       ln_checkpoint_path(config->checkpoint), name, layer);
    *block = (ln_block)(found - letters);
    return LINNET_OK;
}

/* This layer's entry of a list, or the number that counts for all; none counts as 0. */
static ln_status number_for(const ln_config *config, ln_key key, size_t layer, size_t *number,
                            ln_error *err) {
    ln_meta_value value, item;
    char name[128];
    *number = 0;
    if (!ln_config_find(config, key, &value, name))
        return LINNET_OK;
    bool is_list = value.kind == LN_META_ARRAY;
    if (is_list && !ln_meta_item(&value, layer, &item))
        return ln_fail(err, LINNET_ERR_FORMAT, "%s: key %s has nothing for layer %zu",
                       ln_checkpoint_path(config->checkpoint), name, layer);
    if (!is_list)
        item = value;
    if (item.kind != LN_META_INT || item.integer < 0 || item.integer > LN_MAX_DIM)
        return ln_fail(err, LINNET_ERR_FORMAT, "%s: key %s has no number for layer %zu",
                       ln_checkpoint_path(config->checkpoint), name, layer);
    *number = (size_t)item.integer;
    return LINNET_OK;
}

/* GGUF: layers of no width are attention, where they have KV heads, or recurrent. */
static ln_status find_gguf_block(const ln_config *config, const ln_spec *spec, size_t layer,
                                 ln_block *block, size_t *n_hidden, ln_error *err) {
    size_t n_kv_heads, width;
    ln_tensor_id router = {.role = LN_ROLE_ROUTER, .layer = layer};
    LN_TRY(number_for(config, (ln_key){"", "attention.head_count_kv"}, layer, &n_kv_heads, err));
    LN_TRY(number_for(config, (ln_key){"", "feed_forward_length"}, layer, &width, err));
    bool has_router = ln_family_has(spec->family, config->checkpoint, router);
    *n_hidden = width;
    *block = width > 0        ? has_router ? LN_BLOCK_EXPERTS : LN_BLOCK_DENSE
             : n_kv_heads > 0 ? LN_BLOCK_ATTENTION
                              : LN_BLOCK_MIXER;
    return LINNET_OK;
}

ln_status ln_spec_layer_block(const ln_config *config, const ln_spec *spec, size_t layer,
                              ln_block *block, size_t *n_hidden, ln_error *err) {
    *block = LN_BLOCK_MIXER;
    if (spec->family->mixer_word == NULL)
        return LINNET_OK;
    if (config->is_gguf)
        return find_gguf_block(config, spec, layer, block, n_hidden, err);
    return find_block(config, spec->family, ln_cycle_stored(spec, layer), block, err);
}

ln_status ln_spec_layer_has_mixer(const ln_config *config, const ln_spec *spec, size_t layer,
                                  bool *has_mixer, ln_error *err) {
    const ln_family *family = spec->family;
    ln_block block;
    size_t n_hidden;
    bool has_list, has;
    *has_mixer = family->mixer != LN_MIXER_NONE;
    if (family->one_block) {
        LN_TRY(ln_spec_layer_block(config, spec, layer, &block, &n_hidden, err));
        *has_mixer = block == LN_BLOCK_MIXER;
        return LINNET_OK;
    }
    if (!*has_mixer || family->mixers_beside || family->mixer_word == NULL)
        return LINNET_OK;
    LN_TRY(ln_config_lists(config, (ln_key){"linear_attn_config.kda_layers", ""}, layer + 1,
                           &has_list, &has, err));
    if (has_list) {
        *has_mixer = has;
        return LINNET_OK;
    }
    LN_TRY(is_in_cycle(config, family, layer, &has_list, has_mixer, err));
    if (has_list)
        return LINNET_OK;
    LN_TRY(is_listed(config, family, layer, &has_list, has_mixer, err));
    if (has_list)
        return LINNET_OK;
    LN_TRY(ln_config_lists(config, (ln_key){"full_attn_idxs|attn_layer_indices", ""}, layer,
                           &has_list, &has, err));
    if (has_list) {
        *has_mixer = !has;
        return LINNET_OK;
    }
    size_t interval = config->is_gguf && family->mixer == LN_MIXER_LIGHTNING ? 8 : 4;
    size_t period = 0, offset = 0;
    LN_TRY(
        ln_config_size(config, (ln_key){"attn_layer_period", ""}, 1, LN_MAX_LAYERS, &period, err));
    LN_TRY(
        ln_config_size(config, (ln_key){"attn_layer_offset", ""}, 0, LN_MAX_LAYERS, &offset, err));
    if (period > 0) {
        *has_mixer = layer % period != offset;
        return LINNET_OK;
    }
    LN_TRY(ln_config_size(
        config, (ln_key){"full_attention_interval|layer_group_size", "full_attention_interval"}, 1,
        LN_MAX_LAYERS, &interval, err));
    bool is_last =
        family->mixers_end_before && spec->n_layers < interval && layer + 1 == spec->n_layers;
    *has_mixer = (layer + 1) % interval != 0 && !is_last;
    return LINNET_OK;
}
