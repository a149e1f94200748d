/* The selective scans of Mamba 1 and of RG-LRU on the CPU: an item is some columns of a sequence's
 * state, which do not depend on one another and stay in the worker's scratch from token to token.
 */
#ifndef LN_BACKEND_CPU_SCALAR_SELECTIVE_H
#define LN_BACKEND_CPU_SCALAR_SELECTIVE_H

#include "backend/cpu/scalar/state_view.h"

enum { LN_SELECTIVE_COLUMNS = 64 }; /* of an item, at most */

/* Columns first .. first + n - 1 of a sequence's state, all of one head of keys. */
typedef struct ln_selective_columns {
    const ln_op_scan *p;
    const ln_state_view *view;
    const ln_state_shape *s;
    size_t first, n, k_head;
    float *state; /* [k_dim][LN_SELECTIVE_COLUMNS] */
} ln_selective_columns;

/* A token's key, and of the columns its step sizes and updates; and, if it is of the step, its
 * query, and of the columns its values and results. */
typedef struct ln_selective_token {
    const float *k, *dt, *u;
    const float *q, *v; /* NULL: of an earlier step */
    float *out;
} ln_selective_token;

/* What an instruction set computes. */
typedef struct ln_selective_kernel {
    /* dt of the columns of a row, and u: dt v, or as LN_DECAY_LRU has it */
    void (*update)(const ln_selective_columns *c, size_t row, const float *v, float *dt, float *u);
    /* The state takes the token, and gives its results. */
    void (*take)(const ln_selective_columns *c, const ln_selective_token *t);
} ln_selective_kernel;

/* dt and u of LN_DECAY_LRU. */
void ln_lru_update(const ln_selective_columns *c, size_t row, const float *v, float *dt, float *u);

void ln_selective_scan(const ln_op *op, const ln_cpu_worker *worker,
                       const ln_selective_kernel *kernel);

#endif
