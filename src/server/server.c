/* Routes, keys, and the life of the server: open, run, drain, close. */
#include "server/server.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/clock.h"
#include "model/model.h"
#include "server/http/response.h"
#include "server/json_out.h"
#include "server/state.h"

void ln_server_options_init(ln_server_options *options) {
    *options = (ln_server_options){
        .address = {.host = "127.0.0.1", .port = 8080},
        .limits = {.max_connections = 16384,
                   .max_head_bytes = 16384,
                   .max_headers = 100,
                   .max_body_bytes = 4 << 20,
                   .max_unread_bytes = 256 << 10,
                   .head_ms = 10000,
                   .body_ms = 30000,
                   .idle_ms = 75000,
                   .unread_ms = 30000},
        .max_waiting = 256,
        .drain_ms = 30000,
        .hang_ms = 60000,
    };
}

/* ---- answers without a job -------------------------------------------------------------- */

static int hex_digit(char c) {
    const char *digits = "0123456789abcdef", *found = c != '\0' ? strchr(digits, c | 32) : NULL;
    return found != NULL ? (int)(found - digits) : -1;
}

/* Whether a part of a path stands for the name, with %XX for some of its bytes. */
static bool is_encoded(const char *part, const char *name) {
    for (; *part != '\0' && *name != '\0'; name++) {
        int high = *part == '%' ? hex_digit(part[1]) : -1;
        int low = high >= 0 ? hex_digit(part[2]) : -1;
        char byte = low >= 0 ? (char)(high << 4 | low) : *part;
        if (byte != *name)
            return false;
        part += low >= 0 ? 3 : 1;
    }
    return *part == *name;
}

static void answer_models(ln_server *server, ln_exchange *exchange) {
    static const char prefix[] = "/v1/models/";
    ln_strbuf *out = &server->scratch;
    bool is_list = strncmp(exchange->path, prefix, sizeof prefix - 1) != 0;
    if (!is_list && !is_encoded(exchange->path + sizeof prefix - 1, server->name)) {
        ln_api_error error = {0};
        ln_api_fail(&error, 404, "model", "there is no model '%.128s'; this server has '%.128s'",
                    exchange->path + sizeof prefix - 1, server->name);
        error.code = "model_not_found";
        ln_reply_error(exchange, &error);
        return;
    }
    ln_strbuf_clear(out);
    ln_strbuf_puts(out, is_list ? "{\"object\":\"list\",\"data\":[" : "");
    ln_strbuf_puts(out, "{\"id\":");
    ln_json_put_text(out, server->name);
    ln_strbuf_printf(out, ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"linnet\"",
                     (long long)server->created_s);
    ln_strbuf_printf(out, ",\"max_model_len\":%zu}%s", server->ctx_tokens, is_list ? "]}" : "");
    ln_reply_json(server, exchange, out);
}

static void answer_state(ln_exchange *exchange, const char *trouble, const char *otherwise) {
    char json[64];
    int n_bytes =
        snprintf(json, sizeof json, "{\"status\":\"%s\"}", trouble != NULL ? trouble : otherwise);
    ln_response_send(exchange, trouble != NULL ? 503 : 200, "application/json", json,
                     (size_t)n_bytes);
}

static void answer_health(ln_server *server, ln_exchange *exchange) {
    answer_state(exchange, ln_watch_find_trouble(server), "ok");
}

static void answer_ready(ln_server *server, ln_exchange *exchange) {
    const char *trouble = ln_watch_find_trouble(server);
    answer_state(exchange, server->is_draining ? "draining" : trouble, "ready");
}

static void answer_version(ln_server *server, ln_exchange *exchange) {
    ln_strbuf *out = &server->scratch;
    ln_strbuf_clear(out);
    ln_strbuf_printf(out, "{\"version\":\"%s\"}", linnet_version());
    ln_reply_json(server, exchange, out);
}

static void answer_metrics(ln_server *server, ln_exchange *exchange) {
    ln_strbuf *out = &server->scratch;
    ln_metrics_now now = {.model = server->name,
                          .n_open = atomic_load(&server->n_open),
                          .n_connections = ln_listener_count_connections(server->listener)};
    now.engine.struct_bytes = sizeof now.engine;
    linnet_engine_get_stats(server->engine, &now.engine);
    ln_strbuf_clear(out);
    ln_metrics_render(&server->metrics, &now, out);
    ln_response_send(exchange, 200, "text/plain; version=0.0.4; charset=utf-8", out->data,
                     out->len);
}

/* ---- answers by a worker ---------------------------------------------------------------- */

static void count_refusal(ln_server *server, const ln_api_error *error) {
    if (error->status != 429)
        return;
    server->metrics.n_refused++;
    server->rests = true;
}

/* Hands the body to a worker, unless there is no room. */
static void push_job(ln_server *server, ln_exchange *exchange, void (*work)(ln_job *),
                     ln_api_kind kind, bool generates) {
    ln_api_error error = {0};
    if (exchange->is_late)
        ln_api_fail(&error, 503, NULL, "the server is about to end");
    else if (server->workers.n_jobs >= LN_SERVER_MAX_JOBS)
        ln_api_fail(&error, 429, NULL, "the server is busy: %d requests are being read",
                    LN_SERVER_MAX_JOBS);
    if (error.status == 0 && generates)
        ln_server_reserve(server, 0, 1, NULL, &error);
    if (error.status != 0) {
        count_refusal(server, &error);
        ln_reply_error(exchange, &error);
        return;
    }
    ln_job *job = ln_job_create(server, exchange);
    if (job == NULL) {
        ln_server_release(server, generates);
        ln_api_fail(&error, 503, NULL, "out of memory");
        ln_reply_error(exchange, &error);
        return;
    }
    job->n_reserved = generates;
    job->work = work;
    job->kind = kind;
    exchange->job = job;
    ln_workers_push(server, job);
}

static void answer_completion(ln_server *server, ln_exchange *exchange) {
    push_job(server, exchange, ln_work_generate, LN_API_COMPLETION, true);
}

static void answer_chat(ln_server *server, ln_exchange *exchange) {
    push_job(server, exchange, ln_work_generate, LN_API_CHAT, true);
}

static void answer_tokenize(ln_server *server, ln_exchange *exchange) {
    push_job(server, exchange, ln_work_tokenize, LN_API_COMPLETION, false);
}

static void answer_detokenize(ln_server *server, ln_exchange *exchange) {
    push_job(server, exchange, ln_work_detokenize, LN_API_COMPLETION, false);
}

/* A job is back from its worker. */
static void on_job_done(ln_job *job) {
    ln_exchange *exchange = job->exchange;
    if (exchange == NULL) { /* the client has gone meanwhile */
        ln_job_free(job);
        return;
    }
    exchange->job = NULL;
    if (job->server->is_cut_off)
        ln_api_fail(&job->error, 503, NULL, "the server ends");
    if (job->error.status == 0 && job->n_sources > 0) {
        ln_generation_begin(job);
        return;
    }
    count_refusal(job->server, &job->error);
    if (job->error.status != 0)
        ln_reply_error(exchange, &job->error);
    else
        ln_reply_json(job->server, exchange, &job->reply);
    ln_job_free(job);
}

/* ---- routes ----------------------------------------------------------------------------- */

typedef struct route {
    ln_http_method method;
    const char *path;
    bool is_prefix, is_public;
    void (*answer)(ln_server *server, ln_exchange *exchange);
} route;

static void answer_root(ln_server *server, ln_exchange *exchange);

static const route routes[] = {
    {LN_HTTP_GET, "/", false, false, answer_root},
    {LN_HTTP_GET, "/health", false, true, answer_health},
    {LN_HTTP_GET, "/ready", false, true, answer_ready},
    {LN_HTTP_GET, "/metrics", false, false, answer_metrics},
    {LN_HTTP_GET, "/version", false, false, answer_version},
    {LN_HTTP_GET, "/v1/models", false, false, answer_models},
    {LN_HTTP_GET, "/v1/models/", true, false, answer_models},
    {LN_HTTP_POST, "/v1/completions", false, false, answer_completion},
    {LN_HTTP_POST, "/v1/chat/completions", false, false, answer_chat},
    {LN_HTTP_POST, "/tokenize", false, false, answer_tokenize},
    {LN_HTTP_POST, "/detokenize", false, false, answer_detokenize},
};

/* For who looks by hand: what there is. */
static void answer_root(ln_server *server, ln_exchange *exchange) {
    ln_strbuf *out = &server->scratch;
    ln_strbuf_clear(out);
    ln_strbuf_puts(out, "{\"message\":\"linnet serves OpenAI's API\",\"model\":");
    ln_json_put_text(out, server->name);
    ln_strbuf_puts(out, ",\"endpoints\":[");
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++)
        if (!routes[i].is_prefix)
            ln_strbuf_printf(out, "%s\"%s %s\"", i > 0 ? "," : "",
                             routes[i].method == LN_HTTP_GET ? "GET" : "POST", routes[i].path);
    ln_strbuf_puts(out, "]}");
    ln_reply_json(server, exchange, out);
}

static const route *find_route(const char *path) {
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        size_t n_bytes = strlen(routes[i].path);
        if (routes[i].is_prefix ? strncmp(path, routes[i].path, n_bytes) == 0
                                : strcmp(path, routes[i].path) == 0)
            return &routes[i];
    }
    return NULL;
}

/* Compares with every key, each over the longest possible length, so that the time says nothing
 * of where they differ. */
static bool has_key(const ln_server *server, const ln_exchange *exchange) {
    enum { MAX_BYTES = LN_SERVER_MAX_KEY_BYTES };
    char given[MAX_BYTES] = {0}, key[MAX_BYTES];
    const char *credential = exchange->credential != NULL ? exchange->credential : "";
    size_t n_given = strlen(credential);
    memcpy(given, credential, n_given < MAX_BYTES ? n_given : MAX_BYTES);
    bool found = server->options.n_api_keys == 0;
    for (size_t i = 0; i < server->options.n_api_keys; i++) {
        size_t n_bytes = strlen(server->options.api_keys[i]);
        volatile unsigned char difference = n_bytes != n_given;
        memset(key, 0, sizeof key);
        memcpy(key, server->options.api_keys[i], n_bytes < MAX_BYTES ? n_bytes : MAX_BYTES);
        for (size_t j = 0; j < MAX_BYTES; j++)
            difference = (unsigned char)(difference | (given[j] ^ key[j]));
        found |= difference == 0;
    }
    return found;
}

/* ---- hooks of HTTP ---------------------------------------------------------------------- */

static void add_cors(const ln_server *server, ln_exchange *exchange) {
    const char *allowed = server->options.cors_origin;
    if (allowed == NULL || exchange->origin == NULL)
        return;
    if (strcmp(allowed, "*") != 0 && strcmp(allowed, exchange->origin) != 0)
        return;
    ln_response_add_header(exchange, "Access-Control-Allow-Origin", allowed);
    ln_response_add_header(exchange, "Vary", "Origin");
    ln_response_add_header(exchange, "Access-Control-Expose-Headers", "X-Request-Id, Retry-After");
}

/* The body is wanted when the request has a route and a key; otherwise why not is the answer. */
static bool on_head(void *user, ln_exchange *exchange) {
    ln_server *server = user;
    const route *found = find_route(exchange->path);
    exchange->route = NULL;
    if (found == NULL || found->method != exchange->method)
        return false;
    if (!found->is_public && !has_key(server, exchange))
        return false;
    exchange->route = found;
    return true;
}

static void refuse(ln_server *server, ln_exchange *exchange) {
    ln_api_error error = {0};
    const route *found = find_route(exchange->path);
    bool is_open = found != NULL && found->is_public;
    if (!is_open && !has_key(server, exchange)) {
        ln_api_fail(&error, 401, NULL, "the API key is missing or wrong");
        error.code = "invalid_api_key";
    } else if (found == NULL) {
        ln_api_fail(&error, 404, NULL, "there is no %.256s; GET / names what there is",
                    exchange->path);
    } else {
        ln_response_add_header(exchange, "Allow",
                               found->method == LN_HTTP_GET ? "GET, HEAD" : "POST");
        ln_api_fail(&error, 405, NULL, "%s is not possible for %.256s", exchange->verb,
                    exchange->path);
    }
    ln_reply_error(exchange, &error);
}

static void on_request(void *user, ln_exchange *exchange) {
    ln_server *server = user;
    const route *found = exchange->route;
    add_cors(server, exchange);
    if (exchange->method == LN_HTTP_OPTIONS && server->options.cors_origin != NULL) {
        ln_response_add_header(exchange, "Access-Control-Allow-Methods", "GET, POST, OPTIONS");
        ln_response_add_header(exchange, "Access-Control-Allow-Headers",
                               "authorization, content-type, x-request-id");
        ln_response_add_header(exchange, "Access-Control-Max-Age", "600");
        ln_response_send(exchange, 204, NULL, NULL, 0);
    } else if (found == NULL) {
        refuse(server, exchange);
    } else {
        found->answer(server, exchange);
    }
}

static void on_refuse(void *user, ln_exchange *exchange, int status, const char *message) {
    (void)user;
    ln_api_error error = {0};
    ln_api_fail(&error, status, NULL, "%s", message);
    ln_reply_error(exchange, &error);
}

static void on_gone(void *user, ln_exchange *exchange) {
    (void)user;
    ln_job *job = exchange->job;
    if (job != NULL) {
        job->exchange = NULL;
        atomic_store(&job->is_gone, true);
    }
    if (exchange->generation != NULL)
        ln_generation_cancel(exchange->generation);
    exchange->job = exchange->generation = NULL;
}

static void on_end(void *user, ln_exchange *exchange) {
    ln_server *server = user;
    int class = exchange->status / 100;
    server->metrics.n_cut += exchange->was_cut;
    if (class >= 0 && class < LN_METRICS_STATUSES)
        server->metrics.n_responses[class]++;
    ln_server_log_access(server, exchange);
}

/* ---- drain ------------------------------------------------------------------------------ */

static void on_drain_timer(evutil_socket_t fd, short what, void *argument) {
    (void)fd, (void)what;
    ln_server *server = argument;
    if (!ln_listener_is_busy(server->listener) && server->workers.n_jobs == 0)
        event_base_loopbreak(server->base);
}

void ln_server_cut_off(ln_server *server, const char *why) {
    static const struct timeval soon = {.tv_sec = 1};
    ln_server_log(server, "%s: %zu sequences are cut off", why, atomic_load(&server->n_open));
    server->is_cut_off = true;
    ln_generations_end(server);
    event_add(server->cut_timer, &soon);
}

static void on_cut_timer(evutil_socket_t fd, short what, void *argument) {
    (void)fd;
    ln_server *server = argument;
    if (server->is_cut_off)
        event_base_loopbreak(server->base);
    else
        ln_server_cut_off(server,
                          what == EV_TIMEOUT ? "the drain's time is up" : "a second signal");
}

void ln_server_drain(ln_server *server, const char *why) {
    static const struct timeval often = {.tv_usec = 10000};
    uint32_t ms = server->options.drain_ms;
    struct timeval later = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
    server->is_draining = true;
    ln_server_log(server, "%s: waiting for %zu sequences", why, atomic_load(&server->n_open));
    ln_listener_drain(server->listener);
    event_add(server->drain_timer, &often);
    event_add(server->cut_timer, &later);
}

static void on_signal(evutil_socket_t number, short what, void *argument) {
    (void)what;
    ln_server *server = argument;
    if (server->is_draining)
        on_cut_timer(-1, 0, server); /* now, and at a third signal at once */
    else
        ln_server_drain(server, number == SIGTERM ? "SIGTERM" : "SIGINT");
}

/* ---- life ------------------------------------------------------------------------------- */

/* As many descriptors as the system allows: a connection takes one, and so does a request. */
static void raise_descriptors(ln_server *server) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    rlim_t before = limit.rlim_cur;
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        limit.rlim_cur = before;
    enum { SPARE = 256 }; /* for requests, files and libraries */
    size_t room = limit.rlim_cur > 2 * SPARE ? (size_t)limit.rlim_cur - SPARE : SPARE;
    if (server->options.limits.max_connections > room)
        server->options.limits.max_connections = room;
}

static ln_status create_events(ln_server *server, ln_error *err) {
    static const int numbers[] = {SIGINT, SIGTERM};
    server->drain_timer = event_new(server->base, -1, EV_PERSIST, on_drain_timer, server);
    server->cut_timer = evtimer_new(server->base, on_cut_timer, server);
    bool created = server->drain_timer != NULL && server->cut_timer != NULL;
    for (int i = 0; i < 2; i++) {
        server->signals[i] = evsignal_new(server->base, numbers[i], on_signal, server);
        created = created && server->signals[i] != NULL && event_add(server->signals[i], NULL) == 0;
    }
    if (!created)
        return ln_fail(err, LINNET_ERR_NOMEM, "out of memory for the server");
    return LINNET_OK;
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

ln_status ln_server_open(const ln_server_options *options, ln_server **out, ln_error *err) {
    *out = NULL;
    ln_server *server = calloc(1, sizeof *server);
    struct event_base *base = server != NULL ? create_base() : NULL;
    if (base == NULL) {
        free(server);
        return ln_fail(err, LINNET_ERR_NOMEM, "out of memory for the server");
    }
    server->options = *options;
    server->base = base;
    server->created_s = (int64_t)time(NULL);
    atomic_init(&server->n_open, 0);
    ln_strbuf_init(&server->scratch);
    raise_descriptors(server);
    const ln_http_hooks hooks = {.user = server,
                                 .on_head = on_head,
                                 .on_request = on_request,
                                 .on_refuse = on_refuse,
                                 .on_gone = on_gone,
                                 .on_end = on_end};
    ln_status status = ln_listener_open(server->base, &options->address, &server->options.limits,
                                        &hooks, &server->listener, err);
    if (status == LINNET_OK)
        *out = server;
    else
        ln_server_close(server);
    return status;
}

void ln_server_close(ln_server *server) {
    if (server == NULL)
        return;
    ln_workers_stop(server);
    ln_generations_stop(server);
    ln_listener_close(server->listener);
    for (int i = 0; i < 2; i++)
        if (server->signals[i] != NULL)
            event_free(server->signals[i]);
    if (server->drain_timer != NULL)
        event_free(server->drain_timer);
    if (server->cut_timer != NULL)
        event_free(server->cut_timer);
    ln_watch_stop(server);
    event_base_free(server->base);
    ln_strbuf_free(&server->scratch);
    free(server);
}

uint16_t ln_server_get_port(const ln_server *server) {
    return ln_listener_get_port(server->listener);
}

/* Turns of the event loop. One that refused a request for want of room is followed by a rest, so
 * that under overload what comes meanwhile is refused in one turn: each would wake this thread
 * else, and take the processor from the engine's. */
static ln_status run_loop(ln_server *server, ln_error *err) {
    static const struct timespec rest = {.tv_nsec = LN_SERVER_REST_MS * 1000000};
    do {
        if (server->rests && !server->is_draining)
            nanosleep(&rest, NULL);
        server->rests = false;
        if (event_base_loop(server->base, EVLOOP_ONCE) < 0)
            return ln_fail(err, LINNET_ERR_IO, "the event loop failed");
    } while (!event_base_got_break(server->base));
    return LINNET_OK;
}

/* What clients call the model: with nothing that a path or a shell would take apart. */
static void choose_name(ln_server *server) {
    server->name = server->options.served_name;
    if (server->name != NULL)
        return;
    snprintf(server->own_name, sizeof server->own_name, "%s", server->info.name);
    for (char *c = server->own_name; *c != '\0'; c++)
        if (strchr(" \t\"'%?#&\\<>", *c) != NULL || (unsigned char)*c < ' ')
            *c = '-';
    server->name = server->own_name;
}

ln_status ln_server_run(ln_server *server, const linnet_model *model, linnet_engine *engine,
                        ln_error *err) {
    linnet_memory_plan plan = {.struct_bytes = sizeof plan};
    linnet_engine_get_memory(engine, &plan);
    server->model = model;
    server->engine = engine;
    server->tokenizer = model->tokenizer;
    server->ctx_tokens = plan.ctx_tokens;
    server->max_seqs = plan.max_seqs;
    server->has_gpu = plan.device_bytes > 0;
    server->info.struct_bytes = sizeof server->info;
    linnet_model_get_info(model, &server->info);
    choose_name(server);
    LN_TRY(create_events(server, err));
    LN_TRY(ln_watch_start(server, err));
    LN_TRY(ln_generations_start(server, err));
    LN_TRY(ln_workers_start(server, on_job_done, err));
    ln_server_log(server, "serving %s at %s port %u", server->name, server->options.address.host,
                  ln_server_get_port(server));
    LN_TRY(run_loop(server, err));
    ln_server_log(server, "stopped");
    if (server->is_hung)
        return ln_fail(err, LINNET_ERR_COMPUTE, "the GPU hangs; the server has ended");
    if (server->is_lost)
        return ln_fail(err, LINNET_ERR_COMPUTE, "the GPU failed for good; the server has ended");
    return LINNET_OK;
}
