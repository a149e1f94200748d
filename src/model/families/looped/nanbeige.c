/* Looped transformers: all layers run some times, each run with keys and values of its own. */
#include "model/families/bindings.h"

static const ln_binding nanbeige_bindings[] = {LN_LLAMA};

/* Nanbeige 4.2: llama's layers. */
const ln_family ln_family_nanbeige = {
    .name = "nanbeige",
    .gguf = "nanbeige",
    .defaults = "num_loops=1",
    .gguf_rope = LN_ROPE_INTERLEAVED,
    .refused = "qk_layernorm|emb_neighbor_num|ngram_insert_all_layers|enable_double_loop_split|"
               "loop_share_kv|enable_hyper_connection|enable_mhc|enable_h_res_identity|"
               "enable_depth_attention",
    .repeats = true,
    LN_BINDINGS(nanbeige_bindings),
};

#define LAYER "model.layers.%d."

static const ln_binding ouro_bindings[] = {
    LN_LLAMA_BUT_FFN,
    LN_POST_NORMS(LAYER, "input_layernorm_2", "post_attention_layernorm_2"),
    LN_LLAMA_FFN,
};

/* Ouro (Zhu et al., 2025): a norm behind each block, too. The gate that may end the runs of a token
 * early is trained to be read at all of them, and does nothing by default. */
const ln_family ln_family_ouro = {
    .name = "ouro",
    .defaults = "total_ut_steps=4",
    .placement = LN_PLACE_SANDWICH,
    .ignored = "model.early_exit_gate.weight|model.early_exit_gate.bias",
    .repeats = true,
    LN_BINDINGS(ouro_bindings),
};
