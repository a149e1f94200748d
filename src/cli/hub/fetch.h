/* Pulls a model, and shows how far that is. */
#ifndef LN_CLI_HUB_FETCH_H
#define LN_CLI_HUB_FETCH_H

#include <linnet.h>
#include <stdbool.h>

#include "hub/name.h"
#include "hub/settings.h"

/* ln_hub_pull with a bar on standard error, when that is a terminal, and a line at its end; with
 * `quiet` without both. SIGINT ends it with LINNET_ERR_CANCELLED; what was received stays.
 * *path is malloc'd. */
linnet_status ln_cli_hub_fetch(const ln_hub_settings *settings, const ln_hub_name *name, bool quiet,
                               char **path, linnet_error *err);

#endif
