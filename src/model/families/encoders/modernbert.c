/* ModernBERT: norms in front of blocks, rotary positions, windows to both sides in all layers but
 * the first and every third from there on. Its decoder (Ettin) sees half of the window, behind it,
 * and has a matrix with an activation and a norm before the output. */
#include "model/families/encoders/bert.h"

#define QKV(role_of)                                                                               \
    {                                                                                              \
        .role = role_of, .hf = "model.layers.%d.attn.Wqkv", .gguf = "blk.%d.attn_qkv",             \
        .hf_part = LN_PART_QKV, .gguf_part = LN_PART_QKV                                           \
    }
#define GATE_UP(role_of)                                                                           \
    {                                                                                              \
        .role = role_of, .hf = "model.layers.%d.mlp.Wi", .gguf = "blk.%d.ffn_up",                  \
        .hf_part = LN_PART_GATE_UP, .gguf_part = LN_PART_GATE_UP                                   \
    }

static const ln_binding bindings[] = {
    {.role = LN_ROLE_EMBEDDING, .hf = "model.embeddings.tok_embeddings", .gguf = "token_embd"},
    {.role = LN_ROLE_EMBEDDING_NORM, .hf = "model.embeddings.norm", .gguf = "token_embd_norm"},
    {.role = LN_ROLE_OUTPUT_NORM, .hf = "model.final_norm", .gguf = "output_norm"},
    {.role = LN_ROLE_ATTENTION_NORM,
     .hf = "model.layers.%d.attn_norm",
     .gguf = "blk.%d.attn_norm",
     .optional = true},
    QKV(LN_ROLE_Q),
    QKV(LN_ROLE_K),
    QKV(LN_ROLE_V),
    {.role = LN_ROLE_O, .hf = "model.layers.%d.attn.Wo", .gguf = "blk.%d.attn_output"},
    {.role = LN_ROLE_FFN_NORM, .hf = "model.layers.%d.mlp_norm", .gguf = "blk.%d.ffn_norm"},
    GATE_UP(LN_ROLE_GATE),
    GATE_UP(LN_ROLE_UP),
    {.role = LN_ROLE_DOWN, .hf = "model.layers.%d.mlp.Wo", .gguf = "blk.%d.ffn_down"},
    {.role = LN_ROLE_CLASS_DENSE, .hf = "head.dense", .gguf = "cls"},
    {.role = LN_ROLE_CLASS_NORM, .hf = "head.norm", .gguf = "cls.norm"},
    {.role = LN_ROLE_CLASS_OUT, .hf = "classifier", .gguf = "cls.output"},
};

#define DECODER "model.layers.%d."

static const ln_binding decoder_bindings[] = {
    {.role = LN_ROLE_EMBEDDING, .hf = "model.embeddings.tok_embeddings"},
    {.role = LN_ROLE_EMBEDDING_NORM, .hf = "model.embeddings.norm"},
    {.role = LN_ROLE_OUTPUT_NORM, .hf = "model.final_norm"},
    {.role = LN_ROLE_OUTPUT_DENSE, .hf = "lm_head.dense"},
    {.role = LN_ROLE_OUTPUT_DENSE_NORM, .hf = "lm_head.norm"},
    {.role = LN_ROLE_OUTPUT, .hf = "decoder"},
    {.role = LN_ROLE_ATTENTION_NORM, .hf = DECODER "attn_norm", .optional = true},
    {.role = LN_ROLE_Q, .hf = DECODER "attn.q_proj"},
    {.role = LN_ROLE_K, .hf = DECODER "attn.k_proj"},
    {.role = LN_ROLE_V, .hf = DECODER "attn.v_proj"},
    {.role = LN_ROLE_O, .hf = DECODER "attn.Wo"},
    {.role = LN_ROLE_FFN_NORM, .hf = DECODER "mlp_norm"},
    {.role = LN_ROLE_GATE, .hf = DECODER "mlp.Wi", .hf_part = LN_PART_GATE_UP},
    {.role = LN_ROLE_UP, .hf = DECODER "mlp.Wi", .hf_part = LN_PART_GATE_UP},
    {.role = LN_ROLE_DOWN, .hf = DECODER "mlp.Wo"},
};

static const char defaults[] = "norm_eps=1e-5|local_attention=128|global_rope_theta=160000|"
                               "global_attn_every_n_layers=3";

const ln_family ln_family_modernbert = {
    .name = "modernbert",
    .gguf = "modern-bert",
    .hf_prefix = "model.",
    .ignored = "decoder.weight|decoder.bias",
    .defaults = defaults,
    .norm = LN_NORM_LAYER,
    .activation = LN_ACT_GELU,
    .local_rope = true,
    .local_theta = 10000.0,
    .window = LN_WINDOW_BEHIND,
    .window_period = 3,
    .chunk_key = "local_attention",
    .bidirectional = true,
    .pooling = LINNET_POOLING_CLS,
    .class_pooling = LINNET_POOLING_CLS,
    .class_activation = LN_HEAD_GELU,
    LN_BINDINGS(bindings),
};

const ln_family ln_family_modernbert_decoder = {
    .name = "modernbert_decoder",
    .hf_types = "modernbert-decoder",
    .hf_prefix = "model.",
    .defaults = defaults,
    .norm = LN_NORM_LAYER,
    .activation = LN_ACT_GELU,
    .local_rope = true,
    .local_theta = 10000.0,
    .window = LN_WINDOW_BEHIND,
    .window_period = 3,
    .chunk_key = "local_attention",
    .halves_window = true,
    .tied_by_default = true,
    LN_BINDINGS(decoder_bindings),
};
