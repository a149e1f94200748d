/* Collectives: what the ranks of a model do together. A rank is a process that holds a part of the
 * model. All sums are made in the order of ranks, so the same number of ranks gives the same bits,
 * on every rank, however large the message.
 *
 * The first failure stays: what follows it does nothing and fails with the same error. One thread
 * at a time. */
#ifndef LN_DIST_COLLECTIVES_H
#define LN_DIST_COLLECTIVES_H

#include "base/error.h"
#include "dist/transport.h"

typedef struct ln_collectives ln_collectives;

struct ln_collectives {
    ln_transport *transport; /* owned; NULL: one rank, which has nobody to wait for */
    ln_collectives *all;     /* of a group: all ranks, whose transport and failure it has */
    size_t first;            /* of a group: which of all its first rank is */
    size_t rank, n_ranks;
    size_t n_local, local_rank; /* on this machine */
    void *device; /* of a backend on a device, which runs the operations of these ranks; or NULL */
    uint64_t timeout_ns; /* until a rank that is there, but does not come, is lost; 0: never */
    ln_error failure;    /* status LINNET_OK: none yet */
};

/* One rank. */
ln_collectives ln_collectives_single(void);
/* The ranks that MPI has started, which must be n_ranks. Errors: UNSUPPORTED, ARGUMENT. */
ln_status ln_collectives_open_mpi(size_t n_ranks, ln_collectives *out, ln_error *err);
void ln_collectives_close(ln_collectives *c);

/* Says that a rank does not answer, as something other than a message has found out; of a group, as
 * the group counts. */
void ln_collectives_lose(ln_collectives *c, size_t rank);

/* Says that this rank does not do what the others wait for, and why. */
void ln_collectives_give_up(ln_collectives *c, const ln_error *why);

/* A rank that has ended or is silent is a failure, also while nobody waits for it. */
ln_status ln_collectives_check(ln_collectives *c, ln_error *err);
/* Calls on_lost(user) once when there is such a rank, on another thread; NULL: no more. */
void ln_collectives_watch(ln_collectives *c, void (*on_lost)(void *user), void *user);

/* Ranks [first, first + n) of all, of which this is one, as a group: its ranks count from 0. It
 * borrows `all`, and is not closed. */
ln_collectives ln_collectives_group(ln_collectives *all, size_t first, size_t n);

/* Floats of scratch that all_reduce and gather of up to n floats need. */
size_t ln_collectives_scratch(size_t n_ranks, size_t n);

/* Whether each rank sums all of n floats; else it sums a part and tells the others. */
bool ln_collectives_is_small(size_t n_ranks, size_t n);

/* x[n] becomes the sum of all ranks' x, on all of them. scratch [ln_collectives_scratch]. */
ln_status ln_all_reduce(ln_collectives *c, float *x, size_t n, float *scratch, ln_error *err);

/* Columns that rank `rank` has of n_cols, and the first one. */
static inline size_t ln_rank_begin(size_t n, size_t rank, size_t n_ranks) {
    return n * rank / n_ranks;
}

/* Each rank has columns of a matrix, [n_rows][its columns by ln_rank_begin]; rank 0 gets all of it
 * in out [n_rows][n_cols], which is not x. scratch on rank 0: as large as a rank's part. */
ln_status ln_gather_columns(ln_collectives *c, const float *x, size_t n_rows, size_t n_cols,
                            float *scratch, float *out, ln_error *err);

/* Every rank's `bytes` side by side in out [n_ranks][bytes], on all of them. */
ln_status ln_all_gather(ln_collectives *c, const void *x, size_t bytes, void *out, ln_error *err);
/* What rank 0 has, for all. is_idle: it may be long before it comes, and that is no failure. */
ln_status ln_broadcast(ln_collectives *c, void *data, size_t bytes, bool is_idle, ln_error *err);
ln_status ln_send(ln_collectives *c, size_t to, const void *data, size_t bytes, ln_error *err);
ln_status ln_receive(ln_collectives *c, size_t from, void *data, size_t bytes, ln_error *err);
/* Returns once all ranks have come here. */
ln_status ln_barrier(ln_collectives *c, ln_error *err);

#endif
