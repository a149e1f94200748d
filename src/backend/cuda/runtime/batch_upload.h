/* The arrays of a batch on the device: gathered in pinned memory and sent in one copy. */
#ifndef LN_BACKEND_CUDA_RUNTIME_BATCH_UPLOAD_H
#define LN_BACKEND_CUDA_RUNTIME_BATCH_UPLOAD_H

#include "backend/backend.h"
#include "backend/cuda/ops.h"

typedef struct ln_cuda_batch_upload {
    /* [LN_MAX_STARTED][bytes] page-locked, in buffer: whose copy may be under way */
    char *host;
    char *device; /* [bytes] */
    size_t bytes, buffer;
    size_t n_adapters; /* of ln_step_limits */
} ln_cuda_batch_upload;

/* Bytes for steps within the limits. */
size_t ln_cuda_batch_upload_bytes(const ln_step_limits *limits);

/* How operations of a step read the block tables of a group. */
typedef struct ln_cuda_table_use {
    size_t block_tokens; /* of KV blocks, whose entries may be fewer; 0: none does */
    bool has_states;     /* an entry for each multiple of LN_STATE_CHUNK, from 0 on */
    bool has_tail;       /* one entry */
} ln_cuda_table_use;

/* Queues the copy of `batch` and says where it will lie; tokens that are on the device stay where
 * they are. Block tables are cut to the blocks that lengths reach, and some more: equal counts and
 * widths give equal addresses. uses [LN_MAX_KV_GROUPS]: groups that no operation reads stay away.
 */
int ln_cuda_batch_send(ln_cuda_batch_upload *upload, const ln_batch *batch,
                       const ln_cuda_table_use *uses, ln_cuda_step *step, ln_cuda_stream stream);

#endif
