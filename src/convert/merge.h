/* A checkpoint whose matrices hold what adapters make of them: a copy of its files, in which the
 * tensors that change are written anew where they lie, in the type that they have. */
#ifndef LN_CONVERT_MERGE_H
#define LN_CONVERT_MERGE_H

#include "format/checkpoint.h"

typedef struct ln_merge_adapter {
    const char *path;
    float scale;
} ln_merge_adapter;

typedef struct ln_merge_options {
    const ln_merge_adapter *adapters; /* [n_adapters], merged in this order */
    size_t n_adapters, n_threads;
    bool requantize; /* quantised matrices, too: they are quantised again */
    bool (*progress)(void *user, uint64_t done_bytes, uint64_t total_bytes); /* or NULL */
    void *user;
} ln_merge_options;

/* Writes the folder `out`, which must not exist, of a folder, or the file `out` of a GGUF file.
 * *n_changed: how many tensors differ. What cannot be merged is refused by name before anything is
 * written; a run that fails leaves nothing behind. Errors: as ln_adapter_file_open; ARGUMENT (what
 * `out` is), UNSUPPORTED (a type, a matrix that lies otherwise in the checkpoint), IO, CANCELLED.
 */
ln_status ln_merge(const ln_checkpoint *checkpoint, const char *out,
                   const ln_merge_options *options, size_t *n_changed, ln_error *err);

#endif
