/* NCCL, which is loaded when ranks need it: of it no more than messages between GPUs, since its
 * own sums have orders of their own. */
#ifndef LN_BACKEND_CUDA_RANKS_NCCL_H
#define LN_BACKEND_CUDA_RANKS_NCCL_H

#include "backend/cuda/runtime/device.h"

enum { LN_NCCL_ID_BYTES = 128 };

/* Passed by value, as NCCL's own. */
typedef struct ln_nccl_id {
    char bytes[LN_NCCL_ID_BYTES];
} ln_nccl_id;

typedef struct ln_nccl ln_nccl;

/* Loads the library; NULL: it cannot be used, for the reason in *problem. */
ln_nccl *ln_nccl_load(const char **problem);
void ln_nccl_free(ln_nccl *nccl); /* NULL: nothing */

/* An id that one rank makes for all. The functions below return 0 or an error of NCCL's. */
int ln_nccl_make_id(ln_nccl *nccl, ln_nccl_id *id);
int ln_nccl_join(ln_nccl *nccl, ln_nccl_id id, size_t rank, size_t n_ranks);
const char *ln_nccl_error_text(const ln_nccl *nccl, int code);

/* Messages between begin and end run together. */
int ln_nccl_begin(const ln_nccl *nccl);
int ln_nccl_end(const ln_nccl *nccl);
int ln_nccl_send(const ln_nccl *nccl, const float *x, size_t n, size_t to, ln_cuda_stream stream);
int ln_nccl_receive(const ln_nccl *nccl, float *x, size_t n, size_t from, ln_cuda_stream stream);

/* Ends what waits for others. Nothing can be queued any more. */
void ln_nccl_abort(ln_nccl *nccl);

#endif
