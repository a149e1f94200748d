/* Downloads the chosen files of a repository, several parts at a time. */
#ifndef LN_HUB_DOWNLOAD_H
#define LN_HUB_DOWNLOAD_H

#include "base/error.h"
#include "hub/files.h"
#include "hub/http.h"

/* What one pull has: its files, and how far it is. */
typedef struct ln_hub_work {
    const ln_hub_http *http;
    const char *repo, *repo_path, *lock_path; /* "ORG/NAME"; folders of its blobs and its locks */
    const ln_hub_files *files;
    ln_hub_progress progress;
} ln_hub_work;

/* Paths of a file's blob and of its lock; NULL when memory is out. */
char *ln_hub_work_blob(const ln_hub_work *work, const ln_hub_file *file);
char *ln_hub_work_lock(const ln_hub_work *work, const ln_hub_file *file);

/* Brings the chosen files whose blobs are not there to their full length. What was received stays
 * when it fails. */
ln_status ln_hub_download(ln_hub_work *work, ln_error *err);

#endif
