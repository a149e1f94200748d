/* The new files of a merged checkpoint, under another name until they are complete. Internal to
 * this folder. */
#ifndef LN_CONVERT_MERGE_FILES_H
#define LN_CONVERT_MERGE_FILES_H

#include <stdbool.h>

#include "format/checkpoint.h"

typedef struct ln_merge_output {
    const ln_checkpoint *checkpoint;
    const char *path;
    char *temporary; /* owned; NULL: there is nothing */
    int *fds;        /* [n_files] of the checkpoint's files, owned */
    size_t n_files;
    uint64_t done_bytes, total_bytes;
    bool (*progress)(void *user, uint64_t done_bytes, uint64_t total_bytes); /* or NULL */
    void *user;
} ln_merge_output;

/* Copies the checkpoint. `more_bytes` will be written over it. */
ln_status ln_merge_output_begin(ln_merge_output *output, uint64_t more_bytes, ln_error *err);
/* Any thread may. */
ln_status ln_merge_output_write(const ln_merge_output *output, size_t file, uint64_t offset,
                                const void *data, size_t n_bytes, ln_error *err);
/* Gives it its name. */
ln_status ln_merge_output_end(ln_merge_output *output, ln_error *err);
/* Frees it, and removes what has no name yet. */
void ln_merge_output_free(ln_merge_output *output);

#endif
