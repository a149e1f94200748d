/* DFlash (Chen et al., 2026): a folder that drafts blocks of tokens for another model. Its layers
 * have Qwen3's shape. Transformers has the same with other names around them (Muse Glimmer's
 * assistant). Embedding and output are the model's, unless they are there. */
#include "model/families/bindings.h"

static const ln_binding bindings[] = {
    LN_LLAMA,
    LN_LLAMA_QK_NORMS,
    {.role = LN_ROLE_HEAD_INPUT, .hf = "model.fc", .gguf = "fc"},
    {.role = LN_ROLE_HEAD_INPUT, .hf = "model.encoder.fc", .gguf = ""},
    {.role = LN_ROLE_HEAD_HIDDEN_NORM, .hf = "model.hidden_norm", .gguf = "enc.output_norm"},
    {.role = LN_ROLE_HEAD_HIDDEN_NORM, .hf = "model.encoder.output_norm_enc", .gguf = ""},
};

const ln_family ln_family_dflash = {
    .name = "dflash",
    .hf_types = "dflash|muse_glimmer_assistant",
    .gguf = "dflash",
    .hf_prefix = "model.",
    .defaults = "rope_theta=1000000 unless rope_parameters",
    .qk_norm = LN_QK_NORM_HEAD,
    .gguf_window_list = true,
    .ignored = "d2t|t2d",
    .drafts = true,
    .drafts_blocks = true,
    LN_BINDINGS(bindings),
};
