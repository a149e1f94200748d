/* Files: read-only maps, whole reads with a limit, paths. */
#ifndef LN_BASE_FILE_H
#define LN_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/strbuf.h"

typedef struct ln_file_map {
    const uint8_t *data; /* [bytes]; NULL for an empty file */
    size_t bytes;
    int fd;         /* open as long as the map, for pread; -1: none */
    int fault_slot; /* private: see base/fault.h */
} ln_file_map;

/* Maps a regular file; errors name the path. */
ln_status ln_file_map_open(ln_file_map *map, const char *path, ln_error *err);
void ln_file_map_close(ln_file_map *map);

/* LINNET_ERR_IO once the file shrank under its map and a fault handler caught it: what was read
 * since may be zeros. */
ln_status ln_file_map_check(const ln_file_map *map, const char *path, ln_error *err);

/* Reads `bytes` bytes at `offset` without touching the map. LINNET_ERR_IO (no message: the caller
 * knows the path) when they cannot be read, or are no longer there. */
ln_status ln_file_map_read(const ln_file_map *map, uint64_t offset, void *out, size_t bytes);

/* Gives back the memory of the map's pages; they are read anew when somebody looks at them. */
void ln_file_map_drop_pages(const ln_file_map *map);

/* Appends the whole file to `out`; more than max_bytes is LINNET_ERR_LIMIT. */
ln_status ln_file_read(const char *path, size_t max_bytes, ln_strbuf *out, ln_error *err);

bool ln_file_exists(const char *path);
bool ln_file_is_folder(const char *path);

/* "folder/name" as a malloc'd string, NULL when memory is out. */
char *ln_path_join(const char *folder, const char *name);

/* The last part of a path, without slashes behind it: where it begins, and its length in bytes. */
const char *ln_path_last(const char *path, size_t *n_bytes);

/* What a path calls a model: its last part, or NAME of a snapshot in the cache of Hugging Face's
 * hub, .../models--ORG--NAME/snapshots/COMMIT. Borrowed, without a NUL behind it. */
const char *ln_path_model_name(const char *path, size_t *n_bytes);

#endif
