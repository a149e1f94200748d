/* A and B of one matrix on their way from an adapter's file to its slot. */
#ifndef LN_MODEL_ADAPTER_MATRIX_H
#define LN_MODEL_ADAPTER_MATRIX_H

#include "base/layout.h"
#include "model/adapter/file.h"
#include "model/adapter/place.h"
#include "model/source.h"
#include "model/weights.h"

/* An adapter that is being loaded. */
typedef struct ln_adapter_loading {
    ln_adapter_file *file;
    const ln_spec *spec;
    const ln_weights *weights;
    const ln_adapter_place *place;
    float scale;
    ln_layout layout; /* of what was taken of the slot's memory */
    char *memory;     /* where it is put together: the slot's, or the host's on its way there */
    size_t n_linears;
} ln_adapter_loading;

/* Which rows of what the file has are those of a matrix, in its order. */
typedef struct ln_adapter_row_map {
    ln_weight_source source;
    size_t stored_rows;
    size_t begin;  /* the first that a rank has of the model's */
    ln_slice cols; /* that it has; n 0: all */
    /* whose halves lie as pairs in one of file and model: of the leading rope_dims; 0: in neither
     */
    size_t head_dim, rope_dims;
    bool to_halves; /* the file has halves */
} ln_adapter_row_map;

/* A and B where kernels want them: as float32, or in tiles. */
typedef struct ln_adapter_matrices {
    size_t rank, n_in;
    size_t first_k, first_row; /* of the part that is read, where there are several */
    float *a, *b;
    uint16_t *a_tiles, *b_tiles;
} ln_adapter_matrices;

static inline size_t ln_adapter_whole_rows(size_t n) {
    return (n + LN_ADAPTER_ROWS - 1) / LN_ADAPTER_ROWS * LN_ADAPTER_ROWS;
}

/* The file's row for a row of the matrix. */
size_t ln_adapter_stored_row(const ln_adapter_row_map *map, size_t row);
ln_status ln_adapter_check_shape(const ln_adapter_loading *l, const ln_tensor *tensor, size_t rows,
                                 size_t cols, ln_error *err);
/* Row `row` of a matrix as float32 in out[dims[1]]. */
ln_status ln_adapter_read_row(const ln_adapter_loading *l, const ln_tensor *tensor, size_t row,
                              float *out, ln_error *err);

/* The next n floats of the slot's memory, zeroed. */
ln_status ln_adapter_take(ln_adapter_loading *l, const ln_adapter_part *part, size_t n, float **out,
                          ln_error *err);
/* Memory for A and B of a linear. */
ln_status ln_adapter_take_matrices(ln_adapter_loading *l, const ln_adapter_part *part, size_t rank,
                                   size_t n_in, size_t n_out, ln_adapter_matrices *m,
                                   ln_error *err);
void ln_adapter_put_a(const ln_adapter_matrices *m, size_t k, size_t column, float value);
void ln_adapter_put_b(const ln_adapter_matrices *m, size_t row, size_t k, float value);
ln_adapter_target ln_adapter_target_of(const ln_adapter_matrices *m);

/* The rows of B that a matrix of n_rows has. */
ln_status ln_adapter_load_b(ln_adapter_loading *l, const ln_adapter_part *part,
                            const ln_adapter_row_map *map, size_t n_rows,
                            const ln_adapter_matrices *m, ln_error *err);
/* A, and the rows of B for n_rows. */
ln_status ln_adapter_load_product(ln_adapter_loading *l, const ln_adapter_part *part,
                                  const ln_adapter_row_map *map, size_t n_rows,
                                  const ln_adapter_matrices *m, ln_error *err);

#endif
