/* The cache of the Hugging Face hub, shared with other programs, in their layout:
 *
 *     models--ORG--NAME/blobs/HASH                     contents
 *     models--ORG--NAME/snapshots/COMMIT/PATH          links to them
 *     models--ORG--NAME/refs/REVISION                  the commit that a branch or tag is
 *     .locks/models--ORG--NAME/HASH.lock               flock: who downloads it
 */
#ifndef LN_HUB_CACHE_H
#define LN_HUB_CACHE_H

#include "base/error.h"
#include "hub/files.h"
#include "hub/name.h"

/* Paths are malloc'd; NULL when memory is out. */
__attribute__((format(printf, 1, 2))) char *ln_hub_path(const char *format, ...);
char *ln_hub_cache_repo_path(const char *cache, const char *repo);
/* Makes the folders above the last '/' of the path. */
ln_status ln_hub_make_folders(const char *path, ln_error *err);

/* Links the chosen files, whose blobs are there, into the commit's snapshot, and notes the commit
 * of `revision`. */
ln_status ln_hub_cache_link(const char *repo_path, const ln_hub_files *files, const char *revision,
                            ln_error *err);

/* The path to open for a model of the cache, malloc'd; NULL when it is not there. */
ln_status ln_hub_cache_find(const char *cache, const ln_hub_name *name, char **path, ln_error *err);

/* A model of the cache. */
typedef struct ln_hub_entry {
    const char *repo;     /* "ORG/NAME" */
    const char *tag;      /* of a GGUF file; "": a folder */
    const char *revision; /* "main" or another ref, or the commit when no ref has it */
    const char *path;     /* to open */
    uint64_t bytes;       /* of all of its files */
    int64_t modified;     /* seconds since 1970 of its newest file */
} ln_hub_entry;

/* Shows each model of the cache to `see`, in the order of names. A cache that is not there is an
 * empty one. */
ln_status ln_hub_cache_list(const char *cache, void (*see)(void *user, const ln_hub_entry *entry),
                            void *user, ln_error *err);

/* Removes a repository, or of it the revision or the GGUF file that the text names, with the blobs
 * that nothing else links. *freed_bytes is what that gave back. */
ln_status ln_hub_cache_remove(const char *cache, const char *text, uint64_t *freed_bytes,
                              ln_error *err);

#endif
