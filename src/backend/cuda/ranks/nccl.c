#include "backend/cuda/ranks/nccl.h"

#include <dlfcn.h>
#include <stdlib.h>

enum { NCCL_FLOAT32 = 7, NCCL_INTERNAL_ERROR = 3 };

typedef struct ncclComm *nccl_comm;

struct ln_nccl {
    void *library;
    nccl_comm comm;
    int (*get_id)(ln_nccl_id *id);
    int (*init)(nccl_comm *comm, int n_ranks, ln_nccl_id id, int rank);
    int (*destroy)(nccl_comm comm);
    int (*abort)(nccl_comm comm);
    int (*group_start)(void);
    int (*group_end)(void);
    int (*send)(const void *x, size_t n, int type, int peer, nccl_comm comm, ln_cuda_stream stream);
    int (*receive)(void *x, size_t n, int type, int peer, nccl_comm comm, ln_cuda_stream stream);
    const char *(*error_text)(int code);
};

/* A function of the library, for a pointer to one. */
static bool find(const ln_nccl *nccl, const char *name, void *function) {
    void *symbol = dlsym(nccl->library, name);
    *(void **)function = symbol;
    return symbol != NULL;
}

static bool find_all(ln_nccl *nccl) {
    return find(nccl, "ncclGetUniqueId", &nccl->get_id) &&
           find(nccl, "ncclCommInitRank", &nccl->init) &&
           find(nccl, "ncclCommDestroy", &nccl->destroy) &&
           find(nccl, "ncclCommAbort", &nccl->abort) &&
           find(nccl, "ncclGroupStart", &nccl->group_start) &&
           find(nccl, "ncclGroupEnd", &nccl->group_end) && find(nccl, "ncclSend", &nccl->send) &&
           find(nccl, "ncclRecv", &nccl->receive) &&
           find(nccl, "ncclGetErrorString", &nccl->error_text);
}

ln_nccl *ln_nccl_load(const char **problem) {
    ln_nccl *nccl = calloc(1, sizeof *nccl);
    *problem = "out of memory";
    if (nccl == NULL)
        return NULL;
    nccl->library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    *problem = nccl->library == NULL ? "libnccl.so.2 cannot be loaded" : NULL;
    if (nccl->library != NULL && !find_all(nccl))
        *problem = "libnccl.so.2 lacks a function";
    if (*problem == NULL)
        return nccl;
    ln_nccl_free(nccl);
    return NULL;
}

void ln_nccl_free(ln_nccl *nccl) {
    if (nccl == NULL)
        return;
    if (nccl->comm != NULL)
        (void)nccl->destroy(nccl->comm);
    if (nccl->library != NULL)
        dlclose(nccl->library);
    free(nccl);
}

int ln_nccl_make_id(ln_nccl *nccl, ln_nccl_id *id) {
    return nccl->get_id(id);
}

int ln_nccl_join(ln_nccl *nccl, ln_nccl_id id, size_t rank, size_t n_ranks) {
    return nccl->init(&nccl->comm, (int)n_ranks, id, (int)rank);
}

const char *ln_nccl_error_text(const ln_nccl *nccl, int code) {
    return nccl->error_text(code);
}

int ln_nccl_begin(const ln_nccl *nccl) {
    return nccl->group_start();
}

int ln_nccl_end(const ln_nccl *nccl) {
    return nccl->group_end();
}

int ln_nccl_send(const ln_nccl *nccl, const float *x, size_t n, size_t to, ln_cuda_stream stream) {
    if (nccl->comm == NULL)
        return NCCL_INTERNAL_ERROR;
    return n > 0 ? nccl->send(x, n, NCCL_FLOAT32, (int)to, nccl->comm, stream) : 0;
}

int ln_nccl_receive(const ln_nccl *nccl, float *x, size_t n, size_t from, ln_cuda_stream stream) {
    if (nccl->comm == NULL)
        return NCCL_INTERNAL_ERROR;
    return n > 0 ? nccl->receive(x, n, NCCL_FLOAT32, (int)from, nccl->comm, stream) : 0;
}

void ln_nccl_abort(ln_nccl *nccl) {
    if (nccl->comm != NULL)
        (void)nccl->abort(nccl->comm);
    nccl->comm = NULL;
}
