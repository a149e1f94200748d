/* MiniMax-Text-01: lightning attention, linear with decays that are fixed for each head and layer,
 * and softmax attention in every few layers; mixtures of experts. Blocks add to the norm that they
 * read. */
#include "model/families/bindings.h"

#define MIXER "model.layers.%d.self_attn"
#define QKV(r)                                                                                     \
    {                                                                                              \
        .role = r, .hf = MIXER ".qkv_proj", .hf_part = LN_PART_MIXER_QKV_BY_HEAD,                  \
        .gguf = "blk.%d.attn_qkv", .gguf_part = LN_PART_MIXER_QKV_BY_HEAD                          \
    }

static const ln_binding bindings[] = {
    LN_LLAMA_BUT_FFN,
    QKV(LN_ROLE_MIXER_Q),
    QKV(LN_ROLE_MIXER_K),
    QKV(LN_ROLE_MIXER_V),
    {.role = LN_ROLE_MIXER_GATE, .hf = MIXER ".output_gate", .gguf = "blk.%d.attn_gate"},
    {.role = LN_ROLE_MIXER_NORM, .hf = MIXER ".norm", .gguf = "blk.%d.attn_norm_2"},
    {.role = LN_ROLE_MIXER_OUT, .hf = MIXER ".out_proj", .gguf = "blk.%d.attn_output"},
    LN_MIXTRAL_EXPERTS,
};

const ln_family ln_family_minimax = {
    .name = "minimax",
    .gguf = "minimax-01",
    .defaults = "num_key_value_heads=8|rope_theta=1e6|rms_norm_eps=1e-5|"
                "max_position_embeddings=131072|num_local_experts=8|num_experts_per_tok=2|"
                "attn_layer_period=2|attn_layer_offset=0",
    .placement = LN_PLACE_NORMED,
    .window = LN_WINDOW_ALL,
    .window_unlisted = true,
    .router = LN_ROUTER_SOFTMAX_CHOSEN,
    .mixer = LN_MIXER_LIGHTNING,
    .mixer_word = "linear_attention",
    LN_BINDINGS(bindings),
};
