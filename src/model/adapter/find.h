/* The part of an adapter that changes a tensor of the model. */
#ifndef LN_MODEL_ADAPTER_FIND_H
#define LN_MODEL_ADAPTER_FIND_H

#include "model/adapter/file.h"
#include "model/family.h"

/* By the names that the family's bindings give the tensor in the adapter's format; *binding is the
 * one that named it. NULL: the adapter leaves it as it is. */
ln_adapter_part *ln_adapter_find_part(const ln_adapter_file *file, const ln_family *family,
                                      ln_tensor_id id, const ln_binding **binding);

#endif
