#include "format/quantize/write.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "base/pool.h"
#include "format/quants.h"

/* Values that a worker takes at a time, in whole rows. */
enum { CHUNK_ELEMS = 1 << 16 };

typedef struct chunk {
    size_t tensor, row, n_rows;
} chunk;

typedef struct work {
    const ln_gguf_writer *writer;
    const ln_write_job *job;
    uint64_t total_bytes;
    pthread_mutex_t lock; /* of all below */
    size_t tensor, row;   /* where the next chunk begins */
    uint64_t done_bytes;
    ln_status status;
    ln_error error;
} work;

static size_t n_cols_of(const ln_write_tensor *tensor) {
    return (size_t)tensor->dims[tensor->n_dims - 1];
}

static size_t n_rows_of(const ln_write_tensor *tensor) {
    size_t n_rows = 1;
    for (int i = 0; i + 1 < tensor->n_dims; i++)
        n_rows *= (size_t)tensor->dims[i];
    return n_rows;
}

static size_t row_bytes_of(const ln_write_tensor *tensor) {
    size_t bytes = 0;
    bool ok = ln_dtype_row_bytes(tensor->dtype, n_cols_of(tensor), &bytes);
    LN_BUG_ON(!ok); /* the writer has measured it */
    return bytes;
}

/* The next rows to do; false when there are none, or the work has failed. */
static bool take_chunk(work *w, chunk *c) {
    bool found = false;
    pthread_mutex_lock(&w->lock);
    while (w->status == LINNET_OK && !found && w->tensor < w->job->n_tensors) {
        const ln_write_tensor *tensor = &w->job->tensors[w->tensor];
        size_t n_rows = n_rows_of(tensor), n_cols = n_cols_of(tensor);
        if (w->row < n_rows && n_cols > 0) {
            size_t most = n_cols < CHUNK_ELEMS ? CHUNK_ELEMS / n_cols : 1;
            *c = (chunk){w->tensor, w->row, n_rows - w->row < most ? n_rows - w->row : most};
            w->row += c->n_rows;
            found = true;
        } else {
            w->tensor++;
            w->row = 0;
        }
    }
    pthread_mutex_unlock(&w->lock);
    return found;
}

/* Notes what a chunk came to; returns the bytes that are done. */
static uint64_t finish_chunk(work *w, ln_status status, const ln_error *error, uint64_t bytes) {
    pthread_mutex_lock(&w->lock);
    if (status != LINNET_OK && w->status == LINNET_OK) {
        w->status = status;
        w->error = *error;
    }
    w->done_bytes += bytes;
    uint64_t done = w->done_bytes;
    pthread_mutex_unlock(&w->lock);
    return done;
}

static bool all_finite(const float *values, size_t n) {
    uint32_t bad = 0;
    for (size_t i = 0; i < n; i++)
        bad |= (ln_bits_from_f32(values[i]) & 0x7f800000u) == 0x7f800000u;
    return bad == 0;
}

/* Memory of a worker, grown to the largest chunk that it meets. */
typedef struct buffers {
    float *values;
    uint8_t *blocks;
    size_t n_values, n_bytes;
} buffers;

static ln_status reserve(buffers *b, size_t n_values, size_t n_bytes, ln_error *err) {
    if (n_values > b->n_values) {
        free(b->values);
        b->values = malloc(n_values * sizeof *b->values);
        b->n_values = b->values != NULL ? n_values : 0;
    }
    if (n_bytes > b->n_bytes) {
        free(b->blocks);
        b->blocks = malloc(n_bytes);
        b->n_bytes = b->blocks != NULL ? n_bytes : 0;
    }
    if (b->n_values < n_values || b->n_bytes < n_bytes)
        return ln_fail_memory(err, "rows of tensors");
    return LINNET_OK;
}

static ln_status write_chunk(const work *w, const chunk *c, buffers *b, ln_error *err) {
    const ln_write_tensor *tensor = &w->job->tensors[c->tensor];
    size_t n_cols = n_cols_of(tensor), row_bytes = row_bytes_of(tensor);
    size_t n_values = c->n_rows * n_cols, n_bytes = c->n_rows * row_bytes;
    if (tensor->raw != NULL)
        return ln_gguf_write_tensor(w->writer, c->tensor, c->row * row_bytes,
                                    tensor->raw + c->row * row_bytes, n_bytes, err);
    LN_TRY(reserve(b, n_values, n_bytes, err));
    LN_TRY(w->job->rows(tensor, c->row, c->n_rows, b->values, err));
    if (ln_dtype_block_elems(tensor->dtype) > 1 && !all_finite(b->values, n_values))
        return ln_fail(err, LINNET_ERR_FORMAT,
                       "tensor %s has a value that is not finite; it cannot be quantised",
                       tensor->name);
    ln_quantize_row(tensor->dtype, b->values, b->blocks, n_values);
    return ln_gguf_write_tensor(w->writer, c->tensor, c->row * row_bytes, b->blocks, n_bytes, err);
}

static void run_worker(void *context, size_t worker) {
    work *w = context;
    const ln_write_job *job = w->job;
    buffers b = {0};
    chunk c;
    while (take_chunk(w, &c)) {
        ln_error error = {0};
        ln_status status = write_chunk(w, &c, &b, &error);
        uint64_t bytes = (uint64_t)c.n_rows * row_bytes_of(&job->tensors[c.tensor]);
        uint64_t done = finish_chunk(w, status, &error, bytes);
        if (worker == 0 && job->progress != NULL &&
            !job->progress(job->user, done, w->total_bytes)) {
            status = ln_fail(&error, LINNET_ERR_CANCELLED, "interrupted");
            finish_chunk(w, status, &error, 0);
        }
    }
    free(b.values);
    free(b.blocks);
}

static ln_status write_all(work *w, ln_error *err) {
    ln_pool *pool;
    LN_TRY(ln_pool_create(w->job->n_threads, &pool, err));
    pthread_mutex_init(&w->lock, NULL);
    ln_pool_run(pool, run_worker, w);
    pthread_mutex_destroy(&w->lock);
    ln_pool_destroy(pool);
    if (w->status != LINNET_OK && err != NULL)
        *err = w->error;
    if (w->status != LINNET_OK)
        return w->status;
    if (w->job->progress != NULL && !w->job->progress(w->job->user, w->total_bytes, w->total_bytes))
        return ln_fail(err, LINNET_ERR_CANCELLED, "interrupted");
    return LINNET_OK;
}

/* A rule that says nothing of this file is likely misspelt. */
static ln_status check_rules(const ln_write_job *job, ln_error *err) {
    for (size_t i = 0; i < job->n_rules; i++) {
        bool matches = false;
        for (size_t j = 0; j < job->n_tensors && !matches; j++)
            matches =
                ln_keep_rule_matches(&job->rules[i], job->tensors[j].name, job->tensors[j].n_dims);
        if (!matches)
            return ln_fail(err, LINNET_ERR_ARGUMENT, "the rule '%s' matches the name of no matrix",
                           job->rules[i].text);
    }
    return LINNET_OK;
}

ln_status ln_write_gguf(ln_gguf_writer *writer, const char *path, const ln_write_job *job,
                        ln_error *err) {
    work w = {.writer = writer, .job = job};
    LN_TRY(check_rules(job, err));
    for (size_t i = 0; i < job->n_tensors; i++) {
        const ln_write_tensor *tensor = &job->tensors[i];
        LN_TRY(ln_gguf_add_tensor(writer, tensor->name, tensor->dtype, tensor->n_dims, tensor->dims,
                                  err));
        w.total_bytes += writer->tensors[i].bytes;
    }
    LN_TRY(ln_gguf_write_begin(writer, path, err));
    LN_TRY(write_all(&w, err));
    return ln_gguf_write_end(writer, err);
}
