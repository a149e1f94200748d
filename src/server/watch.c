/* What the server knows of its engine's health, without looking while there is nothing to do: a
 * request that ends with an error may tell of a GPU that is lost, and while requests run on a GPU a
 * timer sees to it that the engine does not hang for ever. */
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "server/state.h"

static uint64_t hang_ns(const ln_server *server) {
    return (uint64_t)server->options.hang_ms * 1000000u;
}

/* For how long the engine has had work and given neither events nor steps. */
static uint64_t measure_silence(ln_server *server, const linnet_engine_stats *stats) {
    uint64_t now_ns = ln_clock_ns();
    if (stats->n_steps != server->n_steps || server->generations == NULL)
        server->progress_ns = now_ns; /* a long prompt gives no events */
    server->n_steps = stats->n_steps;
    return now_ns - server->progress_ns;
}

const char *ln_watch_find_trouble(ln_server *server) {
    enum { MAX_FAILED_STEPS = 2 };
    linnet_engine_stats stats = {.struct_bytes = sizeof stats};
    linnet_engine_get_stats(server->engine, &stats);
    uint64_t silence_ns = measure_silence(server, &stats);
    if (stats.is_lost || stats.n_failed_steps > MAX_FAILED_STEPS)
        return "the engine fails";
    return silence_ns > hang_ns(server) ? "the engine makes no progress" : NULL;
}

/* ---- a GPU that is lost ----------------------------------------------------------------- */

/* Without its GPU the engine answers nothing but errors: whoever started the server may start it
 * again. */
static void on_failure(evutil_socket_t fd, short what, void *argument) {
    (void)fd, (void)what;
    ln_server *server = argument;
    linnet_engine_stats stats = {.struct_bytes = sizeof stats};
    linnet_engine_get_stats(server->engine, &stats);
    if (!stats.is_lost || server->is_lost)
        return;
    server->is_lost = true;
    if (!server->is_draining)
        ln_server_drain(server, "the GPU failed");
}

void ln_watch_note_failure(ln_server *server) {
    event_active(server->failure_event, EV_TIMEOUT, 0);
}

/* ---- a GPU that hangs ------------------------------------------------------------------- */

static void set_timer(ln_server *server) {
    uint32_t ms = server->options.hang_ms / 2 + 1;
    struct timeval later = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
    event_add(server->hang_timer, &later);
}

static void on_hang_timer(evutil_socket_t fd, short what, void *argument) {
    (void)fd, (void)what;
    ln_server *server = argument;
    linnet_engine_stats stats = {.struct_bytes = sizeof stats};
    if (server->generations == NULL)
        return;
    linnet_engine_get_stats(server->engine, &stats);
    if (measure_silence(server, &stats) <= 2 * hang_ns(server)) {
        set_timer(server);
        return;
    }
    server->is_hung = true;
    ln_server_cut_off(server, "the GPU hangs");
}

static void *end_late(void *argument) {
    static const struct timespec end = {.tv_sec = LN_SERVER_END_S};
    struct timespec rest = end;
    int status = *(int *)argument;
    free(argument);
    while (nanosleep(&rest, &rest) != 0)
        continue;
    _exit(status);
}

/* A thread that the end of the program ends, if it comes. */
static void start_end_late(int status) {
    pthread_attr_t detached;
    pthread_t thread;
    int *argument = malloc(sizeof *argument);
    if (argument == NULL)
        return;
    *argument = status;
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    if (pthread_create(&thread, &detached, end_late, argument) != 0)
        free(argument);
    pthread_attr_destroy(&detached);
}

void ln_server_end(ln_server *server, linnet_engine *engine, int status) {
    if (server->is_hung)
        _exit(status);
    start_end_late(status);
    ln_server_close(server); /* its requests end before the engine */
    linnet_engine_destroy(engine);
}

void ln_watch_begin(ln_server *server) {
    server->progress_ns = ln_clock_ns();
    if (server->has_gpu && !event_pending(server->hang_timer, EV_TIMEOUT, NULL))
        set_timer(server);
}

ln_status ln_watch_start(ln_server *server, ln_error *err) {
    server->failure_event = event_new(server->base, -1, 0, on_failure, server);
    server->hang_timer = evtimer_new(server->base, on_hang_timer, server);
    if (server->failure_event == NULL || server->hang_timer == NULL)
        return ln_fail(err, LINNET_ERR_NOMEM, "out of memory for the server");
    return LINNET_OK;
}

void ln_watch_stop(ln_server *server) {
    if (server->failure_event != NULL)
        event_free(server->failure_event);
    if (server->hang_timer != NULL)
        event_free(server->hang_timer);
}
