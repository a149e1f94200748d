/* Rows of a matrix, put together from the tensors that it comes from: several of them, transposed
 * ones, runs of rows, packed formats. What every backend begins with; none of it depends on one. */
#ifndef LN_BACKEND_WEIGHT_SOURCE_H
#define LN_BACKEND_WEIGHT_SOURCE_H

#include "backend/op.h"
#include "base/error.h"
#include "base/pool.h"
#include "format/checkpoint.h"
#include "format/packed.h"

/* Rows of a source tensor: n_rows of them in runs of run_rows, a run every run_stride rows from
 * row_begin on. A vector counts as rows of one column. */
typedef struct ln_weight_source {
    const ln_tensor *tensor;  /* dims [rows][n_cols], or [n_cols][rows] with `transpose` */
    size_t row_begin, n_rows; /* rows of the matrix after the transpose */
    size_t run_rows, run_stride;
    bool transpose; /* stored [n_cols][rows], as in GPT-2 */
    size_t
        col_begin; /* with transpose: the first stored row that counts; with whole_cols: column */
    size_t whole_cols; /* of a stored row of which the matrix has some, from col_begin on; 0: has
                          all; a packed one says itself which it has */
    ln_packed packed;  /* kind NONE: the tensor is stored plainly */
} ln_weight_source;

/* Whether rows are where they lie just as they are wanted. */
static inline bool ln_weight_source_is_plain(const ln_weight_source *source) {
    return !source->transpose && source->packed.kind == LN_PACKED_NONE && source->whole_cols == 0;
}

enum { LN_MAX_SOURCES = 8 };

/* The type of the rows that a source gives. */
static inline ln_dtype ln_weight_source_dtype(const ln_weight_source *source) {
    return source->packed.kind != LN_PACKED_NONE ? ln_packed_dtype(&source->packed)
                                                 : source->tensor->dtype;
}

/* What becomes of a matrix, where a backend may prepare it accordingly. */
typedef enum ln_weight_use {
    LN_USE_LINEAR = 0, /* one for all rows */
    LN_USE_TABLE,      /* rows are looked up */
    LN_USE_GROUPED,    /* one of several, of which each row meets one */
    LN_USE_ROUTER      /* few rows, which choose experts: small errors have large effects */
} ln_weight_use;

/* A matrix to prepare: the rows of its sources, one source after another. */
typedef struct ln_weight_request {
    size_t n_sources;
    ln_weight_source sources[LN_MAX_SOURCES];
    size_t n_cols;
    bool as_f32; /* small vectors (norms, biases): float32, n_cols is 1 */
    bool copies; /* rows are copied, also where they could be used as they are mapped */
    ln_weight_use use;
    bool rounds_f32; /* with `fast`, float32 rows may become bf16: nothing magnifies the errors */
} ln_weight_request;

/* Row number `row` of what a source gives, as a row of its matrix. */
static inline size_t ln_weight_source_row(const ln_weight_source *source, size_t row) {
    return source->row_begin + row / source->run_rows * source->run_stride + row % source->run_rows;
}

size_t ln_weight_n_rows(const ln_weight_request *request);

/* Leaves rows [begin, begin + n) or columns of a request of one source. Rows that come in runs are
 * cut between or within these. Errors: UNSUPPORTED, where a cut goes through blocks of values that
 * share a scale or through runs; it names the tensor. */
ln_status ln_weight_cut_rows(ln_weight_request *request, size_t begin, size_t n, ln_error *err);
ln_status ln_weight_cut_columns(ln_weight_request *request, size_t begin, size_t n, ln_error *err);

/* Whether the rows lie in one tensor just as they are wanted, so that they are read where they are
 * mapped. */
bool ln_weight_is_mapped(const ln_weight_request *request);

/* Whether the sources can become one matrix, and the bytes of its rows. Errors: UNSUPPORTED, LIMIT.
 */
ln_status ln_weight_check_sources(const ln_weight_request *request, size_t *bytes, ln_error *err);

/* Bytes that ln_weight_assemble writes: 0 where the rows are mapped, else as
 * ln_weight_check_sources. */
ln_status ln_weight_plan_rows(const ln_weight_request *request, size_t *bytes, ln_error *err);

/* Fills *weight as a matrix of rows of the checkpoint's type in `memory`, or where they are mapped;
 * writes nothing. */
ln_status ln_weight_describe_rows(const ln_weight_request *request, void *memory, ln_weight *weight,
                                  ln_error *err);

/* Puts the rows in `memory`, of ln_weight_plan_rows bytes, shared out among the pool's threads
 * (NULL: the calling one does it all), and fills *weight. */
ln_status ln_weight_assemble(const ln_weight_request *request, ln_pool *pool, void *memory,
                             ln_weight *weight, ln_error *err);

/* out[begin .. end - 1][row_bytes] = rows of the matrix; `out`: where row 0 lies. */
void ln_weight_copy_rows(const ln_weight_request *request, size_t begin, size_t end,
                         size_t row_bytes, uint8_t *out);

/* A row of the matrix, in the checkpoint's type: where it is mapped, or assembled in
 * scratch[row_bytes]. */
const uint8_t *ln_weight_find_row(const ln_weight_request *request, size_t row, uint8_t *scratch,
                                  size_t row_bytes);

#endif
