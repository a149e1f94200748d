/* safetensors: one file of a checkpoint, and the index that names the shards of a split one. The
 * layout is described at https://github.com/huggingface/safetensors */
#ifndef LN_FORMAT_SAFETENSORS_H
#define LN_FORMAT_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "format/tensor.h"

enum { LN_SAFETENSORS_MAX_HEADER_BYTES = 100 << 20 };

/* Reads the header in data[n_bytes], which outlives the tensors: checked tensors, whose `file` is
 * set to `file` and whose names live in the arena, to the end of *tensors. Errors name tensor or
 * offset. Errors: FORMAT, UNSUPPORTED, LIMIT, NOMEM. */
ln_status ln_safetensors_parse(const uint8_t *data, size_t n_bytes, uint32_t file, ln_arena *arena,
                               ln_tensor_list *tensors, ln_error *err);

/* The weight map of model.safetensors.index.json; everything in the arena. */
typedef struct ln_shard_index {
    const char **files; /* [n_files] names of shards beside the index, in order of first use */
    size_t n_files;
    const char **names; /* [n_names] tensors */
    uint32_t *file_of;  /* [n_names] index into files */
    size_t n_names;
} ln_shard_index;

ln_status ln_shard_index_parse(const char *text, size_t n_bytes, ln_arena *arena,
                               ln_shard_index *index, ln_error *err);

#endif
