/* Operations that the ranks of a model run together (dist/collectives.h). All of them record these
 * in the same order. */
#ifndef LN_BACKEND_RANK_OPS_H
#define LN_BACKEND_RANK_OPS_H

#include <stdbool.h>
#include <stddef.h>

typedef struct ln_collectives ln_collectives;

/* out[i] = residual[i] + the sum of all ranks' x[i], in the order of ranks; without residual the
 * sum itself, which may be x. x is not kept. A failure is kept in `ranks`. */
typedef struct ln_op_all_reduce {
    ln_collectives *ranks;
    size_t n_rows, dim;
    float *x;              /* [n_rows][dim] */
    const float *residual; /* [n_rows][dim] or NULL */
    float *scratch;        /* ln_collectives_scratch of n_rows * dim */
    float *out;            /* [n_rows][dim]; may be x or `residual` */
} ln_op_all_reduce;

/* Columns that ranks have become rows on rank 0 (ln_gather_columns); the others have no `out`. */
typedef struct ln_op_rank_gather {
    ln_collectives *ranks;
    size_t n_rows, n_cols;
    const float *x; /* [n_rows][the rank's columns] */
    float *scratch;
    float *out; /* [n_rows][n_cols] */
} ln_op_rank_gather;

/* Rows go to another rank, or come from it; other LN_NO_RANK: the first one has them for all. */
typedef struct ln_op_rank_pass {
    ln_collectives *ranks;
    size_t other;
    bool sends;
    size_t n_rows, dim;
    float *x; /* [n_rows][dim] */
} ln_op_rank_pass;

#endif
