/* The server: HTTP APIs over one model and its engine, or over several.
 *
 * One thread runs the event loop: connections, and the events of the engine's requests, which it
 * learns of by their descriptors. Workers parse bodies, render templates and encode prompts, so
 * that no long prompt holds up the loop. */
#ifndef LN_SERVER_SERVER_H
#define LN_SERVER_SERVER_H

#include <linnet.h>

#include "server/http/listener.h"
#include "server/models/loader.h"

typedef struct ln_server ln_server;

struct ln_api_key_list; /* api/api_keys.h */
struct ln_kv_publisher; /* kv_events/publisher.h */

typedef struct ln_server_options {
    ln_http_address address;
    ln_http_limits limits;
    /* Fills an empty list with the keys that let clients in: when the server opens, and again at
     * SIGHUP, which drains otherwise. NULL: no key is asked for. */
    ln_status (*read_keys)(void *user, struct ln_api_key_list *list, ln_error *err);
    void *keys_user;
    const char *const *allowed_hosts; /* [n_allowed_hosts] names that clients call the server by,
                                         beside localhost and addresses, where it asks for no
                                         key and listens at a loopback address; "*": any */
    size_t n_allowed_hosts;
    const char *served_name;    /* of the model; NULL: the checkpoint's, without spaces */
    const char *metrics_prefix; /* of names in /metrics: "linnet", or "vllm" */
    const char *cors_origin;    /* "*" or one origin; NULL: none */
    size_t max_waiting;         /* sequences that may wait beside the running ones */
    uint32_t drain_ms;          /* how long SIGTERM waits for running requests */
    uint32_t hang_ms; /* without progress of an engine that has work before /health says so; after
                         twice as long on a GPU the server ends, once no other model works */
    const char *response_store; /* file of stored responses; NULL: they are kept in memory */
    size_t max_responses, max_response_bytes; /* that are stored */
    const char *template_variables; /* a JSON object of variables of chat templates; NULL: none */
    bool strict_fields; /* unknown fields of bodies are refused, not ignored with a warning */
    bool has_web_page;
    const struct ln_kv_publisher *kv_events; /* which /metrics counts; NULL: there is none */
    bool logs_json;
    /* Nothing of the start can fail any more: the server answers. NULL: nobody is told. */
    void (*on_ready)(void *user, uint16_t port);
    void *ready_user;
    /* Takes a line, which ends with a newline, and does not wait; false: it was dropped. */
    bool (*log)(void *user, const char *line, size_t n_bytes);
    void *log_user;
} ln_server_options;

void ln_server_options_init(ln_server_options *options);

/* Binds the port; requests wait until run. What `options` points to must outlive the server.
 * Errors name host and port. */
ln_status ln_server_open(const ln_server_options *options, ln_server **server, ln_error *err);
void ln_server_close(ln_server *server); /* one that did not run; NULL is fine */

uint16_t ln_server_get_port(const ln_server *server);

/* Serves until SIGINT or SIGTERM, and then until the running requests are done; a second signal
 * ends at once. Errors: COMPUTE when the engine's GPU failed for good or hangs, after what was left
 * of the requests ended with errors. */
ln_status ln_server_run(ln_server *server, const linnet_model *model, linnet_engine *engine,
                        ln_error *err);
/* The same with models that are loaded when a request names them, within a budget of memory. */
ln_status ln_server_run_models(ln_server *server, const ln_model_source *source,
                               const ln_memory_need *budget, ln_error *err);
/* Closes the server and destroys its engine; NULL: its models have theirs. Where that does not come
 * to an end within some seconds, because a device hangs, the program ends with `status`: nothing
 * else would end it. */
void ln_server_end(ln_server *server, linnet_engine *engine, int status);

#endif
