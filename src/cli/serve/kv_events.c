#include "cli/serve/kv_events.h"

#include <libgen.h>
#include <stdlib.h>
#include <string.h>

#include "cli/options.h"

enum { KEY_ENDPOINT = LN_KEYS_KV_EVENTS, KEY_TOPIC, KEY_REPLAY, KEY_BUFFER, KEY_HWM };
enum { MAX_TOPIC_BYTES = 256, DEFAULT_BATCHES = 10000, MAX_BATCHES = 1000000 };
enum { DEFAULT_WAITING = 10000 };

static const struct argp_option options[] = {
    {"kv-events", KEY_ENDPOINT, "ENDPOINT", 0,
     "Publish over ZeroMQ which blocks of the prefix cache come and go, as vLLM does, such as at "
     "tcp://*:5557; without * the endpoint is connected to",
     0},
    {"kv-events-topic", KEY_TOPIC, "TOPIC", 0, "What the messages begin with (nothing)", 0},
    {"kv-events-replay", KEY_REPLAY, "ENDPOINT", 0,
     "Send what subscribers missed to those that ask here, such as tcp://*:5558", 0},
    {"kv-events-buffer", KEY_BUFFER, "N", 0, "Batches that are kept for them (10000)", 0},
    {"kv-events-hwm", KEY_HWM, "N", 0,
     "ZeroMQ's high-water mark: batches that wait for a slow subscriber, which misses more (10000)",
     0},
    {0}};

static void check(const struct argp_state *state, ln_kv_publisher_options *publisher) {
    if (publisher->endpoint == NULL &&
        (publisher->topic != NULL || publisher->replay_endpoint != NULL))
        argp_error(state, "%s: needs --kv-events",
                   publisher->topic != NULL ? "--kv-events-topic" : "--kv-events-replay");
    if (publisher->replay_endpoint == NULL && publisher->max_batches > 0)
        argp_error(state, "--kv-events-buffer: needs --kv-events-replay");
    if (publisher->endpoint == NULL && publisher->max_waiting > 0)
        argp_error(state, "--kv-events-hwm: needs --kv-events");
    if (publisher->topic == NULL)
        publisher->topic = "";
    if (publisher->max_batches == 0)
        publisher->max_batches = DEFAULT_BATCHES;
    if (publisher->max_waiting == 0)
        publisher->max_waiting = DEFAULT_WAITING;
}

static error_t parse(int key, char *arg, struct argp_state *state) {
    ln_cli_kv_events *events = state->input;
    ln_kv_publisher_options *publisher = &events->publisher;
    switch (key) {
    case KEY_ENDPOINT:
        if (!ln_kv_publisher_is_built())
            argp_error(state, "--kv-events: this linnet was built without ZeroMQ");
        ln_cli_refuse_twice(state, "--kv-events", publisher->endpoint != NULL);
        publisher->endpoint = arg;
        return 0;
    case KEY_TOPIC:
        if (strlen(arg) > MAX_TOPIC_BYTES)
            argp_error(state, "--kv-events-topic: more than %d bytes", MAX_TOPIC_BYTES);
        publisher->topic = arg;
        return 0;
    case KEY_REPLAY: publisher->replay_endpoint = arg; return 0;
    case KEY_BUFFER:
        publisher->max_batches =
            ln_cli_parse_count(state, "--kv-events-buffer", arg, 1, MAX_BATCHES);
        return 0;
    case KEY_HWM:
        publisher->max_waiting = ln_cli_parse_count(state, "--kv-events-hwm", arg, 1, MAX_BATCHES);
        return 0;
    case ARGP_KEY_END: check(state, publisher); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

const struct argp ln_cli_kv_events_argp = {.options = options, .parser = parse};

linnet_status ln_cli_kv_events_open(const ln_cli_kv_events *events, ln_kv_publisher **publisher,
                                    linnet_error *err) {
    if (events->publisher.endpoint == NULL || *publisher != NULL)
        return LINNET_OK;
    return ln_kv_publisher_open(&events->publisher, publisher, err);
}

/* The folder of a socket of ipc; malloc'd, NULL: it is none. */
static char *folder_of(const char *endpoint) {
    static const char scheme[] = "ipc://";
    if (endpoint == NULL || strncmp(endpoint, scheme, strlen(scheme)) != 0)
        return NULL;
    char *path = strdup(endpoint + strlen(scheme));
    char *folder = path != NULL ? strdup(dirname(path)) : NULL;
    free(path);
    return folder;
}

void ln_cli_kv_events_allow(ln_cli_kv_events *events, ln_cli_sandbox *sandbox) {
    const ln_kv_publisher_options *publisher = &events->publisher;
    events->folders[0] = folder_of(publisher->endpoint);
    events->folders[1] = folder_of(publisher->replay_endpoint);
    for (size_t i = 0; i < 2; i++)
        ln_cli_sandbox_allow(sandbox, events->folders[i], true);
    if (publisher->endpoint != NULL && ln_kv_publisher_connects(publisher->endpoint))
        sandbox->connects = true;
}

void ln_cli_kv_events_free(ln_cli_kv_events *events) {
    free(events->folders[0]);
    free(events->folders[1]);
}
