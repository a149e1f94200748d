#include "model/rope.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const double PI = 3.14159265358979323846;

/* The scaling's parameters; both spellings of config.json and GGUF's. */
static ln_status read_scaling(const ln_config *config, ln_rope_spec *rope, ln_error *err) {
    const double any = 1e30;
#define ROPE_KEY(name, gguf) ((ln_key){"rope_parameters." name "|rope_scaling." name, gguf})
    LN_TRY(ln_config_real(config, ROPE_KEY("factor", "rope.scaling.factor"), 1e-6, 1e6,
                          &rope->factor, err));
    LN_TRY(ln_config_real(
        config,
        ROPE_KEY("original_max_position_embeddings", "rope.scaling.original_context_length"), 1,
        1e12, &rope->original_ctx, err));
    LN_TRY(
        ln_config_real(config, ROPE_KEY("low_freq_factor", ""), 1e-6, 1e6, &rope->low_freq, err));
    LN_TRY(
        ln_config_real(config, ROPE_KEY("high_freq_factor", ""), 1e-6, 1e6, &rope->high_freq, err));
    LN_TRY(ln_config_real(config, ROPE_KEY("beta_fast", "rope.scaling.yarn_beta_fast"), 1e-6, any,
                          &rope->beta_fast, err));
    LN_TRY(ln_config_real(config, ROPE_KEY("beta_slow", "rope.scaling.yarn_beta_slow"), 1e-6, any,
                          &rope->beta_slow, err));
    LN_TRY(ln_config_real(config, ROPE_KEY("attention_factor", ""), 0, any, &rope->attention_factor,
                          err));
    LN_TRY(ln_config_real(config, ((ln_key){"", "rope.scaling.attn_factor"}), 0, any,
                          &rope->extra_magnitude, err));
    LN_TRY(ln_config_real(config, ROPE_KEY("mscale", ""), 0, any, &rope->mscale, err));
    LN_TRY(
        ln_config_real(config, ROPE_KEY("mscale_all_dim", ""), 0, any, &rope->mscale_all_dim, err));
    return ln_config_flag(config, ROPE_KEY("truncate", ""), &rope->truncate, err);
}

static ln_status read_kind(const ln_config *config, ln_rope_spec *rope, ln_error *err) {
    static const ln_key kind = {
        "rope_parameters.rope_type|rope_parameters.type|rope_scaling.rope_type|rope_scaling.type",
        "rope.scaling.type"};
    ln_meta_value value;
    char name[128];
    if (!ln_config_find(config, kind, &value, name) || ln_config_is(config, kind, "default") ||
        ln_config_is(config, kind, "none"))
        rope->scaling = LN_ROPE_PLAIN;
    else if (ln_config_is(config, kind, "linear"))
        rope->scaling = LN_ROPE_LINEAR;
    else if (ln_config_is(config, kind, "llama3"))
        rope->scaling = LN_ROPE_LLAMA3;
    else if (ln_config_is(config, kind, "yarn"))
        rope->scaling = LN_ROPE_YARN;
    else
        return ln_fail(err, LINNET_ERR_UNSUPPORTED, "%s: key %s: RoPE scaling \"%.*s\" is unknown",
                       ln_checkpoint_path(config->checkpoint), name,
                       value.kind == LN_META_STRING ? (int)value.string.bytes : 0,
                       value.kind == LN_META_STRING ? value.string.data : "");
    return LINNET_OK;
}

static ln_status check_scaling(const ln_config *config, const ln_rope_spec *rope, ln_error *err) {
    const char *path = ln_checkpoint_path(config->checkpoint);
    bool needs_ctx = rope->scaling == LN_ROPE_LLAMA3 || rope->scaling == LN_ROPE_YARN;
    if (rope->scaling != LN_ROPE_PLAIN && rope->factor == 0)
        return ln_fail(err, LINNET_ERR_FORMAT, "%s: the RoPE scaling has no factor", path);
    if (needs_ctx && rope->original_ctx == 0)
        return ln_fail(err, LINNET_ERR_FORMAT,
                       "%s: the RoPE scaling has no original_max_position_embeddings", path);
    if (rope->scaling == LN_ROPE_LLAMA3 && !(rope->high_freq > rope->low_freq))
        return ln_fail(err, LINNET_ERR_FORMAT,
                       "%s: RoPE high_freq_factor must be above low_freq_factor", path);
    return LINNET_OK;
}

static ln_status read_dims(const ln_config *config, size_t head_dim, size_t *n_dims,
                           ln_error *err) {
    double fraction = 1.0;
    LN_TRY(ln_config_real(config,
                          (ln_key){"rope_parameters.partial_rotary_factor|partial_rotary_factor|"
                                   "rotary_pct|rope_pct",
                                   ""},
                          0, 1, &fraction, err));
    *n_dims = (size_t)((double)head_dim * fraction);
    LN_TRY(ln_config_size(config, (ln_key){"rotary_dim", "rope.dimension_count"}, 0, head_dim,
                          n_dims, err));
    if (*n_dims % 2 != 0)
        return ln_fail(err, LINNET_ERR_FORMAT, "%s: %zu rotary dimensions are not even",
                       ln_checkpoint_path(config->checkpoint), *n_dims);
    return LINNET_OK;
}

ln_status ln_rope_read(const ln_config *config, ln_rope_style style, size_t head_dim,
                       ln_rope_spec *rope, ln_error *err) {
    *rope = (ln_rope_spec){.style = style,
                           .theta = 10000.0,
                           .low_freq = 1.0,
                           .high_freq = 4.0,
                           .beta_fast = 32.0,
                           .beta_slow = 1.0,
                           .extra_magnitude = 1.0,
                           .truncate = true};
    LN_TRY(read_dims(config, head_dim, &rope->n_dims, err));
    LN_TRY(ln_config_real(
        config, (ln_key){"rope_parameters.rope_theta|rope_theta|rotary_emb_base", "rope.freq_base"},
        1e-3, 1e15, &rope->theta, err));
    LN_TRY(read_kind(config, rope, err));
    LN_TRY(read_scaling(config, rope, err));
    return check_scaling(config, rope, err);
}

/* Llama 3.1: long waves are divided by the factor, short ones stay, between them a ramp. */
static double scale_llama3(const ln_rope_spec *rope, double inv_freq) {
    double wavelength = 2.0 * PI / inv_freq;
    if (wavelength < rope->original_ctx / rope->high_freq)
        return inv_freq;
    if (wavelength > rope->original_ctx / rope->low_freq)
        return inv_freq / rope->factor;
    double smooth =
        (rope->original_ctx / wavelength - rope->low_freq) / (rope->high_freq - rope->low_freq);
    return (1.0 - smooth) * inv_freq / rope->factor + smooth * inv_freq;
}

/* The dimension pair that turns `rotations` times over the original context. */
static double yarn_dimension(const ln_rope_spec *rope, double rotations) {
    return (double)rope->n_dims * log(rope->original_ctx / (rotations * 2.0 * PI)) /
           (2.0 * log(rope->theta));
}

/* YaRN (Peng et al., 2023), section 3.2: interpolate slow dimensions, keep fast ones. */
static double scale_yarn(const ln_rope_spec *rope, size_t i, double inv_freq) {
    double low = yarn_dimension(rope, rope->beta_fast);
    double high = yarn_dimension(rope, rope->beta_slow);
    if (rope->truncate) {
        low = floor(low);
        high = ceil(high);
    }
    low = fmax(low, 0.0);
    high = fmin(high, (double)rope->n_dims - 1.0);
    if (low == high)
        high += 0.001;
    double ramp = fmin(fmax(((double)i - low) / (high - low), 0.0), 1.0);
    return inv_freq / rope->factor * ramp + inv_freq * (1.0 - ramp);
}

static double yarn_mscale(double factor, double mscale) {
    return factor <= 1.0 ? 1.0 : 0.1 * mscale * log(factor) + 1.0;
}

static double magnitude_of(const ln_rope_spec *rope) {
    if (rope->scaling != LN_ROPE_YARN)
        return 1.0;
    if (rope->attention_factor > 0.0)
        return rope->attention_factor;
    if (rope->mscale > 0.0 && rope->mscale_all_dim > 0.0)
        return yarn_mscale(rope->factor, rope->mscale) /
               yarn_mscale(rope->factor, rope->mscale_all_dim);
    return yarn_mscale(rope->factor, 1.0) * rope->extra_magnitude;
}

float ln_rope_fill(const ln_rope_spec *rope, const float *freq_factors, float *inv_freq) {
    for (size_t i = 0; i < rope->n_dims / 2; i++) {
        double f = pow(rope->theta, -2.0 * (double)i / (double)rope->n_dims);
        if (freq_factors != NULL)
            f /= (double)freq_factors[i];
        switch (rope->scaling) {
        case LN_ROPE_PLAIN: break;
        case LN_ROPE_LINEAR: f /= rope->factor; break;
        case LN_ROPE_LLAMA3: f = scale_llama3(rope, f); break;
        case LN_ROPE_YARN: f = scale_yarn(rope, i, f); break;
        }
        inv_freq[i] = (float)f;
    }
    return (float)magnitude_of(rope);
}
