/* A file on its way: its data, and beside it how much of each of its parts is there, so that a
 * later try goes on where this one ends. */
#ifndef LN_HUB_PARTIAL_H
#define LN_HUB_PARTIAL_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct ln_hub_partial {
    char *path, *parts_path;   /* owned */
    int fd, parts_fd, lock_fd; /* -1: closed */
    uint64_t bytes, part_bytes;
    uint64_t *done; /* [n_parts], owned: bytes of each part, from its beginning */
    size_t n_parts;
} ln_hub_partial;

/* Makes blob_path.partial, or goes on with it, and locks lock_path, so that no other program
 * downloads the same; LINNET_ERR_STATE when one does. */
ln_status ln_hub_partial_open(ln_hub_partial *partial, const char *blob_path, const char *lock_path,
                              uint64_t n_bytes, uint64_t part_bytes, ln_error *err);
/* Keeps the files for a later try. */
void ln_hub_partial_close(ln_hub_partial *partial);

uint64_t ln_hub_partial_length(const ln_hub_partial *partial, size_t part);
uint64_t ln_hub_partial_ready(const ln_hub_partial *partial); /* bytes of all parts */

/* Writes what comes behind the bytes that the part has; more than its length is
 * LINNET_ERR_FORMAT. */
ln_status ln_hub_partial_write(ln_hub_partial *partial, size_t part, const void *bytes,
                               size_t n_bytes, ln_error *err);

/* The file is whole and right: it becomes blob_path. Or it is wrong: it goes away. */
ln_status ln_hub_partial_finish(ln_hub_partial *partial, const char *blob_path, ln_error *err);
void ln_hub_partial_discard(ln_hub_partial *partial);

#endif
