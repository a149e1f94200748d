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
    int fd; /* open as long as the map, for pread; -1: none */
} ln_file_map;

/* Maps a regular file; errors name the path. */
ln_status ln_file_map_open(ln_file_map *map, const char *path, ln_error *err);
void ln_file_map_close(ln_file_map *map);

/* Appends the whole file to `out`; more than max_bytes is LINNET_ERR_LIMIT. */
ln_status ln_file_read(const char *path, size_t max_bytes, ln_strbuf *out, ln_error *err);

bool ln_file_exists(const char *path);
bool ln_file_is_folder(const char *path);

/* "folder/name" as a malloc'd string, NULL when memory is out. */
char *ln_path_join(const char *folder, const char *name);

#endif
