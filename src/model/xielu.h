/* xIELU's parameters: tensors of one number in folders, arrays of metadata in GGUF. */
#ifndef LN_MODEL_XIELU_H
#define LN_MODEL_XIELU_H

#include "model/spec.h"
#include "model/unused_tensors.h"

/* The parameters of a layer as they are stored: the alphas before the softplus that keeps them
 * positive. Marks tensors in `unused`, unless that is NULL; reads their data only where
 * `with_values` is set. */
ln_status ln_xielu_read(const ln_checkpoint *checkpoint, const ln_spec *spec, size_t layer,
                        ln_unused_tensors *unused, bool with_values, ln_xielu *stored,
                        ln_error *err);

/* The parameters that kernels take. */
ln_xielu ln_xielu_of(const ln_xielu *stored);

#endif
