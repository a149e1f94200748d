/* Which tensors of a checkpoint a walk over its weights has read. What is left over means that the
 * checkpoint holds more than its family describes, so that the model would compute something else:
 * it is an error, unless the tensor is known not to count. */
#ifndef LN_MODEL_UNUSED_TENSORS_H
#define LN_MODEL_UNUSED_TENSORS_H

#include "backend/backend.h"
#include "model/family.h"

typedef struct ln_unused_tensors {
    const ln_checkpoint *checkpoint;
    bool *read; /* [tensors of the checkpoint], owned */
} ln_unused_tensors;

ln_status ln_unused_tensors_init(ln_unused_tensors *unused, const ln_checkpoint *checkpoint,
                                 ln_error *err);
void ln_unused_tensors_free(ln_unused_tensors *unused);

/* Tensors that were read; a NULL tensor is none. */
void ln_unused_tensors_mark(ln_unused_tensors *unused, const ln_tensor *tensor);
void ln_unused_tensors_mark_request(ln_unused_tensors *unused, const ln_weight_request *request);

/* LINNET_ERR_UNSUPPORTED naming the first tensor that counts and was not read. */
ln_status ln_unused_tensors_check(const ln_unused_tensors *unused, const ln_spec *spec,
                                  ln_error *err);

#endif
