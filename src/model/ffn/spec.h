/* What the feed-forwards of a stack's layers have in common. */
#ifndef LN_MODEL_FFN_SPEC_H
#define LN_MODEL_FFN_SPEC_H

#include "model/config.h"
#include "model/spec.h"

/* Activation, gate, width, limits, and the mixture of experts where there is one. Errors name the
 * key. */
ln_status ln_spec_read_ffn(const ln_config *config, const ln_spec *spec, bool encoder,
                           ln_ffn_spec *ffn, ln_error *err);
/* The activation that a key names; where it is missing *activation stays. Errors: UNSUPPORTED. */
ln_status ln_spec_read_activation(const ln_config *config, ln_key key, ln_activation *activation,
                                  ln_error *err);

#endif
