#include "model/attention/spec.h"

#include <math.h>

#include "model/family.h"
#include "model/spec_blocks.h"

enum { MAX_HEADS = 1 << 14 };

/* is_alone: recurrent layers are all that there is; their GGUF files say 0, folders maybe nothing.
 */
static ln_status read_heads(const ln_config *config, bool is_alone, bool encoder, size_t *n_heads,
                            ln_error *err) {
    ln_key key = {encoder ? "encoder_attention_heads|num_heads"
                          : "num_attention_heads_per_layer|decoder_attention_heads|num_attention_"
                            "heads|attention_heads|n_head|"
                            "num_heads|n_heads|num_query_heads",
                  "attention.head_count"};
    if (!is_alone)
        return ln_config_need_size(config, key, 1, MAX_HEADS, n_heads, err);
    *n_heads = 1;
    LN_TRY(ln_config_size(config, key, 0, MAX_HEADS, n_heads, err));
    *n_heads = *n_heads > 0 ? *n_heads : 1;
    return LINNET_OK;
}

static size_t largest_of(const ln_meta_value *list) {
    ln_meta_value item;
    size_t largest = 1;
    for (size_t i = 0; ln_meta_item(list, i, &item); i++)
        if (item.kind == LN_META_INT && item.integer > (int64_t)largest)
            largest = (size_t)item.integer;
    return largest;
}

static ln_status read_kv_heads(const ln_config *config, bool has_mixers, size_t n_heads,
                               size_t *n_kv_heads, ln_error *err) {
    static const ln_key key = {
        "attn_config.kv_n_heads|num_key_value_heads|num_kv_heads|n_head_kv|multi_query_group_num|"
        "num_attention_groups|num_query_groups",
        "attention.head_count_kv"};
    ln_meta_value value;
    bool multi_query = false; /* Falcon says it in two flags, and first said it in one */
    bool grouped = ln_config_find(config, (ln_key){"n_head_kv", ""}, &value, NULL);
    *n_kv_heads = n_heads;
    LN_TRY(ln_config_flag(config, (ln_key){"multi_query", ""}, &multi_query, err));
    LN_TRY(ln_config_flag(config, (ln_key){"new_decoder_architecture", ""}, &grouped, err));
    if (multi_query && !grouped) {
        *n_kv_heads = 1;
        return LINNET_OK;
    }
    if (config->is_gguf && has_mixers && ln_config_find(config, key, &value, NULL) &&
        value.kind == LN_META_ARRAY) { /* recurrent layers have 0 */
        *n_kv_heads = largest_of(&value);
        return *n_kv_heads <= MAX_HEADS
                   ? LINNET_OK
                   : ln_fail(err, LINNET_ERR_FORMAT, "%s: %zu KV heads are too many",
                             ln_checkpoint_path(config->checkpoint), *n_kv_heads);
    }
    return ln_config_size(config, key, 1, MAX_HEADS, n_kv_heads, err);
}

/* 1 / sqrt(head dim), unless the checkpoint gives it, or the number under the root. */
static ln_status read_attention_scale(const ln_config *config, const ln_spec *spec,
                                      ln_attention_spec *attention, ln_error *err) {
    /* Gemma 2 and 3 at 27B; their GGUF files do not say it */
    bool by_dim = config->is_gguf && spec->n_layers == spec->family->gguf_scale_layers;
    const ln_latent_spec *latent = &attention->latent;
    double under_root = by_dim                 ? (double)spec->dim / (double)attention->n_heads
                        : latent->n_latent > 0 ? (double)(latent->n_plain + latent->n_rope)
                        : spec->family->shared_blocks ? (double)attention->k_dim / 2
                                                      : (double)attention->k_dim;
    LN_TRY(ln_config_real(config, (ln_key){"query_pre_attn_scalar", ""}, 1e-9, 1e12, &under_root,
                          err));
    bool by_head_dim = spec->family->divides_by_dim;
    LN_TRY(ln_config_flag(config, (ln_key){"mup_scale_qk_dot_by_d|scale_qk_dot_by_d", ""},
                          &by_head_dim, err));
    double scale = spec->family->unit_scale ? 1.0
                   : by_head_dim            ? 1.0 / under_root
                                            : 1.0 / sqrt(under_root);
    LN_TRY(ln_config_real(config,
                          (ln_key){"attention_multiplier|attn_config.softmax_scale",
                                   "attention.scale|attention.output_scale"},
                          1e-12, 1e12, &scale, err));
    double of_keys = 1.0, of_input = 1.0, of_queries = 1.0;
    LN_TRY(ln_config_real(config, (ln_key){"qk_scale_factor", ""}, -1e9, 1e9, &of_queries, err));
    LN_TRY(ln_config_real(config, (ln_key){"key_multiplier", ""}, -1e9, 1e9, &of_keys, err));
    LN_TRY(
        ln_config_real(config, (ln_key){"attention_in_multiplier", ""}, -1e9, 1e9, &of_input, err));
    attention->scale = (float)(scale * of_keys * of_queries);
    attention->in_scale = (float)of_input;
    return LINNET_OK;
}

/* Where a family may have q/k norms, a flag says so, or in GGUF that their tensors are there. */
static ln_status read_qk_norm(const ln_config *config, const ln_family *family, ln_qk_norm *qk_norm,
                              ln_error *err) {
    const ln_binding *binding;
    ln_tensor_id id = {.role = LN_ROLE_Q_NORM};
    *qk_norm = family->qk_norm;
    if (family->qk_norm_key == NULL)
        return LINNET_OK;
    bool is_there =
        config->is_gguf && ln_family_find(family, config->checkpoint, id, &binding) != NULL;
    if (family->bare_qk_norm) {
        size_t n_experts = 0;
        LN_TRY(ln_config_size(config, (ln_key){"", "expert_count"}, 0, SIZE_MAX, &n_experts, err));
        is_there = !config->is_gguf || n_experts != family->gguf_unnormed_experts;
    }
    LN_TRY(ln_config_flag(config, (ln_key){family->qk_norm_key, ""}, &is_there, err));
    if (!is_there)
        *qk_norm = LN_QK_NORM_NONE;
    return LINNET_OK;
}

/* In GGUF: whether the gate of this layer has a row for each head. */
static bool gates_heads(const ln_config *config, const ln_family *family, size_t n_heads) {
    ln_tensor_id id = {.role = LN_ROLE_ATTENTION_GATE, .layer = config->layer};
    const ln_binding *binding;
    const ln_tensor *tensor = ln_family_find(family, config->checkpoint, id, &binding);
    return tensor == NULL || tensor->n_dims != 2 || tensor->dims[0] == n_heads;
}

static ln_status read_gate(const ln_config *config, const ln_family *family, size_t n_heads,
                           ln_output_gate *gate, ln_error *err) {
    bool is_there = true;
    if (family->output_gate_key != NULL)
        LN_TRY(ln_config_flag(config, (ln_key){family->output_gate_key, ""}, &is_there, err));
    *gate = is_there ? family->output_gate : LN_GATE_NONE;
    ln_meta_value value;
    if (family->gating && config->is_gguf && !gates_heads(config, family, n_heads))
        *gate = LN_GATE_BY_ELEMENT;
    if (family->gating && ln_config_find(config, (ln_key){"gating", ""}, &value, NULL)) {
        bool by_head = value.kind == LN_META_BOOL
                           ? value.boolean
                           : ln_config_is(config, (ln_key){"gating", ""}, "per-head");
        *gate = by_head ? LN_GATE_BY_HEAD : LN_GATE_BY_ELEMENT;
    }
    return LINNET_OK;
}

static ln_status check_heads(const ln_config *config, const ln_family *family,
                             const ln_attention_spec *attention, ln_error *err) {
    const char *path = ln_checkpoint_path(config->checkpoint);
    const ln_binding *q =
        ln_family_binding(family, LN_FORMAT_HF, (ln_tensor_id){.role = LN_ROLE_Q}, 0);
    bool in_fourths = q != NULL && q->hf_part == LN_PART_QVK_BY_FOURTH;
    if (attention->n_heads % attention->n_kv_heads != 0)
        return ln_fail(err, LINNET_ERR_FORMAT, "%s: %zu heads are no multiple of %zu KV heads",
                       path, attention->n_heads, attention->n_kv_heads);
    if (in_fourths && attention->n_kv_heads % 4 != 0)
        return ln_fail(err, LINNET_ERR_FORMAT, "%s: %zu KV heads are no multiple of 4", path,
                       attention->n_kv_heads);
    return LINNET_OK;
}

/* Each of the experts that a token uses has a query head for each head of keys. */
static ln_status read_mixture(const ln_config *config, ln_attention_spec *attention,
                              ln_error *err) {
    static const ln_key experts = {"num_local_experts", ""}, used = {"num_experts_per_tok", ""};
    attention->n_experts = 8;
    attention->n_used = 2;
    attention->n_kv_heads = 16;
    LN_TRY(ln_config_size(config, experts, 1, MAX_HEADS, &attention->n_experts, err));
    LN_TRY(ln_config_size(config, used, 1, attention->n_experts, &attention->n_used, err));
    LN_TRY(ln_config_size(config, (ln_key){"num_key_value_heads", ""}, 1, MAX_HEADS,
                          &attention->n_kv_heads, err));
    attention->n_heads = attention->n_kv_heads * attention->n_used;
    if (attention->n_heads <= MAX_HEADS)
        return LINNET_OK;
    return ln_fail(err, LINNET_ERR_FORMAT, "%s: %zu heads are too many",
                   ln_checkpoint_path(config->checkpoint), attention->n_heads);
}

static ln_status read_differential(const ln_config *config, const ln_family *family,
                                   ln_attention_spec *attention, ln_error *err) {
    if (!family->differential)
        return LINNET_OK;
    attention->differential = true;
    attention->v_dim = 2 * attention->k_dim;
    if (attention->n_kv_heads % 2 == 0)
        return LINNET_OK;
    return ln_fail(err, LINNET_ERR_FORMAT,
                   "%s: differential attention takes pairs of KV heads, but there are %zu",
                   ln_checkpoint_path(config->checkpoint), attention->n_kv_heads);
}

/* Biases of scores that values make lie behind the keys (key_bias.h). Before they join, q and k are
 * where what was attended goes, so these are as wide as values. */
static ln_status read_key_bias(const ln_config *config, const ln_family *family,
                               ln_attention_spec *attention, ln_error *err) {
    attention->has_key_bias = family->key_bias;
    if (!attention->has_key_bias)
        return LINNET_OK;
    if (attention->v_dim != attention->k_dim)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED, "%s: values of %zu beside keys of %zu",
                       ln_checkpoint_path(config->checkpoint), attention->v_dim, attention->k_dim);
    attention->k_dim += LN_KEY_BIAS_DIMS;
    return LINNET_OK;
}

ln_status ln_spec_read_attention(const ln_config *config, const ln_spec *spec, bool encoder,
                                 ln_attention_spec *attention, ln_error *err) {
    const char *path = ln_checkpoint_path(config->checkpoint);
    bool is_alone = spec->family->one_block && spec->family->mixer_word == NULL;
    if (spec->family->attention_experts) {
        LN_TRY(read_mixture(config, attention, err));
    } else {
        LN_TRY(read_heads(config, is_alone, encoder, &attention->n_heads, err));
        LN_TRY(read_kv_heads(config, spec->family->mixer != LN_MIXER_NONE, attention->n_heads,
                             &attention->n_kv_heads, err));
    }
    LN_TRY(check_heads(config, spec->family, attention, err));
    attention->k_dim = spec->dim / attention->n_heads;
    bool is_said = !spec->family->indexer || spec->family->positions != LN_POSITIONS_NONE;
    if (is_said) /* else it is 0, the dimensions that rotate */
        LN_TRY(ln_config_size(config, (ln_key){"head_dim|d_kv|kv_channels", "attention.key_length"},
                              1, LN_MAX_DIM, &attention->k_dim, err));
    if (spec->family->shared_blocks) {
        attention->in_dim = 2 * spec->dim;
        attention->k_dim = 2 * spec->dim / attention->n_heads;
        LN_TRY(ln_config_size(config, (ln_key){"attention_head_dim", ""}, 1, LN_MAX_DIM,
                              &attention->k_dim, err));
    }
    if (attention->k_dim == 0)
        return ln_fail(err, LINNET_ERR_FORMAT, "%s: %zu heads do not fit %zu dimensions", path,
                       attention->n_heads, spec->dim);
    attention->v_dim = attention->k_dim;
    LN_TRY(ln_config_size(config, (ln_key){"v_head_dim", "attention.value_length"}, 1, LN_MAX_DIM,
                          &attention->v_dim, err));
    LN_TRY(read_differential(config, spec->family, attention, err));
    LN_TRY(ln_spec_read_latent(config, spec->family, attention, err));
    LN_TRY(read_qk_norm(config, spec->family, &attention->qk_norm, err));
    attention->sinks = spec->family->sinks;
    LN_TRY(read_gate(config, spec->family, attention->n_heads, &attention->gate, err));
    attention->softplus_gate = spec->family->softplus_gate;
    attention->out_norm = spec->family->sub_norms;
    attention->head_norm = spec->family->blends;
    attention->norm_after_rope = spec->family->norm_after_rope;
    attention->rope = -1;
    double v_scale = 1.0;
    LN_TRY(ln_config_real(
        config, (ln_key){"attention_value_scale|attention_out_multiplier", "attention.value_scale"},
        -1e9, 1e9, &v_scale, err));
    attention->v_scale = (float)v_scale;
    double softcap = 0;
    if (spec->family->caps_scores)
        LN_TRY(ln_config_real(config, (ln_key){"attn_logit_softcapping", "attn_logit_softcapping"},
                              0, 1e9, &softcap, err));
    attention->softcap = (float)softcap;
    double clip = 0;
    LN_TRY(ln_config_real(config, (ln_key){"clip_qkv|attn_config.clip_qkv", "attention.clamp_kqv"},
                          0, 1e9, &clip, err));
    attention->clip = (float)clip;
    LN_TRY(read_attention_scale(config, spec, attention, err));
    return read_key_bias(config, spec->family, attention, err);
}

/* Queries that grow with their position from a floor on, if there is one. */
static ln_status read_floor_scale(const ln_config *config, ln_attention_spec *attention,
                                  ln_error *err) {
    double alpha = 0, floor = 0;
    LN_TRY(ln_config_real(config, (ln_key){"log_scaling_n_floor", ""}, 1, 1e15, &floor, err));
    LN_TRY(ln_config_real(config, (ln_key){"log_scaling_alpha", ""}, 0, 1e6, &alpha, err));
    attention->scales_by_table = floor > 0 && alpha > 0;
    if (attention->scales_by_table)
        attention->log_scale = (ln_query_scale){(float)alpha, (float)floor, 1.0f};
    return LINNET_OK;
}

/* Queries that grow with their position: in all layers, or in those that do not rotate. */
static ln_status read_query_scale(const ln_config *config, const ln_spec *spec, bool windowed,
                                  ln_attention_spec *attention, ln_error *err) {
    const ln_family *family = spec->family;
    bool tuned = true;
    double beta = 0, period = 0;
    attention->scales_by_table = family->query_scale == LN_QUERY_SCALE_TABLE && attention->rope < 0;
    attention->scales_by_log = family->query_scale == LN_QUERY_SCALE_LOG;
    if (family->query_scale == LN_QUERY_SCALE_FLOOR && !windowed)
        return read_floor_scale(config, attention, err);
    if (family->query_scale == LN_QUERY_SCALE_NONE || family->query_scale >= LN_QUERY_SCALE_TABLE)
        return LINNET_OK;
    if (family->query_scale == LN_QUERY_SCALE_ALL) {
        period = spec->ropes[0].original_ctx; /* 0 where the rotation does not scale */
        LN_TRY(ln_config_real(config,
                              (ln_key){"rope_scaling.original_max_position_embeddings|"
                                       "rope_parameters.original_max_position_embeddings",
                                       "rope.scaling.original_context_length"},
                              1, 1e15, &period, err));
    }
    LN_TRY(ln_config_flag(config, (ln_key){"attn_temperature_tuning", ""}, &tuned, err));
    LN_TRY(ln_config_real(config,
                          (ln_key){"rope_scaling.llama_4_scaling_beta|"
                                   "rope_parameters.llama_4_scaling_beta|attn_scale",
                                   "attention.temperature_scale"},
                          0, 1e6, &beta, err));
    LN_TRY(ln_config_real(config, (ln_key){"floor_scale", "attention.temperature_length"}, 1, 1e15,
                          &period, err));
    bool grows =
        tuned && beta > 0 && (family->query_scale == LN_QUERY_SCALE_ALL || attention->rope < 0);
    if (grows && period < 1)
        return ln_fail(err, LINNET_ERR_FORMAT,
                       "%s: queries grow, but original_max_position_embeddings is missing",
                       ln_checkpoint_path(config->checkpoint));
    if (grows)
        attention->q_scale = (ln_query_scale){
            .beta = (float)beta,
            .period = (float)period,
            .offset = family->query_scale == LN_QUERY_SCALE_UNROTATED ? 1.0f : 0.0f};
    return LINNET_OK;
}

/* Whether what rotates gets longer by it. */
static bool scales_lengths(const ln_rope_spec *rope) {
    return rope->scaling == LN_ROPE_YARN || rope->scaling == LN_ROPE_LONGROPE;
}

ln_status ln_spec_read_own_attention(const ln_config *config, const ln_spec *spec, bool windowed,
                                     ln_attention_spec *attention, ln_error *err) {
    const ln_family *family = spec->family;
    if (windowed && family->window_kv_factor > 0 && !config->by_layer)
        attention->n_kv_heads *= family->window_kv_factor;
    if (attention->n_heads % attention->n_kv_heads != 0)
        return ln_fail(err, LINNET_ERR_FORMAT, "%s: %zu heads are no multiple of %zu KV heads",
                       ln_checkpoint_path(config->checkpoint), attention->n_heads,
                       attention->n_kv_heads);
    if (family->window_sinks)
        attention->sinks = windowed;
    /* weights of GGUF's norms are the scale of scores */
    ln_tensor_id q_norm = {.role = LN_ROLE_Q_NORM, .layer = config->layer};
    bool is_weighted = config->is_gguf && ln_family_has(family, config->checkpoint, q_norm);
    attention->bare_qk_norm = family->bare_qk_norm && !is_weighted;
    if (family->bare_qk_norm && !family->bare_everywhere && attention->rope < 0)
        attention->qk_norm = LN_QK_NORM_NONE;
    if (family->bare_after_rope && attention->rope >= 0)
        attention->norm_after_rope = scales_lengths(&spec->ropes[attention->rope]);
    return read_query_scale(config, spec, windowed, attention, err);
}

/* GPT-Neo's list: words, and how often they follow one another; then others. */
static bool find_repeated(const ln_meta_value *list, size_t layer, ln_meta_value *word) {
    ln_meta_value pair, words, count;
    for (size_t i = 0; ln_meta_item(list, i, &pair); i++) {
        if (!ln_meta_item(&pair, 0, &words) || words.kind != LN_META_ARRAY ||
            words.array.count == 0 || !ln_meta_item(&pair, 1, &count) ||
            count.kind != LN_META_INT || count.integer < 0)
            return false;
        size_t n = (size_t)words.array.count;
        if (layer / n < (uint64_t)count.integer)
            return ln_meta_item(&words, layer % n, word) && word->kind == LN_META_STRING;
        layer -= n * (size_t)count.integer;
    }
    return false;
}

bool ln_spec_layer_word(const ln_config *config, size_t layer, char name[128], ln_meta_value *word,
                        bool *is_named) {
    ln_meta_value list;
    *is_named = false;
    if (ln_config_find(config, (ln_key){"layer_types|attention_layers", ""}, &list, name)) {
        *is_named = ln_config_entry(&list, layer, word) && word->kind == LN_META_STRING;
        return true;
    }
    if (!ln_config_find(config, (ln_key){"attention_types", ""}, &list, name))
        return false;
    *is_named = find_repeated(&list, layer, word);
    return true;
}
