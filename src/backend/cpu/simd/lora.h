/* Low-rank updates of adapters (LoRA; ln_op_lora_shrink): shrink, A x as plain float32 rows, 16
 * rows of A at a time for up to 16 rows of x that have the same adapter; expand, B of that behind
 * the sums of a linear. */
#ifndef LN_BACKEND_CPU_SIMD_LORA_H
#define LN_BACKEND_CPU_SIMD_LORA_H

#include "backend/cpu/simd/rows.h"

_Static_assert((int)LN_ADAPTER_ROWS == (int)LANES, "rows of A and B that lie together");

/* 16 rows of a weight's A, from `first` on, for the rows of a run. */
static void lora_shrink_run(const ln_op_lora_shrink *p, const ln_adapter_run *run, size_t index,
                            size_t head, size_t first, float *sums) {
    size_t n_heads = p->n_heads > 0 ? p->n_heads : 1, n = (size_t)(run->end - run->begin);
    const ln_weight *weight = &p->weights[index][head];
    const ln_adapter_target *target =
        weight->adapters != NULL ? &weight->adapters[run->slot] : NULL;
    size_t n_in = weight->n_cols, stride = p->x_stride > 0 ? p->x_stride : n_in;
    size_t at[LN_ADAPTER_RUN];
    const float *x[LN_ADAPTER_RUN], *a[LANES];
    if (target == NULL || first >= target->rank)
        return;
    for (size_t i = 0; i < n; i++) {
        at[i] = (size_t)p->rows->order[(size_t)run->begin + i] * n_heads + head;
        x[i] = p->x + at[i] * stride;
    }
    for (size_t i = 0; i < LANES; i++)
        a[i] = target->a + (first + i) * n_in;
    rows_multiply(n, x, a, n_in, sums);
    for (size_t i = 0; i < n; i++)
        vf_store(p->low[index] + at[i] * p->low_stride + first, vf_load(sums + i * UNIT));
}

/* 16 rows of a weight's A, from `first` on, for the rows of one expert, up to 16 that follow one
 * another with the same adapter at once. */
static void lora_shrink_group(const ln_op_lora_shrink *p, size_t index, size_t group, size_t first,
                              float *sums) {
    const ln_weight *weight = &p->weights[index][group];
    const int32_t *order = p->groups.order + p->groups.starts[group];
    size_t n_rows = (size_t)(p->groups.starts[group + 1] - p->groups.starts[group]), n;
    size_t n_in = weight->n_cols;
    const float *x[LN_ADAPTER_RUN], *a[LANES];
    for (size_t begin = 0; begin < n_rows; begin += n) {
        const ln_adapter_target *target =
            ln_adapter_of(p->rows, weight, (size_t)order[begin] / p->rows_per_token);
        for (n = 0; n < LN_ADAPTER_RUN && begin + n < n_rows; n++) {
            size_t row = (size_t)order[begin + n];
            if (ln_adapter_of(p->rows, weight, row / p->rows_per_token) != target)
                break;
            x[n] = p->x + row / p->rows_per_x * n_in;
        }
        if (target == NULL || first >= target->rank)
            continue;
        for (size_t i = 0; i < LANES; i++)
            a[i] = target->a + (first + i) * n_in;
        rows_multiply(n, x, a, n_in, sums);
        for (size_t i = 0; i < n; i++)
            vf_store(p->low[index] + (size_t)order[begin + i] * p->low_stride + first,
                     vf_load(sums + i * UNIT));
    }
}

static void lora_shrink_groups(const ln_op_lora_shrink *p, const ln_cpu_worker *worker) {
    size_t n_groups = p->groups.n_groups, n_blocks = p->low_stride / LANES, item;
    while (ln_cpu_take(worker, n_groups * n_blocks * p->n_weights, &item)) {
        size_t matrix = item / n_blocks;
        lora_shrink_group(p, matrix / n_groups, matrix % n_groups, item % n_blocks * LANES,
                          worker->scratch);
    }
}

static void lora_shrink(const ln_op *op, const ln_cpu_worker *worker) {
    const ln_op_lora_shrink *p = &op->lora_shrink;
    if (p->groups.n_groups > 0) {
        lora_shrink_groups(p, worker);
        return;
    }
    size_t n_runs = p->rows->n_runs, n_heads = p->n_heads > 0 ? p->n_heads : 1;
    size_t n_blocks = p->low_stride / LANES, item;
    while (ln_cpu_take(worker, n_runs * n_blocks * p->n_weights * n_heads, &item)) {
        size_t block = item / n_runs % n_blocks, matrix = item / n_runs / n_blocks;
        lora_shrink_run(p, &p->rows->runs[item % n_runs], matrix % p->n_weights,
                        matrix / p->n_weights, block * LANES, worker->scratch);
    }
}

/* B low for 16 columns; four sums over the rank, merged in pairs. */
LN_INLINE vf lora_expand(const ln_adapter_target *target, const float *low, size_t column) {
    const float *b = target->b + column * target->rank;
    vf sums[4] = {vf_set(0.0f), vf_set(0.0f), vf_set(0.0f), vf_set(0.0f)};
    size_t k = 0;
    for (; k + 4 <= target->rank; k += 4)
        for (size_t i = 0; i < 4; i++)
            sums[i] = vf_fma(vf_set(low[k + i]), vf_load(b + (k + i) * LANES), sums[i]);
    for (; k < target->rank; k++)
        sums[0] = vf_fma(vf_set(low[k]), vf_load(b + k * LANES), sums[0]);
    return vf_add(vf_add(sums[0], sums[1]), vf_add(sums[2], sums[3]));
}

/* The sums of 16 columns, with their bias, as the row's adapter makes them; what A gave begins `at`
 * floats into `low`. */
LN_INLINE vf lora_add(const ln_adapter_target *target, const float *low, size_t at, size_t column,
                      vf u) {
    if (target == NULL)
        return u;
    if (target->rank > 0)
        u = vf_add(u, lora_expand(target, low + at, column));
    if (target->multiply == NULL)
        return u;
    u = vf_mul(u, vf_load(target->multiply + column));
    return target->add != NULL ? vf_add(u, vf_load(target->add + column)) : u;
}

#endif
