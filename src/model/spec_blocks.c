#include "model/spec_blocks.h"

#include "model/family.h"

enum { MAX_EXPERTS = 4096 };

static ln_status read_router(const ln_config *config, ln_moe_spec *moe, ln_error *err) {
    size_t number = 0; /* GGUF: 1 softmax, 2 sigmoid, 3 softmax over the chosen */
    LN_TRY(ln_config_size(config, (ln_key){"", "expert_gating_func"}, 0, 3, &number, err));
    if (number == 1)
        moe->router = LN_ROUTER_SOFTMAX;
    if (number == 2)
        moe->router = LN_ROUTER_SIGMOID;
    if (number == 3)
        moe->router = LN_ROUTER_SOFTMAX_CHOSEN;
    if (ln_config_is(config, (ln_key){"scoring_func", ""}, "sigmoid"))
        moe->router = LN_ROUTER_SIGMOID;
    if (ln_config_is(config, (ln_key){"scoring_func", ""}, "softmax"))
        moe->router = LN_ROUTER_SOFTMAX;
    return LINNET_OK;
}

static ln_status read_groups(const ln_config *config, ln_moe_spec *moe, ln_error *err) {
    if (ln_config_is(config, (ln_key){"topk_method", ""}, "greedy"))
        return LINNET_OK;
    LN_TRY(ln_config_size(config, (ln_key){"n_group", "expert_group_count"}, 0, MAX_EXPERTS,
                          &moe->n_groups, err));
    LN_TRY(ln_config_size(config, (ln_key){"topk_group", "expert_group_used_count"}, 0, MAX_EXPERTS,
                          &moe->n_groups_used, err));
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
    LN_TRY(ln_config_size(config, (ln_key){"n_shared_experts", "expert_shared_count"}, 0,
                          MAX_EXPERTS, &n_shared, err));
    if (config->is_gguf && family->shared_gate)
        moe->shared_hidden = dense_hidden;
    if (n_shared > 0)
        moe->shared_hidden = n_shared * moe->n_hidden;
    if (moe->shared_hidden > LN_MAX_DIM)
        return ln_fail(err, LINNET_ERR_FORMAT, "%s: %zu shared experts of %zu are too wide",
                       ln_checkpoint_path(config->checkpoint), n_shared, moe->n_hidden);
    return ln_config_size(
        config, (ln_key){"shared_expert_intermediate_size", "expert_shared_feed_forward_length"}, 0,
        LN_MAX_DIM, &moe->shared_hidden, err);
}

ln_status ln_spec_read_moe(const ln_config *config, const ln_family *family, size_t dense_hidden,
                           ln_moe_spec *moe, ln_error *err) {
    *moe = (ln_moe_spec){.router = family->router,
                         .n_hidden = dense_hidden,
                         .normalize = family->normalize_experts,
                         .shared_gate = family->shared_gate};
    LN_TRY(ln_config_size(
        config, (ln_key){"num_local_experts|num_experts|n_routed_experts", "expert_count"}, 0,
        MAX_EXPERTS, &moe->n_experts, err));
    if (moe->n_experts == 0)
        return LINNET_OK;
    LN_TRY(ln_config_need_size(
        config, (ln_key){"num_experts_per_tok|experts_per_token", "expert_used_count"}, 1,
        moe->n_experts, &moe->n_used, err));
    LN_TRY(ln_config_size(config, (ln_key){"moe_intermediate_size", "expert_feed_forward_length"},
                          1, LN_MAX_DIM, &moe->n_hidden, err));
    LN_TRY(ln_config_flag(config, (ln_key){"norm_topk_prob", "expert_weights_norm"},
                          &moe->normalize, err));
    double scale = 1.0;
    LN_TRY(ln_config_real(config, (ln_key){"routed_scaling_factor", "expert_weights_scale"}, 0, 1e9,
                          &scale, err));
    moe->scale = scale == 0 ? 1.0f : (float)scale;
    LN_TRY(read_router(config, moe, err));
    moe->group_by_two = moe->router == LN_ROUTER_SIGMOID;
    LN_TRY(read_groups(config, moe, err));
    LN_TRY(read_shared(config, family, dense_hidden, moe, err));
    moe->shared_gate = moe->shared_gate && moe->shared_hidden > 0;
    return LINNET_OK;
}

ln_status ln_spec_layer_is_dense(const ln_config *config, size_t layer, bool *dense,
                                 ln_error *err) {
    size_t n_dense = 0, step = 1, frequency = 1;
    ln_meta_value list, item;
    LN_TRY(ln_config_size(config, (ln_key){"first_k_dense_replace", "leading_dense_block_count"}, 0,
                          LN_MAX_LAYERS, &n_dense, err));
    LN_TRY(
        ln_config_size(config, (ln_key){"decoder_sparse_step", ""}, 1, LN_MAX_LAYERS, &step, err));
    LN_TRY(
        ln_config_size(config, (ln_key){"moe_layer_freq", ""}, 1, LN_MAX_LAYERS, &frequency, err));
    *dense = layer < n_dense || (layer + 1) % step != 0 || layer % frequency != 0;
    if (ln_config_find(config, (ln_key){"mlp_only_layers", ""}, &list, NULL))
        for (size_t i = 0; ln_meta_item(&list, i, &item); i++)
            *dense |= item.kind == LN_META_INT && item.integer == (int64_t)layer;
    return LINNET_OK;
}

ln_status ln_spec_read_latent(const ln_config *config, ln_attention_spec *attention,
                              ln_error *err) {
    ln_latent_spec *latent = &attention->latent;
    size_t head = 0;
    LN_TRY(ln_config_size(config, (ln_key){"kv_lora_rank", "attention.kv_lora_rank"}, 0, LN_MAX_DIM,
                          &latent->n_latent, err));
    if (latent->n_latent == 0)
        return LINNET_OK;
    LN_TRY(ln_config_size(config, (ln_key){"q_lora_rank", "attention.q_lora_rank"}, 0, LN_MAX_DIM,
                          &latent->q_latent, err));
    LN_TRY(ln_config_need_size(config, (ln_key){"qk_rope_head_dim", "rope.dimension_count"}, 2,
                               LN_MAX_DIM, &latent->n_rope, err));
    LN_TRY(ln_config_need_size(
        config, (ln_key){"v_head_dim", "attention.value_length_mla|attention.value_length"}, 1,
        LN_MAX_DIM, &latent->v_dim, err));
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
    attention->n_kv_heads = 1;
    attention->k_dim = latent->n_latent + latent->n_rope;
    attention->v_dim = latent->n_latent;
    return LINNET_OK;
}
