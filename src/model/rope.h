/* Rotary position tables from their description. */
#ifndef LN_MODEL_ROPE_H
#define LN_MODEL_ROPE_H

#include "model/config.h"
#include "model/spec.h"

/* Reads theta and scaling for heads of head_dim. Errors name the key. */
ln_status ln_rope_read(const ln_config *config, ln_rope_style style, size_t head_dim,
                       ln_rope_spec *rope, ln_error *err);

/* Fills inv_freq[n_dims / 2] and returns the magnitude of cos and sin. freq_factors
 * [n_dims / 2], or NULL, divide the frequencies (GGUF stores llama3's scaling this way). */
float ln_rope_fill(const ln_rope_spec *rope, const float *freq_factors, float *inv_freq);

#endif
