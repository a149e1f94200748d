/* nanochat: no norm has weights; q and k are normalised behind the rotation, which turns the other
 * way; squared relu without gate, soft-capped logits. */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {
    {.role = LN_ROLE_EMBEDDING, .hf = "model.embed_tokens"},
    {.role = LN_ROLE_OUTPUT, .hf = "lm_head"},
    {.role = LN_ROLE_EMBEDDING_NORM, .bare = true},
    {.role = LN_ROLE_OUTPUT_NORM, .bare = true},
    {.role = LN_ROLE_ATTENTION_NORM, .bare = true},
    {.role = LN_ROLE_FFN_NORM, .bare = true},
    LN_LLAMA_ATTENTION,
    LN_PLAIN_FFN("model.layers.%d.mlp.", "fc1", "fc2"),
};

const ln_family ln_family_nanochat = {
    .name = "nanochat",
    .defaults = "final_logit_softcapping=15",
    LN_NO_GATE(LN_ACT_RELU_SQUARED),
    .qk_norm = LN_QK_NORM_HEAD,
    .bare_qk_norm = true,
    .norm_after_rope = true,
    .turns_back = true,
    LN_BINDINGS(bindings),
};
