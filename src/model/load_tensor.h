/* One weight, norm or table at a time, as src/model/load.c walks over all of them.
 *
 * Planning and loading are one walk. While planning, both memories are NULL and results go to
 * scratch structs; both passes add the same parts to the layouts. */
#ifndef LN_MODEL_LOAD_TENSOR_H
#define LN_MODEL_LOAD_TENSOR_H

#include "base/layout.h"
#include "model/source.h"
#include "model/unused_tensors.h"
#include "model/weights.h"

typedef struct ln_loader {
    const ln_checkpoint *checkpoint;
    const ln_spec *spec;
    const ln_backend *backend;
    ln_backend *writable; /* the same backend; NULL while planning */
    char *memory;         /* prepared copies */
    char *table;          /* arrays of ln_weight, and the layers */
    ln_layout layout, table_layout;
    ln_layout adapter; /* what one adapter takes of a slot */
    size_t mapped_bytes;
    size_t total_bytes; /* prepared and mapped, when all is loaded */
    size_t first_layer, end_layer;
    ln_weights_options options;
    bool encoder;                /* the walk is in the encoder */
    const char *stem;            /* of ln_tensor_id, in a head that drafts */
    ln_unused_tensors *unused;   /* NULL while loading */
    const ln_tensor *gate_order; /* of the columns of the last gate */
    /* Where matrices are noted instead of prepared: which one of the store, and which expert's is
     * next; NULL: they are prepared. */
    ln_expert_store *store;
    size_t stored_matrix, stored_expert, stored_bytes; /* the greatest of them in the file */
    ln_expert_sizes expert_sizes;                      /* of all stores */
    ln_weights *weights;
    ln_error *err;
} ln_loader;

/* Tells who asked how much is ready. */
void ln_load_tell(const ln_loader *l);

/* Plans or prepares one request into the next part of the arena. */
ln_status ln_load_weight(ln_loader *l, const ln_weight_request *request, ln_weight *weight);
/* float32 copies of vectors and small tables; *out stays NULL when the request is empty. */
ln_status ln_load_floats(ln_loader *l, const ln_weight_request *request, const float **out);
/* A vector of the checkpoint, [n]. */
ln_status ln_load_vector(ln_loader *l, ln_tensor_id id, size_t n, const float **out);
/* A layer's matrix as it is, in float32. */
ln_status ln_load_float_matrix(ln_loader *l, ln_role role, size_t i, size_t n_rows, size_t n_cols,
                               const float **out);
/* n floats computed here: position tables. NULL while planning. */
ln_status ln_load_table(ln_loader *l, const float *values, size_t n, const float **out);

/* n columns of activations, in the order that a gather has. */
ln_status ln_load_columns(ln_loader *l, const int32_t *columns, size_t n, const int32_t **out);

/* A prepared matrix without a bias: the rows of several roles of a recurrent layer, one role after
 * another. On the CPU adapters of each of them change it. */
ln_status ln_load_joined(ln_loader *l, const ln_role *roles, const size_t *n_rows, size_t n_roles,
                         size_t layer, size_t n_cols, ln_weight *weight);
/* n values of a small tensor, whatever its dimensions, in the host's memory; false in *is_there
 * where the family says that it may be absent, and it is. While planning, values stay as they are.
 */
ln_status ln_load_values(ln_loader *l, ln_role role, size_t layer, bool is_bias, size_t n,
                         float *values, bool *is_there);
/* The same as a table, each value as `of` makes it (NULL: as it is). *out stays NULL where there is
 * no tensor. */
ln_status ln_load_value_table(ln_loader *l, ln_role role, size_t layer, bool is_bias, size_t n,
                              float (*of)(float), const float **out);
/* n times `value`. */
ln_status ln_load_constant(ln_loader *l, float value, size_t n, const float **out);

/* A matrix of a layer, with its bias. */
ln_status ln_load_matrix(ln_loader *l, ln_role role, size_t layer, size_t n_rows, size_t n_cols,
                         ln_weight *weight);
/* One of many matrices of a layer, by its number: of one tensor, or of a tensor for each. */
ln_status ln_load_packed(ln_loader *l, ln_role role, size_t layer, size_t number,
                         const ln_source_shape *shape, ln_weight *weight);
ln_status ln_load_numbered(ln_loader *l, ln_role role, size_t layer, size_t number, size_t n_rows,
                           size_t n_cols, ln_weight *weight);
/* Lets adapters change a matrix that is recorded as a linear, or looked up as the embedding. */
void ln_load_adapters_of(ln_loader *l, ln_role role, size_t n_rows, size_t n_cols,
                         ln_weight *weight);
/* One matrix for each expert or head. *out stays NULL while planning. */
ln_status ln_load_matrices(ln_loader *l, ln_role role, size_t layer, const ln_source_shape *shape,
                           ln_weight **out);

/* A norm that the family names must be there, unless it is optional; one that it does not name
 * stays absent (dim 0). */
ln_status ln_load_norm(ln_loader *l, ln_role role, size_t layer, size_t dim, ln_norm *out);
/* A norm whose weights are multiplied by a factor. */
ln_status ln_load_scaled_norm(ln_loader *l, ln_role role, size_t layer, size_t dim, float factor,
                              ln_norm *out);
/* A norm of heads with weights [n_heads][dim]. */
ln_status ln_load_norm_by_head(ln_loader *l, ln_role role, size_t layer, size_t n_heads, size_t dim,
                               ln_norm *out);

#endif
