#include "base/module.h"
#include "dist/collectives.h"

enum { WHY_BYTES = 512 };

static const uint64_t patience_ns = UINT64_C(60000000000); /* with a rank that is there */

ln_collectives ln_collectives_single(void) {
    return (ln_collectives){.n_ranks = 1, .n_local = 1};
}

ln_status ln_collectives_open_mpi(size_t n_ranks, ln_collectives *out, ln_error *err) {
    char why[WHY_BYTES];
    *out = ln_collectives_single();
    ln_transport_open_fn open_fn =
        (ln_transport_open_fn)ln_module_load("linnet-mpi.so", LN_TRANSPORT_SYMBOL, why, sizeof why);
    ln_transport *transport = open_fn != NULL ? open_fn(why, sizeof why) : NULL;
    if (transport == NULL)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED, "ranks need MPI: %s", why);
    *out = (ln_collectives){.transport = transport,
                            .rank = transport->rank,
                            .n_ranks = transport->n_ranks,
                            .n_local = transport->n_local,
                            .local_rank = transport->local_rank,
                            .timeout_ns = patience_ns};
    if (out->n_ranks == n_ranks)
        return LINNET_OK;
    size_t n_started = out->n_ranks;
    ln_collectives_close(out);
    return ln_fail(err, LINNET_ERR_ARGUMENT,
                   "%zu ranks are asked for, but %zu were started: run it as `mpirun -n %zu'",
                   n_ranks, n_started, n_ranks);
}

void ln_collectives_close(ln_collectives *c) {
    if (c->transport != NULL)
        c->transport->close(c->transport, c->failure.status != LINNET_OK);
    *c = ln_collectives_single();
}
