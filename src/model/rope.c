#include "model/rope.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const double PI = 3.14159265358979323846;

/* Where one kind of layer finds its parameters. Newer folders nest them by kind of layer. Who puts
 * rope_scaling beside rope_parameters wants to change them, but not those of windowed layers. */
typedef struct rope_reader {
    const ln_config *config;
    bool is_local; /* windowed layers with a table of their own */
    ln_error *err;
} rope_reader;

enum { NAMES_BYTES = 384 };

/* A parameter's names in the spellings of config.json, and in GGUF. */
static ln_key rope_key(const rope_reader *r, const char *hf, const char *gguf,
                       char names[NAMES_BYTES]) {
    if (r->is_local)
        snprintf(names, NAMES_BYTES,
                 "rope_parameters.sliding_attention.%s|rope_parameters.hybrid_sliding.%s|"
                 "rope_parameters.main.%s|rope_parameters.%s",
                 hf, hf, hf, hf);
    else
        snprintf(names, NAMES_BYTES,
                 "rope_scaling.%s|rope_parameters.full_attention.%s|"
                 "rope_parameters.indexed_attention.%s|rope_parameters.compress.%s|"
                 "rope_parameters.hybrid.%s|rope_parameters.%s",
                 hf, hf, hf, hf, hf, hf);
    return (ln_key){names, gguf};
}

static ln_status real(const rope_reader *r, const char *hf, const char *gguf, double min,
                      double *out) {
    char names[NAMES_BYTES];
    return ln_config_real(r->config, rope_key(r, hf, gguf, names), min, 1e15, out, r->err);
}

/* The context before it grew: without a word about it, all that the model was trained for. Folders
 * may say it beside the scaling, which counts more than inside. */
static ln_status read_original_ctx(const rope_reader *r, ln_rope_spec *rope) {
    if (rope->scaling == LN_ROPE_PLAIN || rope->scaling == LN_ROPE_LINEAR)
        return LINNET_OK;
    LN_TRY(ln_config_real(r->config, (ln_key){"max_position_embeddings", "context_length"}, 1, 1e15,
                          &rope->original_ctx, r->err));
    if (rope->scaling == LN_ROPE_DYNAMIC)
        return LINNET_OK;
    LN_TRY(real(r, "original_max_position_embeddings", "rope.scaling.original_context_length", 1,
                &rope->original_ctx));
    return ln_config_real(r->config, (ln_key){"original_max_position_embeddings", ""}, 1, 1e15,
                          &rope->original_ctx, r->err);
}

static ln_status read_scaling(const rope_reader *r, ln_rope_spec *rope) {
    char names[NAMES_BYTES];
    LN_TRY(read_original_ctx(r, rope));
    LN_TRY(real(r, "factor", "rope.scaling.factor", 1e-6, &rope->factor));
    LN_TRY(real(r, "low_freq_factor", "", 1e-6, &rope->low_freq));
    LN_TRY(real(r, "high_freq_factor", "", 1e-6, &rope->high_freq));
    LN_TRY(real(r, "beta_fast", "rope.scaling.yarn_beta_fast", 1e-6, &rope->beta_fast));
    LN_TRY(real(r, "beta_slow", "rope.scaling.yarn_beta_slow", 1e-6, &rope->beta_slow));
    LN_TRY(real(r, "attention_factor", "", 0, &rope->attention_factor));
    LN_TRY(real(r, "short_mscale", "", 0, &rope->short_magnitude));
    LN_TRY(real(r, "long_mscale", "", 0, &rope->long_magnitude));
    LN_TRY(real(r, "mscale", "", 0, &rope->mscale));
    LN_TRY(real(r, "mscale_all_dim", "", 0, &rope->mscale_all_dim));
    LN_TRY(ln_config_real(r->config, (ln_key){"", "rope.scaling.attn_factor"}, 0, 1e15,
                          &rope->extra_magnitude, r->err));
    double extrapolation = -1; /* negative: by the kind of scaling */
    LN_TRY(ln_config_real(r->config, (ln_key){"", "rope.scaling.yarn_ext_factor"}, -1e9, 1e9,
                          &extrapolation, r->err));
    if (rope->scaling == LN_ROPE_YARN && extrapolation >= 0 && extrapolation != 1)
        return ln_fail(r->err, LINNET_ERR_UNSUPPORTED,
                       "%s: key rope.scaling.yarn_ext_factor: %g is not supported",
                       ln_checkpoint_path(r->config->checkpoint), extrapolation);
    double log_multiplier = 0; /* GGUF's form of mscale = mscale_all_dim */
    LN_TRY(ln_config_real(r->config, (ln_key){"", "rope.scaling.yarn_log_multiplier"}, 0, 1e9,
                          &log_multiplier, r->err));
    if (log_multiplier > 0)
        rope->mscale = rope->mscale_all_dim = log_multiplier / 0.1;
    return ln_config_flag(r->config, rope_key(r, "truncate", "rope.scaling.yarn_truncate", names),
                          &rope->truncate, r->err);
}

static ln_status read_kind(const rope_reader *r, ln_rope_spec *rope) {
    static const struct {
        const char *name;
        ln_rope_scaling scaling;
    } known[] = {{"default", LN_ROPE_PLAIN},  {"none", LN_ROPE_PLAIN},
                 {"linear", LN_ROPE_LINEAR},  {"llama3", LN_ROPE_LLAMA3},
                 {"yarn", LN_ROPE_YARN},      {"longrope", LN_ROPE_LONGROPE},
                 {"su", LN_ROPE_LONGROPE},    {"dynamic", LN_ROPE_DYNAMIC},
                 {"xdrope", LN_ROPE_DYNAMIC}, {"ntk", LN_ROPE_LINEAR}, /* read_ntk */
                 {"mrope", LN_ROPE_PLAIN},    {"proportional", LN_ROPE_PROPORTIONAL}};
    static const ln_key keys[] = {
        {"rope_scaling.rope_type|rope_scaling.type|rope_parameters.full_attention.rope_type|"
         "rope_parameters.indexed_attention.rope_type|rope_parameters.compress.rope_type|"
         "rope_parameters.hybrid.rope_type|"
         "rope_parameters.rope_type|rope_parameters.full_attention.type|rope_parameters.type",
         "rope.scaling.type"},
        {"rope_parameters.sliding_attention.rope_type|rope_parameters.main.rope_type|"
         "rope_parameters.hybrid_sliding.rope_type|"
         "rope_parameters.rope_type|"
         "rope_parameters.sliding_attention.type|rope_parameters.type",
         "rope.scaling.type"}};
    ln_key key = keys[r->is_local];
    char name[128];
    ln_meta_value value;
    if (!ln_config_find(r->config, key, &value, name)) {
        /* GGUF writers give Phi 3 no type, only the factors */
        if (r->config->is_gguf &&
            ln_checkpoint_find(r->config->checkpoint, "rope_factors_long.weight") != NULL)
            rope->scaling = LN_ROPE_LONGROPE;
        return LINNET_OK;
    }
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (ln_config_is(r->config, key, known[i].name)) {
            rope->scaling = known[i].scaling;
            return LINNET_OK;
        }
    bool is_text = value.kind == LN_META_STRING;
    return ln_fail(r->err, LINNET_ERR_UNSUPPORTED, "%s: key %s: RoPE scaling \"%.*s\" is unknown",
                   ln_checkpoint_path(r->config->checkpoint), name,
                   is_text && value.string.bytes < 64 ? (int)value.string.bytes : 0,
                   is_text ? value.string.data : "");
}

static ln_status read_dims(const rope_reader *r, const ln_rope_source *source, ln_rope_spec *rope) {
    size_t *n_dims = &rope->n_dims;
    double fraction = source->fraction > 0 ? source->fraction : 1.0;
    size_t head_dim = source->head_dim;
    char names[NAMES_BYTES];
    LN_TRY(ln_config_real(
        r->config, (ln_key){"partial_rotary_factor|rotary_pct|rope_pct|partial_rotary_factors", ""},
        0, 1, &fraction, r->err));
    LN_TRY(ln_config_real(r->config, rope_key(r, "partial_rotary_factor", "", names), 0, 1,
                          &fraction, r->err));
    rope->n_turning = (size_t)floor(fraction * (double)head_dim / 2.0);
    bool is_whole = source->whole_head || rope->scaling == LN_ROPE_PROPORTIONAL;
    *n_dims = is_whole ? head_dim : (size_t)((double)head_dim * fraction);
    ln_key key = {"rotary_dim", r->is_local ? "rope.dimension_count_swa|rope.dimension_count"
                                            : "rope.dimension_count"};
    if (r->config->is_gguf ? !source->gguf_whole : !source->by_fraction)
        LN_TRY(ln_config_size(r->config, key, 0, head_dim, n_dims, r->err));
    *n_dims /= source->is_half ? 2 : 1;
    if (*n_dims % 2 != 0)
        return ln_fail(r->err, LINNET_ERR_FORMAT, "%s: %zu rotary dimensions are not even",
                       ln_checkpoint_path(r->config->checkpoint), *n_dims);
    return LINNET_OK;
}

/* A list of n factors: a key of config.json, or a tensor of GGUF. */
static ln_status read_factors(const rope_reader *r, const char *hf, ln_arena *arena, size_t n,
                              const float **out) {
    char names[NAMES_BYTES], name[128] = "";
    ln_meta_value list, item;
    const char *path = ln_checkpoint_path(r->config->checkpoint);
    float *factors = ln_arena_alloc(arena, n, sizeof *factors);
    if (factors == NULL)
        return ln_fail(r->err, LINNET_ERR_NOMEM, "out of memory reading %s", path);
    if (!ln_config_find(r->config, rope_key(r, hf, "", names), &list, name))
        return ln_fail(r->err, LINNET_ERR_FORMAT, "%s: the RoPE scaling has no %s", path, hf);
    for (size_t i = 0; i < n; i++) {
        bool ok = ln_meta_item(&list, i, &item);
        double value = !ok                          ? 0
                       : item.kind == LN_META_INT   ? (double)item.integer
                       : item.kind == LN_META_FLOAT ? item.real
                                                    : 0;
        if (!(value > 1e-6 && value < 1e9) || (i == 0 && ln_meta_item(&list, n, &item)))
            return ln_fail(r->err, LINNET_ERR_FORMAT, "%s: key %s must hold %zu positive numbers",
                           path, name, n);
        factors[i] = (float)value;
    }
    *out = factors;
    return LINNET_OK;
}

static ln_status read_longrope(const rope_reader *r, ln_arena *arena, ln_rope_spec *rope) {
    double trained = 0;
    LN_TRY(ln_config_real(r->config, (ln_key){"max_position_embeddings", "context_length"}, 1, 1e15,
                          &trained, r->err));
    rope->trained_ctx = trained;
    if (r->config->is_gguf) /* the factors are tensors, found when the weights are */
        return LINNET_OK;
    LN_TRY(read_factors(r, "short_factor", arena, rope->n_dims / 2, &rope->short_factors));
    return read_factors(r, "long_factor", arena, rope->n_dims / 2, &rope->long_factors);
}

/* Hunyuan's dynamic scaling by alpha is a larger base, whatever the context. */
static ln_status read_alpha(const rope_reader *r, ln_rope_spec *rope) {
    double alpha = 0, dims = (double)rope->n_dims;
    LN_TRY(real(r, "alpha", "rope.scaling.alpha", 0, &alpha));
    bool counts = rope->scaling == (r->config->is_gguf ? LN_ROPE_PLAIN : LN_ROPE_DYNAMIC);
    if (!counts || alpha == 0 || rope->n_dims <= 2)
        return LINNET_OK;
    rope->theta *= pow(alpha, dims / (dims - 2.0));
    rope->scaling = LN_ROPE_PLAIN;
    return LINNET_OK;
}

/* GTE's NTK scaling by a factor: a larger base, and positions that grow less. */
static void read_ntk(const rope_reader *r, ln_rope_spec *rope) {
    static const ln_key key = {"rope_scaling.type|rope_scaling.rope_type|rope_parameters.rope_type",
                               ""};
    if (rope->scaling != LN_ROPE_LINEAR || rope->factor <= 0 ||
        !ln_config_is(r->config, key, "ntk"))
        return;
    rope->theta *= rope->factor;
    rope->factor = pow(rope->factor, 2.0 / (double)rope->n_dims);
}

static ln_status read_sections(const rope_reader *r, ln_rope_spec *rope) {
    char names[NAMES_BYTES];
    ln_meta_value list, item;
    ln_key key = rope_key(r, "mrope_section", "rope.dimension_sections", names);
    if (ln_config_find(r->config, key, &list, NULL))
        for (size_t i = 0; i < 4 && ln_meta_item(&list, i, &item); i++)
            rope->sections[i] =
                item.kind == LN_META_INT && item.integer > 0 && item.integer < LN_MAX_DIM
                    ? (size_t)item.integer
                    : 0;
    return LINNET_OK;
}

static ln_status check_scaling(const rope_reader *r, const ln_rope_spec *rope) {
    const char *path = ln_checkpoint_path(r->config->checkpoint);
    bool is_proportional = rope->scaling == LN_ROPE_PROPORTIONAL;
    bool needs_factor =
        rope->scaling != LN_ROPE_PLAIN && rope->scaling != LN_ROPE_LONGROPE && !is_proportional;
    bool needs_ctx =
        rope->scaling != LN_ROPE_PLAIN && rope->scaling != LN_ROPE_LINEAR && !is_proportional;
    if (needs_factor && rope->factor == 0)
        return ln_fail(r->err, LINNET_ERR_FORMAT, "%s: the RoPE scaling has no factor", path);
    if (needs_ctx && rope->original_ctx == 0)
        return ln_fail(r->err, LINNET_ERR_FORMAT,
                       "%s: the RoPE scaling has no original_max_position_embeddings", path);
    if (rope->scaling == LN_ROPE_LONGROPE && rope->original_ctx < 2)
        return ln_fail(r->err, LINNET_ERR_FORMAT,
                       "%s: longrope cannot grow from original_max_position_embeddings %g", path,
                       rope->original_ctx);
    if (rope->scaling == LN_ROPE_LONGROPE && rope->factor == 0 && rope->attention_factor == 0 &&
        rope->trained_ctx == 0)
        return ln_fail(r->err, LINNET_ERR_FORMAT,
                       "%s: longrope has neither a factor nor max_position_embeddings", path);
    if (rope->scaling == LN_ROPE_LLAMA3 && !(rope->high_freq >= rope->low_freq))
        return ln_fail(r->err, LINNET_ERR_FORMAT,
                       "%s: RoPE high_freq_factor must not be below low_freq_factor", path);
    if (rope->scaling == LN_ROPE_DYNAMIC && rope->n_dims <= 2)
        return ln_fail(r->err, LINNET_ERR_UNSUPPORTED, "%s: dynamic RoPE scaling of %zu dimensions",
                       path, rope->n_dims);
    return LINNET_OK;
}

/* Windowed layers with a table of their own. Folders of before rope_parameters, and GGUF, give
 * only its base: it has no scaling. */
static bool is_local_unnested(const rope_reader *r) {
    ln_meta_value value;
    return r->is_local &&
           !ln_config_find(r->config,
                           (ln_key){"rope_parameters.sliding_attention|rope_parameters.main|"
                                    "rope_parameters.hybrid_sliding",
                                    ""},
                           &value, NULL);
}

/* Parameters are looked for inside; a value of another kind would hide them all. */
static ln_status check_kinds(const ln_config *config, ln_error *err) {
    static const char *const keys[] = {"rope_parameters",
                                       "rope_scaling",
                                       "rope_parameters.full_attention",
                                       "rope_parameters.sliding_attention",
                                       "rope_parameters.indexed_attention",
                                       "rope_parameters.compress",
                                       "rope_parameters.main",
                                       "rope_parameters.hybrid",
                                       "rope_parameters.hybrid_sliding"};
    ln_meta_value value;
    for (size_t i = 0; i < sizeof keys / sizeof *keys && !config->is_gguf; i++)
        if (ln_config_find(config, (ln_key){keys[i], ""}, &value, NULL) &&
            value.kind != LN_META_OBJECT)
            return ln_fail(err, LINNET_ERR_FORMAT, "%s: key %s is no object",
                           ln_checkpoint_path(config->checkpoint), keys[i]);
    return LINNET_OK;
}

/* Molmo 2's list of layers that rotate by the scaling: where some do not, there must be none. */
static ln_status check_scaled_layers(const ln_config *config, const ln_rope_spec *rope,
                                     ln_error *err) {
    ln_meta_value list;
    if (rope->scaling == LN_ROPE_PLAIN ||
        !ln_config_find(config, (ln_key){"rope_scaling_layers", ""}, &list, NULL) ||
        (list.kind == LN_META_ARRAY && list.array.count >= config->n_layers))
        return LINNET_OK;
    return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                   "%s: key rope_scaling_layers: layers that differ in it are not supported",
                   ln_checkpoint_path(config->checkpoint));
}

/* The first base that is not 0 in a list of one for each layer. */
static void read_listed_theta(const ln_config *config, double *theta) {
    ln_meta_value list, item;
    if (!ln_config_find(config, (ln_key){"layer_rope_theta", ""}, &list, NULL))
        return;
    for (size_t i = 0; ln_meta_item(&list, i, &item); i++) {
        double base = item.kind == LN_META_INT ? (double)item.integer : item.real;
        if (item.kind != LN_META_INT && item.kind != LN_META_FLOAT)
            return;
        if (base > 0) {
            *theta = base;
            return;
        }
    }
}

/* The base of windowed layers with a table of their own, outside of its parameters. */
static ln_status read_local_theta(const ln_config *config, const ln_rope_source *source,
                                  double *theta, ln_error *err) {
    if (source->local_theta > 0)
        *theta = source->local_theta;
    return ln_config_real(
        config,
        (ln_key){"rope_local_base_freq|swa_rope_theta|local_rope_theta|rope_local_theta",
                 "rope.freq_base_swa"},
        1e-3, 1e15, theta, err);
}

ln_status ln_rope_read(const ln_config *config, const ln_rope_source *source, ln_arena *arena,
                       ln_rope_spec *rope, ln_error *err) {
    rope_reader r = {config, source->local, err};
    char names[NAMES_BYTES];
    *rope = (ln_rope_spec){.style = source->style,
                           .theta = 10000.0,
                           .low_freq = 1.0,
                           .high_freq = 4.0,
                           .beta_fast = 32.0,
                           .beta_slow = 1.0,
                           .extra_magnitude = 1.0,
                           .truncate = !source->whole_yarn};
    LN_TRY(check_kinds(config, err));
    bool is_nested = !is_local_unnested(&r);
    if (is_nested)
        LN_TRY(read_kind(&r, rope));
    LN_TRY(read_dims(&r, source, rope));
    LN_TRY(ln_config_real(
        config,
        (ln_key){"rope_theta|rotary_emb_base|attn_config.rope_theta|global_rope_theta|"
                 "rope_freq_constant",
                 "rope.freq_base"},
        1e-3, 1e15, &rope->theta, err));
    if (is_nested && source->local)
        LN_TRY(read_local_theta(config, source, &rope->theta, err));
    LN_TRY(ln_config_real(config, rope_key(&r, "rope_theta", "", names), 1e-3, 1e15, &rope->theta,
                          err));
    ln_meta_value value;
    if (!source->local &&
        !ln_config_find(config, (ln_key){"rope_parameters.compress", ""}, &value, NULL))
        LN_TRY(ln_config_real(config,
                              (ln_key){"compress_rope_theta", "attention.compress_rope_freq_base"},
                              1e-3, 1e15, &rope->theta, err));
    if (!source->lists_flags)
        read_listed_theta(config, &rope->theta);
    double ratio = 1; /* ChatGLM */
    LN_TRY(ln_config_real(config, (ln_key){"rope_ratio", ""}, 1e-6, 1e9, &ratio, err));
    rope->theta *= ratio;
    if (!is_nested)
        return read_local_theta(config, source, &rope->theta, err);
    LN_TRY(read_alpha(&r, rope));
    LN_TRY(read_sections(&r, rope));
    LN_TRY(read_scaling(&r, rope));
    read_ntk(&r, rope);
    LN_TRY(check_scaled_layers(config, rope, err));
    if (rope->scaling == LN_ROPE_LONGROPE)
        LN_TRY(read_longrope(&r, arena, rope));
    return check_scaling(&r, rope);
}

/* Frequencies are rounded to float32 after each operation, as the reference implementation does it:
 * at position 300 a last bit of a frequency is 2e-5 of an angle. */

/* Llama 3.1: long waves are divided by the factor, short ones stay, between them a ramp, which has
 * no width in Llama 4. */
static float scale_llama3(const ln_rope_spec *rope, float inv_freq) {
    float low = (float)rope->low_freq, high = (float)rope->high_freq;
    float factor = (float)rope->factor, original = (float)rope->original_ctx;
    float wavelength = (float)(2.0 * PI) / inv_freq;
    if (wavelength < (float)(rope->original_ctx / rope->high_freq))
        return inv_freq;
    if (wavelength > (float)(rope->original_ctx / rope->low_freq) || high <= low)
        return inv_freq / factor;
    float smooth = (original / wavelength - low) / (high - low);
    return (1.0f - smooth) * inv_freq / factor + smooth * inv_freq;
}

/* The dimension pair that turns `rotations` times over the original context. */
static double yarn_dimension(const ln_rope_spec *rope, double rotations) {
    return (double)rope->n_dims * log(rope->original_ctx / (rotations * 2.0 * PI)) /
           (2.0 * log(rope->theta));
}

/* YaRN (Peng et al., 2023), section 3.2: interpolate slow dimensions, keep fast ones. `period`: one
 * over the frequency. */
static float scale_yarn(const ln_rope_spec *rope, size_t i, float period) {
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
    float ramp = fminf(fmaxf(((float)i - (float)low) / (float)(high - low), 0.0f), 1.0f);
    float kept = 1.0f - ramp;
    return 1.0f / ((float)rope->factor * period) * (1.0f - kept) + 1.0f / period * kept;
}

static double yarn_mscale(double factor, double mscale) {
    return factor <= 1.0 ? 1.0 : 0.1 * mscale * log(factor) + 1.0;
}

bool ln_rope_is_long(const ln_rope_spec *rope, size_t ctx_tokens) {
    return (double)ctx_tokens > rope->original_ctx;
}

/* What config.json gives for the context that is chosen, or 0. */
static double given_magnitude(const ln_rope_spec *rope, size_t ctx_tokens) {
    return ln_rope_is_long(rope, ctx_tokens) ? rope->long_magnitude : rope->short_magnitude;
}

/* LongRoPE (Ding et al., 2024): scores grow with the logarithm of the stretch. */
static double longrope_magnitude(const ln_rope_spec *rope) {
    double stretch = rope->factor > 0 ? rope->factor : rope->trained_ctx / rope->original_ctx;
    if (rope->attention_factor > 0.0)
        return rope->attention_factor;
    return stretch <= 1.0 ? 1.0 : sqrt(1.0 + log(stretch) / log(rope->original_ctx));
}

static double magnitude_of(const ln_rope_spec *rope) {
    if (rope->scaling == LN_ROPE_LONGROPE)
        return longrope_magnitude(rope);
    if (rope->scaling != LN_ROPE_YARN)
        return 1.0;
    if (rope->attention_factor > 0.0)
        return rope->attention_factor;
    if (rope->mscale > 0.0 && rope->mscale_all_dim > 0.0)
        return yarn_mscale(rope->factor, rope->mscale) /
               yarn_mscale(rope->factor, rope->mscale_all_dim);
    return yarn_mscale(rope->factor, 1.0) * rope->extra_magnitude;
}

/* Dynamic NTK: the base grows with the context beyond the trained one. */
static double dynamic_theta(const ln_rope_spec *rope, double ctx) {
    double dims = (double)rope->n_dims;
    if (ctx <= rope->original_ctx)
        return rope->theta;
    return rope->theta *
           pow(rope->factor * ctx / rope->original_ctx - (rope->factor - 1.0), dims / (dims - 2.0));
}

float ln_rope_fill(const ln_rope_spec *rope, size_t ctx_tokens, const float *freq_factors,
                   float *inv_freq) {
    double theta =
        rope->scaling == LN_ROPE_DYNAMIC ? dynamic_theta(rope, (double)ctx_tokens) : rope->theta;
    float factor = rope->factor > 0 ? (float)rope->factor : 1.0f;
    for (size_t i = 0; i < rope->n_dims / 2; i++) {
        float exponent = (float)(2 * i) / (float)rope->n_dims;
        float period = (float)pow((double)(float)theta, (double)exponent);
        float f = 1.0f / (freq_factors != NULL ? freq_factors[i] * period : period);
        if (rope->scaling == LN_ROPE_LINEAR)
            f /= factor;
        else if (rope->scaling == LN_ROPE_PROPORTIONAL)
            f = i < rope->n_turning ? f / factor : 0.0f;
        else if (rope->scaling == LN_ROPE_LLAMA3)
            f = scale_llama3(rope, f);
        else if (rope->scaling == LN_ROPE_YARN)
            f = scale_yarn(rope, i, period);
        inv_freq[i] = f;
    }
    double given = given_magnitude(rope, ctx_tokens);
    return (float)(given > 0 ? given : magnitude_of(rope));
}
