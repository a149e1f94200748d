/* What `linnet serve' says when it begins to listen. */
#ifndef LN_CLI_SERVE_SERVICE_H
#define LN_CLI_SERVE_SERVICE_H

#include <linnet.h>

#include "server/server.h"

/* Prints to standard error the model, the engine, the address, the APIs and a command to try; and a
 * warning when anybody who reaches the address may use it. */
void ln_cli_print_service(const linnet_model *model, const char *path,
                          const linnet_memory_plan *plan, const ln_server_options *server,
                          unsigned port);

#endif
