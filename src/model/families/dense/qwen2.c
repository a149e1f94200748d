/* Qwen2 and 2.5: llama with biases on q, k and v; upper layers may have a window. MiMo 7B is the
 * same with a head that predicts a token more. */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {LN_LLAMA, LN_CLASS_SCORE};

const ln_family ln_family_qwen2 = {
    .name = "qwen2",
    .gguf = "qwen2",
    .hf_prefix = "model.",
    .direction_key = "use_bidirectional_attention",
    .pooling = LINNET_POOLING_LAST,
    .class_pooling = LINNET_POOLING_LAST,
    .window = LN_WINDOW_ABOVE,
    LN_BINDINGS(bindings),
};

static const ln_binding mimo_bindings[] = {
    LN_LLAMA,
    {.role = LN_ROLE_HEAD_INPUT, .hf = "model.mtp_layers.0.input_proj"},
    {.role = LN_ROLE_HEAD_TOKEN_NORM, .hf = "model.mtp_layers.0.token_layernorm"},
    {.role = LN_ROLE_HEAD_HIDDEN_NORM, .hf = "model.mtp_layers.0.hidden_layernorm"},
    {.role = LN_ROLE_HEAD_NORM, .hf = "model.mtp_layers.0.final_layernorm"},
};

const ln_family ln_family_mimo = {
    .name = "mimo",
    .gguf_as = "qwen2",
    .window = LN_WINDOW_ABOVE,
    .head_stem = "model.mtp_layers.0",
    .head_hidden_first = true,
    LN_BINDINGS(mimo_bindings),
};
