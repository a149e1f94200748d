/* linnet serve: the HTTP server. */
#include <argp.h>
#include <libgen.h>
#include <linnet.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/registry.h"
#include "base/file.h"
#include "cli/adapters.h"
#include "cli/commands.h"
#include "cli/hub/resolve.h"
#include "cli/input.h"
#include "cli/load.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/sandbox.h"
#include "cli/serve/kv_events.h"
#include "cli/serve/many.h"
#include "cli/serve/origin.h"
#include "cli/serve/service.h"
#include "engine/engine.h"
#include "server/api/api_keys.h"
#include "server/log_writer.h"
#include "server/server.h"

enum { SEQS_OF_MANY = 16, MAX_HOSTS = 64 };
/* The log's queue, and how long the end waits for who reads it. */
enum { LOG_BYTES = 256 << 10, LOG_END_MS = 500 };

enum {
    KEY_HOST = LN_KEYS_COMMAND,
    KEY_PORT,
    KEY_API_KEY,
    KEY_API_KEY_FILE,
    KEY_SERVED_NAME,
    KEY_CHAT_TEMPLATE,
    KEY_CHAT_TEMPLATE_KWARGS,
    KEY_CORS,
    KEY_TLS_CERT,
    KEY_TLS_KEY,
    KEY_LOG_JSON,
    KEY_NO_LOG,
    KEY_SANDBOX,
    KEY_STRICT_FIELDS,
    KEY_NO_WEB_PAGE,
    KEY_METRICS_PREFIX,
    KEY_RESPONSE_STORE,
    KEY_MAX_RESPONSES,
    KEY_MAX_RESPONSE_BYTES,
    KEY_ALLOWED_HOST,
    KEY_MAX_WAITING,
    KEY_MAX_CONNECTIONS,
    KEY_MAX_HEAD_BYTES,
    KEY_MAX_HEADERS,
    KEY_MAX_BODY_BYTES,
    KEY_MAX_BODIES_BYTES,
    KEY_MAX_UNREAD_BYTES,
    KEY_HEAD_TIMEOUT,
    KEY_BODY_TIMEOUT,
    KEY_IDLE_TIMEOUT,
    KEY_UNREAD_TIMEOUT,
    KEY_DRAIN_TIMEOUT,
    KEY_HANG_TIMEOUT,
    KEY_MODELS,
    KEY_MEMORY,
    KEY_GPU_MEMORY,
    KEY_KEEP_ALIVE
};

typedef struct serve_args {
    const char *model; /* NULL: the demo model */
    const char *key_file;
    const char *chat_template;        /* a file; NULL: the model's own */
    const char *keys[LN_API_KEY_MAX]; /* [n_keys], argv's */
    size_t n_keys;
    const char *hosts[MAX_HOSTS]; /* [server.n_allowed_hosts], argv's */
    bool is_silent, has_no_sandbox;
    ln_server_options server;
    linnet_engine_options engine;
    ln_cli_adapters adapters;
    ln_cli_kv_events kv_events;
    ln_kv_publisher *publisher; /* of KV events, once it is open; NULL: none */
    ln_cli_many many;
} serve_args;

static const struct argp_option options[] = {
    {NULL, 0, NULL, 0, "Clients:", 1},
    {"host", KEY_HOST, "HOST", 0, "Listen at this address or name (127.0.0.1)", 1},
    {"port", KEY_PORT, "N", 0, "Listen at this port; 0: a free one, which is printed (8080)", 1},
    {"api-key", KEY_API_KEY, "KEY", 0, "Ask for this key; may be repeated", 1},
    {"api-key-file", KEY_API_KEY_FILE, "FILE", 0,
     "Ask for one of the keys in FILE, one a line: KEY [NAME] [max-sequences=N] "
     "[requests-per-minute=N]; read again at SIGHUP",
     1},
    {"served-name", KEY_SERVED_NAME, "NAME", 0, "What clients call the model (its own name)", 1},
    {"chat-template", KEY_CHAT_TEMPLATE, "FILE", 0,
     "Jinja that takes the place of the model's chat template", 1},
    {"chat-template-kwargs", KEY_CHAT_TEMPLATE_KWARGS, "JSON", 0,
     "Variables of chat templates where a request does not say otherwise, such as "
     "{\"enable_thinking\": false}",
     1},
    {"cors", KEY_CORS, "ORIGIN", 0, "Let pages of this origin call the server; *: of any", 1},
    {"allowed-host", KEY_ALLOWED_HOST, "NAME", 0,
     "Clients may call the server by this name where it asks for no key and listens at a "
     "loopback address; *: by any; may be repeated",
     1},
    {"response-store", KEY_RESPONSE_STORE, "FILE", 0,
     "Keep responses and conversations in this SQLite file, not in memory", 1},
    {"strict-fields", KEY_STRICT_FIELDS, NULL, 0,
     "Refuse requests with unknown fields, which are ignored with a warning otherwise", 1},
    {"metrics-prefix", KEY_METRICS_PREFIX, "linnet|vllm", 0,
     "What names in /metrics begin with; vllm: for those that read vLLM's (linnet)", 1},
    {"no-web-page", KEY_NO_WEB_PAGE, NULL, 0, "Have no web page at / and /status", 1},
    {"tls-cert", KEY_TLS_CERT, "FILE", 0, "Speak TLS with this certificate chain (PEM)", 1},
    {"tls-key", KEY_TLS_KEY, "FILE", 0, "The certificate's key (PEM)", 1},
    {"log-json", KEY_LOG_JSON, NULL, 0, "Write the log as JSON, one object a line", 1},
    {"no-log", KEY_NO_LOG, NULL, 0, "Write no log", 1},
    {"sandbox", KEY_SANDBOX, "on|off", 0,
     "Give up what serving does not need: other files, writing, connections, programs (on, where "
     "the kernel has Landlock and seccomp)",
     1},
    {NULL, 0, NULL, 0, "Several models:", 2},
    {"models", KEY_MODELS, "PATH", 0,
     "Offer the models in this folder, or those that this JSON file names; may be repeated", 2},
    {"memory", KEY_MEMORY, "BYTES", 0,
     "Memory that loaded models may take together, such as 24G (what is free)", 2},
    {"gpu-memory", KEY_GPU_MEMORY, "BYTES", 0, "The same of the GPU's memory (any)", 2},
    {"keep-alive", KEY_KEEP_ALIVE, "S", 0,
     "Unload a model after so many seconds without a request; -1: never (300)", 2},
    {NULL, 0, NULL, 0, "Limits:", 3},
    {"max-waiting", KEY_MAX_WAITING, "N", 0,
     "Sequences that may wait beside the running ones; more are refused with 429 (256)", 3},
    {"max-responses", KEY_MAX_RESPONSES, "N", 0,
     "Stored responses and conversations; the oldest give way (1000)", 3},
    {"max-response-bytes", KEY_MAX_RESPONSE_BYTES, "BYTES", 0,
     "Bytes of all stored responses and conversations (67108864)", 3},
    {"max-connections", KEY_MAX_CONNECTIONS, "N", 0, "Open connections (16384)", 3},
    {"max-head-bytes", KEY_MAX_HEAD_BYTES, "BYTES", 0, "Bytes of a request's head (16384)", 3},
    {"max-headers", KEY_MAX_HEADERS, "N", 0, "Headers of a request (100)", 3},
    {"max-body-bytes", KEY_MAX_BODY_BYTES, "BYTES", 0, "Bytes of a request's body (4194304)", 3},
    {"max-bodies-bytes", KEY_MAX_BODIES_BYTES, "BYTES", 0,
     "Bytes of all bodies at once, read or being read (268435456)", 3},
    {"max-unread-bytes", KEY_MAX_UNREAD_BYTES, "BYTES", 0,
     "Bytes that a client may leave unread before it is cut (262144)", 3},
    {"head-timeout", KEY_HEAD_TIMEOUT, "MS", 0, "Time for a request's head (10000)", 3},
    {"body-timeout", KEY_BODY_TIMEOUT, "MS", 0, "Time for a request's body (30000)", 3},
    {"idle-timeout", KEY_IDLE_TIMEOUT, "MS", 0, "Time between requests (75000)", 3},
    {"unread-timeout", KEY_UNREAD_TIMEOUT, "MS", 0,
     "Time in which a client takes nothing of an answer before it is cut (30000)", 3},
    {"drain-timeout", KEY_DRAIN_TIMEOUT, "MS", 0,
     "How long SIGTERM waits for running requests (30000)", 3},
    {"hang-timeout", KEY_HANG_TIMEOUT, "MS", 0,
     "Time without progress of the engine before /health says so (60000)", 3},
    {0}};

/* What ln_server_options.read_keys calls. */
static ln_status read_keys(void *user, ln_api_key_list *list, ln_error *err) {
    const serve_args *args = user;
    for (size_t i = 0; i < args->n_keys; i++)
        LN_TRY(ln_api_key_list_add(list, args->keys[i], "--api-key", err));
    if (!args->key_file)
        return LINNET_OK;
    enum { MAX_BYTES = 1 << 20 };
    ln_strbuf text = {0};
    ln_status status = ln_file_read(args->key_file, MAX_BYTES, &text, err);
    if (status == LINNET_OK)
        status = ln_api_key_list_read(list, text.len > 0 ? text.data : "", args->key_file, err);
    ln_strbuf_free(&text);
    return status;
}

/* A mistake in the keys is one of the command line. */
static void check_keys(struct argp_state *state, serve_args *args) {
    ln_api_key_list list = {0};
    linnet_error err = {0};
    ln_status status = read_keys(args, &list, &err);
    if (status == LINNET_ERR_IO)
        exit(ln_cli_fail_with(&err));
    if (status != LINNET_OK)
        argp_error(state, "%s", err.message);
    ln_api_key_list_free(&list);
    args->server.read_keys = read_keys;
    args->server.keys_user = args;
}

static void check(struct argp_state *state, serve_args *args) {
    ln_http_address *address = &args->server.address;
    if (args->server.served_name != NULL && *args->server.served_name == '\0')
        argp_error(state, "--served-name: the name is empty");
    if ((address->certificate == NULL) != (address->key == NULL))
        argp_error(state, "--tls-cert and --tls-key need each other");
    if (args->key_file || args->n_keys > 0)
        check_keys(state, args);
    const char *shared = ln_cli_many_find_option(&args->many);
    if (shared && args->model && args->many.n_models == 0 && args->many.n_lists == 0)
        argp_error(state, "%s: only with a server of several models", shared);
    if (args->kv_events.publisher.endpoint != NULL && !args->engine.prefix_cache)
        argp_error(state, "--kv-events: there are none with --prefix-cache off");
    args->server.allowed_hosts = args->hosts;
}

static uint32_t parse_ms(const struct argp_state *state, const char *option, const char *arg) {
    enum { MAX_MS = 86400000 };
    return (uint32_t)ln_cli_parse_count(state, option, arg, 1, MAX_MS);
}

static error_t parse_limit(int key, char *arg, struct argp_state *state) {
    enum { MAX_BYTES = 1 << 30 };
    ln_server_options *server = &((serve_args *)state->input)->server;
    ln_http_limits *limits = &server->limits;
    ln_cli_many *many = &((serve_args *)state->input)->many;
    switch (key) {
    case KEY_MAX_WAITING:
        server->max_waiting = ln_cli_parse_count(state, "--max-waiting", arg, 0, 65536);
        return 0;
    case KEY_MAX_RESPONSES:
        server->max_responses = ln_cli_parse_count(state, "--max-responses", arg, 0, 1 << 24);
        return 0;
    case KEY_MAX_RESPONSE_BYTES:
        server->max_response_bytes =
            ln_cli_parse_bytes(state, "--max-response-bytes", arg, 0, (size_t)1 << 40);
        return 0;
    case KEY_MAX_CONNECTIONS:
        limits->max_connections = ln_cli_parse_count(state, "--max-connections", arg, 1, 1 << 20);
        return 0;
    case KEY_MAX_HEAD_BYTES:
        limits->max_head_bytes = ln_cli_parse_bytes(state, "--max-head-bytes", arg, 256, 65536);
        return 0;
    case KEY_MAX_HEADERS:
        limits->max_headers = ln_cli_parse_count(state, "--max-headers", arg, 8, 65536);
        return 0;
    case KEY_MAX_BODY_BYTES:
        limits->max_body_bytes = ln_cli_parse_bytes(state, "--max-body-bytes", arg, 1, MAX_BYTES);
        return 0;
    case KEY_MAX_BODIES_BYTES:
        limits->max_bodies_bytes =
            ln_cli_parse_bytes(state, "--max-bodies-bytes", arg, 1, MAX_BYTES);
        return 0;
    case KEY_MAX_UNREAD_BYTES:
        limits->max_unread_bytes =
            ln_cli_parse_bytes(state, "--max-unread-bytes", arg, 4096, MAX_BYTES);
        return 0;
    case KEY_HEAD_TIMEOUT: limits->head_ms = parse_ms(state, "--head-timeout", arg); return 0;
    case KEY_BODY_TIMEOUT: limits->body_ms = parse_ms(state, "--body-timeout", arg); return 0;
    case KEY_IDLE_TIMEOUT: limits->idle_ms = parse_ms(state, "--idle-timeout", arg); return 0;
    case KEY_UNREAD_TIMEOUT: limits->unread_ms = parse_ms(state, "--unread-timeout", arg); return 0;
    case KEY_MODELS: ln_cli_many_add(state, many->lists, &many->n_lists, arg); return 0;
    case KEY_MEMORY:
        many->budget.host_bytes = ln_cli_parse_bytes(state, "--memory", arg, 1, INT64_MAX);
        return 0;
    case KEY_GPU_MEMORY:
        many->budget.device_bytes = ln_cli_parse_bytes(state, "--gpu-memory", arg, 1, INT64_MAX);
        return 0;
    case KEY_KEEP_ALIVE:
        many->has_keep_ms = true;
        many->keep_ms = (int64_t)(1000 * ln_cli_parse_number(state, "--keep-alive", arg, -1, 1e9));
        return 0;
    case KEY_DRAIN_TIMEOUT: server->drain_ms = parse_ms(state, "--drain-timeout", arg); return 0;
    case KEY_HANG_TIMEOUT: server->hang_ms = parse_ms(state, "--hang-timeout", arg); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static void set_cors(const struct argp_state *state, ln_server_options *server, const char *arg) {
    ln_cli_refuse_twice(state, "--cors", server->cors_origin != NULL);
    if (!ln_cli_is_origin(arg))
        argp_error(state, "--cors: \"%s\" is neither *, null nor as https://chat.example", arg);
    server->cors_origin = arg;
}

static error_t parse(int key, char *arg, struct argp_state *state) {
    serve_args *args = state->input;
    ln_server_options *server = &args->server;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &args->engine;
        state->child_inputs[1] = &args->adapters;
        state->child_inputs[2] = &args->model;
        state->child_inputs[3] = &args->kv_events;
        return 0;
    case KEY_HOST: server->address.host = arg; return 0;
    case KEY_PORT:
        server->address.port = (uint16_t)ln_cli_parse_count(state, "--port", arg, 0, UINT16_MAX);
        return 0;
    case KEY_API_KEY:
        if (args->n_keys == LN_API_KEY_MAX)
            argp_error(state, "--api-key: more than %d keys", LN_API_KEY_MAX);
        args->keys[args->n_keys++] = arg;
        return 0;
    case KEY_API_KEY_FILE:
        ln_cli_refuse_twice(state, "--api-key-file", args->key_file != NULL);
        args->key_file = arg;
        return 0;
    case KEY_SERVED_NAME: server->served_name = arg; return 0;
    case KEY_CHAT_TEMPLATE: args->chat_template = arg; return 0;
    case KEY_CHAT_TEMPLATE_KWARGS: server->template_variables = arg; return 0;
    case KEY_CORS: set_cors(state, server, arg); return 0;
    case KEY_ALLOWED_HOST:
        if (server->n_allowed_hosts == MAX_HOSTS)
            argp_error(state, "--allowed-host: more than %d names", MAX_HOSTS);
        args->hosts[server->n_allowed_hosts++] = arg;
        return 0;
    case KEY_RESPONSE_STORE: server->response_store = arg; return 0;
    case KEY_STRICT_FIELDS: server->strict_fields = true; return 0;
    case KEY_NO_WEB_PAGE: server->has_web_page = false; return 0;
    case KEY_METRICS_PREFIX:
        if (strcmp(arg, "linnet") != 0 && strcmp(arg, "vllm") != 0)
            argp_error(state, "--metrics-prefix: \"%s\" is neither linnet nor vllm", arg);
        server->metrics_prefix = arg;
        return 0;
    case KEY_TLS_CERT: server->address.certificate = arg; return 0;
    case KEY_TLS_KEY: server->address.key = arg; return 0;
    case KEY_LOG_JSON: server->logs_json = true; return 0;
    case KEY_NO_LOG: args->is_silent = true; return 0;
    case KEY_SANDBOX:
        if (strcmp(arg, "on") != 0 && strcmp(arg, "off") != 0)
            argp_error(state, "--sandbox: \"%s\" is neither on nor off", arg);
        args->has_no_sandbox = strcmp(arg, "off") == 0;
        return 0;
    case ARGP_KEY_ARG:
        if (args->model != NULL)
            ln_cli_many_add(state, args->many.models, &args->many.n_models, arg);
        else
            args->model = arg;
        return 0;
    case ARGP_KEY_END: check(state, args); return 0;
    default: return parse_limit(key, arg, state);
    }
}

static const struct argp_child children[] = {{&ln_cli_engine_argp, 0, LN_CLI_ENGINE_HEADER, 4},
                                             {&ln_cli_adapters_argp, 0, NULL, 1},
                                             {&ln_cli_model_argp, 0, NULL, 1},
                                             {&ln_cli_kv_events_argp, 0, NULL, 1},
                                             {0}};

static const struct argp serve_argp = {
    .options = options,
    .children = children,
    .parser = parse,
    .args_doc = "[MODEL...]",
    .doc =
        "Serves models over HTTP, by the APIs of OpenAI (/v1/completions, "
        "/v1/chat/completions, /v1/responses, /v1/models), Anthropic (/v1/messages) and Ollama "
        "(/api/chat, /api/generate), with /tokenize, /health and /metrics. MODEL is a GGUF file "
        "or a Hugging Face folder. Several, those of --models, or without any those that `linnet "
        "list' shows, are loaded when a request names them, and unloaded when they idle or when "
        "memory is needed; where there are none the demo model is served.\vThe log goes to "
        "standard error. SIGTERM, SIGINT and SIGHUP wait for the running requests and end the "
        "program "
        "with status 0; a second one ends it at once. What is not given of "
        "--max-seqs, --max-batch-tokens, --ctx and --kv-tokens is chosen by the backend and its "
        "memory, and said at the start; of several models each has 16 sequences in a step.",
};

/* The sandbox is for a server that listens; ranks start and reach each other by what it forbids. */
static bool has_sandbox(const serve_args *args) {
    return !args->has_no_sandbox && !ln_cli_has_ranks(&args->engine);
}

/* The folder of a file, of which a new one may take the place; malloc'd. */
static char *folder_of(const char *path) {
    char *copy = path != NULL ? strdup(path) : NULL, *folder = NULL;
    if (copy != NULL)
        folder = strdup(dirname(copy));
    free(copy);
    return folder;
}

/* [n_models] paths. */
static void confine_files(serve_args *args, const char *const *models, size_t n_models) {
    char *keys = folder_of(args->key_file), *store = folder_of(args->server.response_store);
    const char *user = getenv("HOME"); /* services may have none */
    char *home = NULL;                 /* where CUDA keeps kernels that it has compiled */
    if (user != NULL && asprintf(&home, "%s/.nv", user) < 0)
        home = NULL;
    ln_cli_sandbox sandbox = {.models = models,
                              .n_models = n_models,
                              /* clients may load adapters from any path: */
                              .reads_anything =
                                  args->engine.max_adapters > 0 || args->adapters.count > 0};
    ln_cli_sandbox_allow(&sandbox, args->chat_template, false);
    ln_cli_sandbox_allow(&sandbox, args->server.address.certificate, false);
    ln_cli_sandbox_allow(&sandbox, args->server.address.key, false);
    ln_cli_sandbox_allow(&sandbox, keys, false);
    ln_cli_sandbox_allow(&sandbox, store, true);
    ln_cli_sandbox_allow(&sandbox, home, true);
    ln_cli_kv_events_allow(&args->kv_events, &sandbox);
    if (!ln_cli_sandbox_confine_files(&sandbox) && ln_cli_sandbox_landlock() > 0)
        ln_cli_warn("the sandbox could not be set up: the server can read and write all files");
    free(keys);
    free(store);
    free(home);
}

static bool write_log(void *user, const char *line, size_t n_bytes) {
    return ln_log_writer_put(user, line, n_bytes);
}

/* Not before the server is ready: who reads the line connects. */
static void print_address(void *user, uint16_t port) {
    const ln_server_options *server = user;
    const char *host = server->address.host;
    bool is_ipv6 = strchr(host, ':') != NULL; /* stands in brackets within a URL */
    printf("listening at http%s://%s%s%s:%u\n", server->address.certificate ? "s" : "",
           is_ipv6 ? "[" : "", host, is_ipv6 ? "]" : "", port);
    fflush(stdout);
}

/* The server and what publishes its KV events. */
static ln_status open_server(serve_args *args, ln_server **server, ln_error *err) {
    LN_TRY(ln_cli_kv_events_open(&args->kv_events, &args->publisher, err));
    args->server.kv_events = args->publisher;
    return ln_server_open(&args->server, server, err);
}

static int serve_model(ln_server *server, const linnet_model *model, serve_args *args,
                       const char *path) {
    linnet_error err = {0};
    linnet_engine *engine = NULL;
    linnet_engine_options engine_options = args->engine;
    if (ln_cli_adapters_plan(&args->adapters, &engine_options, &err) != LINNET_OK ||
        ln_cli_create_engine(model, &engine_options, false, &engine, &err) != LINNET_OK ||
        ln_cli_adapters_load(&args->adapters, engine, &err) != LINNET_OK) {
        linnet_engine_destroy(engine);
        ln_server_close(server);
        return ln_cli_fail_with(&err);
    }
    if (server == NULL && open_server(args, &server, &err) != LINNET_OK) {
        linnet_engine_destroy(engine);
        return ln_cli_fail_with(&err);
    }
    if (args->publisher != NULL)
        ln_engine_observe_prefixes(engine, ln_kv_publisher_observer(args->publisher));
    linnet_memory_plan plan = {.struct_bytes = sizeof plan};
    linnet_engine_get_memory(engine, &plan);
    if (!args->is_silent && !args->server.logs_json)
        ln_cli_print_service(model, args->model != NULL ? args->model : path, &plan, &args->server,
                             ln_server_get_port(server));
    if (has_sandbox(args))
        ln_cli_sandbox_confine_calls();
    int status = 0;
    if (ln_server_run(server, model, engine, &err) != LINNET_OK)
        status = ln_cli_fail_with(&err);
    ln_server_end(server, engine, status);
    return status;
}

static int serve(serve_args *args, const char *path) {
    linnet_error err = {0};
    ln_server *server = NULL;
    linnet_model *model = NULL;
    int status;
    if (!ln_cli_has_ranks(&args->engine) && /* else rank 0 listens, once it knows who it is */
        open_server(args, &server, &err) != LINNET_OK) {
        status = ln_cli_fail_with(&err);
    } else if (ln_cli_open_model(path, &model, &err) != LINNET_OK) {
        status = ln_cli_fail_with(&err);
        ln_server_close(server);
    } else if (args->chat_template &&
               (status = ln_cli_set_chat_template(model, args->chat_template)) != 0) {
        ln_server_close(server);
    } else {
        status = serve_model(server, model, args, path);
    }
    linnet_model_close(model);
    return status;
}

/* What only a server of one model can have, by the option's name; NULL: nothing of that. */
static const char *find_single_option(const serve_args *args) {
    return args->server.served_name                                    ? "--served-name"
           : args->chat_template                                       ? "--chat-template"
           : args->adapters.count > 0 || args->engine.max_adapters > 0 ? "adapters"
           : args->kv_events.publisher.endpoint                        ? "--kv-events"
           : ln_cli_has_ranks(&args->engine)                           ? "several ranks"
                                                                       : NULL;
}

/* Serves several models. */
static int serve_catalog(const serve_args *args, ln_cli_catalog *catalog) {
    linnet_error err = {0};
    ln_server *server = NULL;
    ln_cli_many_source models = {&args->many, catalog};
    const ln_model_source source = ln_cli_many_offer(&models);
    int status = 0;
    const ln_memory_need budget = ln_cli_many_budget(&args->many);
    ln_cli_check_gpu(&args->engine);
    if (ln_server_open(&args->server, &server, &err) == LINNET_OK) {
        if (!args->is_silent && !args->server.logs_json)
            ln_cli_print_many(catalog, &budget, &args->server);
        if (has_sandbox(args))
            ln_cli_sandbox_confine_calls();
        ln_server_run_models(server, &source, &budget, &err);
    }
    if (err.status != LINNET_OK)
        status = ln_cli_fail_with(&err);
    if (server != NULL)
        ln_server_end(server, NULL, status);
    return status;
}

/* Serves the catalog, or where that is empty the model of the path, once the log has its thread,
 * which belongs into the sandbox as all others do. */
static int serve_with_log(serve_args *args, ln_cli_catalog *catalog, const char *path) {
    linnet_error err = {0};
    ln_log_writer *writer = NULL;
    size_t n_models = 0;
    const char **models = calloc(2 * catalog->count + args->many.n_lists + 3, sizeof *models);
    if (models == NULL)
        return ln_cli_fail("out of memory");
    for (size_t i = 0; i < catalog->count; i++) {
        models[n_models++] = catalog->offers[i]->path;
        models[n_models++] = catalog->offers[i]->spec.options.draft_model;
    }
    for (size_t i = 0; i < args->many.n_lists; i++)
        if (ln_file_is_folder(args->many.lists[i]))
            models[n_models++] = args->many.lists[i]; /* more models may come there */
    models[n_models++] = catalog->cache;
    models[n_models++] = path;
    models[n_models++] = args->engine.draft_model;
    if (has_sandbox(args)) {
        if (args->engine.gpu_layers != 0 && strcmp(args->engine.backend, "cpu") != 0)
            ln_backend_start_cuda();
        confine_files(args, models, n_models);
    }
    free(models);
    if (!args->is_silent && ln_log_writer_open(STDERR_FILENO, LOG_BYTES, &writer, &err) != 0)
        return ln_cli_fail_with(&err);
    args->server.log = writer != NULL ? write_log : NULL;
    args->server.log_user = writer;
    int status = catalog->count > 0 ? serve_catalog(args, catalog) : serve(args, path);
    ln_kv_publisher_close(args->publisher); /* the engine has ended */
    ln_log_writer_close(writer, LOG_END_MS);
    return status;
}

/* Serves what was asked for: several models; one; those that the cache has; or the demo model. */
static int serve_any(serve_args *args) {
    const char *single = find_single_option(args);
    bool are_many = args->many.n_models > 0 || args->many.n_lists > 0;
    bool takes_cache = !are_many && args->model == NULL && single == NULL;
    linnet_error err = {0};
    if (are_many && single)
        return ln_cli_fail("%s: only with a server of one model", single);
    linnet_status resolved = ln_cli_resolve_model(&args->engine.draft_model, &err);
    ln_cli_catalog catalog = {.engine = args->engine, .keep_ms = args->many.keep_ms};
    if (catalog.engine.max_seqs == 0)
        catalog.engine.max_seqs = SEQS_OF_MANY;
    args->engine.serves = true;
    if (resolved == LINNET_OK && (are_many || takes_cache))
        resolved = ln_cli_many_collect(&args->many, args->model, &catalog, &err);
    char *demo = args->model == NULL ? ln_cli_find_demo_model() : NULL;
    const char *path = args->model != NULL ? args->model : demo;
    if (resolved == LINNET_OK && catalog.count == 0)
        resolved = ln_cli_resolve_model(&path, &err);
    int status;
    if (resolved != LINNET_OK)
        status = ln_cli_fail_with(&err);
    else if (are_many && catalog.count == 0)
        status = ln_cli_fail("--models: there is no model");
    else if (catalog.count == 0 && path == NULL)
        status = ln_cli_fail("the demo model, models/demo.gguf, is not there; name a MODEL");
    else
        status = serve_with_log(args, &catalog, catalog.count == 0 ? path : NULL);
    ln_cli_catalog_free(&catalog);
    free(demo);
    return status;
}

int ln_cli_serve(int argc, char **argv) {
    serve_args args = {0};
    ln_server_options_init(&args.server);
    linnet_engine_options_init(&args.engine);
    args.many.keep_ms = 300 * 1000;
    if (ln_cli_parse(&serve_argp, argc, argv, &args) != 0)
        return LN_EXIT_USAGE;
    bool is_one = args.many.n_models == 0 && args.many.n_lists == 0;
    if (!args.server.served_name && args.model && is_one) /* a path in the cache ends in a commit */
        args.server.served_name = ln_cli_model_name(args.model);
    args.server.on_ready = print_address;
    args.server.ready_user = &args.server;
    int status = serve_any(&args);
    ln_cli_adapters_free(&args.adapters);
    ln_cli_kv_events_free(&args.kv_events);
    return status;
}
