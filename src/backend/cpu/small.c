#include "backend/cpu/small.h"

/* Weights that one thread multiplies with one row in about three microseconds: ten times a barrier
 * of two threads that run. */
enum { SMALL_WORK = 128 << 10, ROWS_BESIDE_READING = 4 };

/* A few rows take little longer than one: reading and unpacking the weights counts for four. */
static size_t linear_work(const ln_op_linear *p) {
    size_t n_matrices = p->gate != NULL ? 2 : 1;
    size_t n_weights = n_matrices * p->weight->n_rows * p->weight->n_cols;
    return n_weights * (ROWS_BESIDE_READING + p->n_rows) / (ROWS_BESIDE_READING + 1);
}

/* Keys and values that queries meet. */
static size_t attention_work(const ln_op_attention *p, const ln_batch *batch) {
    const int32_t *lengths = batch->groups[p->kv->group].lengths;
    size_t work = 0;
    for (size_t i = 0; i < batch->n_seqs; i++)
        work += (size_t)(batch->seq_starts[i + 1] - batch->seq_starts[i]) * (size_t)lengths[i];
    return work * p->n_heads * (p->kv->k_dim + p->kv->v_dim);
}

bool ln_cpu_is_small(const ln_op *ops, size_t n_ops) {
    size_t work = 0, limit = n_ops * SMALL_WORK;
    for (size_t i = 0; i < n_ops && work < limit; i++)
        if (ops[i].kind == LN_OP_LINEAR)
            work += linear_work(&ops[i].linear);
        else if (ops[i].kind == LN_OP_ATTENTION)
            work += attention_work(&ops[i].attention, ops[i].batch);
    return work < limit;
}
