/* Snapshots of the cache, as they lie there. */
#ifndef LN_HUB_SNAPSHOT_H
#define LN_HUB_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "hub/files.h"

/* The commit that a branch, tag or commit is in this repository; false when it is not there. */
bool ln_hub_snapshot_commit(const char *repo_path, const char *revision,
                            char commit[LN_HUB_COMMIT_BYTES]);

/* The files below a snapshot whose contents are there, with their sizes, in the order of names. The
 * hash is the name of the blob that a link leads to, "" where there is none. */
ln_status ln_hub_snapshot_read(const char *folder, ln_hub_files *files, ln_error *err);

/* The entries of a folder without those that begin with '.', sorted; a folder that is not there
 * has none. */
typedef struct ln_hub_names {
    char **items; /* [count], owned */
    size_t count;
} ln_hub_names;
ln_status ln_hub_names_read(const char *folder, ln_hub_names *names, ln_error *err);
void ln_hub_names_free(ln_hub_names *names);

#endif
