/* GGUF: one file of a checkpoint, versions 2 and 3, little-endian. The layout is described at
 * https://github.com/ggml-org/ggml/blob/master/docs/gguf.md */
#ifndef LN_FORMAT_GGUF_H
#define LN_FORMAT_GGUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/hashmap.h"
#include "format/meta.h"
#include "format/tensor.h"

enum { LN_GGUF_MAX_KEYS = 1 << 16 };

typedef struct ln_gguf_entry {
    const char *key; /* NUL-terminated */
    ln_meta_value value;
} ln_gguf_entry;

/* Metadata in file order; everything lives in the arena and nothing points into the file. */
typedef struct ln_gguf {
    ln_gguf_entry *entries; /* [n_entries] */
    size_t n_entries;
    ln_hashmap by_key;
    uint64_t alignment; /* bytes */
} ln_gguf;

/* Reads the headers in data[n_bytes], which outlives the tensors: metadata to *gguf and checked
 * tensors, whose `file` is set to `file`, to the end of *tensors. Errors name key, tensor or
 * offset. Errors: FORMAT, UNSUPPORTED, LIMIT, NOMEM. */
ln_status ln_gguf_parse(const uint8_t *data, size_t n_bytes, uint32_t file, ln_arena *arena,
                        ln_gguf *gguf, ln_tensor_list *tensors, ln_error *err);

bool ln_gguf_find(const ln_gguf *gguf, const char *key, ln_meta_value *value);

#endif
