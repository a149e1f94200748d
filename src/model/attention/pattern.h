/* Which layers rotate queries and keys, and which see a window alone. */
#ifndef LN_MODEL_ATTENTION_PATTERN_H
#define LN_MODEL_ATTENTION_PATTERN_H

#include "model/config.h"
#include "model/spec.h"

/* The table by which a layer rotates, or -1; window 0: no layer has one. Errors: FORMAT,
 * UNSUPPORTED. */
ln_status ln_spec_layer_rope(const ln_config *config, const ln_spec *spec, size_t layer,
                             size_t window, bool windowed, int *rope, ln_error *err);
/* Whether a layer is windowed: by its entry in layer_types, or where there is a window by the
 * family's rule. Errors: FORMAT, UNSUPPORTED. */
ln_status ln_spec_layer_is_windowed(const ln_config *config, const ln_spec *spec, size_t layer,
                                    size_t window, bool *windowed, ln_error *err);

#endif
