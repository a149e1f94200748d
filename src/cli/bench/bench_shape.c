#include "cli/bench/bench_shape.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "format/dtype.h"

typedef struct model_shape {
    const char *name;
    uint32_t dim, n_layers, n_heads, n_kv_heads, n_hidden, n_vocab;
    float rope_base;
    uint32_t n_experts, n_used, expert_hidden;           /* n_experts 0: none */
    uint32_t n_latent, q_latent, n_rope, n_plain, v_dim; /* n_latent 0: no latent attention */
    uint32_t n_dense;                                    /* layers before the first mixture */
    bool is_qwen3;                                       /* q and k have norms */
} model_shape;

static const model_shape shapes[] = {
    {"tinyllama-1.1b", 2048, 22, 32, 4, 5632, 32000, .rope_base = 10000.0f},
    {"llama-2-7b", 4096, 32, 32, 32, 11008, 32000, .rope_base = 10000.0f},
    {"mistral-7b", 4096, 32, 32, 8, 14336, 32000, .rope_base = 1000000.0f},
    {"llama-3-8b", 4096, 32, 32, 8, 14336, 128256, .rope_base = 500000.0f},
    {"small-mixtral", 1024, 16, 16, 4, 2048, 32000, .rope_base = 10000.0f, .n_experts = 8,
     .n_used = 2, .expert_hidden = 2048},
    {"mixtral-2-layers", 4096, 2, 32, 8, 14336, 32000, .rope_base = 1000000.0f, .n_experts = 8,
     .n_used = 2, .expert_hidden = 14336},
    {"qwen3-moe-4-layers", 2048, 4, 16, 4, 6144, 32000, .rope_base = 1000000.0f, .n_experts = 128,
     .n_used = 8, .expert_hidden = 768, .is_qwen3 = true},
    {"gpt-oss-4-layers", 2880, 4, 45, 9, 2880, 32000, .rope_base = 150000.0f, .n_experts = 32,
     .n_used = 4, .expert_hidden = 2880},
    {"small-deepseek", 1024, 12, 16, 1, 4096, 32000, .rope_base = 10000.0f, .n_experts = 32,
     .n_used = 4, .expert_hidden = 512, .n_latent = 512, .q_latent = 768, .n_rope = 64,
     .n_plain = 128, .v_dim = 128, .n_dense = 1},
};

/* The types of most matrices, of those that get more bits in some layers, of the output, and of
 * experts (F32: as the others). */
typedef struct mixture {
    const char *name;
    ln_dtype most, more, output, experts;
} mixture;

static const mixture mixtures[] = {
    {"q4_0", LN_DTYPE_Q4_0, LN_DTYPE_Q4_0, LN_DTYPE_Q6_K, LN_DTYPE_F32},
    {"q8_0", LN_DTYPE_Q8_0, LN_DTYPE_Q8_0, LN_DTYPE_Q8_0, LN_DTYPE_F32},
    {"q4_k_m", LN_DTYPE_Q4_K, LN_DTYPE_Q6_K, LN_DTYPE_Q6_K, LN_DTYPE_F32},
    {"f16", LN_DTYPE_F16, LN_DTYPE_F16, LN_DTYPE_F16, LN_DTYPE_F32},
    {"bf16", LN_DTYPE_BF16, LN_DTYPE_BF16, LN_DTYPE_BF16, LN_DTYPE_F32},
    {"f32", LN_DTYPE_F32, LN_DTYPE_F32, LN_DTYPE_F32, LN_DTYPE_F32},
    {"mxfp4_moe", LN_DTYPE_Q8_0, LN_DTYPE_Q8_0, LN_DTYPE_Q8_0, LN_DTYPE_MXFP4},
    {"iq1_s", LN_DTYPE_IQ1_S, LN_DTYPE_IQ1_S, LN_DTYPE_Q6_K, LN_DTYPE_F32},
    {"iq2_xxs", LN_DTYPE_IQ2_XXS, LN_DTYPE_IQ2_XXS, LN_DTYPE_Q6_K, LN_DTYPE_F32},
    {"iq2_s", LN_DTYPE_IQ2_S, LN_DTYPE_IQ2_S, LN_DTYPE_Q6_K, LN_DTYPE_F32},
    {"iq3_xxs", LN_DTYPE_IQ3_XXS, LN_DTYPE_IQ3_XXS, LN_DTYPE_Q6_K, LN_DTYPE_F32},
    {"iq3_s", LN_DTYPE_IQ3_S, LN_DTYPE_IQ3_S, LN_DTYPE_Q6_K, LN_DTYPE_F32},
    {"tq1_0", LN_DTYPE_TQ1_0, LN_DTYPE_TQ1_0, LN_DTYPE_Q6_K, LN_DTYPE_F32},
    {"tq2_0", LN_DTYPE_TQ2_0, LN_DTYPE_TQ2_0, LN_DTYPE_Q6_K, LN_DTYPE_F32},
};

enum { ALIGN = 32, CTX_TOKENS = 8192, MAX_TENSORS = 1024, BYTE_TOKENS = 256 };

typedef struct tensor_plan {
    char name[48];
    uint32_t n_matrices;     /* one behind the other; 1: a matrix or vector */
    uint32_t n_rows, n_cols; /* n_cols 0: a vector of n_rows */
    ln_dtype dtype;
} tensor_plan;

typedef struct writer {
    FILE *file;
    const model_shape *shape;
    const mixture *types;
    size_t n_tensors, n_keys;
    tensor_plan tensors[MAX_TENSORS];
    uint64_t state; /* of the random bytes */
} writer;

/* ---- values of the GGUF header ------------------------------------------------------------ */

enum { GGUF_U32 = 4, GGUF_I32 = 5, GGUF_F32 = 6, GGUF_STRING = 8, GGUF_ARRAY = 9 };

static void put(writer *w, const void *bytes, size_t n) {
    fwrite(bytes, 1, n, w->file);
}

static void put_u32(writer *w, uint32_t value) {
    put(w, &value, sizeof value);
}

static void put_u64(writer *w, uint64_t value) {
    put(w, &value, sizeof value);
}

static void put_string(writer *w, const char *text) {
    put_u64(w, strlen(text));
    put(w, text, strlen(text));
}

static bool is_latent(const model_shape *s) {
    return s->n_latent > 0;
}

static const char *architecture(const model_shape *s) {
    return is_latent(s) ? "deepseek2" : s->is_qwen3 ? "qwen3moe" : "llama";
}

/* A key that begins with a dot is the architecture's. */
static void put_key(writer *w, const char *key, uint32_t type) {
    char name[64];
    snprintf(name, sizeof name, "%s%s", key[0] == '.' ? architecture(w->shape) : "", key);
    put_string(w, name);
    put_u32(w, type);
    w->n_keys++;
}

static void put_text(writer *w, const char *key, const char *text) {
    put_key(w, key, GGUF_STRING);
    put_string(w, text);
}

static void put_number(writer *w, const char *key, uint32_t value) {
    put_key(w, key, GGUF_U32);
    put_u32(w, value);
}

static void put_float(writer *w, const char *key, float value) {
    put_key(w, key, GGUF_F32);
    put(w, &value, sizeof value);
}

static void put_array(writer *w, const char *key, uint32_t type, uint64_t n) {
    put_key(w, key, GGUF_ARRAY);
    put_u32(w, type);
    put_u64(w, n);
}

/* A vocabulary with the special and byte tokens of Llama, then numbered words. */
static void put_vocabulary(writer *w) {
    static const char *const special[] = {"<unk>", "<s>", "</s>"};
    enum { N_SPECIAL = 3, NORMAL = 1, UNKNOWN = 2, CONTROL = 3, BYTE = 6 };
    uint32_t n = w->shape->n_vocab;
    char text[32];
    put_text(w, "tokenizer.ggml.model", "llama");
    put_array(w, "tokenizer.ggml.tokens", GGUF_STRING, n);
    for (uint32_t i = 0; i < n; i++) {
        if (i < N_SPECIAL)
            snprintf(text, sizeof text, "%s", special[i]);
        else if (i < N_SPECIAL + BYTE_TOKENS)
            snprintf(text, sizeof text, "<0x%02X>", i - N_SPECIAL);
        else
            snprintf(text, sizeof text, "\xe2\x96\x81w%u", i);
        put_string(w, text);
    }
    put_array(w, "tokenizer.ggml.scores", GGUF_F32, n);
    for (uint32_t i = 0; i < n; i++) {
        float score = -(float)i;
        put(w, &score, sizeof score);
    }
    put_array(w, "tokenizer.ggml.token_type", GGUF_I32, n);
    for (uint32_t i = 0; i < n; i++)
        put_u32(w, i == 0                        ? UNKNOWN
                   : i < N_SPECIAL               ? CONTROL
                   : i < N_SPECIAL + BYTE_TOKENS ? BYTE
                                                 : NORMAL);
    put_number(w, "tokenizer.ggml.bos_token_id", 1);
    put_number(w, "tokenizer.ggml.eos_token_id", 2);
}

static void put_latent(writer *w) {
    const model_shape *s = w->shape;
    put_number(w, ".attention.q_lora_rank", s->q_latent);
    put_number(w, ".attention.kv_lora_rank", s->n_latent);
    put_number(w, ".attention.key_length", s->n_latent + s->n_rope);
    put_number(w, ".attention.value_length", s->n_latent);
    put_number(w, ".attention.key_length_mla", s->n_plain + s->n_rope);
    put_number(w, ".attention.value_length_mla", s->v_dim);
    put_number(w, ".leading_dense_block_count", s->n_dense);
    put_number(w, ".expert_shared_count", 1);
    put_float(w, ".expert_weights_scale", 1.0f);
}

/* The header, with the number of keys that follow it. */
static void put_header(writer *w) {
    put(w, "GGUF", 4);
    put_u32(w, 3);
    put_u64(w, w->n_tensors);
    put_u64(w, w->n_keys);
}

static void put_metadata(writer *w) {
    const model_shape *s = w->shape;
    put_header(w); /* once more when keys are counted */
    put_text(w, "general.architecture", architecture(s));
    put_text(w, "general.name", s->name);
    put_number(w, ".block_count", s->n_layers);
    put_number(w, ".context_length", CTX_TOKENS);
    put_number(w, ".embedding_length", s->dim);
    put_number(w, ".feed_forward_length", s->n_hidden);
    put_number(w, ".attention.head_count", s->n_heads);
    put_number(w, ".attention.head_count_kv", s->n_kv_heads);
    put_number(w, ".rope.dimension_count", is_latent(s) ? s->n_rope : s->dim / s->n_heads);
    put_number(w, ".vocab_size", s->n_vocab);
    put_float(w, ".attention.layer_norm_rms_epsilon", 1e-5f);
    put_float(w, ".rope.freq_base", s->rope_base);
    if (s->n_experts > 0) {
        put_number(w, ".expert_count", s->n_experts);
        put_number(w, ".expert_used_count", s->n_used);
        put_number(w, ".expert_feed_forward_length", s->expert_hidden);
    }
    if (is_latent(s))
        put_latent(w);
    put_vocabulary(w);
    long end = ftell(w->file);
    rewind(w->file);
    put_header(w);
    fseek(w->file, end, SEEK_SET);
}

/* ---- tensors ------------------------------------------------------------------------------ */

static void add_stack(writer *w, ln_dtype dtype, uint32_t n_matrices, uint32_t n_rows,
                      uint32_t n_cols, int layer, const char *name) {
    tensor_plan *t = &w->tensors[w->n_tensors++];
    if (n_cols % ln_dtype_block_elems(dtype) != 0) /* too narrow for blocks of 256 */
        dtype = LN_DTYPE_Q8_0;
    *t =
        (tensor_plan){.n_matrices = n_matrices, .n_rows = n_rows, .n_cols = n_cols, .dtype = dtype};
    if (layer < 0)
        snprintf(t->name, sizeof t->name, "%s.weight", name);
    else
        snprintf(t->name, sizeof t->name, "blk.%d.%s.weight", layer, name);
}

static void add(writer *w, ln_dtype dtype, uint32_t n_rows, uint32_t n_cols, int layer,
                const char *name) {
    add_stack(w, dtype, 1, n_rows, n_cols, layer, name);
}

/* The layers whose V and down projections get more bits: the first and last eighth, and every
 * third between. */
static bool gets_more(uint32_t layer, uint32_t n) {
    return layer < n / 8 || layer >= 7 * n / 8 || (layer - n / 8) % 3 == 2;
}

static void plan_attention(writer *w, int layer, ln_dtype most, ln_dtype more) {
    const model_shape *s = w->shape;
    uint32_t kv = s->dim / s->n_heads * s->n_kv_heads, heads = s->n_heads;
    if (!is_latent(s)) {
        add(w, most, s->dim, s->dim, layer, "attn_q");
        add(w, most, kv, s->dim, layer, "attn_k");
        add(w, more, kv, s->dim, layer, "attn_v");
        add(w, most, s->dim, s->dim, layer, "attn_output");
        if (s->is_qwen3) {
            add(w, LN_DTYPE_F32, s->dim / s->n_heads, 0, layer, "attn_q_norm");
            add(w, LN_DTYPE_F32, s->dim / s->n_heads, 0, layer, "attn_k_norm");
        }
        return;
    }
    add(w, most, s->q_latent, s->dim, layer, "attn_q_a");
    add(w, LN_DTYPE_F32, s->q_latent, 0, layer, "attn_q_a_norm");
    add(w, most, heads * (s->n_plain + s->n_rope), s->q_latent, layer, "attn_q_b");
    add(w, most, s->n_latent + s->n_rope, s->dim, layer, "attn_kv_a_mqa");
    add(w, LN_DTYPE_F32, s->n_latent, 0, layer, "attn_kv_a_norm");
    add_stack(w, most, heads, s->n_latent, s->n_plain, layer, "attn_k_b");
    add_stack(w, more, heads, s->v_dim, s->n_latent, layer, "attn_v_b");
    add(w, most, s->dim, heads * s->v_dim, layer, "attn_output");
}

static void plan_feed_forward(writer *w, int layer, ln_dtype most, ln_dtype more) {
    const model_shape *s = w->shape;
    if (s->n_experts == 0 || (uint32_t)layer < s->n_dense) {
        add(w, most, s->n_hidden, s->dim, layer, "ffn_gate");
        add(w, most, s->n_hidden, s->dim, layer, "ffn_up");
        add(w, more, s->dim, s->n_hidden, layer, "ffn_down");
        return;
    }
    ln_dtype experts = w->types->experts != LN_DTYPE_F32 ? w->types->experts : most;
    ln_dtype experts_down = w->types->experts != LN_DTYPE_F32 ? w->types->experts : more;
    add(w, LN_DTYPE_F32, s->n_experts, s->dim, layer, "ffn_gate_inp");
    add_stack(w, experts, s->n_experts, s->expert_hidden, s->dim, layer, "ffn_gate_exps");
    add_stack(w, experts, s->n_experts, s->expert_hidden, s->dim, layer, "ffn_up_exps");
    add_stack(w, experts_down, s->n_experts, s->dim, s->expert_hidden, layer, "ffn_down_exps");
    if (!is_latent(s))
        return;
    add(w, most, s->expert_hidden, s->dim, layer, "ffn_gate_shexp");
    add(w, most, s->expert_hidden, s->dim, layer, "ffn_up_shexp");
    add(w, more, s->dim, s->expert_hidden, layer, "ffn_down_shexp");
}

static void plan_tensors(writer *w) {
    const model_shape *s = w->shape;
    const mixture *m = w->types;
    add(w, m->most, s->n_vocab, s->dim, -1, "token_embd");
    for (uint32_t i = 0; i < s->n_layers; i++) {
        int layer = (int)i;
        ln_dtype more = gets_more(i, s->n_layers) ? m->more : m->most;
        add(w, LN_DTYPE_F32, s->dim, 0, layer, "attn_norm");
        plan_attention(w, layer, m->most, more);
        add(w, LN_DTYPE_F32, s->dim, 0, layer, "ffn_norm");
        plan_feed_forward(w, layer, m->most, more);
    }
    add(w, LN_DTYPE_F32, s->dim, 0, -1, "output_norm");
    add(w, m->output, s->n_vocab, s->dim, -1, "output");
}

static uint32_t gguf_type(ln_dtype dtype) {
    for (uint32_t number = 0;; number++) {
        ln_dtype found;
        if (ln_dtype_from_gguf(number, &found) && found == dtype)
            return number;
    }
}

static size_t row_bytes(const tensor_plan *t) {
    size_t bytes = 0;
    if (!ln_dtype_row_bytes(t->dtype, t->n_cols > 0 ? t->n_cols : t->n_rows, &bytes))
        return 0; /* the shapes' sizes are multiples of 256 */
    return bytes;
}

static size_t tensor_bytes(const tensor_plan *t) {
    return row_bytes(t) * (t->n_cols > 0 ? (size_t)t->n_rows * t->n_matrices : 1);
}

static size_t aligned(size_t n) {
    return (n + ALIGN - 1) / ALIGN * ALIGN;
}

static void put_tensor_infos(writer *w) {
    uint64_t offset = 0;
    for (size_t i = 0; i < w->n_tensors; i++) {
        const tensor_plan *t = &w->tensors[i];
        put_string(w, t->name);
        put_u32(w, t->n_matrices > 1 ? 3 : t->n_cols > 0 ? 2 : 1);
        if (t->n_cols > 0)
            put_u64(w, t->n_cols);
        put_u64(w, t->n_rows);
        if (t->n_matrices > 1)
            put_u64(w, t->n_matrices);
        put_u32(w, gguf_type(t->dtype));
        put_u64(w, offset);
        offset += aligned(tensor_bytes(t));
    }
}

/* ---- random weights ----------------------------------------------------------------------- */

/* xorshift64 (Marsaglia, 2003): speed is what counts here. */
static uint64_t next_random(writer *w) {
    w->state ^= w->state << 13;
    w->state ^= w->state >> 7;
    w->state ^= w->state << 17;
    return w->state;
}

static void put_half(uint8_t *at, float value) {
    uint16_t half = ln_f16_from_f32(value);
    memcpy(at, &half, sizeof half);
}

/* Scales of a block of random quants, for weights with a deviation of about `deviation`. */
static void scale_block(ln_dtype dtype, uint8_t *block, float deviation) {
    switch (dtype) {
    case LN_DTYPE_Q4_0: put_half(block, deviation / 4.6f); return;
    case LN_DTYPE_Q8_0: put_half(block, deviation / 74.0f); return;
    case LN_DTYPE_Q4_K:
        put_half(block, deviation / (32.0f * 4.6f));
        put_half(block + 2, deviation / (32.0f * 4.6f) * 7.5f);
        return;
    case LN_DTYPE_Q6_K: put_half(block + 208, deviation / (74.0f * 18.0f)); return;
    case LN_DTYPE_IQ1_S: put_half(block, deviation / 7.5f); return;
    case LN_DTYPE_IQ2_XXS:
    case LN_DTYPE_IQ2_S: put_half(block, deviation / 51.0f); return;
    case LN_DTYPE_IQ3_XXS: put_half(block, deviation / 152.0f); return;
    case LN_DTYPE_IQ3_S: put_half(block, deviation / 165.0f); return;
    case LN_DTYPE_TQ1_0: put_half(block + 52, deviation / 0.8f); return;
    case LN_DTYPE_TQ2_0: put_half(block + 64, deviation / 1.2f); return;
    case LN_DTYPE_MXFP4: /* 2^(exponent - 127) */
        block[0] = (uint8_t)(127 + (int)lroundf(log2f(deviation / 3.0f)));
        return;
    default: return;
    }
}

/* One row of random weights. */
static void fill_row(writer *w, const tensor_plan *t, uint8_t *row, size_t n_bytes) {
    float deviation = 1.0f / sqrtf((float)t->n_cols);
    size_t block_bytes = ln_dtype_block_bytes(t->dtype);
    if (ln_dtype_block_elems(t->dtype) > 1) {
        for (size_t i = 0; i < n_bytes; i += sizeof(uint64_t)) {
            uint64_t bits = next_random(w);
            memcpy(row + i, &bits, n_bytes - i < sizeof bits ? n_bytes - i : sizeof bits);
        }
        for (size_t i = 0; i < n_bytes; i += block_bytes)
            scale_block(t->dtype, row + i, deviation);
        return;
    }
    uint64_t bits = 0;
    for (size_t i = 0; i < t->n_cols; i++, bits >>= 16) {
        bits = i % 4 == 0 ? next_random(w) : bits;
        float unit = (float)(bits & 0xffff) * 0x1p-15f - 1.0f;
        float value = t->n_cols > 0 ? unit * 1.73f * deviation : 1.0f;
        uint16_t half = t->dtype == LN_DTYPE_F16 ? ln_f16_from_f32(value) : ln_bf16_from_f32(value);
        memcpy(row + i * block_bytes, block_bytes == 4 ? (const void *)&value : &half, block_bytes);
    }
}

static void put_tensor(writer *w, const tensor_plan *t, uint8_t *row) {
    size_t n_bytes = row_bytes(t), written = 0;
    uint32_t n_rows = t->n_cols > 0 ? t->n_rows * t->n_matrices : 1;
    for (uint32_t i = 0; i < n_rows; i++, written += n_bytes) {
        float one = 1.0f;
        for (size_t j = 0; t->n_cols == 0 && j < t->n_rows; j++)
            memcpy(row + j * sizeof one, &one, sizeof one);
        if (t->n_cols > 0)
            fill_row(w, t, row, n_bytes);
        put(w, row, n_bytes);
    }
    static const uint8_t zeros[ALIGN];
    put(w, zeros, aligned(written) - written);
}

static void put_tensors(writer *w) {
    static const uint8_t zeros[ALIGN];
    uint8_t *row = calloc(1, (size_t)w->shape->n_hidden * sizeof(float) + sizeof(uint64_t));
    if (row == NULL) {
        errno = ENOMEM;
        return;
    }
    size_t at = (size_t)ftell(w->file);
    put(w, zeros, aligned(at) - at);
    for (size_t i = 0; i < w->n_tensors; i++)
        put_tensor(w, &w->tensors[i], row);
    free(row);
}

/* ---- the file ----------------------------------------------------------------------------- */

static linnet_status fail(linnet_error *err, linnet_status status, const char *format,
                          const char *a, const char *b) {
    err->status = status;
    snprintf(err->message, sizeof err->message, format, a, b);
    return status;
}

linnet_status ln_cli_write_shape(const char *shape, const char *type, const char *path,
                                 linnet_error *err) {
    static writer w; /* too large for the stack; commands run once */
    w = (writer){.state = 0x9e3779b97f4a7c15u};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (strcmp(shape, shapes[i].name) == 0)
            w.shape = &shapes[i];
    for (size_t i = 0; i < sizeof mixtures / sizeof *mixtures; i++)
        if (strcmp(type, mixtures[i].name) == 0)
            w.types = &mixtures[i];
    if (w.shape == NULL)
        return fail(err, LINNET_ERR_ARGUMENT, "--shape: '%s' is not %s", shape, LN_CLI_SHAPE_NAMES);
    if (w.types == NULL)
        return fail(err, LINNET_ERR_ARGUMENT, "--type: '%s' is not %s", type, LN_CLI_MIXTURE_NAMES);
    w.file = fopen(path, "wb");
    if (w.file == NULL)
        return fail(err, LINNET_ERR_IO, "cannot write %s: %s", path, strerror(errno));
    errno = 0;
    plan_tensors(&w);
    put_metadata(&w);
    put_tensor_infos(&w);
    put_tensors(&w);
    bool failed = ferror(w.file) != 0 || errno == ENOMEM;
    failed |= fclose(w.file) != 0;
    if (failed)
        return fail(err, LINNET_ERR_IO, "cannot write %s: %s", path, strerror(errno));
    return LINNET_OK;
}
