/* Tensors of a new file, made role by role of what a folder holds. Internal to this folder. */
#ifndef LN_CONVERT_PARTS_H
#define LN_CONVERT_PARTS_H

#include "convert/plan.h"

/* The same tensor's number, of another role. */
static inline ln_tensor_id ln_id_as(ln_tensor_id id, ln_role role) {
    id.role = role;
    return id;
}

/* Some rows of a role's matrix; n_rows 0: all of them. */
typedef struct ln_convert_slice {
    size_t begin, n_rows;
} ln_convert_slice;

/* A part that changes nothing. */
extern const ln_convert_part ln_convert_as_is;

ln_status ln_convert_no_memory(const ln_convert_plan *plan);
/* Whether the folder has a tensor of this role. */
bool ln_convert_has(const ln_convert_plan *plan, ln_tensor_id id);
/* Appends units to the tensor of this name, one of n_packed alike. */
ln_status ln_convert_append(ln_convert_plan *plan, const char *name, size_t n_packed,
                            ln_convert_part *part, bool is_vector);
/* Adds a tensor of whole numbers, which the plan owns from then on. */
ln_status ln_convert_add_numbers(ln_convert_plan *plan, const char *name, int n_dims,
                                 const uint64_t *dims, int32_t *numbers);
/* Appends by a role's name, from a request's first source, if it has one. */
ln_status ln_convert_request(ln_convert_plan *plan, ln_tensor_id id, size_t n_packed,
                             const ln_weight_request *request, ln_convert_part part,
                             bool is_vector);
/* A matrix, and the bias beside it. */
ln_status ln_convert_matrix(ln_convert_plan *plan, ln_tensor_id id, size_t n_rows, size_t n_cols);
ln_status ln_convert_matrix_of(ln_convert_plan *plan, ln_tensor_id id,
                               const ln_source_shape *shape);
/* n_packed matrices, of experts or heads. */
ln_status ln_convert_matrices(ln_convert_plan *plan, ln_tensor_id id, size_t n_packed,
                              size_t n_rows, size_t n_cols);
/* Some rows of one, changed as `part` says; `bias_scale` is for the bias alone. The part's columns
 * are the plan's from then on. */
ln_status ln_convert_rows_of(ln_convert_plan *plan, ln_tensor_id id, const ln_source_shape *shape,
                             ln_convert_slice slice, ln_convert_part part, float bias_scale);
/* A vector; an optional one may be missing. */
ln_status ln_convert_vector(ln_convert_plan *plan, ln_tensor_id id, size_t n, float offset);
/* A norm that the family names; folders may hold its distance from one. */
ln_status ln_convert_norm(ln_convert_plan *plan, ln_tensor_id id, size_t n);
/* Sets the shape of the tensor that was appended to last. */
void ln_convert_reshape(ln_convert_plan *plan, int n_dims, const uint64_t *dims);

/* mixer.c: all tensors of a recurrent layer. */
ln_status ln_convert_mixer(ln_convert_plan *plan, ln_tensor_id id, const ln_mixer_spec *mixer);

#endif
