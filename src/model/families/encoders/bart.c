/* BART: encoder and decoder, learned positions that begin at row 2, norms behind the residual.
 * mBART has norms before blocks and at the end of each stack. So have Blenderbot, Pegasus and M2M
 * 100 (NLLB), without a norm of embeddings: Blenderbot's learned positions begin at row 0, the
 * others have sines and cosines, and M2M's begin behind the padding token's number. Marian has
 * BART's norms and Pegasus's positions. MVP and PLBart are BART under other names. */
#include "model/families/bindings.h"

#define ROW(r, stack, name, enc)                                                                   \
    { .role = r, .hf = "model." stack "." name, .encoder = enc }

#define LAYERS(stack, enc)                                                                         \
    ROW(LN_ROLE_Q, stack, "layers.%d.self_attn.q_proj", enc),                                      \
        ROW(LN_ROLE_K, stack, "layers.%d.self_attn.k_proj", enc),                                  \
        ROW(LN_ROLE_V, stack, "layers.%d.self_attn.v_proj", enc),                                  \
        ROW(LN_ROLE_O, stack, "layers.%d.self_attn.out_proj", enc),                                \
        ROW(LN_ROLE_ATTENTION_NORM, stack, "layers.%d.self_attn_layer_norm", enc),                 \
        ROW(LN_ROLE_UP, stack, "layers.%d.fc1", enc),                                              \
        ROW(LN_ROLE_DOWN, stack, "layers.%d.fc2", enc),                                            \
        ROW(LN_ROLE_FFN_NORM, stack, "layers.%d.final_layer_norm", enc)

/* What models of these families have alike: the ends, and layers of both stacks. */
#define ALIKE                                                                                      \
    {.role = LN_ROLE_EMBEDDING, .hf = "model.shared"}, {.role = LN_ROLE_OUTPUT, .hf = "lm_head"},  \
        {.role = LN_ROLE_OUTPUT_BIAS,                                                              \
         .hf = "final_logits_bias",                                                                \
         .hf_bare = true,                                                                          \
         .optional = true},                                                                        \
        LAYERS("encoder", true), LAYERS("decoder", false),                                         \
        ROW(LN_ROLE_CROSS_NORM, "decoder", "layers.%d.encoder_attn_layer_norm", false),            \
        ROW(LN_ROLE_CROSS_Q, "decoder", "layers.%d.encoder_attn.q_proj", false),                   \
        ROW(LN_ROLE_CROSS_K, "decoder", "layers.%d.encoder_attn.k_proj", false),                   \
        ROW(LN_ROLE_CROSS_V, "decoder", "layers.%d.encoder_attn.v_proj", false),                   \
        ROW(LN_ROLE_CROSS_O, "decoder", "layers.%d.encoder_attn.out_proj", false)

#define OF_BOTH(r, name) ROW(r, "encoder", name, true), ROW(r, "decoder", name, false)

static const ln_binding bart_bindings[] = {
    ALIKE,
    OF_BOTH(LN_ROLE_LEARNED_POSITIONS, "embed_positions"),
    OF_BOTH(LN_ROLE_EMBEDDING_NORM, "layernorm_embedding"),
};

static const ln_binding mbart_bindings[] = {
    ALIKE,
    OF_BOTH(LN_ROLE_LEARNED_POSITIONS, "embed_positions"),
    OF_BOTH(LN_ROLE_EMBEDDING_NORM, "layernorm_embedding"),
    OF_BOTH(LN_ROLE_OUTPUT_NORM, "layer_norm"),
};

static const ln_binding blenderbot_bindings[] = {
    ALIKE,
    OF_BOTH(LN_ROLE_LEARNED_POSITIONS, "embed_positions"),
    OF_BOTH(LN_ROLE_OUTPUT_NORM, "layer_norm"),
};

static const ln_binding sinusoid_bindings[] = {
    ALIKE,
    OF_BOTH(LN_ROLE_OUTPUT_NORM, "layer_norm"),
};

/* Decoder and encoder may have an embedding each. */
static const ln_binding marian_bindings[] = {
    ROW(LN_ROLE_EMBEDDING, "decoder", "embed_tokens", false),
    ROW(LN_ROLE_EMBEDDING, "encoder", "embed_tokens", true),
    ALIKE,
};

#define EMBEDDINGS "model.encoder.embed_tokens.weight|model.decoder.embed_tokens.weight"

#define COMMON                                                                                     \
    .norm = LN_NORM_LAYER, LN_NO_GATE(LN_ACT_GELU), .positions = LN_POSITIONS_LEARNED,             \
    .has_encoder = true, .tied_by_default = true

/* Untied, either stack has an embedding of its own. */
#define BOTH_STACKS .refused = "!tie_word_embeddings|use_prompt", COMMON

const ln_family ln_family_bart = {
    .name = "bart",
    .hf_types = "bart|mvp|plbart",
    .ignored = EMBEDDINGS,
    .defaults = "plbart:decoder_start_token_id=0|decoder_start_token_id=2",
    .placement = LN_PLACE_AFTER,
    .learned_offset = 2,
    BOTH_STACKS,
    LN_BINDINGS(bart_bindings),
};

const ln_family ln_family_mbart = {
    .name = "mbart",
    .ignored = EMBEDDINGS,
    .learned_offset = 2,
    BOTH_STACKS,
    LN_BINDINGS(mbart_bindings),
};

const ln_family ln_family_blenderbot = {
    .name = "blenderbot",
    .ignored = EMBEDDINGS,
    .defaults = "decoder_start_token_id=1",
    BOTH_STACKS,
    LN_BINDINGS(blenderbot_bindings),
};

const ln_family ln_family_pegasus = {
    .name = "pegasus",
    .ignored =
        EMBEDDINGS "|model.encoder.embed_positions.weight|model.decoder.embed_positions.weight",
    .computed_positions = true,
    .even_sinusoids = true,
    .double_sinusoids = true,
    BOTH_STACKS,
    LN_BINDINGS(sinusoid_bindings),
};

const ln_family ln_family_m2m_100 = {
    .name = "m2m_100",
    .ignored =
        EMBEDDINGS "|model.encoder.embed_positions.weights|model.decoder.embed_positions.weights",
    .computed_positions = true,
    .learned_offset = 2,
    .learned_after_pad = true,
    BOTH_STACKS,
    LN_BINDINGS(sinusoid_bindings),
};

const ln_family ln_family_marian = {
    .name = "marian",
    .ignored = "model.encoder.embed_positions.weight|model.decoder.embed_positions.weight",
    .placement = LN_PLACE_AFTER,
    .computed_positions = true,
    .even_sinusoids = true,
    .double_sinusoids = true,
    COMMON,
    LN_BINDINGS(marian_bindings),
};
