/* Rotary position tables from their description. */
#ifndef LN_MODEL_ROPE_H
#define LN_MODEL_ROPE_H

#include "model/config.h"
#include "model/spec.h"

typedef struct ln_rope_source {
    ln_rope_style style;
    size_t head_dim;
    bool whole_head;    /* all of it rotates, whatever fraction the checkpoint names */
    bool gguf_whole;    /* the same in GGUF */
    bool is_half;       /* what GGUF gives is twice what rotates */
    double fraction;    /* of a head that rotates when the checkpoint does not say; 0: all */
    bool by_fraction;   /* rotary_dim does not count */
    bool whole_yarn;    /* YaRN's bounds are not rounded when the checkpoint does not say */
    bool local;         /* of windowed layers, where they have a table of their own */
    bool lists_flags;   /* layer_rope_theta says which layers rotate, not by which base */
    double local_theta; /* its base when the checkpoint does not say; 0: the other table's */
} ln_rope_source;

/* Reads theta and scaling. Errors name the key. */
ln_status ln_rope_read(const ln_config *config, const ln_rope_source *source, ln_arena *arena,
                       ln_rope_spec *rope, ln_error *err);

/* Longrope: whether sequences of up to ctx_tokens take the long factors. */
bool ln_rope_is_long(const ln_rope_spec *rope, size_t ctx_tokens);

/* Fills inv_freq[n_dims / 2] for sequences of up to ctx_tokens and returns the magnitude of cos
 * and sin. freq_factors [n_dims / 2], or NULL, divide the frequencies (longrope's, or llama3's as
 * GGUF stores it). */
float ln_rope_fill(const ln_rope_spec *rope, size_t ctx_tokens, const float *freq_factors,
                   float *inv_freq);

#endif
