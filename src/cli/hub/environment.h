/* Where the hub and its cache are, by the environment variables that other programs read, too. */
#ifndef LN_CLI_HUB_ENVIRONMENT_H
#define LN_CLI_HUB_ENVIRONMENT_H

#include <linnet.h>

#include "base/strbuf.h"
#include "hub/settings.h"

typedef struct ln_cli_hub_environment {
    ln_strbuf endpoint, cache, token; /* what settings point to */
    ln_hub_settings settings;
} ln_cli_hub_environment;

/* HF_ENDPOINT, HF_HUB_CACHE, HF_HOME, XDG_CACHE_HOME, HOME, HF_TOKEN, HF_TOKEN_PATH,
 * HF_HUB_OFFLINE, TRANSFORMERS_OFFLINE. Freed by the caller, also when it fails. */
linnet_status ln_cli_hub_environment_read(ln_cli_hub_environment *environment, linnet_error *err);
void ln_cli_hub_environment_free(ln_cli_hub_environment *environment);

#endif
