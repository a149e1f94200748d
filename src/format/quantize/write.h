/* Writes the tensors of a GGUF file, many threads at once: rows come as float32 from their source
 * and are quantised, or bytes are copied as they lie. */
#ifndef LN_FORMAT_QUANTIZE_WRITE_H
#define LN_FORMAT_QUANTIZE_WRITE_H

#include "format/gguf_write.h"
#include "format/quantize/mix.h"

typedef struct ln_write_tensor {
    const char *name;
    ln_dtype dtype; /* in the new file */
    int n_dims;
    uint64_t dims[LN_MAX_DIMS]; /* outermost first */
    const uint8_t *raw;         /* bytes to copy, or NULL: ask for rows */
    const void *source;         /* the job's own */
} ln_write_tensor;

typedef struct ln_write_job {
    const ln_write_tensor *tensors; /* [n_tensors] */
    size_t n_tensors, n_threads;
    const ln_keep_rule *rules; /* [n_rules] by which their types were chosen */
    size_t n_rules;
    /* Fills out[n_rows][n_cols] with rows of a tensor, counted over all outer dimensions. Called
     * from several threads. */
    ln_status (*rows)(const ln_write_tensor *tensor, size_t row, size_t n_rows, float *out,
                      ln_error *err);
    /* Told how far the work is, on the caller's thread; false ends it. NULL is fine. */
    bool (*progress)(void *user, uint64_t done_bytes, uint64_t total_bytes);
    void *user;
} ln_write_job;

/* Adds the tensors to a writer that holds the metadata, writes the file and gives it its name.
 * Errors as in gguf_write.h; ARGUMENT for a rule that no tensor matches; FORMAT for a value that is
 * not finite and cannot be quantised, CANCELLED when progress says so. */
ln_status ln_write_gguf(ln_gguf_writer *writer, const char *path, const ln_write_job *job,
                        ln_error *err);

#endif
