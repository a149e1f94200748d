/* Hunyuan, dense: llama with q and k normalised by head after they rotate. */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {
    LN_LLAMA,
    LN_QK_NORMS("model.layers.%d.self_attn.", "query_layernorm", "key_layernorm"),
};

const ln_family ln_family_hunyuan_v1_dense = {
    .name = "hunyuan_v1_dense",
    .hf_types = "hunyuan_v1_dense|hunyuan_vl_text",
    .gguf = "hunyuan-dense|hunyuan_vl",
    .defaults = "rms_norm_eps=1e-5",
    .qk_norm = LN_QK_NORM_HEAD,
    .norm_after_rope = true,
    LN_BINDINGS(bindings),
};
