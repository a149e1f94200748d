#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "dist/collectives.h"

#ifndef LINNET_MODULE_DIRS /* beside which the build and the installation have modules */
#define LINNET_MODULE_DIRS ""
#endif

enum { PATH_BYTES = 4096, WHY_BYTES = 512 };

static const char module_name[] = "linnet-mpi.so";
static const uint64_t patience_ns = UINT64_C(8000000000);

ln_collectives ln_collectives_single(void) {
    return (ln_collectives){.n_ranks = 1, .n_local = 1};
}

static void *try_open(const char *folder, size_t n, const char *behind, char why[WHY_BYTES]) {
    char path[PATH_BYTES];
    int length = snprintf(path, sizeof path, "%.*s%s/%s", (int)n, folder, behind, module_name);
    if (n == 0 || length < 0 || (size_t)length >= sizeof path || access(path, R_OK) != 0)
        return NULL;
    void *module = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (module == NULL)
        snprintf(why, WHY_BYTES, "%s", dlerror());
    return module;
}

/* Beside the program, in the library folder beside the program's, then where it was built for. */
static void *open_module(char why[WHY_BYTES]) {
    char own[PATH_BYTES];
    void *module = NULL;
    ssize_t n = readlink("/proc/self/exe", own, sizeof own);
    while (n > 0 && own[n - 1] != '/')
        n--;
    size_t n_folder = n > 1 ? (size_t)n - 1 : 0;
    snprintf(why, WHY_BYTES, "%s is not installed", module_name);
    if ((module = try_open(own, n_folder, "", why)) != NULL ||
        (module = try_open(own, n_folder, "/../lib/linnet", why)) != NULL)
        return module;
    for (const char *folder = LINNET_MODULE_DIRS; *folder != '\0' && module == NULL;) {
        size_t length = strcspn(folder, ":");
        module = try_open(folder, length, "", why);
        folder += length + (folder[length] == ':');
    }
    return module;
}

ln_status ln_collectives_open_mpi(size_t n_ranks, ln_collectives *out, ln_error *err) {
    char why[WHY_BYTES];
    ln_transport_open_fn open_fn = NULL;
    *out = ln_collectives_single();
    void *module = open_module(why); /* stays: MPI cannot be unloaded */
    if (module == NULL)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED, "ranks need MPI: %s", why);
    void *symbol = dlsym(module, LN_TRANSPORT_SYMBOL);
    memcpy(&open_fn, &symbol, sizeof open_fn); /* ISO C has no cast to a function */
    ln_transport *transport = open_fn != NULL ? open_fn(why, sizeof why) : NULL;
    if (transport == NULL)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED, "ranks need MPI: %s", why);
    *out = (ln_collectives){.transport = transport,
                            .rank = transport->rank,
                            .n_ranks = transport->n_ranks,
                            .n_local = transport->n_local,
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
