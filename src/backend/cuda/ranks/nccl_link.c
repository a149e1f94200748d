/* As ranks on CPUs exchange messages (dist/collectives.c), so do these: the same sums. */
#include "backend/cuda/ranks/link.h"
#include "backend/cuda/ranks/nccl.h"
#include "dist/collectives.h"

enum { NCCL_FAILED = 999 }; /* cudaErrorUnknown */

/* What each rank sends to each other one, and receives: floats [begin, begin + n) of x for rank
 * `rank` if is_first, its own ones otherwise. */
typedef struct trade {
    const ln_nccl *nccl;
    const ln_collectives *ranks;
    size_t n;       /* floats that are divided among ranks; with whole: that each one has */
    bool whole;     /* every rank has all to sum, and gets all of the others */
    bool is_second; /* what was summed goes to all */
    float *x, *parts;
} trade;

static size_t first_of(const trade *t, size_t rank) {
    return t->whole ? 0 : ln_rank_begin(t->n, rank, t->ranks->n_ranks);
}

static size_t count_of(const trade *t, size_t rank) {
    return t->whole ? t->n : ln_rank_begin(t->n, rank + 1, t->ranks->n_ranks) - first_of(t, rank);
}

static int run_trade(const trade *t, ln_cuda_stream stream) {
    size_t own = t->ranks->rank;
    int code = ln_nccl_begin(t->nccl);
    for (size_t rank = 0; rank < t->ranks->n_ranks && code == 0; rank++) {
        size_t sent = t->is_second ? own : rank, got = t->is_second ? rank : own;
        float *to = t->is_second ? t->x + first_of(t, rank) : t->parts + rank * count_of(t, own);
        if (rank == own)
            continue;
        code = ln_nccl_send(t->nccl, t->x + first_of(t, sent), count_of(t, sent),
                            t->ranks->first + rank, stream);
        if (code == 0)
            code = ln_nccl_receive(t->nccl, to, count_of(t, got), t->ranks->first + rank, stream);
    }
    int end_code = ln_nccl_end(t->nccl);
    return code != 0 || end_code != 0 ? NCCL_FAILED : 0;
}

static int all_reduce(const ln_cuda_link *link, const ln_op_all_reduce *op, ln_cuda_stream stream) {
    size_t n_ranks = op->ranks->n_ranks, rank = op->ranks->rank, n = op->n_rows * op->dim;
    trade t = {.nccl = link->nccl,
               .ranks = op->ranks,
               .n = n,
               .whole = ln_collectives_is_small(n_ranks, n),
               .x = op->x,
               .parts = op->scratch};
    int code = run_trade(&t, stream);
    if (code == 0 && t.whole)
        return ln_rank_sum(op->x, op->scratch, n_ranks, rank, n, op->residual, op->out, stream);
    float *own = op->x + first_of(&t, rank);
    if (code == 0)
        code = ln_rank_sum(own, op->scratch, n_ranks, rank, count_of(&t, rank), NULL, own, stream);
    t.is_second = true;
    if (code == 0)
        code = run_trade(&t, stream);
    if (code == 0 && (op->residual != NULL || op->out != op->x))
        code = ln_rank_sum(op->x, NULL, 1, 0, n, op->residual, op->out, stream);
    return code;
}

static int gather(const ln_cuda_link *link, const ln_op_rank_gather *op, ln_cuda_stream stream) {
    const ln_collectives *ranks = op->ranks;
    int code = 0;
    for (size_t rank = 0; rank < ranks->n_ranks && code == 0; rank++) {
        size_t begin = ln_rank_begin(op->n_cols, rank, ranks->n_ranks);
        size_t width = ln_rank_begin(op->n_cols, rank + 1, ranks->n_ranks) - begin;
        size_t n = op->n_rows * width, row_bytes = width * sizeof *op->x;
        if (rank == ranks->rank && rank > 0)
            code = ln_nccl_send(link->nccl, op->x, n, ranks->first, stream);
        if (ranks->rank > 0)
            continue;
        if (rank > 0)
            code = ln_nccl_receive(link->nccl, op->scratch, n, ranks->first + rank, stream);
        if (code == 0)
            code = ln_cuda_copy_rows(op->out + begin, op->n_cols * sizeof *op->out,
                                     rank > 0 ? op->scratch : op->x, row_bytes, row_bytes,
                                     op->n_rows, stream);
    }
    return code == 0 ? 0 : NCCL_FAILED;
}

/* The first rank's rows come to all others. */
static int share(const ln_cuda_link *link, const ln_op_rank_pass *op, ln_cuda_stream stream) {
    const ln_collectives *ranks = op->ranks;
    size_t n = op->n_rows * op->dim;
    int code = ln_nccl_begin(link->nccl);
    if (ranks->rank > 0 && code == 0)
        code = ln_nccl_receive(link->nccl, op->x, n, ranks->first, stream);
    for (size_t rank = 1; rank < ranks->n_ranks && ranks->rank == 0 && code == 0; rank++)
        code = ln_nccl_send(link->nccl, op->x, n, ranks->first + rank, stream);
    int end_code = ln_nccl_end(link->nccl);
    return code != 0 || end_code != 0 ? NCCL_FAILED : 0;
}

static int pass(const ln_cuda_link *link, const ln_op_rank_pass *op, ln_cuda_stream stream) {
    size_t n = op->n_rows * op->dim;
    if (op->other == LN_NO_RANK)
        return share(link, op, stream);
    int code = op->sends ? ln_nccl_send(link->nccl, op->x, n, op->other, stream)
                         : ln_nccl_receive(link->nccl, op->x, n, op->other, stream);
    return code == 0 ? 0 : NCCL_FAILED;
}

const ln_cuda_link_vtable ln_cuda_nccl_link = {
    .name = "nccl", .all_reduce = all_reduce, .gather = gather, .pass = pass};
