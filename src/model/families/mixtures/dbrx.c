/* DBRX: LayerNorms without bias, one matrix for q, k and v, which are clamped, and experts that lie
 * one below the other, those of down transposed. The published config.json has the base in
 * attn_config, where it counts; transformers from 5 on writes one into rope_parameters, which comes
 * first. */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {
    LN_ENDS("transformer.wte", "transformer.norm_f", "lm_head"),
    {.role = LN_ROLE_ATTENTION_NORM, .hf = "transformer.blocks.%d.norm_attn_norm.norm_1"},
    LN_QKV("transformer.blocks.%d.norm_attn_norm.attn.Wqkv", .hf_part = LN_PART_QKV, LN_GGUF_QKV),
    {.role = LN_ROLE_O, .hf = "transformer.blocks.%d.norm_attn_norm.attn.out_proj"},
    {.role = LN_ROLE_FFN_NORM,
     .hf = "transformer.blocks.%d.norm_attn_norm.norm_2",
     .gguf = "blk.%d.attn_output_norm"},
    {.role = LN_ROLE_ROUTER, .hf = "transformer.blocks.%d.ffn.router.layer"},
    {.role = LN_ROLE_EXPERT_GATE,
     .hf = "transformer.blocks.%d.ffn.experts.mlp.w1",
     .hf_bare = true},
    {.role = LN_ROLE_EXPERT_UP, .hf = "transformer.blocks.%d.ffn.experts.mlp.v1", .hf_bare = true},
    {.role = LN_ROLE_EXPERT_DOWN,
     .hf = "transformer.blocks.%d.ffn.experts.mlp.w2",
     .hf_bare = true,
     .hf_transposed = true},
};

const ln_family ln_family_dbrx = {
    .name = "dbrx",
    .gguf = "dbrx",
    .hf_prefix = "transformer.",
    .defaults = "ffn_config.moe_num_experts=4|ffn_config.moe_top_k=1|"
                "ffn_config.moe_normalize_expert_weights=1",
    .norm = LN_NORM_LAYER,
    .gguf_clips = true,
    LN_BINDINGS(bindings),
};
