/* Host bytes to device memory through pinned staging buffers in turn: while one is copied to the
 * device, the next one is filled by several threads, as one thread reads slower than the bus
 * copies. Rows that are packed on the device go to a staging area first; the next rows are copied
 * on another stream meanwhile. */
#ifndef LN_BACKEND_CUDA_RUNTIME_WEIGHT_UPLOAD_H
#define LN_BACKEND_CUDA_RUNTIME_WEIGHT_UPLOAD_H

#include <stddef.h>

#include "backend/cuda/runtime/device.h"
#include "base/pool.h"

enum { LN_UPLOAD_BUFFERS = 3, LN_UPLOAD_STAGES = 2, LN_UPLOAD_BUFFER_BYTES = 16 << 20 };

/* A staging area on the device, for rows that are packed next. */
typedef struct ln_cuda_upload_stage {
    void *rows; /* [bytes], or NULL */
    size_t bytes;
    ln_cuda_event arrived, packed; /* the last rows */
} ln_cuda_upload_stage;

/* Zero it before use, but for the pool. */
typedef struct ln_cuda_upload {
    ln_pool *pool;                    /* the caller's; NULL: this thread fills alone */
    void *buffers[LN_UPLOAD_BUFFERS]; /* allocated by the first upload */
    ln_cuda_event done[LN_UPLOAD_BUFFERS];
    size_t n_begun;        /* buffers that were queued so far */
    ln_cuda_stream copies; /* of rows that are packed; NULL: there were none */
    ln_cuda_upload_stage stages[LN_UPLOAD_STAGES];
    size_t n_staged;
} ln_cuda_upload;

/* Frees the buffers; a later upload allocates them again. Nothing may be under way. */
void ln_cuda_upload_free(ln_cuda_upload *upload);

/* Brings n_rows rows of row_bytes, dense at `host`, to *rows, where work that is queued on the
 * stream from now on finds them, until ln_cuda_upload_pack_ends is called behind it. 0, or the
 * runtime's error code. */
int ln_cuda_upload_to_pack(ln_cuda_upload *upload, const void *host, size_t row_bytes,
                           size_t n_rows, ln_cuda_stream stream, void **rows);
int ln_cuda_upload_pack_ends(ln_cuda_upload *upload, ln_cuda_stream stream);

/* Copies n_rows rows of row_bytes, dense at `host`, to every `pitch` bytes of `device`; what lies
 * between stays. `host` may change when this returns; later work on the stream sees the copy. 0,
 * or the runtime's error code. */
int ln_cuda_upload_rows(ln_cuda_upload *upload, void *device, size_t pitch, const void *host,
                        size_t row_bytes, size_t n_rows, ln_cuda_stream stream);

#endif
