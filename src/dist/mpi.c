/* The MPI transport: a module of its own, which links MPI and nothing of ours. */
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "dist/transport.h"

enum {
    TAG = 77,
    SPIN_NS = 100000, /* a partner that computes the same is mostly that near */
    LONGEST_NAP_NS = 1000000
};

__attribute__((visibility("default"))) ln_transport *ln_transport_open(char *why, size_t why_bytes);

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Yields at first; then sleeps, an eighth of what it has waited. */
static void pause_for(uint64_t waited_ns) {
    if (waited_ns < SPIN_NS) {
        sched_yield();
        return;
    }
    uint64_t nap_ns = waited_ns / 8;
    if (nap_ns > LONGEST_NAP_NS)
        nap_ns = LONGEST_NAP_NS;
    nanosleep(&(struct timespec){.tv_nsec = (long)nap_ns}, NULL);
}

static ln_transport_status exchange(ln_transport *self, const ln_message *e) {
    MPI_Request requests[2];
    int n = 0, done = 0;
    (void)self;
    if (e->from != LN_NO_RANK && MPI_Irecv(e->in, (int)e->in_bytes, MPI_BYTE, (int)e->from, TAG,
                                           MPI_COMM_WORLD, &requests[n++]) != MPI_SUCCESS)
        return LN_TRANSPORT_FAILED;
    if (e->to != LN_NO_RANK && MPI_Isend(e->out, (int)e->out_bytes, MPI_BYTE, (int)e->to, TAG,
                                         MPI_COMM_WORLD, &requests[n++]) != MPI_SUCCESS)
        return LN_TRANSPORT_FAILED;
    uint64_t begin_ns = now_ns();
    for (;;) {
        if (MPI_Testall(n, requests, &done, MPI_STATUSES_IGNORE) != MPI_SUCCESS)
            return LN_TRANSPORT_FAILED;
        if (done)
            return LN_TRANSPORT_OK;
        uint64_t waited_ns = now_ns() - begin_ns;
        if (e->timeout_ns > 0 && waited_ns > e->timeout_ns)
            return LN_TRANSPORT_TIMEOUT;
        pause_for(waited_ns);
    }
}

static void close_mpi(ln_transport *self, bool has_failed) {
    if (!has_failed)
        MPI_Finalize();
    free(self);
}

static int count_local(void) {
    MPI_Comm local;
    int n = 1;
    if (MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &local) !=
        MPI_SUCCESS)
        return n;
    MPI_Comm_size(local, &n);
    MPI_Comm_free(&local);
    return n;
}

ln_transport *ln_transport_open(char *why, size_t why_bytes) {
    int provided, rank = 0, n_ranks = 0, was_started = 0;
    ln_transport *self = calloc(1, sizeof *self);
    MPI_Initialized(&was_started);
    if (self == NULL || was_started) {
        snprintf(why, why_bytes, "%s", was_started ? "MPI runs already" : "out of memory");
        free(self);
        return NULL;
    }
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided) != MPI_SUCCESS ||
        provided < MPI_THREAD_SERIALIZED) {
        snprintf(why, why_bytes, "MPI cannot be used by more than one thread");
        free(self);
        return NULL;
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
    *self = (ln_transport){.name = "mpi",
                           .rank = (size_t)rank,
                           .n_ranks = (size_t)n_ranks,
                           .n_local = (size_t)count_local(),
                           .exchange = exchange,
                           .close = close_mpi};
    return self;
}
