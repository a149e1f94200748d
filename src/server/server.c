#include "server/server.h"

#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/json/load.h"
#include "server/api/router.h"
#include "server/generation/event_stream.h"
#include "server/generation/generation.h"
#include "server/json/reply.h"
#include "server/responses/response_store.h"

enum { BACKOFF_MS = 5, END_S = 3 };

struct ln_server {
    ln_server_options options;
    struct event_base *base;
    ln_context context;
    ln_generations generations;
    ln_router router;
    ln_api_keys keys;
    ln_log log;
    int64_t created_s;
};

void ln_server_options_init(ln_server_options *options) {
    *options = (ln_server_options){
        .address = {.host = "127.0.0.1", .port = 8080},
        .limits = {.max_connections = 16384,
                   .max_head_bytes = 16384,
                   .max_headers = 100,
                   .max_body_bytes = 4 << 20,
                   .max_bodies_bytes = 256 << 20,
                   .max_unread_bytes = 256 << 10,
                   .head_ms = 10000,
                   .body_ms = 30000,
                   .idle_ms = 75000,
                   .unread_ms = 30000},
        .max_waiting = 256,
        .max_responses = 1000,
        .max_response_bytes = 64 << 20,
        .has_web_page = true,
        .metrics_prefix = "linnet",
        .drain_ms = 30000,
        .hang_ms = 60000,
    };
}

/* ---- hooks of HTTP ---------------------------------------------------------------------- */

static bool on_head(void *user, ln_exchange *exchange) {
    ln_json_memory_clear();
    return ln_router_wants_body(&((ln_server *)user)->router, exchange);
}

static void on_request(void *user, ln_exchange *exchange) {
    ln_json_memory_clear();
    ln_router_handle(&((ln_server *)user)->router, exchange);
}

static void on_refuse(void *user, ln_exchange *exchange, int status, const char *message) {
    (void)user;
    ln_api_error error = {0};
    ln_json_memory_clear();
    ln_api_fail(&error, status, NULL, "%s", message);
    ln_reply_error(exchange, &error);
}

static void on_gone(void *user, ln_exchange *exchange) {
    (void)user;
    if (exchange->task != NULL)
        ln_api_task_cancel(exchange->task);
    if (exchange->generation != NULL)
        ln_generation_cancel(exchange->generation);
    if (exchange->follower != NULL)
        ln_event_follower_leave(exchange->follower);
    exchange->task = exchange->generation = NULL;
}

static void on_end(void *user, ln_exchange *exchange) {
    ln_server *server = user;
    ln_metrics *metrics = &server->context.metrics;
    int class = exchange->status / 100;
    metrics->n_cut += exchange->was_cut;
    if (class >= 0 && class < LN_METRICS_STATUSES)
        metrics->n_responses[class]++;
    ln_log_exchange(&server->log, exchange);
}

/* ---- hooks of health and shutdown ------------------------------------------------------- */

static bool has_ranks(const ln_server *server) {
    const ln_registry *registry = &server->context.registry;
    return registry->is_fixed && registry->entries[0].served.has_ranks;
}

/* Without its GPU the engine answers nothing but errors, so the server ends: a supervisor may start
 * it again. */
static void on_lost(void *user) {
    ln_server *server = user;
    const char *why = has_ranks(server) ? "a rank is lost" : "the GPU failed";
    if (!server->context.shutdown.is_draining)
        ln_shutdown_drain(&server->context.shutdown, why);
}

static void on_hung(void *user) {
    ln_shutdown_cut_off(&((ln_server *)user)->context.shutdown, "the GPU hangs");
}

static void on_cut_off(void *user) {
    ln_server *server = user;
    ln_registry_end(&server->context.registry);
    ln_generations_end(&server->generations);
}

/* ---- open and close --------------------------------------------------------------------- */

/* As many descriptors as the system allows: a connection takes one, and so does a request. */
static void raise_descriptors(ln_http_limits *limits) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    rlim_t before = limit.rlim_cur;
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        limit.rlim_cur = before;
    enum { SPARE = 256 }; /* for requests, files and libraries */
    size_t room = limit.rlim_cur > 2 * SPARE ? (size_t)limit.rlim_cur - SPARE : SPARE;
    if (limits->max_connections > room)
        limits->max_connections = room;
}

static ln_status read_keys(ln_server *server, ln_error *err) {
    const ln_server_options *options = &server->options;
    ln_api_key_list list = {0};
    if (options->read_keys == NULL)
        return LINNET_OK;
    ln_status status = options->read_keys(options->keys_user, &list, err);
    if (status == LINNET_OK)
        status = ln_api_keys_replace(&server->keys, &list, &server->context.admission, err);
    ln_api_key_list_free(&list);
    return status;
}

/* SIGHUP: who the keys let in may change while the server runs. */
static void on_reload(void *user) {
    ln_server *server = user;
    ln_error err = {0};
    if (read_keys(server, &err) == LINNET_OK)
        ln_log_message(&server->log, "SIGHUP: %zu keys let clients in", server->keys.count);
    else
        ln_log_message(&server->log, "SIGHUP: the keys stay as they were: %s", err.message);
}

static struct event_base *create_base(void) {
    struct event_config *config = event_config_new();
    if (config == NULL)
        return NULL;
    event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK);
    struct event_base *base = event_base_new_with_config(config);
    event_config_free(config);
    return base;
}

static ln_status read_variables(ln_server *server, ln_error *err) {
    const char *text = server->options.template_variables;
    json_t *variables =
        text != NULL ? ln_json_load_bytes(text, strlen(text), JSON_REJECT_DUPLICATES, NULL) : NULL;
    if (text != NULL && !json_is_object(variables)) {
        json_decref(variables);
        return ln_fail(err, LINNET_ERR_ARGUMENT,
                       "the variables of chat templates are not a JSON object: %.80s", text);
    }
    server->context.template_variables = variables;
    return LINNET_OK;
}

ln_status ln_server_open(const ln_server_options *options, ln_server **out, ln_error *err) {
    *out = NULL;
    ln_json_memory_watch();
    ln_server *server = calloc(1, sizeof *server);
    struct event_base *base = server != NULL ? create_base() : NULL;
    if (base == NULL) {
        free(server);
        return ln_fail_memory(err, "the server");
    }
    server->options = *options;
    server->base = base;
    server->created_s = (int64_t)time(NULL);
    server->log =
        (ln_log){.write = options->log, .user = options->log_user, .as_json = options->logs_json};
    server->context.log = &server->log;
    server->router =
        (ln_router){.context = &server->context,
                    .api_keys = options->read_keys != NULL ? &server->keys : NULL,
                    .cors_origin = options->cors_origin,
                    .guard = {.is_active = options->read_keys == NULL &&
                                           ln_host_guard_is_loopback(options->address.host),
                              .hosts = options->allowed_hosts,
                              .n_hosts = options->n_allowed_hosts,
                              .cors_origin = options->cors_origin}};
    server->context.generations = &server->generations;
    /* half, so that those of one stream and its response may be stored together */
    server->generations.events.max_bytes = options->max_response_bytes / 2;
    server->context.has_web_page = options->has_web_page;
    server->context.metrics_prefix = options->metrics_prefix;
    server->context.kv_events = options->kv_events;
    server->context.refuses_unknown = options->strict_fields;
    server->context.max_body_bytes = options->limits.max_body_bytes;
    ln_admission_init(&server->context.admission, NULL);
    ln_strbuf_init(&server->context.scratch);
    raise_descriptors(&server->options.limits);
    const ln_http_hooks hooks = {.user = server,
                                 .on_head = on_head,
                                 .on_request = on_request,
                                 .on_refuse = on_refuse,
                                 .on_gone = on_gone,
                                 .on_end = on_end};
    ln_status status = read_keys(server, err);
    if (status == LINNET_OK)
        status = read_variables(server, err);
    if (status == LINNET_OK)
        status = ln_listener_open(server->base, &options->address, &server->options.limits, &hooks,
                                  &server->context.listener, err);
    const ln_response_store_limits stored = {options->max_responses, options->max_response_bytes};
    if (status == LINNET_OK)
        status = ln_response_store_open(options->response_store, &stored,
                                        &server->context.responses, err);
    if (status == LINNET_OK)
        *out = server;
    else
        ln_server_close(server);
    return status;
}

void ln_server_close(ln_server *server) {
    if (server == NULL)
        return;
    ln_context *context = &server->context;
    ln_registry_end(&context->registry);
    ln_worker_pool_stop(&context->pool);
    ln_generations_stop(&server->generations);
    ln_response_store_close(context->responses);
    json_decref(context->template_variables);
    ln_listener_close(context->listener);
    ln_shutdown_stop(&context->shutdown);
    ln_health_stop(&context->health);
    ln_registry_stop(&context->registry);
    event_base_free(server->base);
    ln_strbuf_free(&context->scratch);
    ln_api_keys_free(&server->keys);
    free(server);
}

uint16_t ln_server_get_port(const ln_server *server) {
    return ln_listener_get_port(server->context.listener);
}

/* ---- run and end ------------------------------------------------------------------------ */

/* Runs the event loop. An iteration that refused a request for want of room is followed by a pause:
 * under overload refusals are then sent in batches. Each would wake this thread otherwise, and take
 * the processor from the engine. */
static ln_status run_loop(ln_server *server, ln_error *err) {
    static const struct timespec pause = {.tv_nsec = BACKOFF_MS * 1000000};
    do {
        if (server->context.backs_off && !server->context.shutdown.is_draining)
            nanosleep(&pause, NULL);
        server->context.backs_off = false;
        if (event_base_loop(server->base, EVLOOP_ONCE) < 0)
            return ln_fail(err, LINNET_ERR_IO, "the event loop failed");
    } while (!event_base_got_break(server->base));
    return LINNET_OK;
}

/* The most that an engine has in a step. */
static size_t count_max_seqs(const ln_registry *registry) {
    size_t most = registry->is_fixed ? registry->entries[0].served.max_seqs : 1;
    for (size_t i = 0; i < registry->n_entries; i++)
        if (registry->entries[i].spec.options.max_seqs > most)
            most = registry->entries[i].spec.options.max_seqs;
    return most;
}

static ln_status start(ln_server *server, ln_error *err) {
    ln_context *context = &server->context;
    ln_registry *registry = &context->registry;
    const ln_server_options *options = &server->options;
    const ln_health_hooks hooks = {.user = server, .on_lost = on_lost, .on_hung = on_hung};
    const ln_shutdown_scope scope = {.base = server->base,
                                     .listener = context->listener,
                                     .pool = &context->pool,
                                     .log = &server->log,
                                     .admission = &context->admission,
                                     .drain_ms = options->drain_ms,
                                     .user = server,
                                     .on_cut_off = on_cut_off,
                                     .on_reload = options->read_keys != NULL ? on_reload : NULL};
    atomic_store(&context->admission.limit, count_max_seqs(registry) + options->max_waiting);
    LN_TRY(ln_shutdown_start(&context->shutdown, &scope, err));
    LN_TRY(ln_health_start(&context->health, server->base, registry, has_ranks(server),
                           options->hang_ms, &hooks, err));
    LN_TRY(ln_generations_start(&server->generations, context, server->base, err));
    return ln_worker_pool_start(&context->pool, server->base, err);
}

static ln_status run(ln_server *server, const char *what, ln_error *err) {
    LN_TRY(start(server, err));
    const ln_server_options *options = &server->options;
    uint16_t port = ln_server_get_port(server);
    ln_log_message(&server->log, "serving %s at %s port %u", what, options->address.host, port);
    if (options->on_ready != NULL)
        options->on_ready(options->ready_user, port);
    LN_TRY(run_loop(server, err));
    ln_log_message(&server->log, "stopped");
    if (server->context.health.is_hung)
        return ln_fail(err, LINNET_ERR_COMPUTE, "the GPU hangs; the server has ended");
    if (server->context.health.is_lost && has_ranks(server))
        return ln_fail(err, LINNET_ERR_COMPUTE, "a rank is lost; the server has ended");
    if (server->context.health.is_lost)
        return ln_fail(err, LINNET_ERR_COMPUTE, "the GPU failed for good; the server has ended");
    return LINNET_OK;
}

ln_status ln_server_run(ln_server *server, const linnet_model *model, linnet_engine *engine,
                        ln_error *err) {
    ln_registry *registry = &server->context.registry;
    LN_TRY(ln_registry_init_fixed(registry, model, engine, server->options.served_name,
                                  &server->log, server->created_s, err));
    return run(server, registry->entries[0].served.name, err);
}

ln_status ln_server_run_models(ln_server *server, const ln_model_source *source,
                               const ln_memory_need *budget, ln_error *err) {
    char what[64];
    LN_TRY(ln_registry_init(&server->context.registry, source, budget, server->base, &server->log,
                            server->created_s, err));
    snprintf(what, sizeof what, "%zu models", server->context.registry.n_entries);
    return run(server, what, err);
}

static void *run_watchdog(void *argument) {
    static const struct timespec end = {.tv_sec = END_S};
    struct timespec rest = end;
    int status = *(int *)argument;
    free(argument);
    while (nanosleep(&rest, &rest) != 0)
        continue;
    _exit(status);
}

/* Starts a thread that ends the program if the program's own end does not come in time. */
static void start_watchdog(int status) {
    pthread_attr_t detached;
    pthread_t thread;
    int *argument = malloc(sizeof *argument);
    if (argument == NULL)
        return;
    *argument = status;
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    if (pthread_create(&thread, &detached, run_watchdog, argument) != 0)
        free(argument);
    pthread_attr_destroy(&detached);
}

void ln_server_end(ln_server *server, linnet_engine *engine, int status) {
    if (server->context.health.is_hung)
        _exit(status);
    start_watchdog(status);
    ln_server_close(server); /* its requests end before the engine */
    linnet_engine_destroy(engine);
}
