#include "backend/cuda/activations/form.h"
#include "backend/cuda/ranks/link.h"
#include "dist/collectives.h"

/* Overlaps where plans let a norm go to a sum (plan.c): with 128 rows steps are 3 to 4 % slower
 * when a collective begins early, for a reason that was not found. */
static ln_ipc_group find_group(const ln_cuda_link *link, const ln_collectives *ranks,
                               size_t n_rows) {
    bool is_part = link->mesh.n_expert > 1 && ranks->n_ranks == link->mesh.n_tensor;
    ln_ipc_group group = {.n_ranks = (unsigned)ranks->n_ranks,
                          .rank = (unsigned)ranks->rank,
                          .first = (unsigned)ranks->first,
                          .index = is_part ? 1 : 0,
                          .overlaps = n_rows <= LN_SMALL_M_ROWS,
                          .patience = link->patience};
    for (size_t i = 0; i < ranks->n_ranks; i++)
        group.arenas[i] = link->arenas[ranks->first + i];
    return group;
}

static int all_reduce(const ln_cuda_link *link, const ln_op_all_reduce *op, ln_cuda_stream stream) {
    const ln_ipc_group group = find_group(link, op->ranks, op->n_rows);
    size_t n = op->n_rows * op->dim;
    int code = 0;
    for (size_t begin = 0; begin < n && code == 0;) {
        ln_ipc_part part = ln_ipc_sum_part(group.n_ranks, n, begin);
        code = ln_ipc_all_reduce(&group, &part, op->x, op->residual, op->out, stream);
        begin += part.n;
    }
    return code;
}

static int reduce_norm(const ln_cuda_link *link, const ln_ipc_norm *op, ln_cuda_stream stream) {
    const ln_ipc_group group = find_group(link, op->sum->ranks, op->sum->n_rows);
    size_t n_rows = op->sum->n_rows, dim = op->sum->dim;
    int code = 0;
    for (size_t begin = 0; begin < n_rows && code == 0;) {
        ln_ipc_part part = ln_ipc_norm_part(group.n_ranks, n_rows, dim, begin);
        code = ln_ipc_reduce_norm(&group, &part, op, stream);
        begin += part.n;
    }
    return code;
}

static int gather(const ln_cuda_link *link, const ln_op_rank_gather *op, ln_cuda_stream stream) {
    enum { TOO_WIDE = 1 }; /* cudaErrorInvalidValue */
    const ln_ipc_group group = find_group(link, op->ranks, op->n_rows);
    size_t width = (op->n_cols + group.n_ranks - 1) / group.n_ranks;
    int code = 0;
    for (size_t begin = 0; begin < op->n_rows && code == 0;) {
        ln_ipc_part part = ln_ipc_gather_part(op->n_rows, width, begin);
        if (part.n == 0) /* a vocabulary of millions */
            return TOO_WIDE;
        code = ln_ipc_gather_columns(&group, &part, op->n_cols, op->x, op->out, stream);
        begin += part.n;
    }
    return code;
}

static int share(const ln_cuda_link *link, const ln_op_rank_pass *op, ln_cuda_stream stream) {
    const ln_ipc_group group = find_group(link, op->ranks, op->n_rows);
    size_t n = op->n_rows * op->dim;
    int code = 0;
    for (size_t begin = 0; begin < n && code == 0;) {
        ln_ipc_part part = ln_ipc_gather_part(n, 1, begin);
        code = ln_ipc_share_floats(&group, &part, op->x, stream);
        begin += part.n;
    }
    return code;
}

static int pass(const ln_cuda_link *link, const ln_op_rank_pass *op, ln_cuda_stream stream) {
    size_t rank = link->mesh.rank, n = op->n_rows * op->dim;
    if (op->other == LN_NO_RANK)
        return share(link, op, stream);
    const ln_ipc_channel channel = {.own = link->arenas[rank],
                                    .other = link->arenas[op->other],
                                    .other_rank = (unsigned)op->other,
                                    .index = ln_ipc_find_channel(rank, op->other, op->sends),
                                    .n_groups = ln_ipc_count_groups(&link->mesh),
                                    .patience = link->patience};
    int code = 0;
    for (size_t begin = 0; begin < n && code == 0;) {
        ln_ipc_part part = ln_ipc_pass_part(n, begin);
        code = op->sends ? ln_ipc_send(&channel, &part, op->x, stream)
                         : ln_ipc_receive(&channel, &part, op->x, stream);
        begin += part.n;
    }
    return code;
}

const ln_cuda_link_vtable ln_cuda_ipc_link = {.name = "ipc",
                                              .in_graphs = true,
                                              .all_reduce = all_reduce,
                                              .reduce_norm = reduce_norm,
                                              .gather = gather,
                                              .pass = pass};
