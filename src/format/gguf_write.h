/* Writes GGUF version 3, little-endian. First the metadata and the list of tensors are gathered,
 * then the file is begun and the tensors' bytes are written in any order, from any thread. The
 * file is a temporary one beside its target and takes the target's name at the end: a run that
 * fails leaves nothing behind. */
#ifndef LN_FORMAT_GGUF_WRITE_H
#define LN_FORMAT_GGUF_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/strbuf.h"
#include "format/gguf_value.h"
#include "format/tensor.h"

enum { LN_GGUF_ALIGNMENT = 32 };

/* A tensor that is to be written. */
typedef struct ln_gguf_planned {
    ln_dtype dtype;
    uint64_t offset; /* from the beginning of the data */
    size_t bytes;
} ln_gguf_planned;

typedef struct ln_gguf_writer {
    ln_strbuf meta, infos; /* serialised keys and tensor infos */
    uint64_t n_keys, n_tensors;
    ln_gguf_planned *tensors; /* [n_tensors], owned */
    size_t capacity;
    uint64_t data_begin, data_bytes; /* in the file */
    int fd;                          /* -1: not begun */
    char *path, *temporary;          /* owned; temporary NULL: the file has no name yet */
} ln_gguf_writer;

void ln_gguf_writer_init(ln_gguf_writer *writer);
/* Frees everything; a file that was begun and not ended is removed. */
void ln_gguf_writer_free(ln_gguf_writer *writer);

/* Metadata. Memory that runs out is reported by ln_gguf_write_begin. A scalar is `value` in
 * memory, of the type's size; an array's items lie one after another. Strings need not end in
 * NUL. */
void ln_gguf_put_scalar(ln_gguf_writer *writer, const char *key, ln_gguf_type type,
                        const void *value);
void ln_gguf_put_u32(ln_gguf_writer *writer, const char *key, uint32_t value);
void ln_gguf_put_f32(ln_gguf_writer *writer, const char *key, float value);
void ln_gguf_put_bool(ln_gguf_writer *writer, const char *key, bool value);
void ln_gguf_put_string(ln_gguf_writer *writer, const char *key, const char *text, size_t n_bytes);
void ln_gguf_put_array(ln_gguf_writer *writer, const char *key, ln_gguf_type type,
                       const void *items, size_t count);
/* The head of an array of strings; `count` calls of ln_gguf_add_string follow. */
void ln_gguf_put_string_array(ln_gguf_writer *writer, const char *key, size_t count);
void ln_gguf_add_string(ln_gguf_writer *writer, const char *text, size_t n_bytes);

/* Copies the metadata of a GGUF file's bytes, types and all, but for the keys that `skips` names.
 * Errors: FORMAT, UNSUPPORTED, NOMEM. */
ln_status ln_gguf_copy_meta(ln_gguf_writer *writer, const uint8_t *file, size_t n_bytes,
                            bool (*skips)(const char *key, size_t n_bytes), ln_error *err);

/* Appends a tensor, dims[n_dims] outermost first; its index is the count of those before. Errors:
 * ARGUMENT (a row is no whole number of blocks, a name that is too long), LIMIT, NOMEM. */
ln_status ln_gguf_add_tensor(ln_gguf_writer *writer, const char *name, ln_dtype dtype, int n_dims,
                             const uint64_t *dims, ln_error *err);

/* Creates the temporary file, reserves its full size and writes the head. Errors: IO (a full disk
 * among them), NOMEM, ARGUMENT (the path names something that is no regular file). */
ln_status ln_gguf_write_begin(ln_gguf_writer *writer, const char *path, ln_error *err);
/* Writes bytes of a tensor; may be called from several threads at once. */
ln_status ln_gguf_write_tensor(const ln_gguf_writer *writer, size_t tensor, size_t at,
                               const void *data, size_t n_bytes, ln_error *err);
/* Makes the file durable and gives it its name. */
ln_status ln_gguf_write_end(ln_gguf_writer *writer, ln_error *err);

#endif
