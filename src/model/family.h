/* A family: which keys and tensor names of a checkpoint mean what. Data only; one file each in
 * families/, listed in families/table.c. */
#ifndef LN_MODEL_FAMILY_H
#define LN_MODEL_FAMILY_H

#include "model/spec.h"

/* What a weight is for. Linear roles may have a bias beside them. */
typedef enum ln_role {
    LN_ROLE_EMBEDDING,
    LN_ROLE_LEARNED_POSITIONS,
    LN_ROLE_EMBEDDING_NORM,
    LN_ROLE_OUTPUT_NORM,
    LN_ROLE_OUTPUT,
    LN_ROLE_ATTENTION_NORM, /* the first role of a layer */
    LN_ROLE_ATTENTION_POST_NORM,
    LN_ROLE_Q,
    LN_ROLE_K,
    LN_ROLE_V,
    LN_ROLE_Q_NORM,
    LN_ROLE_K_NORM,
    LN_ROLE_O,
    LN_ROLE_FFN_NORM,
    LN_ROLE_FFN_POST_NORM,
    LN_ROLE_GATE,
    LN_ROLE_UP,
    LN_ROLE_DOWN,
    LN_ROLE_COUNT
} ln_role;

/* Names without ".weight"; %d is the layer. NULL: the format has no such tensor. */
typedef struct ln_binding {
    ln_role role;
    const char *hf, *gguf;
} ln_binding;

/* Which layers see only a window when config.json does not list layer_types. */
typedef enum ln_window_rule {
    LN_WINDOW_NEVER,
    LN_WINDOW_ALL,   /* every layer, when a window is given */
    LN_WINDOW_ABOVE, /* layers from max_window_layers on, when use_sliding_window is set */
} ln_window_rule;

struct ln_family {
    const char *name;
    const char *hf_types; /* model_type values, separated by '|' */
    const char *gguf;     /* general.architecture, or NULL */
    ln_norm_kind norm;
    ln_placement placement;
    ln_qk_norm qk_norm;
    ln_rope_style hf_rope, gguf_rope;
    ln_window_rule window;
    const ln_binding *bindings; /* [n_bindings], later ones override earlier ones of a role */
    size_t n_bindings;
};

/* All families, NULL-terminated. */
extern const ln_family *const ln_families[];

/* The tensor of a role in a checkpoint: its name without ".weight" in name[capacity]. False when
 * the family has none. */
bool ln_family_tensor_name(const ln_family *family, ln_checkpoint_format format, ln_role role,
                           size_t layer, char *name, size_t capacity);

/* The names that most families of llama's shape use. */
enum { LN_N_LLAMA_BINDINGS = 14 };
extern const ln_binding ln_llama_bindings[LN_N_LLAMA_BINDINGS];

extern const ln_family ln_family_llama, ln_family_mistral, ln_family_qwen2, ln_family_qwen3;

#endif
