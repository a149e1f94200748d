#include "format/quantize/mix.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "format/quants.h"

/* name, base type, general.file_type */
#define MIXES(X)                                                                                   \
    X(F32, F32, 0)                                                                                 \
    X(F16, F16, 1)                                                                                 \
    X(BF16, BF16, 32)                                                                              \
    X(Q8_0, Q8_0, 7)                                                                               \
    X(Q6_K, Q6_K, 18)                                                                              \
    X(Q5_K_M, Q5_K, 17)                                                                            \
    X(Q5_K_S, Q5_K, 16)                                                                            \
    X(Q5_1, Q5_1, 9)                                                                               \
    X(Q5_0, Q5_0, 8)                                                                               \
    X(Q4_K_M, Q4_K, 15)                                                                            \
    X(Q4_K_S, Q4_K, 14)                                                                            \
    X(Q4_1, Q4_1, 3)                                                                               \
    X(Q4_0, Q4_0, 2)                                                                               \
    X(IQ4_NL, IQ4_NL, 25)                                                                          \
    X(IQ4_XS, IQ4_XS, 30)                                                                          \
    X(MXFP4, MXFP4, 38)                                                                            \
    X(MXFP4_MOE, MXFP4, 38)                                                                        \
    X(Q3_K_L, Q3_K, 13)                                                                            \
    X(Q3_K_M, Q3_K, 12)                                                                            \
    X(Q3_K_S, Q3_K, 11)                                                                            \
    X(Q2_K, Q2_K, 10)                                                                              \
    X(Q2_K_S, Q2_K, 21)

enum {
#define MIX_ENUM(name, base, number) MIX_##name,
    MIXES(MIX_ENUM)
#undef MIX_ENUM
        N_MIXES
};

static const ln_mix mixes[N_MIXES] = {
#define MIX_ENTRY(name, base, number) {#name, LN_DTYPE_##base, number},
    MIXES(MIX_ENTRY)
#undef MIX_ENTRY
};

const ln_mix *ln_mix_find(const char *name) {
    static const char *const medium[] = {"Q3_K", "Q4_K", "Q5_K"};
    char full[16];
    snprintf(full, sizeof full, "%s", name);
    for (size_t i = 0; i < sizeof medium / sizeof *medium; i++)
        if (strcasecmp(name, medium[i]) == 0)
            snprintf(full, sizeof full, "%s_M", medium[i]);
    for (size_t i = 0; i < N_MIXES; i++)
        if (strcasecmp(full, mixes[i].name) == 0)
            return &mixes[i];
    return NULL;
}

const char *ln_mix_names(void) {
#define MIX_NAME(name, base, number) #name ", "
    static const char list[] = MIXES(MIX_NAME) "Q3_K, Q4_K, Q5_K";
#undef MIX_NAME
    return list;
}

/* ---- rules ------------------------------------------------------------------------------ */

ln_status ln_keep_rule_init(ln_keep_rule *rule, const char *text, ln_error *err) {
    const char *equals = strrchr(text, '=');
    char type[16] = "";
    *rule = (ln_keep_rule){.text = text};
    for (size_t i = 0; equals != NULL && equals[1 + i] != '\0' && i + 1 < sizeof type; i++)
        type[i] = (char)(equals[1 + i] >= 'a' && equals[1 + i] <= 'z' ? equals[1 + i] - 32
                                                                      : equals[1 + i]);
    if (equals == NULL || equals == text || !ln_dtype_from_name(type, &rule->dtype) ||
        !ln_can_quantize(rule->dtype))
        return ln_fail(err, LINNET_ERR_ARGUMENT,
                       "'%s' is not REGEX=TYPE with a type that can be written, such as "
                       "attn_v=Q8_0",
                       text);
    char *pattern = strndup(text, (size_t)(equals - text));
    if (pattern == NULL)
        return ln_fail(err, LINNET_ERR_NOMEM, "out of memory");
    int code = regcomp(&rule->regex, pattern, REG_EXTENDED | REG_NOSUB);
    free(pattern);
    if (code != 0)
        return ln_fail(err, LINNET_ERR_ARGUMENT, "'%s' does not begin with a regular expression",
                       text);
    return LINNET_OK;
}

void ln_keep_rule_free(ln_keep_rule *rule) {
    regfree(&rule->regex);
}

bool ln_keep_rule_matches(const ln_keep_rule *rule, const char *name, int n_dims) {
    return n_dims >= 2 && regexec(&rule->regex, name, 0, NULL, 0) == 0;
}

/* ---- the choice ------------------------------------------------------------------------- */

static bool has(const char *name, const char *part) {
    return strstr(name, part) != NULL;
}

static bool has_any(const char *name, const char *const *parts, size_t n_parts) {
    for (size_t i = 0; i < n_parts; i++)
        if (has(name, parts[i]))
            return true;
    return false;
}

/* Tables, taps and matrices that choose or mix, which become F32. */
static bool is_whole(const char *name) {
    static const char *const whole[] = {"_norm.weight",
                                        "ffn_gate_inp.weight",
                                        "attn_rel_b.weight",
                                        "position_embd.weight",
                                        "token_types.weight",
                                        "ssm_conv1d",
                                        "shortconv.conv.weight",
                                        "_compressor_ape",
                                        "hc_attn_fn",
                                        "hc_ffn_fn",
                                        "output_hc_fn"};
    return has_any(name, whole, sizeof whole / sizeof *whole);
}

/* Whether a tensor is a matrix that may lose precision; one row alone is none. */
static bool is_matrix(const char *name, int n_dims, const uint64_t *dims) {
    size_t length = strlen(name);
    for (int i = 0; n_dims > 1 && dims[i] == 1; i++)
        n_dims--;
    return n_dims >= 2 && length >= 7 && strcmp(name + length - 7, ".weight") == 0 &&
           !is_whole(name);
}

/* Matrices that are small beside the others, and whose errors reach all streams or all layers:
 * Gemma 3n's AltUp and Laurel, hyper-connections, the projection of embeddings by layer, indexers
 * of MiniMax M3 and Qwen 4. */
bool ln_mix_keeps(const char *name) {
    static const char *const kept[] = {"altup_",
                                       "laurel_",
                                       "hc_",
                                       "per_layer_model_proj.weight",
                                       "indexer.q_proj.weight",
                                       "indexer.k_proj.weight"};
    return is_whole(name) || has_any(name, kept, sizeof kept / sizeof *kept);
}

/* The number in "blk.N."; 0 where there is none. */
static size_t layer_of(const char *name) {
    const char *at = strstr(name, "blk.");
    return at != NULL ? (size_t)strtoul(at + 4, NULL, 10) : 0;
}

/* The first and last eighth of the layers, and every third between. */
static bool is_favoured(size_t layer, size_t n_layers) {
    size_t eighth = n_layers / 8;
    return layer < eighth || layer >= 7 * n_layers / 8 || (layer - eighth) % 3 == 2;
}

static ln_dtype choose_values(const ln_mix_choice *c, size_t layer) {
    bool shared = c->model.heads_per_kv >= 4, large = c->model.n_layers == 80;
    ln_dtype dtype = c->mix->base;
    switch ((int)(c->mix - mixes)) {
    case MIX_Q2_K: dtype = shared ? LN_DTYPE_Q4_K : LN_DTYPE_Q3_K; break;
    case MIX_Q2_K_S: dtype = shared ? LN_DTYPE_Q4_K : dtype; break;
    case MIX_Q3_K_M: dtype = layer < 2 ? LN_DTYPE_Q5_K : LN_DTYPE_Q4_K; break;
    case MIX_Q3_K_L: dtype = LN_DTYPE_Q5_K; break;
    case MIX_IQ4_NL:
    case MIX_IQ4_XS: dtype = shared ? LN_DTYPE_Q5_K : dtype; break;
    case MIX_Q4_K_M:
    case MIX_Q5_K_M: dtype = is_favoured(layer, c->model.n_layers) ? LN_DTYPE_Q6_K : dtype; break;
    case MIX_Q4_K_S: dtype = layer < 4 ? LN_DTYPE_Q5_K : dtype; break;
    default: break;
    }
    /* the 70B of llama: eight heads share each value */
    if (large && strcmp(c->model.architecture, "llama") == 0 &&
        (dtype == LN_DTYPE_Q3_K || dtype == LN_DTYPE_Q4_K))
        dtype = LN_DTYPE_Q5_K;
    return c->model.n_experts == 8 ? LN_DTYPE_Q8_0 : dtype;
}

static ln_dtype choose_down(const ln_mix_choice *c, size_t layer) {
    size_t n = c->model.n_layers;
    bool falcon = strcmp(c->model.architecture, "falcon") == 0, favoured = is_favoured(layer, n);
    ln_dtype base = c->mix->base;
    switch ((int)(c->mix - mixes)) {
    case MIX_Q2_K: return LN_DTYPE_Q3_K;
    case MIX_Q2_K_S: return layer < n / 8 ? LN_DTYPE_Q4_K : base;
    case MIX_Q3_K_M:
        return layer < n / 16 ? LN_DTYPE_Q5_K : !falcon || favoured ? LN_DTYPE_Q4_K : base;
    case MIX_Q3_K_L: return falcon ? LN_DTYPE_Q4_K : LN_DTYPE_Q5_K;
    case MIX_Q4_K_M:
        if (falcon)
            return layer < n / 16 ? LN_DTYPE_Q6_K : favoured ? LN_DTYPE_Q5_K : base;
        return favoured ? LN_DTYPE_Q6_K : base;
    case MIX_IQ4_NL:
    case MIX_IQ4_XS: return layer < n / 8 ? LN_DTYPE_Q5_K : base;
    case MIX_Q5_K_M: return favoured ? LN_DTYPE_Q6_K : base;
    case MIX_Q4_K_S: return !falcon && layer < n / 8 ? LN_DTYPE_Q5_K : base;
    default: return base;
    }
}

static ln_dtype choose_attention_output(const ln_mix_choice *c) {
    ln_dtype base = c->mix->base;
    int mix = (int)(c->mix - mixes);
    if (strcmp(c->model.architecture, "falcon") == 0)
        return mix == MIX_Q3_K_L ? LN_DTYPE_Q4_K : base;
    if (c->model.n_experts == 8) {
        bool raised = mix == MIX_Q2_K || mix == MIX_Q3_K_S || mix == MIX_Q3_K_M ||
                      mix == MIX_IQ4_NL || mix == MIX_IQ4_XS || mix == MIX_Q4_K_S ||
                      mix == MIX_Q4_K_M;
        return raised ? LN_DTYPE_Q5_K : base;
    }
    switch (mix) {
    case MIX_Q2_K: return LN_DTYPE_Q3_K;
    case MIX_Q3_K_M: return LN_DTYPE_Q4_K;
    case MIX_Q3_K_L: return LN_DTYPE_Q5_K;
    default: return base;
    }
}

static ln_dtype choose_fused(const ln_mix_choice *c) {
    switch ((int)(c->mix - mixes)) {
    case MIX_Q3_K_M:
    case MIX_Q3_K_L: return LN_DTYPE_Q4_K;
    case MIX_Q4_K_M: return LN_DTYPE_Q5_K;
    case MIX_Q5_K_M: return LN_DTYPE_Q6_K;
    default: return c->mix->base;
    }
}

static ln_dtype choose_quantised(const ln_mix_choice *c, const char *name, int n_dims,
                                 size_t n_cols) {
    ln_dtype base = c->mix->base;
    bool is_embedding = strcmp(name, "token_embd.weight") == 0;
    bool is_moe = c->mix == &mixes[MIX_MXFP4_MOE];
    if (strcmp(name, "output.weight") == 0 || (is_embedding && !c->model.has_output)) {
        bool falcon = strcmp(c->model.architecture, "falcon") == 0;
        bool wide = is_moe || falcon || n_cols % ln_dtype_block_elems(base) != 0;
        return wide || base == LN_DTYPE_Q8_0 ? LN_DTYPE_Q8_0 : LN_DTYPE_Q6_K;
    }
    if (is_moe)
        return n_dims > 2 ? LN_DTYPE_MXFP4 : LN_DTYPE_Q8_0;
    if (is_embedding)
        return base;
    if (has(name, "attn_v.weight"))
        return choose_values(c, layer_of(name));
    if (has(name, "attn_k.weight"))
        return c->model.n_experts == 8 ? LN_DTYPE_Q8_0 : base;
    if (has(name, "ffn_down"))
        return choose_down(c, layer_of(name));
    if (has(name, "attn_output.weight"))
        return choose_attention_output(c);
    if (has(name, "attn_qkv.weight"))
        return choose_fused(c);
    return base;
}

/* A type whose blocks divide the row: from 256 to 32 values, and to none. */
static ln_dtype fit_row(ln_dtype dtype, uint64_t n_cols) {
    if (n_cols % ln_dtype_block_elems(dtype) != 0) {
        switch (dtype) {
        case LN_DTYPE_Q2_K:
        case LN_DTYPE_Q3_K:
        case LN_DTYPE_IQ4_XS: dtype = LN_DTYPE_IQ4_NL; break;
        case LN_DTYPE_Q4_K: dtype = LN_DTYPE_Q5_0; break;
        case LN_DTYPE_Q5_K: dtype = LN_DTYPE_Q5_1; break;
        case LN_DTYPE_Q6_K: dtype = LN_DTYPE_Q8_0; break;
        default: break;
        }
    }
    return n_cols % ln_dtype_block_elems(dtype) != 0 ? LN_DTYPE_F16 : dtype;
}

ln_dtype ln_mix_choose(const ln_mix_choice *choice, const char *name, int n_dims,
                       const uint64_t *dims, ln_dtype from) {
    uint64_t n_cols = n_dims > 0 ? dims[n_dims - 1] : 0;
    for (size_t i = 0; i < choice->n_rules; i++)
        if (ln_keep_rule_matches(&choice->rules[i], name, n_dims))
            return fit_row(choice->rules[i].dtype, n_cols);
    if (!is_matrix(name, n_dims, dims))
        return LN_DTYPE_F32;
    ln_dtype base = choice->mix->base;
    if (ln_dtype_block_elems(base) == 1)
        return base;
    if (ln_mix_keeps(name))
        return from;
    return fit_row(choose_quantised(choice, name, n_dims, n_cols), n_cols);
}
