/* Hashes of files as the hub has them: SHA-256, or the SHA-1 of git's blobs. */
#ifndef LN_HUB_DIGEST_H
#define LN_HUB_DIGEST_H

#include <stdbool.h>

#include "base/error.h"

/* Told now and then how many bytes were read; false ends it with LINNET_ERR_CANCELLED. */
typedef bool (*ln_hub_tick)(void *user, unsigned long long n_bytes);

/* Whether the file has this hash, by the number of its digits; LINNET_ERR_FORMAT when not. */
ln_status ln_hub_digest_check(int fd, const char *path, const char *hash, ln_hub_tick tick,
                              void *user, ln_error *err);

#endif
