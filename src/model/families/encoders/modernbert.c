/* ModernBERT: norms in front of blocks, rotary positions, windows to both sides in all layers but
 * the first and every third from there on. Its decoder (Ettin) sees half of the window, behind it,
 * and has a matrix with an activation and a norm before the output. */
#include "model/families/encoders/bert.h"

static const ln_binding bindings[] = {
    {.role = LN_ROLE_EMBEDDING, .hf = "model.embeddings.tok_embeddings"},
    {.role = LN_ROLE_EMBEDDING_NORM, .hf = "model.embeddings.norm"},
    {.role = LN_ROLE_OUTPUT_NORM, .hf = "model.final_norm"},
    {.role = LN_ROLE_ATTENTION_NORM, .hf = "model.layers.%d.attn_norm", .optional = true},
    LN_QKV("model.layers.%d.attn.Wqkv", .hf_part = LN_PART_QKV, LN_GGUF_QKV),
    {.role = LN_ROLE_O, .hf = "model.layers.%d.attn.Wo"},
    {.role = LN_ROLE_FFN_NORM, .hf = "model.layers.%d.mlp_norm"},
    LN_GATE_UP("model.layers.%d.mlp.Wi", .hf_part = LN_PART_GATE_UP, LN_GGUF_GATE_UP),
    {.role = LN_ROLE_DOWN, .hf = "model.layers.%d.mlp.Wo"},
    {.role = LN_ROLE_CLASS_DENSE, .hf = "head.dense"},
    {.role = LN_ROLE_CLASS_NORM, .hf = "head.norm"},
    {.role = LN_ROLE_CLASS_OUT, .hf = "classifier"},
};

#define DECODER "model.layers.%d."

static const ln_binding decoder_bindings[] = {
    LN_ENDS("model.embeddings.tok_embeddings", "model.final_norm", "decoder"),
    {.role = LN_ROLE_EMBEDDING_NORM, .hf = "model.embeddings.norm"},
    {.role = LN_ROLE_OUTPUT_DENSE, .hf = "lm_head.dense"},
    {.role = LN_ROLE_OUTPUT_DENSE_NORM, .hf = "lm_head.norm"},
    {.role = LN_ROLE_ATTENTION_NORM, .hf = DECODER "attn_norm", .optional = true},
    LN_ATTENTION(DECODER "attn.", "q_proj", "k_proj", "v_proj", "Wo"),
    {.role = LN_ROLE_FFN_NORM, .hf = DECODER "mlp_norm"},
    {.role = LN_ROLE_GATE, .hf = DECODER "mlp.Wi", .hf_part = LN_PART_GATE_UP},
    {.role = LN_ROLE_UP, .hf = DECODER "mlp.Wi", .hf_part = LN_PART_GATE_UP},
    {.role = LN_ROLE_DOWN, .hf = DECODER "mlp.Wo"},
};

/* Windows to both sides, or half of one behind. */
#define LAYERS                                                                                     \
    .defaults = "norm_eps=1e-5|local_attention=128|global_rope_theta=160000|"                      \
                "global_attn_every_n_layers=3",                                                    \
    .norm = LN_NORM_LAYER, .activation = LN_ACT_GELU, .local_rope = true, .local_theta = 10000.0,  \
    .window = LN_WINDOW_BEHIND, .window_period = 3, .chunk_key = "local_attention"

const ln_family ln_family_modernbert = {
    .name = "modernbert",
    .gguf = "modern-bert",
    .hf_prefix = "model.",
    .ignored = "decoder.weight|decoder.bias",
    LAYERS,
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
    LAYERS,
    .halves_window = true,
    .tied_by_default = true,
    LN_BINDINGS(decoder_bindings),
};
