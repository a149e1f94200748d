#include "server/shutdown.h"

#include <signal.h>

static void on_drain_timer(evutil_socket_t fd, short what, void *argument) {
    (void)fd, (void)what;
    const ln_shutdown_scope *scope = &((const ln_shutdown *)argument)->scope;
    if (!ln_listener_is_busy(scope->listener) && scope->pool->n_tasks == 0)
        event_base_loopbreak(scope->base);
}

void ln_shutdown_cut_off(ln_shutdown *shutdown, const char *why) {
    static const struct timeval soon = {.tv_sec = 1};
    ln_log_message(shutdown->scope.log, "%s: %zu sequences are cut off", why,
                   atomic_load(&shutdown->scope.admission->n_open));
    shutdown->is_cut_off = true;
    shutdown->scope.on_cut_off(shutdown->scope.user);
    event_add(shutdown->cut_timer, &soon);
}

static void on_cut_timer(evutil_socket_t fd, short what, void *argument) {
    (void)fd;
    ln_shutdown *shutdown = argument;
    if (shutdown->is_cut_off)
        event_base_loopbreak(shutdown->scope.base);
    else
        ln_shutdown_cut_off(shutdown,
                            what == EV_TIMEOUT ? "the drain's time is up" : "a second signal");
}

void ln_shutdown_drain(ln_shutdown *shutdown, const char *why) {
    static const struct timeval often = {.tv_usec = 10000};
    uint32_t ms = shutdown->scope.drain_ms;
    struct timeval later = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
    shutdown->is_draining = true;
    ln_log_message(shutdown->scope.log, "%s: waiting for %zu sequences", why,
                   atomic_load(&shutdown->scope.admission->n_open));
    ln_listener_drain(shutdown->scope.listener);
    event_add(shutdown->drain_timer, &often);
    event_add(shutdown->cut_timer, &later);
}

static void on_signal(evutil_socket_t number, short what, void *argument) {
    (void)what;
    ln_shutdown *shutdown = argument;
    if (number == SIGHUP && shutdown->scope.on_reload != NULL)
        shutdown->scope.on_reload(shutdown->scope.user);
    else if (shutdown->is_draining)
        on_cut_timer(-1, 0, shutdown); /* now, and at a third signal at once */
    else
        ln_shutdown_drain(shutdown, number == SIGTERM  ? "SIGTERM"
                                    : number == SIGHUP ? "SIGHUP"
                                                       : "SIGINT");
}

/* Whoever started the program wants it to live on without a terminal, as nohup does. */
static bool is_ignored(int number) {
    struct sigaction action;
    return sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

ln_status ln_shutdown_start(ln_shutdown *shutdown, const ln_shutdown_scope *scope, ln_error *err) {
    static const int numbers[LN_SHUTDOWN_SIGNALS] = {SIGINT, SIGTERM, SIGHUP};
    shutdown->scope = *scope;
    shutdown->drain_timer = event_new(scope->base, -1, EV_PERSIST, on_drain_timer, shutdown);
    shutdown->cut_timer = evtimer_new(scope->base, on_cut_timer, shutdown);
    bool created = shutdown->drain_timer != NULL && shutdown->cut_timer != NULL;
    for (int i = 0; i < LN_SHUTDOWN_SIGNALS; i++) {
        if (numbers[i] == SIGHUP && scope->on_reload == NULL && is_ignored(SIGHUP))
            continue;
        shutdown->signals[i] = evsignal_new(scope->base, numbers[i], on_signal, shutdown);
        created =
            created && shutdown->signals[i] != NULL && event_add(shutdown->signals[i], NULL) == 0;
    }
    if (!created)
        return ln_fail_memory(err, "the server");
    return LINNET_OK;
}

void ln_shutdown_stop(ln_shutdown *shutdown) {
    for (int i = 0; i < LN_SHUTDOWN_SIGNALS; i++)
        if (shutdown->signals[i] != NULL)
            event_free(shutdown->signals[i]);
    if (shutdown->drain_timer != NULL)
        event_free(shutdown->drain_timer);
    if (shutdown->cut_timer != NULL)
        event_free(shutdown->cut_timer);
}
