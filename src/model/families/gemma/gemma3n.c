/* Gemma 3n (text): several streams, of which layers run on the first (AltUp), a path of low rank
 * beside attention (Laurel), sparse gates in the first layers, embeddings of layers, and last
 * layers that attend to keys and values of earlier ones. */
#include "model/families/bindings.h"

#define LAYER(r, name, gguf_name)                                                                  \
    { .role = r, .hf = "model.layers.%d." name, .gguf = "blk.%d." gguf_name }

static const ln_binding bindings[] = {
    LN_LLAMA_ENDS,
    LN_GEMMA_NORMS,
    LN_LLAMA_ATTENTION,
    LN_LLAMA_QK_NORMS,
    LN_LLAMA_FFN,
    LN_LOOKUP_EMBEDDINGS,
    {.role = LN_ROLE_ALTUP_BEGIN, .hf = "model.altup_projections.%e"},
    {.role = LN_ROLE_ALTUP_END, .hf = "model.altup_unembed_projections.%e"},
    LAYER(LN_ROLE_ALTUP_ROUTER, "altup.modality_router", "altup_router"),
    LAYER(LN_ROLE_ALTUP_NORM, "altup.router_norm", "altup_router_norm"),
    LAYER(LN_ROLE_ALTUP_PREDICT, "altup.prediction_coefs", "altup_predict_coef"),
    LAYER(LN_ROLE_ALTUP_CORRECT, "altup.correction_coefs", "altup_correct_coef"),
    {.role = LN_ROLE_ALTUP_SCALE,
     .hf = "model.layers.%d.altup.correct_output_scale",
     .hf_bare = true},
    LAYER(LN_ROLE_LAUREL_LEFT, "laurel.linear_left", "laurel_l"),
    LAYER(LN_ROLE_LAUREL_RIGHT, "laurel.linear_right", "laurel_r"),
    LAYER(LN_ROLE_LAUREL_NORM, "laurel.post_laurel_norm", "laurel_post_norm"),
};

const ln_family ln_family_gemma3n = {
    .name = "gemma3n",
    .hf_types = "gemma3n|gemma3n_text",
    .gguf = "gemma3n",
    .defaults = "hidden_size=2048|intermediate_size=16384|num_hidden_layers=35|"
                "num_attention_heads=8|num_key_value_heads=2|head_dim=256|"
                "max_position_embeddings=32768|sliding_window=512|final_logit_softcapping=30|"
                "hidden_size_per_layer_input=256|num_kv_shared_layers=15|rope_theta=1e6",
    LN_GEMMA3_ATTENTION,
    .window_period = 5,
    .unit_scale = true,
    .by_layer = true,
    .v_norm = true,
    .lookup = true,
    .altup = true,
    .tied_by_default = true,
    LN_BINDINGS(bindings),
};
