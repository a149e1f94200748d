/* What merging does to which tensor. Internal to this folder. */
#ifndef LN_CONVERT_MERGE_PLAN_H
#define LN_CONVERT_MERGE_PLAN_H

#include "model/adapter/file.h"
#include "model/spec.h"

/* Rows [first_row, first_row + n_rows) of a stored tensor, counted over all outer dimensions, get
 * left right, then the lengths that `lengths` says, then are multiplied. */
typedef struct ln_merge_change {
    const ln_tensor *tensor;
    size_t first_row, n_rows, n_cols, rank; /* rank 0: there is no product */
    float *left, *right;                    /* [n_rows][rank], [rank][n_cols], owned */
    float *lengths;                         /* [n_rows] or NULL, owned: of a DoRA */
    float *of_rows, *of_cols;               /* [n_rows], [n_cols] or NULL, owned */
} ln_merge_change;

typedef struct ln_merge_plan {
    const ln_checkpoint *checkpoint;
    const ln_spec *spec;
    ln_merge_change *changes; /* [n_changes], owned */
    size_t n_changes, capacity;
    ln_error *err;
} ln_merge_plan;

/* Appends what an open adapter changes; each of its parts must find its tensor. */
ln_status ln_merge_plan_add(ln_merge_plan *plan, ln_adapter_file *file, float scale);
void ln_merge_plan_free(ln_merge_plan *plan);

#endif
