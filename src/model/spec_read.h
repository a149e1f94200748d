/* Reads the spec of a checkpoint: which family it is, what all layers share, and each layer. */
#ifndef LN_MODEL_SPEC_READ_H
#define LN_MODEL_SPEC_READ_H

#include "base/arena.h"
#include "base/error.h"
#include "format/checkpoint.h"
#include "model/spec.h"

/* Finds the family and reads the spec. Errors name the key: FORMAT (missing, wrong type or
 * impossible value), UNSUPPORTED (an architecture or variant that is not there). */
ln_status ln_spec_read(const ln_checkpoint *checkpoint, ln_arena *arena, ln_spec *spec,
                       ln_error *err);

#endif
