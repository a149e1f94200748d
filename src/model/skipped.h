/* Tensors that a language model does not read, and which of its neighbours they belong to. */
#ifndef LN_MODEL_SKIPPED_H
#define LN_MODEL_SKIPPED_H

#include "format/checkpoint.h"
#include "model/spec.h"

/* "vision_tower", "prediction layers" ... when the tensor is skipped on purpose, else NULL. */
const char *ln_skipped_part(const ln_checkpoint *checkpoint, const ln_spec *spec,
                            const ln_tensor *tensor);

#endif
