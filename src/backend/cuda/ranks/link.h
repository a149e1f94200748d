/* The GPUs of several ranks, joined behind one small table: by memory of one host that all map
 * (ipc_link.c), or by NCCL (nccl_link.c). Both sum in the order of ranks. */
#ifndef LN_BACKEND_CUDA_RANKS_LINK_H
#define LN_BACKEND_CUDA_RANKS_LINK_H

#include "backend/backend.h"
#include "backend/cuda/ranks/card.h"
#include "backend/cuda/ranks/ipc.h"
#include "backend/rank_ops.h"
#include "dist/collectives.h"

typedef struct ln_cuda_link ln_cuda_link;
typedef struct ln_nccl ln_nccl;

/* Queues its part of an operation; 0, or the runtime's error code. */
typedef struct ln_cuda_link_vtable {
    const char *name;
    bool in_graphs; /* a CUDA graph can repeat it */
    int (*all_reduce)(const ln_cuda_link *link, const ln_op_all_reduce *op, ln_cuda_stream stream);
    /* Optional: an all-reduce and the norm of its result as one kernel. */
    int (*reduce_norm)(const ln_cuda_link *link, const ln_ipc_norm *op, ln_cuda_stream stream);
    int (*gather)(const ln_cuda_link *link, const ln_op_rank_gather *op, ln_cuda_stream stream);
    int (*pass)(const ln_cuda_link *link, const ln_op_rank_pass *op, ln_cuda_stream stream);
} ln_cuda_link_vtable;

/* Zero it before use. */
struct ln_cuda_link {
    const ln_cuda_link_vtable *vtable; /* NULL: there is one rank */
    ln_collectives *all;
    ln_mesh mesh;
    int device;
    void *arena;                /* ln_ipc_arena_bytes of device memory */
    ln_rank_card *cards;        /* [ranks of the mesh] */
    char *arenas[LN_IPC_RANKS]; /* of all ranks; the own one is `arena` */
    ln_ipc_patience patience;   /* its `trouble` is the link's */
    ln_nccl *nccl;              /* by NCCL, else NULL */
    const char *nccl_problem;
};

extern const ln_cuda_link_vtable ln_cuda_ipc_link, ln_cuda_nccl_link;

/* Memory for a rank on this device; of a mesh of one rank nothing. 0, or the runtime's error code,
 * after which it is to be freed. */
int ln_cuda_link_reserve(ln_cuda_link *link, const ln_mesh *mesh, int device);
/* Connects all ranks, which call it together. Errors: UNSUPPORTED, COMPUTE. */
ln_status ln_cuda_link_join(ln_cuda_link *link, const ln_rank_groups *ranks, ln_error *err);
/* Kernels wait no more: what is queued ends. */
void ln_cuda_link_stop(ln_cuda_link *link);
/* Behind stop, when nothing of this rank runs any more; all ranks call it together, and go on once
 * none has another's arena mapped, or one is lost. */
void ln_cuda_link_leave(ln_cuda_link *link);
/* Behind stop and leave; frees the arena, too. */
void ln_cuda_link_free(ln_cuda_link *link);

/* Whether a CUDA graph can repeat steps; where there is one rank, too. */
static inline bool ln_cuda_link_suits(const ln_cuda_link *link) {
    return link->vtable == NULL || link->vtable->in_graphs;
}

/* Whether these ranks' sums go on with a norm in the same kernel. */
static inline bool ln_cuda_link_fuses_norms(const ln_collectives *ranks) {
    const ln_cuda_link *link = ranks != NULL && ranks->n_ranks > 1 ? ranks->device : NULL;
    return link != NULL && link->vtable != NULL && link->vtable->reduce_norm != NULL;
}

/* Where they do: queues both. */
int ln_cuda_link_reduce_norm(const ln_ipc_norm *op, ln_cuda_stream stream);

/* Waits for the event on the host, and for no rank that is lost. A failure is kept in the ranks. */
int ln_cuda_link_wait(ln_cuda_link *link, ln_cuda_event event);

#endif
