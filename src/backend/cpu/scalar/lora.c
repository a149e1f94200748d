/* Low-rank updates of adapters (LoRA): A x by rows of one adapter (shrink), and B of that in the
 * linears (expand). Sums run over K in the order of all scalar products, and over the rank in
 * ascending order: what a row gets depends on the row and its adapter alone. */
#include "backend/cpu/scalar/scalar.h"

/* One weight's A for the rows of a run, and of a head. */
static void lora_shrink_run(const ln_op_lora_shrink *p, const ln_adapter_run *run, size_t index,
                            size_t head) {
    size_t n_heads = p->n_heads > 0 ? p->n_heads : 1;
    const ln_weight *weight = &p->weights[index][head];
    const ln_adapter_target *target =
        weight->adapters != NULL ? &weight->adapters[run->slot] : NULL;
    size_t n_in = weight->n_cols, stride = p->x_stride > 0 ? p->x_stride : n_in;
    for (int32_t i = run->begin; target != NULL && i < run->end; i++) {
        size_t row = (size_t)p->rows->order[i] * n_heads + head;
        for (size_t k = 0; k < target->rank; k++)
            p->low[index][row * p->low_stride + k] =
                ln_scalar_dot(p->x + row * stride, target->a + k * n_in, n_in);
    }
}

/* The rows of one expert, with one weight's A of each row's adapter. */
static void lora_shrink_group(const ln_op_lora_shrink *p, size_t index, size_t group) {
    const ln_weight *weight = &p->weights[index][group];
    size_t n_in = weight->n_cols;
    for (int32_t i = p->groups.starts[group]; i < p->groups.starts[group + 1]; i++) {
        size_t row = (size_t)p->groups.order[i];
        const float *x = p->x + row / p->rows_per_x * n_in;
        const ln_adapter_target *target = ln_adapter_of(p->rows, weight, row / p->rows_per_token);
        for (size_t k = 0; target != NULL && k < target->rank; k++)
            p->low[index][row * p->low_stride + k] = ln_scalar_dot(x, target->a + k * n_in, n_in);
    }
}

void ln_scalar_lora_shrink(const ln_op *op, const ln_cpu_worker *worker) {
    const ln_op_lora_shrink *p = &op->lora_shrink;
    size_t n_groups = p->groups.n_groups;
    if (n_groups > 0) {
        size_t first, last;
        ln_cpu_share(worker, n_groups * p->n_weights, &first, &last);
        for (size_t item = first; item < last; item++)
            lora_shrink_group(p, item / n_groups, item % n_groups);
        return;
    }
    size_t n_heads = p->n_heads > 0 ? p->n_heads : 1, begin, end;
    ln_cpu_share(worker, p->rows->n_runs * p->n_weights * n_heads, &begin, &end);
    for (size_t item = begin; item < end; item++)
        lora_shrink_run(p, &p->rows->runs[item % p->rows->n_runs],
                        item / p->rows->n_runs % p->n_weights,
                        item / p->rows->n_runs / p->n_weights);
}

float ln_scalar_expand(const ln_adapter_target *target, const float *low, size_t column) {
    const float *b = target->b + column / LN_ADAPTER_ROWS * target->rank * LN_ADAPTER_ROWS +
                     column % LN_ADAPTER_ROWS;
    float sum = 0.0f;
    for (size_t k = 0; k < target->rank; k++)
        sum += low[k] * b[k * LN_ADAPTER_ROWS];
    return sum;
}

void ln_scalar_lora_embedding(const ln_op *op, size_t token, size_t id, float *out) {
    const ln_op_embed *p = &op->embed;
    const ln_adapter_rows *rows = &op->batch->adapters;
    const ln_adapter_target *target =
        rows->n_runs > 0 ? ln_adapter_of(rows, p->table, token) : NULL;
    if (target == NULL || target->rank == 0)
        return;
    const float *low = target->a + id * target->rank;
    for (size_t i = 0; i < p->table->n_cols; i++)
        out[i] += p->scale * ln_scalar_expand(target, low, i);
}
