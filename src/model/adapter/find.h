/* The part of an adapter that changes a tensor of the model. */
#ifndef LN_MODEL_ADAPTER_FIND_H
#define LN_MODEL_ADAPTER_FIND_H

#include "model/adapter/file.h"
#include "model/family.h"
#include "model/spec.h"

/* By the names that the family's bindings give the tensor in the adapter's format; *binding is the
 * one that named it. NULL: the adapter leaves it as it is. */
ln_adapter_part *ln_adapter_find_part(const ln_adapter_file *file, const ln_family *family,
                                      ln_tensor_id id, const ln_binding **binding);

/* A matrix of one expert in a part that has those of all experts, gates and ups perhaps together.
 */
typedef struct ln_adapter_expert {
    ln_adapter_part *part;
    size_t n_out, n_in;
    size_t row_begin, row_step; /* of its rows among the part's */
} ln_adapter_expert;

/* Finds the part for a role of a decoder layer's experts; false: there is none. */
bool ln_adapter_find_experts(const ln_adapter_file *file, const ln_spec *spec, ln_tensor_id id,
                             ln_adapter_expert *expert);

#endif
