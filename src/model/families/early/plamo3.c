/* PLaMo 3: norms around each block, to whose weights numbers are added; windows, each
 * kind with its own RoPE base; q and k normalised by head. */
#include "model/families/bindings.h"

#define LAYER "model.layers.layers.%d."

static const ln_binding bindings[] = {
    LN_LLAMA_ENDS,
    LN_BLOCK_NORMS(LAYER, "pre_mixer_norm", "pre_mlp_norm"),
    {.role = LN_ROLE_ATTENTION_POST_NORM,
     .hf = LAYER "post_mixer_norm",
     .gguf = "blk.%d.post_attention_norm",
     .gguf_bare = true},
    {.role = LN_ROLE_FFN_POST_NORM,
     .hf = LAYER "post_mlp_norm",
     .gguf = "blk.%d.post_ffw_norm",
     .gguf_bare = true},
    LN_QKV(LAYER "mixer.qkv_proj", .hf_part = LN_PART_QKV, LN_GGUF_QKV),
    LN_QK_NORMS(LAYER "mixer.", "q_norm", "k_norm"),
    {.role = LN_ROLE_O, .hf = LAYER "mixer.o_proj"},
    LN_GATE_UP(LAYER "mlp.gate_up_proj", .hf_part = LN_PART_GATE_UP, LN_GGUF_GATE_UP),
    {.role = LN_ROLE_DOWN, .hf = LAYER "mlp.down_proj"},
};

const ln_family ln_family_plamo3 = {
    .name = "plamo3",
    .gguf = "plamo3",
    .hf_prefix = "model.",
    .defaults = "rope_theta=1e6|head_dim=128|sliding_window=2048 unless window_size",
    .norms_add_one = true,
    .post_offsets = {1.0 / 5, 0.08944271909999159}, /* 5 to the power of -1.5 */
    .placement = LN_PLACE_SANDWICH,
    .qk_norm = LN_QK_NORM_HEAD,
    .chunk_key = "sliding_window|window_size",
    .window = LN_WINDOW_PERIOD,
    .window_period = 8,
    .gguf_window_list = true,
    .local_rope = true,
    .local_theta = 10000.0,
    .tied_by_default = true,
    LN_BINDINGS(bindings),
};
