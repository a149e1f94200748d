/* `linnet serve`: the options of KV events. */
#ifndef LN_CLI_SERVE_KV_EVENTS_H
#define LN_CLI_SERVE_KV_EVENTS_H

#include <argp.h>

#include "cli/sandbox.h"
#include "server/kv_events/publisher.h"

/* A child parser's input, zeroed; endpoint NULL: no events. Texts are argv's. */
typedef struct ln_cli_kv_events {
    ln_kv_publisher_options publisher;
    char *folders[2]; /* of sockets of ipc, for the sandbox; owned */
} ln_cli_kv_events;

extern const struct argp ln_cli_kv_events_argp;

/* Opens what was asked for; *publisher stays as it is when that is nothing, or has happened. */
linnet_status ln_cli_kv_events_open(const ln_cli_kv_events *events, ln_kv_publisher **publisher,
                                    linnet_error *err);
/* Lets the sandbox have what the sockets need; `events` outlives it. */
void ln_cli_kv_events_allow(ln_cli_kv_events *events, ln_cli_sandbox *sandbox);
void ln_cli_kv_events_free(ln_cli_kv_events *events);

#endif
