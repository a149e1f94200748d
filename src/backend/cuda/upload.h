/* Host bytes to device memory, through two page-locked buffers in turn: while one is copied to the
 * device, the next one is filled, by several threads: one alone reads slower than the bus takes. */
#ifndef LN_BACKEND_CUDA_UPLOAD_H
#define LN_BACKEND_CUDA_UPLOAD_H

#include <stddef.h>

#include "backend/cuda/device.h"
#include "base/pool.h"

enum { LN_UPLOAD_BUFFERS = 2, LN_UPLOAD_BUFFER_BYTES = 16 << 20 };

/* Zero it before use, but for the pool. */
typedef struct ln_cuda_upload {
    ln_pool *pool;                    /* the caller's; NULL: this thread fills alone */
    void *buffers[LN_UPLOAD_BUFFERS]; /* allocated by the first upload */
    ln_cuda_event done[LN_UPLOAD_BUFFERS];
    size_t n_begun; /* buffers that were queued so far */
    void *rows;     /* [rows_bytes] device memory for rows that are packed next, or NULL */
    size_t rows_bytes;
} ln_cuda_upload;

/* Frees the buffers; a later upload allocates them again. Nothing may be under way. */
void ln_cuda_upload_free(ln_cuda_upload *upload);

/* Device memory of at least so many bytes, whose last use was queued before; upload_free frees it.
 */
int ln_cuda_upload_staging(ln_cuda_upload *upload, size_t bytes, ln_cuda_stream stream,
                           void **rows);

/* Copies n_rows rows of row_bytes, dense at `host`, to every `pitch` bytes of `device`; what lies
 * between stays. `host` may change when this returns; later work on the stream sees the copy. 0,
 * or the runtime's error code. */
int ln_cuda_upload_rows(ln_cuda_upload *upload, void *device, size_t pitch, const void *host,
                        size_t row_bytes, size_t n_rows, ln_cuda_stream stream);

#endif
