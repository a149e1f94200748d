#include "backend/cuda/runtime/weight_upload.h"

#include <stdint.h>
#include <string.h>

void ln_cuda_upload_free(ln_cuda_upload *upload) {
    if (upload->copies != NULL) {
        (void)ln_cuda_stream_synchronize(upload->copies);
        ln_cuda_stream_destroy(upload->copies);
    }
    for (size_t i = 0; i < LN_UPLOAD_BUFFERS; i++) {
        ln_cuda_free_host(upload->buffers[i]);
        ln_cuda_event_destroy(upload->done[i]);
    }
    for (size_t i = 0; i < LN_UPLOAD_STAGES; i++) {
        const ln_cuda_upload_stage *stage = &upload->stages[i];
        ln_cuda_free(stage->rows);
        ln_cuda_event_destroy(stage->arrived);
        ln_cuda_event_destroy(stage->packed);
    }
    *upload = (ln_cuda_upload){.pool = upload->pool};
}

/* ---- filling a buffer --------------------------------------------------------------------- */

typedef struct filling {
    uint8_t *out;
    const uint8_t *host;
    size_t row_bytes, pitch, n_rows; /* dense bytes are rows of one byte */
    size_t n_workers;
} filling;

static void fill_share(void *context, size_t worker) {
    const filling *f = context;
    size_t begin = f->n_rows * worker / f->n_workers, end = f->n_rows * (worker + 1) / f->n_workers;
    if (f->pitch == f->row_bytes) {
        memcpy(f->out + begin * f->pitch, f->host + begin * f->pitch, (end - begin) * f->pitch);
        return;
    }
    for (size_t row = begin; row < end; row++) {
        memcpy(f->out + row * f->pitch, f->host + row * f->row_bytes, f->row_bytes);
        memset(f->out + row * f->pitch + f->row_bytes, 0, f->pitch - f->row_bytes);
    }
}

static void fill(ln_pool *pool, filling f) {
    enum { WORTH_THREADS = 1 << 20 }; /* bytes */
    f.n_workers = 1;
    if (pool == NULL || f.n_rows * f.row_bytes < WORTH_THREADS) {
        fill_share(&f, 0);
        return;
    }
    f.n_workers = ln_pool_size(pool);
    ln_pool_run(pool, fill_share, &f);
}

/* ---- uploads ------------------------------------------------------------------------------ */

/* The next buffer, once its last copy is done. */
static int next_buffer(ln_cuda_upload *upload, size_t *index) {
    size_t i = upload->n_begun++ % LN_UPLOAD_BUFFERS;
    int code = 0;
    *index = i;
    if (upload->buffers[i] != NULL)
        return ln_cuda_event_synchronize(upload->done[i]);
    code = ln_cuda_malloc_host(LN_UPLOAD_BUFFER_BYTES, &upload->buffers[i]);
    if (code == 0 && upload->done[i] == NULL)
        code = ln_cuda_event_create(&upload->done[i]);
    return code;
}

static int upload_dense(ln_cuda_upload *upload, void *device, const void *host, size_t bytes,
                        ln_cuda_stream stream) {
    int code = 0;
    for (size_t done = 0; done < bytes && code == 0;) {
        size_t n = bytes - done < LN_UPLOAD_BUFFER_BYTES ? bytes - done : LN_UPLOAD_BUFFER_BYTES;
        size_t i;
        code = next_buffer(upload, &i);
        if (code != 0)
            break;
        fill(upload->pool, (filling){.out = upload->buffers[i],
                                     .host = (const uint8_t *)host + done,
                                     .row_bytes = 1,
                                     .pitch = 1,
                                     .n_rows = n});
        code = ln_cuda_copy_to_device((uint8_t *)device + done, upload->buffers[i], n, stream);
        if (code == 0)
            code = ln_cuda_event_record(upload->done[i], stream);
        done += n;
    }
    return code;
}

/* Rows whose pitch fits a buffer; padding is zero. */
static int upload_padded(ln_cuda_upload *upload, uint8_t *device, size_t pitch, const uint8_t *host,
                         size_t row_bytes, size_t n_rows, ln_cuda_stream stream) {
    size_t rows_at_once = LN_UPLOAD_BUFFER_BYTES / pitch;
    int code = 0;
    for (size_t row = 0; row < n_rows && code == 0; row += rows_at_once) {
        size_t n = n_rows - row < rows_at_once ? n_rows - row : rows_at_once, i;
        code = next_buffer(upload, &i);
        if (code != 0)
            break;
        uint8_t *buffer = upload->buffers[i];
        fill(upload->pool, (filling){.out = buffer,
                                     .host = host + row * row_bytes,
                                     .row_bytes = row_bytes,
                                     .pitch = pitch,
                                     .n_rows = n});
        code = ln_cuda_copy_to_device(device + row * pitch, buffer, n * pitch, stream);
        if (code == 0)
            code = ln_cuda_event_record(upload->done[i], stream);
    }
    return code;
}

int ln_cuda_upload_rows(ln_cuda_upload *upload, void *device, size_t pitch, const void *host,
                        size_t row_bytes, size_t n_rows, ln_cuda_stream stream) {
    if (pitch == row_bytes)
        return upload_dense(upload, device, host, row_bytes * n_rows, stream);
    if (pitch <= LN_UPLOAD_BUFFER_BYTES)
        return upload_padded(upload, device, pitch, host, row_bytes, n_rows, stream);
    int code = 0;
    for (size_t row = 0; row < n_rows && code == 0; row++)
        code = upload_dense(upload, (uint8_t *)device + row * pitch,
                            (const uint8_t *)host + row * row_bytes, row_bytes, stream);
    return code;
}

/* ---- rows that are packed ----------------------------------------------------------------- */

/* Allocates a staging area's memory and events. Its last rows are packed once this returns, or the
 * copy stream waits for that. */
static int prepare_stage(ln_cuda_upload *upload, ln_cuda_upload_stage *stage, size_t bytes) {
    int code = 0;
    bytes = bytes > LN_UPLOAD_BUFFER_BYTES ? bytes : LN_UPLOAD_BUFFER_BYTES;
    if (upload->copies == NULL)
        code = ln_cuda_stream_create(&upload->copies);
    if (code == 0 && stage->arrived == NULL)
        code = ln_cuda_event_create(&stage->arrived);
    if (code == 0 && stage->packed == NULL)
        code = ln_cuda_event_create(&stage->packed);
    if (code != 0 || bytes <= stage->bytes)
        return code != 0 ? code : ln_cuda_stream_wait_event(upload->copies, stage->packed);
    code = ln_cuda_event_synchronize(stage->packed);
    ln_cuda_free(stage->rows);
    stage->rows = NULL;
    stage->bytes = 0;
    if (code == 0)
        code = ln_cuda_malloc(bytes, &stage->rows);
    if (code == 0)
        stage->bytes = bytes;
    return code;
}

int ln_cuda_upload_to_pack(ln_cuda_upload *upload, const void *host, size_t row_bytes,
                           size_t n_rows, ln_cuda_stream stream, void **rows) {
    ln_cuda_upload_stage *stage = &upload->stages[upload->n_staged % LN_UPLOAD_STAGES];
    int code = prepare_stage(upload, stage, n_rows * row_bytes);
    if (code == 0)
        code = ln_cuda_upload_rows(upload, stage->rows, row_bytes, host, row_bytes, n_rows,
                                   upload->copies);
    if (code == 0)
        code = ln_cuda_event_record(stage->arrived, upload->copies);
    if (code == 0)
        code = ln_cuda_stream_wait_event(stream, stage->arrived);
    *rows = stage->rows;
    return code;
}

int ln_cuda_upload_pack_ends(ln_cuda_upload *upload, ln_cuda_stream stream) {
    return ln_cuda_event_record(upload->stages[upload->n_staged++ % LN_UPLOAD_STAGES].packed,
                                stream);
}
