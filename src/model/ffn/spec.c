#include "model/ffn/spec.h"

#include <math.h>
#include <string.h>

#include "model/family.h"
#include "model/spec_blocks.h"

/* A cap that leaves numbers as they are. */
#define UNCAPPED 1e18

/* The activation that config.json calls `name`, or false. */
static bool find_activation(const char *name, size_t n_bytes, ln_activation *activation) {
    static const struct {
        const char *names;
        ln_activation activation;
    } known[] = {
        {"silu|swish|swiglu", LN_ACT_SILU},
        {"gelu", LN_ACT_GELU},
        {"gelu_new|gelu_pytorch_tanh|gelu_fast|gelu_tanh", LN_ACT_GELU_TANH},
        {"relu", LN_ACT_RELU},
        {"relu2|relu_squared", LN_ACT_RELU_SQUARED},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (ln_list_has(known[i].names, name, n_bytes)) {
            *activation = known[i].activation;
            return true;
        }
    return false;
}

static ln_status unknown_activation(const ln_config *config, const char *name,
                                    const ln_meta_value *value, ln_error *err) {
    bool is_text = value->kind == LN_META_STRING;
    size_t n_bytes = !is_text ? 0 : value->string.bytes < 64 ? value->string.bytes : 64;
    return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                   "%s: key %s: the activation \"%.*s\" is not supported",
                   ln_checkpoint_path(config->checkpoint), name, (int)n_bytes,
                   is_text ? value->string.data : "");
}

ln_status ln_spec_read_activation(const ln_config *config, ln_key key, ln_activation *activation,
                                  ln_error *err) {
    ln_meta_value value;
    char name[128];
    if (!ln_config_find(config, key, &value, name))
        return LINNET_OK;
    if (value.kind == LN_META_STRING &&
        find_activation(value.string.data, value.string.bytes, activation))
        return LINNET_OK;
    return unknown_activation(config, name, &value, err);
}

/* gpt-oss clamps its gate with two numbers; kernels know the usual ones. */
static ln_status read_clamped(const ln_config *config, ln_ffn_spec *ffn, ln_error *err) {
    double limit = 7, slope = 1.702;
    LN_TRY(ln_config_real(config, (ln_key){"swiglu_limit", ""}, 1e-9, 1e9, &limit, err));
    LN_TRY(ln_config_real(config, (ln_key){"swiglu_alpha", ""}, 1e-9, 1e9, &slope, err));
    if (limit == 7 && slope == 1.702)
        return LINNET_OK;
    ffn->limit = (float)limit;
    ffn->slope = (float)slope;
    return LINNET_OK;
}

/* SiTU: caps of what gate and up give, the latter's where it has one. */
static ln_status read_situ(const ln_config *config, ln_ffn_spec *ffn, ln_error *err) {
    double gate = 1, up = UNCAPPED;
    LN_TRY(ln_config_real(config, (ln_key){"activation_situ_beta", "activation.situ_beta"}, 1e-9,
                          1e9, &gate, err));
    LN_TRY(ln_config_real(config,
                          (ln_key){"activation_situ_linear_beta", "activation.situ_linear_beta"},
                          -UNCAPPED, UNCAPPED, &up, err));
    ffn->activation = LN_ACT_SILU;
    ffn->gate_cap = (float)gate;
    ffn->up_cap = (float)(up > 0 ? up : UNCAPPED);
    return LINNET_OK;
}

static ln_status read_activation(const ln_config *config, const ln_family *family, ln_ffn_spec *ffn,
                                 ln_error *err) {
    ln_key key = {"hidden_activation|hidden_act|activation_function|activation|dense_act_fn|"
                  "mlp_hidden_act|ffn_config.ffn_act_fn.name|afn|activation_fn_name",
                  ""};
    ln_meta_value value;
    char name[128];
    ln_activation *activation = &ffn->activation;
    if (family->activation_key != NULL)
        key.hf = family->activation_key;
    if (family->situ && (config->is_gguf || ln_config_is(config, key, "situ")))
        return read_situ(config, ffn, err);
    ffn->xielu = family->xielu;
    *activation = ln_family_activation(family);
    if (family->activation == LN_ACT_SWIGLU_CLAMPED)
        LN_TRY(read_clamped(config, ffn, err));
    if (family->fixed_activation || !ln_config_find(config, key, &value, name))
        return LINNET_OK;
    ffn->xielu = ln_config_is(config, key, "xielu");
    if (ffn->xielu) {
        *activation = LN_ACT_NONE;
        return LINNET_OK;
    }
    LN_TRY(ln_spec_read_activation(config, key, activation, err));
    if (family->gelu_is_tanh && *activation == LN_ACT_GELU)
        *activation = LN_ACT_GELU_TANH;
    return LINNET_OK;
}

/* T5's way to say both in one word: an activation, or "gated-" and one; of "gelu" behind a gate it
 * means the approximation. */
static ln_status read_projection(const ln_config *config, ln_ffn_spec *ffn, ln_error *err) {
    static const char gated[] = "gated-";
    ln_key key = {"feed_forward_proj", ""};
    ln_meta_value value;
    char name[128];
    if (!ln_config_find(config, key, &value, name))
        return LINNET_OK;
    if (value.kind != LN_META_STRING)
        return unknown_activation(config, name, &value, err);
    const char *word = value.string.data;
    size_t n = value.string.bytes, skipped = sizeof gated - 1;
    ffn->gated = n > skipped && memcmp(word, gated, skipped) == 0;
    if (ffn->gated) {
        word += skipped;
        n -= skipped;
    }
    if (!find_activation(word, n, &ffn->activation))
        return unknown_activation(config, name, &value, err);
    if (ffn->gated && ffn->activation == LN_ACT_GELU)
        ffn->activation = LN_ACT_GELU_TANH;
    return LINNET_OK;
}

/* Whether the feed-forward has a gate: by the family, or as T5 says it. */
static ln_status read_gated(const ln_config *config, const ln_spec *spec, bool encoder,
                            ln_ffn_spec *ffn, ln_error *err) {
    const ln_binding *binding;
    ln_tensor_id gate = {.role = LN_ROLE_GATE, .encoder = encoder};
    ffn->gated = !spec->family->plain_ffn;
    if (ln_family_gate_shows(spec->family) && config->is_gguf) {
        ffn->gated = ln_family_find(spec->family, config->checkpoint, gate, &binding) != NULL;
        ffn->activation = ffn->gated ? LN_ACT_GELU_TANH : LN_ACT_RELU;
    }
    LN_TRY(read_projection(config, ffn, err));
    return ln_config_flag(config, (ln_key){"is_gated_act", ""}, &ffn->gated, err);
}

/* LFM2 says what two matrices would have; with a gate there are three, which have two thirds of it,
 * times a factor, filled up to whole multiples. */
static ln_status adjust_hidden(const ln_config *config, size_t *n_hidden, ln_error *err) {
    bool adjusts = false;
    size_t multiple = 1;
    double factor = 1;
    LN_TRY(ln_config_flag(config, (ln_key){"block_auto_adjust_ff_dim", ""}, &adjusts, err));
    if (!adjusts)
        return LINNET_OK;
    LN_TRY(
        ln_config_size(config, (ln_key){"block_multiple_of", ""}, 1, LN_MAX_DIM, &multiple, err));
    LN_TRY(
        ln_config_real(config, (ln_key){"block_ffn_dim_multiplier", ""}, 1e-3, 1e3, &factor, err));
    *n_hidden = (size_t)(factor * (double)(2 * *n_hidden / 3));
    *n_hidden = (*n_hidden + multiple - 1) / multiple * multiple;
    if (*n_hidden > 0 && *n_hidden <= LN_MAX_DIM)
        return LINNET_OK;
    return ln_fail(err, LINNET_ERR_FORMAT, "%s: a feed-forward of %zu dimensions is impossible",
                   ln_checkpoint_path(config->checkpoint), *n_hidden);
}

/* Falcon-H1's: what gate and down are multiplied with. GGUF has weights that are. */
static ln_status read_ffn_scales(const ln_config *config, ln_ffn_spec *ffn, ln_error *err) {
    ln_meta_value list, item;
    char name[128];
    float *scales[] = {&ffn->gate_scale, &ffn->down_scale};
    ffn->gate_scale = ffn->down_scale = 1.0f;
    if (!ln_config_find(config, (ln_key){"mlp_multipliers", ""}, &list, name))
        return LINNET_OK;
    for (size_t i = 0; i < 2; i++) {
        if (!ln_meta_item(&list, i, &item) ||
            (item.kind != LN_META_FLOAT && item.kind != LN_META_INT))
            return ln_fail(err, LINNET_ERR_FORMAT, "%s: key %s has not two numbers",
                           ln_checkpoint_path(config->checkpoint), name);
        *scales[i] = item.kind == LN_META_INT ? (float)item.integer : (float)item.real;
    }
    if (ffn->gate_scale == 1.0f)
        return LINNET_OK;
    if (!ffn->gated || ffn->activation != LN_ACT_SILU)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED, "%s: key %s without a gate of SiLU",
                       ln_checkpoint_path(config->checkpoint), name);
    ffn->limit = INFINITY; /* gate and up are computed apart */
    return LINNET_OK;
}

/* OpenELM's: a multiple of the model's, rounded to whole multiples of a divisor, which may take no
 * tenth of it. */
static ln_status multiply_hidden(const ln_config *config, size_t dim, size_t *n_hidden,
                                 ln_error *err) {
    double multiplier = 0;
    size_t divisor = 256;
    LN_TRY(ln_config_real(config, (ln_key){"ffn_multipliers", ""}, 1e-3, 1e3, &multiplier, err));
    LN_TRY(ln_config_size(config, (ln_key){"ffn_dim_divisor", ""}, 1, LN_MAX_DIM, &divisor, err));
    if (multiplier == 0)
        return LINNET_OK;
    double width = multiplier * (double)dim;
    size_t rounded = (size_t)(width + (double)divisor / 2) / divisor * divisor;
    rounded = rounded > divisor ? rounded : divisor;
    *n_hidden = (double)rounded < 0.9 * width ? rounded + divisor : rounded;
    if (*n_hidden <= LN_MAX_DIM)
        return LINNET_OK;
    return ln_fail(err, LINNET_ERR_FORMAT, "%s: a feed-forward of %zu dimensions is impossible",
                   ln_checkpoint_path(config->checkpoint), *n_hidden);
}

/* How wide the feed-forward is. Of layers with one block each GGUF lists the widths, which
 * keep_block reads. */
static ln_status read_hidden(const ln_config *config, const ln_spec *spec, bool encoder,
                             ln_ffn_spec *ffn, ln_error *err) {
    ln_key key = {
        encoder ? "encoder_ffn_dim|d_ff"
                : "decoder_ffn_dim|intermediate_size_mlp|block_ff_dim|intermediate_size|"
                  "ffn_hidden_size|n_inner|ffn_dim|d_ff|hidden_dim|dff|ffn_config.ffn_hidden_size",
        "feed_forward_length"};
    size_t multiple = 4;
    LN_TRY(
        ln_config_size(config, (ln_key){"intermediate_multiple_size", ""}, 1, 64, &multiple, err));
    ffn->n_hidden = multiple * spec->dim;
    if (config->is_gguf && spec->family->one_block)
        return LINNET_OK;
    LN_TRY(ln_config_size(config, key, 1, LN_MAX_DIM, &ffn->n_hidden, err));
    LN_TRY(multiply_hidden(config, spec->dim, &ffn->n_hidden, err));
    ffn->n_hidden /= spec->family->halves_hidden ? 2 : 1;
    return adjust_hidden(config, &ffn->n_hidden, err);
}

/* What gates of experts are limited to before their activation. */
static ln_status read_limit_before(const ln_config *config, const ln_family *family,
                                   ln_ffn_spec *ffn, ln_error *err) {
    double limit = config->is_gguf ? 1e9 : 10; /* lists say it there */
    if (ffn->moe.n_experts == 0)
        return LINNET_OK;
    LN_TRY(ln_config_real(config, (ln_key){"swiglu_limit", ""}, 1e-9, 1e9, &limit, err));
    if (ffn->activation != LN_ACT_SILU)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                       "%s: key hidden_act: swiglu_limit is supported with silu alone",
                       ln_checkpoint_path(config->checkpoint));
    ffn->moe.limit = (float)limit;
    ffn->moe.limits_before = true;
    if (family->limits_shared)
        ffn->limit = (float)limit;
    return LINNET_OK;
}

/* Caps of what gates and up projections of experts give. */
static ln_status read_caps(const ln_config *config, ln_moe_spec *moe, ln_error *err) {
    double gate = 4, up = 25;
    LN_TRY(ln_config_real(config, (ln_key){"mlp_gate_softcap", ""}, 1e-9, 1e9, &gate, err));
    LN_TRY(ln_config_real(config, (ln_key){"mlp_up_softcap", ""}, 1e-9, 1e9, &up, err));
    moe->gate_cap = (float)gate;
    moe->up_cap = (float)up;
    return LINNET_OK;
}

/* nGPT scales what gate and up give. */
static ln_status read_unit_gate(const ln_config *config, ln_ffn_spec *ffn, ln_error *err) {
    ffn->limit = INFINITY; /* gate and up are computed apart */
    if (ffn->gated && ffn->activation == LN_ACT_SILU)
        return LINNET_OK;
    return ln_fail(err, LINNET_ERR_UNSUPPORTED, "%s: key hidden_act: scales of gates without SiLU",
                   ln_checkpoint_path(config->checkpoint));
}

/* Experts of one row each, as many as pairs of keys. */
static ln_status read_retrieved(const ln_config *config, const ln_family *family, ln_ffn_spec *ffn,
                                ln_error *err) {
    size_t n_experts, n_keys = 1, n_used;
    bool is_on = false;
    if (!family->retrieves)
        return LINNET_OK;
    LN_TRY(ln_config_flag(config, (ln_key){family->experts_flag, ""}, &is_on, err));
    if (!is_on)
        return LINNET_OK;
    LN_TRY(
        ln_config_need_size(config, (ln_key){"num_experts", ""}, 1, LN_MAX_DIM, &n_experts, err));
    LN_TRY(ln_config_need_size(config, (ln_key){"num_experts_per_tok", ""}, 1, LN_MAX_DIM, &n_used,
                               err));
    while ((n_keys + 1) * (n_keys + 1) <= n_experts)
        n_keys++;
    if (n_keys > LN_MAX_PRODUCT_KEYS || n_used > LN_MAX_PRODUCT_USED || n_used > n_keys * n_keys)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                       "%s: %zu of %zu experts by product keys are not supported",
                       ln_checkpoint_path(config->checkpoint), n_used, n_experts);
    ffn->retrieved.n_experts = n_experts;
    ffn->retrieved.n_keys = n_keys;
    ffn->retrieved.n_used = n_used;
    return LINNET_OK;
}

ln_status ln_spec_read_ffn(const ln_config *config, const ln_spec *spec, bool encoder,
                           ln_ffn_spec *ffn, ln_error *err) {
    const ln_family *family = spec->family;
    LN_TRY(read_activation(config, family, ffn, err));
    LN_TRY(read_gated(config, spec, encoder, ffn, err));
    LN_TRY(read_ffn_scales(config, ffn, err));
    LN_TRY(read_hidden(config, spec, encoder, ffn, err));
    LN_TRY(ln_spec_read_moe(config, family, ffn->n_hidden, &ffn->moe, err));
    LN_TRY(read_retrieved(config, family, ffn, err));
    if (ffn->slope > 0)
        ffn->moe.limit = ffn->limit;
    if (family->limits_before)
        LN_TRY(read_limit_before(config, family, ffn, err));
    ffn->moe.gate_cap = ffn->gate_cap;
    ffn->moe.up_cap = ffn->up_cap;
    if (family->caps_swiglu)
        LN_TRY(read_caps(config, &ffn->moe, err));
    if (family->unit_sphere)
        LN_TRY(read_unit_gate(config, ffn, err));
    ffn->out_norm = family->sub_norms;
    if (family->dense_hidden_key == NULL || ffn->moe.n_experts > 0)
        return LINNET_OK;
    return ln_config_size(config, (ln_key){family->dense_hidden_key, ""}, 1, LN_MAX_DIM,
                          &ffn->n_hidden, err);
}
