#include "backend/cpu/scalar/scalar.h"

#include "dist/collectives.h"

/* The first worker talks to the other ranks; all add the residual. What fails stays in `ranks`,
 * where whoever runs the step looks. */
void ln_scalar_all_reduce(const ln_op *op, const ln_cpu_worker *worker) {
    const ln_op_all_reduce *p = &op->all_reduce;
    size_t n = p->n_rows * p->dim, begin, end;
    if (worker->index == 0)
        (void)ln_all_reduce(p->ranks, p->x, n, p->scratch, NULL);
    if (p->residual == NULL && p->out == p->x)
        return;
    ln_cpu_barrier(worker);
    ln_cpu_share(worker, n, &begin, &end);
    for (size_t i = begin; i < end; i++)
        p->out[i] = p->residual != NULL ? p->residual[i] + p->x[i] : p->x[i];
}

void ln_scalar_rank_gather(const ln_op *op, const ln_cpu_worker *worker) {
    const ln_op_rank_gather *p = &op->rank_gather;
    if (worker->index == 0)
        (void)ln_gather_columns(p->ranks, p->x, p->n_rows, p->n_cols, p->scratch, p->out, NULL);
}

void ln_scalar_rank_pass(const ln_op *op, const ln_cpu_worker *worker) {
    const ln_op_rank_pass *p = &op->rank_pass;
    size_t bytes = p->n_rows * p->dim * sizeof *p->x;
    if (worker->index > 0)
        return;
    if (p->other == LN_NO_RANK)
        (void)ln_broadcast(p->ranks, p->x, bytes, false, NULL);
    else if (p->sends)
        (void)ln_send(p->ranks, p->other, p->x, bytes, NULL);
    else
        (void)ln_receive(p->ranks, p->other, p->x, bytes, NULL);
}
