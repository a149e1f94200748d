/* Finds a role's tensor in a checkpoint, checks its shape, and says which of its rows to take. */
#ifndef LN_MODEL_SOURCE_H
#define LN_MODEL_SOURCE_H

#include "backend/backend.h"
#include "model/family.h"

/* The layer of a tensor. */
static inline const ln_layer_spec *ln_layer_of(const ln_spec *spec, ln_tensor_id id) {
    return id.encoder ? &spec->encoder_layers[id.layer] : &spec->layers[id.layer];
}

/* Whether each expert has a matrix of this role. */
static inline bool ln_role_is_of_expert(ln_role role) {
    return role == LN_ROLE_EXPERT_GATE || role == LN_ROLE_EXPERT_UP || role == LN_ROLE_EXPERT_DOWN;
}

/* What a role needs: a matrix, number `id.expert` of `n_packed` alike. */
typedef struct ln_source_shape {
    size_t n_packed; /* experts or heads; 1 */
    size_t n_rows, n_cols;
} ln_source_shape;

/* The request for a matrix, or LINNET_ERR_FORMAT naming the tensor that is missing or of wrong
 * shape. */
ln_status ln_source_matrix(const ln_checkpoint *checkpoint, const ln_spec *spec, ln_tensor_id id,
                           const ln_source_shape *shape, ln_weight_request *request, ln_error *err);

/* The request for the bias beside that matrix, n_rows elements; n_sources 0: there is none. */
ln_status ln_source_bias(const ln_checkpoint *checkpoint, const ln_spec *spec, ln_tensor_id id,
                         const ln_source_shape *shape, ln_weight_request *request, ln_error *err);

/* The request for a vector of n elements; n_sources 0: it is optional and absent. */
ln_status ln_source_vector(const ln_checkpoint *checkpoint, const ln_spec *spec, ln_tensor_id id,
                           size_t n, ln_weight_request *request, ln_error *err);

/* Which rows of a stored matrix make the n_rows of a role, where a binding's part is such; the
 * tensor is left out. *stored_rows: how many it has. */
ln_weight_source ln_source_part(const ln_spec *spec, ln_part part, ln_tensor_id id, size_t n_rows,
                                size_t *stored_rows);

/* Whether `tensor` has n elements for a role and no others, but for those of queries, keys and
 * values where `part` is of all three; *begin: the first. */
bool ln_source_values(const ln_spec *spec, ln_part part, ln_tensor_id id, size_t n,
                      const ln_tensor *tensor, size_t *begin);

/* A vector's shape, whatever its leading dimensions of 1. */
ln_status ln_source_check_vector(const ln_checkpoint *checkpoint, const ln_tensor *tensor, size_t n,
                                 ln_error *err);

#endif
