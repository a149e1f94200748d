/* Small checkpoints of any shape, of random numbers in F16. */
#ifndef LN_TESTS_UNIT_ENGINE_MADE_MODEL_H
#define LN_TESTS_UNIT_ENGINE_MADE_MODEL_H

#include "engine_test.h"

#include <math.h>
#include <unistd.h>

#include "base/half.h"
#include "base/rng.h"

typedef struct made_shape {
    const char *name, *family; /* llama, mistral, qwen3, qwen3_moe or gemma2 */
    size_t dim, n_heads, kv_heads, head_dim, n_hidden, n_layers, n_vocab;
    bool has_bias;        /* llama: of all matrices */
    size_t window;        /* mistral, and every other layer of gemma2 */
    double softcap;       /* gemma2: of scores and logits */
    size_t n_experts;     /* qwen3_moe, two for a token */
    const char *quantize; /* on load, or NULL */
} made_shape;

/* A folder's tensors while they are written. */
typedef struct made_tensors {
    json_t *header;
    FILE *data;
    size_t n_bytes; /* so far */
} made_tensors;

static inline bool made_is(const made_shape *s, const char *family) {
    return strcmp(s->family, family) == 0;
}

static inline json_t *made_config(const made_shape *s) {
    bool is_gemma = made_is(s, "gemma2");
    json_t *c = json_pack(
        "{s:s,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:f,s:s,s:b,s:b,s:b}", "model_type", s->family,
        "hidden_size", (int)s->dim, "num_attention_heads", (int)s->n_heads, "num_key_value_heads",
        (int)s->kv_heads, "head_dim", (int)s->head_dim, "intermediate_size", (int)s->n_hidden,
        "num_hidden_layers", (int)s->n_layers, "vocab_size", (int)s->n_vocab,
        "max_position_embeddings", 512, "rms_norm_eps", 1e-5,
        is_gemma ? "hidden_activation" : "hidden_act", is_gemma ? "gelu_pytorch_tanh" : "silu",
        "tie_word_embeddings", is_gemma, "attention_bias", s->has_bias, "mlp_bias", s->has_bias);
    json_object_set_new(c, "rope_parameters",
                        json_pack("{s:f,s:s}", "rope_theta", 10000.0, "rope_type", "default"));
    if (s->window > 0)
        json_object_set_new(c, "sliding_window", json_integer((json_int_t)s->window));
    if (is_gemma) {
        json_t *types = json_array();
        for (size_t layer = 0; layer < s->n_layers; layer++)
            json_array_append_new(
                types, json_string(layer % 2 == 0 ? "sliding_attention" : "full_attention"));
        json_object_set_new(c, "layer_types", types);
        json_object_set_new(c, "attn_logit_softcapping", json_real(s->softcap));
        json_object_set_new(c, "final_logit_softcapping", json_real(s->softcap));
        json_object_set_new(c, "query_pre_attn_scalar", json_integer((json_int_t)s->head_dim));
    }
    if (s->n_experts > 0) {
        json_object_set_new(c, "num_local_experts", json_integer((json_int_t)s->n_experts));
        json_object_set_new(c, "num_experts_per_tok", json_integer(2));
        json_object_set_new(c, "moe_intermediate_size", json_integer((json_int_t)s->n_hidden));
        json_object_set_new(c, "decoder_sparse_step", json_integer(1));
        json_object_set_new(c, "mlp_only_layers", json_array());
        json_object_set_new(c, "norm_topk_prob", json_true());
    }
    return c;
}

/* n_rows rows of n_cols numbers around `middle`; n_cols 0: a vector. */
static inline void made_put(made_tensors *t, const char *name, size_t n_rows, size_t n_cols,
                            float middle) {
    size_t n = n_rows * (n_cols > 0 ? n_cols : 1);
    float spread = n_cols > 0 ? sqrtf(3.0f / (float)n_cols) : 0.2f;
    for (size_t i = 0; i < n; i++) {
        float x = 2.0f * ln_rng_uniform(11, 0, t->n_bytes / 2 + i, 0) - 1.0f;
        uint16_t half = ln_f16_from_f32(middle + spread * x);
        assert_int_equal(fwrite(&half, sizeof half, 1, t->data), 1);
    }
    json_t *shape = json_pack("[i]", (int)n_rows);
    if (n_cols > 0)
        json_array_append_new(shape, json_integer((json_int_t)n_cols));
    json_object_set_new(t->header, name,
                        json_pack("{s:s,s:o,s:[I,I]}", "dtype", "F16", "shape", shape,
                                  "data_offsets", (json_int_t)t->n_bytes,
                                  (json_int_t)(t->n_bytes + 2 * n)));
    t->n_bytes += 2 * n;
}

static inline void made_put_norm(made_tensors *t, const made_shape *s, size_t layer,
                                 const char *part, size_t n) {
    char name[128];
    snprintf(name, sizeof name, "model.layers.%zu.%s.weight", layer, part);
    made_put(t, name, n, 0, made_is(s, "gemma2") ? 0.0f : 1.0f); /* its norms add 1 */
}

static inline void made_put_linear(made_tensors *t, const made_shape *s, size_t layer,
                                   const char *part, size_t n_rows, size_t n_cols) {
    char name[128];
    snprintf(name, sizeof name, "model.layers.%zu.%s.weight", layer, part);
    made_put(t, name, n_rows, n_cols, 0.0f);
    snprintf(name, sizeof name, "model.layers.%zu.%s.bias", layer, part);
    if (s->has_bias)
        made_put(t, name, n_rows, 0, 0.0f);
}

static inline void made_put_ffn(made_tensors *t, const made_shape *s, size_t layer) {
    static const char *const parts[] = {"gate_proj", "up_proj", "down_proj"};
    char name[64];
    for (size_t e = 0; e < (s->n_experts > 0 ? s->n_experts : 1); e++)
        for (size_t i = 0; i < 3; i++) {
            bool is_down = i == 2;
            snprintf(name, sizeof name, "mlp.%s", parts[i]);
            if (s->n_experts > 0)
                snprintf(name, sizeof name, "mlp.experts.%zu.%s", e, parts[i]);
            made_put_linear(t, s, layer, name, is_down ? s->dim : s->n_hidden,
                            is_down ? s->n_hidden : s->dim);
        }
    if (s->n_experts > 0)
        made_put_linear(t, s, layer, "mlp.gate", s->n_experts, s->dim);
}

static inline void made_put_layer(made_tensors *t, const made_shape *s, size_t layer) {
    size_t q = s->n_heads * s->head_dim, kv = s->kv_heads * s->head_dim;
    made_put_norm(t, s, layer, "input_layernorm", s->dim);
    made_put_norm(t, s, layer, "post_attention_layernorm", s->dim);
    if (made_is(s, "gemma2")) {
        made_put_norm(t, s, layer, "pre_feedforward_layernorm", s->dim);
        made_put_norm(t, s, layer, "post_feedforward_layernorm", s->dim);
    }
    if (strncmp(s->family, "qwen3", 5) == 0) {
        made_put_norm(t, s, layer, "self_attn.q_norm", s->head_dim);
        made_put_norm(t, s, layer, "self_attn.k_norm", s->head_dim);
    }
    made_put_linear(t, s, layer, "self_attn.q_proj", q, s->dim);
    made_put_linear(t, s, layer, "self_attn.k_proj", kv, s->dim);
    made_put_linear(t, s, layer, "self_attn.v_proj", kv, s->dim);
    made_put_linear(t, s, layer, "self_attn.o_proj", s->dim, q);
    made_put_ffn(t, s, layer);
}

/* Length of the header, the header, and what lies in `data`. */
static inline void made_write_safetensors(const char *path, const json_t *header, FILE *data) {
    char *text = json_dumps(header, JSON_COMPACT), bytes[4096];
    uint64_t n_text = strlen(text);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(&n_text, sizeof n_text, 1, file), 1);
    assert_int_equal(fwrite(text, 1, n_text, file), n_text);
    rewind(data);
    for (size_t n; (n = fread(bytes, 1, sizeof bytes, data)) > 0;)
        assert_int_equal(fwrite(bytes, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
    free(text);
}

/* Writes the checkpoint, opens it and removes its files, which stay mapped. */
static inline linnet_model *made_open(const made_shape *s) {
    char folder[] = "/tmp/linnet-made-XXXXXX", config_path[64], path[64];
    made_tensors t = {.header = json_object(), .data = tmpfile()};
    assert_non_null(mkdtemp(folder));
    assert_non_null(t.data);
    snprintf(config_path, sizeof config_path, "%s/config.json", folder);
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    made_put(&t, "model.embed_tokens.weight", s->n_vocab, s->dim, 0.0f);
    for (size_t layer = 0; layer < s->n_layers; layer++)
        made_put_layer(&t, s, layer);
    made_put(&t, "model.norm.weight", s->dim, 0, 1.0f);
    if (!made_is(s, "gemma2"))
        made_put(&t, "lm_head.weight", s->n_vocab, s->dim, 0.0f);
    json_t *config = made_config(s);
    assert_int_equal(json_dump_file(config, config_path, 0), 0);
    made_write_safetensors(path, t.header, t.data);
    linnet_model *model;
    linnet_error err = {0};
    if (linnet_model_open(folder, &model, &err) != LINNET_OK)
        fail_msg("%s: %s", s->name, err.message);
    json_decref(config), json_decref(t.header), fclose(t.data);
    unlink(config_path), unlink(path), rmdir(folder);
    return model;
}

#endif
