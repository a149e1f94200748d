/* Brings a model from the hub into the cache. */
#ifndef LN_HUB_PULL_H
#define LN_HUB_PULL_H

#include "base/error.h"
#include "hub/name.h"
#include "hub/settings.h"

/* Asks the hub what the revision is now, downloads what the cache lacks of the model's files,
 * checks it and links it. *path is what to open, malloc'd. Offline it is what the cache has. */
ln_status ln_hub_pull(const ln_hub_settings *settings, const ln_hub_name *name, char **path,
                      ln_error *err);

/* The version of libcurl, which downloads; static storage. LINNET_ERR_UNSUPPORTED where there is
 * none. */
ln_status ln_hub_curl_version(const char **version, ln_error *err);

#endif
