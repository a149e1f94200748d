#include "model/spec_blocks.h"

#include <string.h>

#include "model/attention/index_means.h"
#include "model/attention/index_runs.h"
#include "model/family.h"

enum { MAX_EXPERTS = 4096 };

/* Whether GGUF's layers have biases by which experts are chosen. */
static bool has_expert_bias(const ln_checkpoint *checkpoint) {
    for (size_t i = 0; i < ln_checkpoint_tensor_count(checkpoint); i++)
        if (strstr(ln_checkpoint_tensor(checkpoint, i)->name, ".exp_probs_b.") != NULL)
            return true;
    return false;
}

static ln_status read_router(const ln_config *config, const ln_family *family, ln_moe_spec *moe,
                             ln_error *err) {
    size_t number = 0; /* GGUF: 1 softmax, 2 sigmoid, 3 softmax over the chosen, 4 as below */
    LN_TRY(ln_config_size(config, (ln_key){"", "expert_gating_func"}, 0, 4, &number, err));
    if (number == 1)
        moe->router = LN_ROUTER_SOFTMAX;
    bool is_sigmoid = number == 0 && family->gguf_bias_is_sigmoid && config->is_gguf &&
                      has_expert_bias(config->checkpoint);
    if (number == 2 || is_sigmoid)
        moe->router = LN_ROUTER_SIGMOID;
    if (number == 3)
        moe->router = LN_ROUTER_SOFTMAX_CHOSEN;
    if (number == 4)
        moe->router = LN_ROUTER_ROOT_SOFTPLUS;
    static const ln_key scores = {
        "scoring_func|score_function|score_func|moe_router_activation_func|expert_selection_fn",
        ""};
    if (ln_config_is(config, scores, "sigmoid"))
        moe->router = LN_ROUTER_SIGMOID;
    if (ln_config_is(config, scores, "softmax"))
        moe->router = LN_ROUTER_SOFTMAX;
    if (ln_config_is(config, scores, "sqrtsoftplus"))
        moe->router = LN_ROUTER_ROOT_SOFTPLUS;
    bool is_softmax = false;
    LN_TRY(
        ln_config_flag(config, (ln_key){"moe_primary_router_apply_softmax", ""}, &is_softmax, err));
    if (is_softmax)
        moe->router = LN_ROUTER_SOFTMAX;
    return LINNET_OK;
}

static ln_status read_groups(const ln_config *config, ln_moe_spec *moe, ln_error *err) {
    if (ln_config_is(config, (ln_key){"topk_method", ""}, "greedy"))
        return LINNET_OK;
    LN_TRY(ln_config_size(config, (ln_key){"n_group|num_expert_group", "expert_group_count"}, 0,
                          MAX_EXPERTS, &moe->n_groups, err));
    LN_TRY(ln_config_size(config, (ln_key){"topk_group", "expert_group_used_count"}, 0, MAX_EXPERTS,
                          &moe->n_groups_used, err));
    ln_meta_value used;
    if (!config->is_gguf && moe->n_groups > 0 && moe->n_groups_used == 0 &&
        ln_config_find(config, (ln_key){"topk_group", ""}, &used, NULL))
        return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                       "%s: key topk_group: none of %zu groups of experts would be used",
                       ln_checkpoint_path(config->checkpoint), moe->n_groups);
    if (moe->n_groups <= 1 || moe->n_groups_used == 0) {
        moe->n_groups = 0;
        return LINNET_OK;
    }
    size_t size = moe->n_experts / moe->n_groups;
    if (moe->n_experts % moe->n_groups != 0 || moe->n_groups_used > moe->n_groups ||
        moe->n_groups_used * size < moe->n_used)
        return ln_fail(err, LINNET_ERR_FORMAT,
                       "%s: %zu experts in %zu groups, of which %zu are used, cannot give %zu",
                       ln_checkpoint_path(config->checkpoint), moe->n_experts, moe->n_groups,
                       moe->n_groups_used, moe->n_used);
    return LINNET_OK;
}

/* The shared experts, as one: so many of the routed ones' size, or of a size of their own. GGUF
 * files of before its key mean that of a dense layer. */
static ln_status read_shared(const ln_config *config, const ln_family *family, size_t dense_hidden,
                             ln_moe_spec *moe, ln_error *err) {
    size_t n_shared = 0;
    ln_key key = {"n_shared_experts|num_shared_experts|moe_num_shared_experts",
                  "expert_shared_count"};
    n_shared = family->n_shared_experts;
    LN_TRY(ln_config_size(config, key, 0, MAX_EXPERTS, &n_shared, err));
    moe->n_shared = family->weighs_shared ? n_shared : 0;
    if (family->latents_by_kind && !config->is_gguf) { /* a size of each */
        size_t each = 1536;
        LN_TRY(ln_config_size(config,
                              (ln_key){"moe_shared_expert_intermediate_size|"
                                       "shared_experts_intermediate_size",
                                       ""},
                              1, LN_MAX_DIM, &each, err));
        moe->shared_hidden = n_shared * each;
        return LINNET_OK;
    }
    ln_tensor_id shared = {.role = LN_ROLE_SHARED_DOWN};
    bool is_dense = family->gguf_shared_dense && ln_family_has(family, config->checkpoint, shared);
    if (config->is_gguf && (family->shared_gate || is_dense))
        moe->shared_hidden = dense_hidden;
    if (n_shared > 0)
        moe->shared_hidden = n_shared * moe->n_hidden;
    if (moe->shared_hidden > LN_MAX_DIM || moe->n_shared > LN_MAX_ROUTED_SHARED)
        return ln_fail(err, LINNET_ERR_FORMAT, "%s: %zu shared experts of %zu are too many",
                       ln_checkpoint_path(config->checkpoint), n_shared, moe->n_hidden);
    if (moe->n_shared > 0)
        return LINNET_OK; /* each is as wide as a routed one */
    return ln_config_size(config,
                          (ln_key){"shared_expert_intermediate_size|shared_intermediate_size|share_"
                                   "expert_dim|share_expert_dims|"
                                   "moe_shared_expert_intermediate_size",
                                   "expert_shared_feed_forward_length"},
                          0, LN_MAX_DIM, &moe->shared_hidden, err);
}

/* How wide an expert is, and in how many dimensions it works where these are not the model's. */
static ln_status read_expert_size(const ln_config *config, const ln_family *family,
                                  ln_moe_spec *moe, ln_error *err) {
    ln_key hidden = {family->expert_hidden_key != NULL ? family->expert_hidden_key
                                                       : "moe_intermediate_size",
                     "expert_feed_forward_length"};
    ln_meta_value list, item;
    if (family->experts_of_pictures && ln_config_find(config, hidden, &list, NULL) &&
        list.kind == LN_META_ARRAY) { /* those of text come first */
        if (!ln_meta_item(&list, 0, &item) || item.kind != LN_META_INT || item.integer < 1 ||
            item.integer > LN_MAX_DIM)
            return ln_fail(err, LINNET_ERR_FORMAT, "%s: key moe_intermediate_size has no number",
                           ln_checkpoint_path(config->checkpoint));
        moe->n_hidden = (size_t)item.integer;
    } else {
        LN_TRY(ln_config_size(config, hidden, 1, LN_MAX_DIM, &moe->n_hidden, err));
    }
    return ln_config_size(config,
                          (ln_key){"moe_latent_size|moe_hidden_size|routed_expert_hidden_size",
                                   "moe_latent_size|expert_latent_length"},
                          1, LN_MAX_DIM, &moe->n_latent, err);
}

/* Whether the weights of the chosen add up to one: by a flag, or as DBRX says it, by the order of
 * the norm that they are divided by. */
static ln_status read_normalize(const ln_config *config, const ln_family *family, ln_moe_spec *moe,
                                ln_error *err) {
    double order = 0;
    if (family->keeps_expert_weights && !config->is_gguf)
        return LINNET_OK;
    if (ln_config_is(config, (ln_key){"expert_selection_fn", ""}, "softmax"))
        return LINNET_OK; /* over the chosen alone */
    LN_TRY(ln_config_flag(
        config,
        (ln_key){"norm_topk_prob|norm_expert_weight|moe_renormalize", "expert_weights_norm"},
        &moe->normalize, err));
    ln_key order_key = {"ffn_config.moe_normalize_expert_weights", ""};
    ln_meta_value value;
    if (!ln_config_find(config, order_key, &value, NULL))
        return LINNET_OK;
    LN_TRY(ln_config_real(config, order_key, 0, 1e9, &order, err));
    moe->normalize = order == 1;
    if (order == 0 || order == 1)
        return LINNET_OK;
    return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                   "%s: weights of experts divided by their norm of order %g",
                   ln_checkpoint_path(config->checkpoint), order);
}

/* A router that is a feed-forward, whose last class is no expert. */
static ln_status read_router_mlp(const ln_config *config, ln_moe_spec *moe, ln_error *err) {
    static const ln_key used_key = {"num_experts_per_tok", ""};
    size_t n_used = 1;
    moe->n_zero = 1;
    moe->zero_skips = true;
    LN_TRY(ln_config_size(config, used_key, 1, MAX_EXPERTS, &n_used, err));
    if (n_used > 1)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                       "%s: key num_experts_per_tok: %zu experts of a token, not 1",
                       ln_checkpoint_path(config->checkpoint), n_used);
    return ln_config_need_size(config, (ln_key){"router_hidden_size", ""}, 1, LN_MAX_DIM,
                               &moe->router_hidden, err);
}

/* How many of the experts a token meets, of which some may give what they read. */
static ln_status read_used(const ln_config *config, const ln_family *family, ln_moe_spec *moe,
                           ln_error *err) {
    if (family->shortcut)
        LN_TRY(ln_config_size(config, (ln_key){"zero_expert_num", ""}, 0, MAX_EXPERTS, &moe->n_zero,
                              err));
    if (family->router_mlp)
        LN_TRY(read_router_mlp(config, moe, err));
    return ln_config_need_size(config,
                               (ln_key){"num_experts_per_tok|num_experts_per_token|experts_per_"
                                        "token|moe_k|moe_topk|moe_top_k|top_k_experts|"
                                        "moe_num_active_primary_experts|ffn_config.moe_top_k",
                                        "expert_used_count"},
                               1, moe->n_experts + moe->n_zero, &moe->n_used, err);
}

/* What happens to the router's logits first. */
static ln_status read_logits(const ln_config *config, const ln_family *family, ln_moe_spec *moe,
                             ln_error *err) {
    double softcap = 0, scale = 1, jitter = 0.01;
    LN_TRY(ln_config_real(config, (ln_key){"router_jitter_noise", ""}, 0, 1, &jitter, err));
    LN_TRY(ln_config_real(config, (ln_key){"moe_router_logit_softcapping", ""}, 0, 1e9, &softcap,
                          err));
    if (family->blends) /* the model's */
        LN_TRY(ln_config_real(config, (ln_key){"output_multiplier", ""}, 1e-9, 1e9, &scale, err));
    moe->jitter = (float)jitter;
    moe->softcap = (float)softcap;
    moe->logit_scale = (float)scale;
    return LINNET_OK;
}

ln_status ln_spec_read_moe(const ln_config *config, const ln_family *family, size_t dense_hidden,
                           ln_moe_spec *moe, ln_error *err) {
    *moe = (ln_moe_spec){.router = family->router,
                         .n_hidden = dense_hidden,
                         .normalize = family->normalize_experts,
                         .shared_gate = family->shared_gate};
    bool is_on = true;
    if (family->experts_flag != NULL)
        LN_TRY(ln_config_flag(config, (ln_key){family->experts_flag, ""}, &is_on, err));
    if (!is_on || family->retrieves)
        return LINNET_OK;
    LN_TRY(ln_config_size(config,
                          (ln_key){"num_local_experts|num_experts|n_routed_experts|moe_num_experts|"
                                   "moe_num_primary_experts|ffn_config.moe_num_experts",
                                   "expert_count"},
                          0, MAX_EXPERTS, &moe->n_experts, err));
    ln_meta_value period; /* with which a single expert is no mixture */
    if (moe->n_experts == 1 &&
        ln_config_find(config, (ln_key){"expert_layer_period", ""}, &period, NULL))
        moe->n_experts = 0;
    if (moe->n_experts == 0)
        return LINNET_OK;
    ln_tensor_id id = {.role = LN_ROLE_EXPERT_DOWN};
    ln_checkpoint_format format = config->is_gguf ? LN_FORMAT_GGUF : LN_FORMAT_HF;
    if (ln_family_binding(family, format, id, 0) == NULL)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                       "%s: a mixture of %zu experts is not supported in models of the type \"%s\"",
                       ln_checkpoint_path(config->checkpoint), moe->n_experts, config->arch);
    LN_TRY(read_used(config, family, moe, err));
    LN_TRY(read_expert_size(config, family, moe, err));
    LN_TRY(read_normalize(config, family, moe, err));
    double scale = 1.0;
    LN_TRY(ln_config_real(
        config,
        (ln_key){
            "routed_scaling_factor|route_scale|router_scaling_factor|moe_router_scaling_factor|"
            "moe_routed_scaling_factor",
            "expert_weights_scale"},
        0, 1e9, &scale, err));
    LN_TRY(read_logits(config, family, moe, err));
    moe->scale_inputs = family->scale_expert_inputs;
    moe->routes_first = family->routes_first;
    moe->shortcut = family->shortcut;
    if (moe->router == LN_ROUTER_SPARSEMIXER && moe->n_used != 2)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED, "%s: a sparse mixer of %zu experts, not 2",
                       ln_checkpoint_path(config->checkpoint), moe->n_used);
    moe->scale = scale == 0 ? 1.0f : (float)scale;
    LN_TRY(read_router(config, family, moe, err));
    moe->zero_other_groups = family->zero_other_groups;
    moe->group_by_two = moe->router == LN_ROUTER_SIGMOID || family->group_by_two;
    LN_TRY(read_groups(config, moe, err));
    LN_TRY(read_shared(config, family, dense_hidden, moe, err));
    moe->shared_gate = moe->shared_gate && moe->shared_hidden > 0;
    bool sums = ln_config_is(config, (ln_key){"shared_expert_combination_strategy", ""}, "sum");
    bool shares = family->shared_share > 0 && moe->shared_hidden > 0 && !sums;
    moe->shared_scale = shares ? (float)family->shared_share : 1.0f;
    moe->scale *= moe->shared_scale;
    return LINNET_OK;
}

ln_status ln_spec_layer_is_idle(const ln_config *config, const ln_family *family, size_t layer,
                                bool *idle, ln_error *err) {
    bool is_listed;
    *idle = false;
    if (family->idle_layers_key == NULL)
        return LINNET_OK;
    LN_TRY(ln_config_lists(config, (ln_key){family->idle_layers_key, ""}, layer, &is_listed, idle,
                           err));
    if (!is_listed)
        *idle = layer % 5 == 3 && layer < 40;
    return LINNET_OK;
}

/* Whether numbers with commas between them hold this one. */
static bool text_lists_layer(const ln_meta_value *text, size_t layer) {
    size_t number = 0;
    bool has_digit = false;
    for (size_t i = 0; i <= text->string.bytes; i++) {
        char c = i < text->string.bytes ? text->string.data[i] : ',';
        if (c >= '0' && c <= '9' && number < LN_MAX_LAYERS) {
            number = 10 * number + (size_t)(c - '0');
            has_digit = true;
        } else if (c == ',') {
            if (has_digit && number == layer)
                return true;
            number = 0;
            has_digit = false;
        }
    }
    return false;
}

/* By rules of distances: dense layers first, then mixtures at every Nth layer. */
static ln_status is_dense_by_rule(const ln_config *config, size_t layer, bool *dense,
                                  ln_error *err) {
    static const ln_key first_key = {"first_k_dense_replace|num_dense_layers|moe_layer_start_index|"
                                     "dense_mlp_idx",
                                     "leading_dense_block_count"};
    static const ln_key step_key = {
        "decoder_sparse_step|interleave_moe_layer_step|moe_layer_interval|moe_every_n_layers",
        "interleave_moe_layer_step|moe_every_n_layers"};
    size_t n_dense = 0, step = 1, frequency = 1;
    ln_meta_value value;
    LN_TRY(ln_config_size(config, first_key, 0, LN_MAX_LAYERS, &n_dense, err));
    LN_TRY(ln_config_size(config, step_key, 1, LN_MAX_LAYERS, &step, err));
    ln_key frequency_key = {"moe_layer_freq", ""};
    if (ln_config_find(config, frequency_key, &value, NULL) && value.kind != LN_META_ARRAY)
        LN_TRY(ln_config_size(config, frequency_key, 1, LN_MAX_LAYERS, &frequency, err));
    static const ln_key period_key = {"expert_layer_period", ""};
    if (ln_config_find(config, period_key, &value, NULL)) { /* Jamba's */
        size_t period = 1, offset = 0;
        LN_TRY(ln_config_size(config, period_key, 1, LN_MAX_LAYERS, &period, err));
        LN_TRY(ln_config_size(config, (ln_key){"expert_layer_offset", ""}, 0, LN_MAX_LAYERS,
                              &offset, err));
        *dense = layer % period != offset;
        return LINNET_OK;
    }
    *dense = layer < n_dense || (layer + 1) % step != 0 || layer % frequency != 0;
    return LINNET_OK;
}

/* By an entry for each layer, "dense" or a word for experts; *dense stays where there is no list.
 */
static ln_status is_dense_by_type(const ln_config *config, size_t layer, bool *dense,
                                  ln_error *err) {
    ln_meta_value list, item;
    char name[128];
    if (!ln_config_find(config, (ln_key){"mlp_layer_types", ""}, &list, name))
        return LINNET_OK;
    bool has_item = ln_meta_item(&list, layer, &item) && item.kind == LN_META_STRING;
    *dense = has_item && ln_list_has("dense", item.string.data, item.string.bytes);
    if (has_item &&
        (*dense || ln_list_has("sparse|moe|hash_moe", item.string.data, item.string.bytes)))
        return LINNET_OK;
    return ln_fail(err, LINNET_ERR_FORMAT, "%s: key %s has no known kind for layer %zu",
                   ln_checkpoint_path(config->checkpoint), name, layer);
}

/* By lists of layers that are dense, and of those that have experts, which may be text. */
static ln_status is_dense_by_list(const ln_config *config, size_t layer, bool *dense,
                                  ln_error *err) {
    static const ln_key text_key = {"moe_layers_enum", ""};
    ln_meta_value text;
    bool is_there, has;
    LN_TRY(ln_config_lists(config, (ln_key){"mlp_only_layers", ""}, layer, &is_there, &has, err));
    *dense |= has;
    LN_TRY(ln_config_lists(config, (ln_key){"moe_layers", ""}, layer, &is_there, &has, err));
    if (is_there)
        *dense = !has;
    if (ln_config_find(config, text_key, &text, NULL) && text.kind == LN_META_STRING) {
        *dense = !text_lists_layer(&text, layer);
        return LINNET_OK;
    }
    LN_TRY(ln_config_lists(config, text_key, layer, &is_there, &has, err));
    if (is_there)
        *dense = !has;
    return LINNET_OK;
}

/* By a number for each layer, 0 for dense; *dense stays where there is no list. */
static ln_status is_dense_by_number(const ln_config *config, size_t layer, bool *dense,
                                    ln_error *err) {
    ln_meta_value list, item;
    char name[128];
    if (!ln_config_find(config, (ln_key){"moe_layer_freq", ""}, &list, name) ||
        list.kind != LN_META_ARRAY)
        return LINNET_OK;
    if (!ln_meta_item(&list, layer, &item) || item.kind != LN_META_INT)
        return ln_fail(err, LINNET_ERR_FORMAT, "%s: key %s has no whole number for layer %zu",
                       ln_checkpoint_path(config->checkpoint), name, layer);
    *dense = item.integer == 0;
    return LINNET_OK;
}

ln_status ln_spec_layer_is_dense(const ln_config *config, size_t n_layers, size_t layer,
                                 bool *dense, ln_error *err) {
    ln_meta_value last;
    char name[128];
    LN_TRY(is_dense_by_rule(config, layer, dense, err));
    if (ln_config_find(config, (ln_key){"moe_layer_end_index", ""}, &last, name)) {
        if (last.kind != LN_META_INT)
            return ln_fail(err, LINNET_ERR_FORMAT, "%s: key %s is not a whole number",
                           ln_checkpoint_path(config->checkpoint), name);
        *dense |= (int64_t)layer > (last.integer == -1 ? (int64_t)n_layers - 1 : last.integer);
    }
    LN_TRY(is_dense_by_list(config, layer, dense, err));
    LN_TRY(is_dense_by_number(config, layer, dense, err));
    return is_dense_by_type(config, layer, dense, err);
}

/* How wide the heads' values are: in GGUF, where it does not say, as wide as heads that divide the
 * model. */
static ln_status read_value_dim(const ln_config *config, size_t n_heads, size_t *v_dim,
                                ln_error *err) {
    ln_key key = {"v_head_dim", "attention.value_length_mla|attention.value_length"};
    size_t dim = 0;
    LN_TRY(ln_config_size(config, (ln_key){"", "embedding_length"}, 1, LN_MAX_DIM, &dim, err));
    *v_dim = n_heads > 0 ? dim / n_heads : 0;
    return *v_dim > 0 ? ln_config_size(config, key, 1, LN_MAX_DIM, v_dim, err)
                      : ln_config_need_size(config, key, 1, LN_MAX_DIM, v_dim, err);
}

ln_status ln_spec_read_latent(const ln_config *config, const ln_family *family,
                              ln_attention_spec *attention, ln_error *err) {
    ln_latent_spec *latent = &attention->latent;
    size_t head = 0, least_rope = family->positions == LN_POSITIONS_NONE ? 0 : 2;
    LN_TRY(ln_config_size(config, (ln_key){"kv_lora_rank", "attention.kv_lora_rank"}, 0, LN_MAX_DIM,
                          &latent->n_latent, err));
    if (latent->n_latent == 0)
        return LINNET_OK;
    LN_TRY(ln_config_size(config, (ln_key){"q_lora_rank", "attention.q_lora_rank"}, 0, LN_MAX_DIM,
                          &latent->q_latent, err));
    LN_TRY(ln_config_need_size(config, (ln_key){"qk_rope_head_dim", "rope.dimension_count"},
                               least_rope, least_rope > 0 ? LN_MAX_DIM : 0, &latent->n_rope, err));
    LN_TRY(read_value_dim(config, attention->n_heads, &latent->v_dim, err));
    if (config->is_gguf) {
        LN_TRY(ln_config_need_size(config,
                                   (ln_key){"", "attention.key_length_mla|attention.key_length"}, 1,
                                   LN_MAX_DIM, &head, err));
        if (head <= latent->n_rope)
            return ln_fail(err, LINNET_ERR_FORMAT,
                           "%s: heads of %zu have no room for %zu rotary dimensions",
                           ln_checkpoint_path(config->checkpoint), head, latent->n_rope);
        latent->n_plain = head - latent->n_rope;
    } else {
        LN_TRY(ln_config_need_size(config, (ln_key){"qk_nope_head_dim", ""}, 1, LN_MAX_DIM,
                                   &latent->n_plain, err));
    }
    latent->pairs = family->latent_pairs;
    attention->n_kv_heads = 1;
    attention->k_dim = latent->n_latent + latent->n_rope;
    attention->v_dim = latent->n_latent;
    return LINNET_OK;
}

/* A layer's entry of a list of "full" and "shared", of flags that say which are full, or of a word
 * of F and S, past whose end all are full; false: it is none of these. */
static bool read_sharing(const ln_meta_value *list, size_t layer, bool *shared) {
    ln_meta_value item = {.kind = LN_META_STRING, .string = {"F", 1}};
    if (list->kind == LN_META_STRING && layer < list->string.bytes)
        item.string.data = list->string.data + layer;
    else if (list->kind != LN_META_STRING && !ln_meta_item(list, layer, &item))
        return false;
    if (item.kind == LN_META_STRING) {
        *shared = ln_list_has("shared|S", item.string.data, item.string.bytes);
        return *shared || ln_list_has("full|F", item.string.data, item.string.bytes);
    }
    *shared = item.kind == LN_META_BOOL ? !item.boolean : item.integer == 0;
    return item.kind == LN_META_BOOL || item.kind == LN_META_INT;
}

/* By an entry for each layer, or every Nth layer; GGUF files that say nothing have an indexer in
 * every layer. */
static ln_status indexer_is_shared(const ln_config *config, size_t layer, bool *shared,
                                   ln_error *err) {
    static const ln_key key = {"indexer_types|index_topk_pattern", "attention.indexer.types"};
    size_t period = 1, offset = 2;
    ln_meta_value list;
    char name[128];
    *shared = false;
    if (ln_config_find(config, key, &list, name))
        return read_sharing(&list, layer, shared)
                   ? LINNET_OK
                   : ln_fail(err, LINNET_ERR_FORMAT, "%s: key %s has no known kind for layer %zu",
                             ln_checkpoint_path(config->checkpoint), name, layer);
    LN_TRY(ln_config_size(config, (ln_key){"index_topk_freq", ""}, 0, LN_MAX_LAYERS, &period, err));
    LN_TRY(ln_config_size(config, (ln_key){"index_skip_topk_offset", ""}, 0, LN_MAX_LAYERS, &offset,
                          err));
    size_t since = layer + 1 > offset ? layer + 1 - offset : 0;
    *shared = period > 1 && since % period != 0;
    return LINNET_OK;
}

ln_status ln_spec_read_indexer_sizes(const ln_config *config, ln_indexer_spec *indexer,
                                     ln_error *err) {
    LN_TRY(ln_config_need_size(config, (ln_key){"index_topk", "attention.indexer.top_k"}, 1,
                               INT32_MAX, &indexer->top_k, err));
    LN_TRY(ln_config_need_size(config, (ln_key){"index_n_heads", "attention.indexer.head_count"}, 1,
                               LN_MAX_DIM, &indexer->n_heads, err));
    return ln_config_need_size(config, (ln_key){"index_head_dim", "attention.indexer.key_length"},
                               1, LN_MAX_DIM, &indexer->head_dim, err);
}

ln_status ln_spec_read_indexer(const ln_config *config, ln_spec *spec, size_t layer,
                               ln_attention_spec *attention, ln_error *err) {
    ln_indexer_spec *indexer = &attention->indexer;
    const char *path = ln_checkpoint_path(config->checkpoint);
    if (spec->family->index_means)
        return ln_spec_read_index_means(config, spec, layer, attention, err);
    LN_TRY(ln_spec_read_indexer_sizes(config, indexer, err));
    bool lacks_latent = attention->latent.q_latent == 0 && !spec->family->plain_latents;
    if (lacks_latent || indexer->head_dim < attention->latent.n_rope ||
        indexer->n_heads * indexer->head_dim > LN_MAX_DIM)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                       "%s: an indexer of %zu heads of %zu with q_lora_rank %zu and "
                       "qk_rope_head_dim %zu",
                       path, indexer->n_heads, indexer->head_dim, attention->latent.q_latent,
                       attention->latent.n_rope);
    indexer->turns_last = spec->family->index_turns_last;
    LN_TRY(indexer_is_shared(config, layer, &indexer->shared, err));
    if (indexer->shared && spec->n_indexers == 0)
        return ln_fail(err, LINNET_ERR_FORMAT,
                       "%s: the first layer shares the indexer of an earlier one", path);
    if (!indexer->shared)
        indexer->kv_layer = spec->n_indexers++;
    if (spec->family->index_runs)
        return ln_spec_read_index_runs(config, spec, attention, err);
    return LINNET_OK;
}
