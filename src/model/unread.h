/* Which tensors of a checkpoint a walk over its weights has read. What is left over means that the
 * checkpoint holds more than its family describes, so that the model would compute something else:
 * it is an error, unless the tensor is known not to count. */
#ifndef LN_MODEL_UNREAD_H
#define LN_MODEL_UNREAD_H

#include "backend/backend.h"
#include "model/family.h"

typedef struct ln_unread {
    const ln_checkpoint *checkpoint;
    bool *read; /* [tensors of the checkpoint], owned */
} ln_unread;

ln_status ln_unread_init(ln_unread *unread, const ln_checkpoint *checkpoint, ln_error *err);
void ln_unread_free(ln_unread *unread);

/* Tensors that were read; a NULL tensor is none. */
void ln_unread_mark(ln_unread *unread, const ln_tensor *tensor);
void ln_unread_mark_request(ln_unread *unread, const ln_weight_request *request);

/* LINNET_ERR_UNSUPPORTED naming the first tensor that counts and was not read. */
ln_status ln_unread_check(const ln_unread *unread, const ln_spec *spec, ln_error *err);

#endif
