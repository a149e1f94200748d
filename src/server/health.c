#include "server/health.h"

#include "base/clock.h"

enum { LOOK_US = 200000 }; /* at a rank that may be lost */

static uint64_t hang_ns(const ln_health *health) {
    return (uint64_t)health->hang_ms * 1000000u;
}

/* For how long the engine has had work and given neither events nor steps. */
static uint64_t measure_silence(ln_health *health, const linnet_engine_stats *stats) {
    uint64_t now_ns = ln_clock_ns();
    if (stats->n_steps != health->n_steps || !health->has_work)
        health->progress_ns = now_ns; /* a long prompt gives no events */
    health->n_steps = stats->n_steps;
    return now_ns - health->progress_ns;
}

const char *ln_health_find_trouble(ln_health *health) {
    enum { MAX_FAILED_STEPS = 2 };
    linnet_engine_stats stats;
    ln_registry_stats(health->registry, &stats);
    uint64_t silence_ns = measure_silence(health, &stats);
    if (stats.is_lost || stats.n_failed_steps > MAX_FAILED_STEPS)
        return "the engine fails";
    return silence_ns > hang_ns(health) ? "the engine makes no progress" : NULL;
}

/* ---- a GPU or a rank that is lost -------------------------------------------------------- */

static void on_failure(evutil_socket_t fd, short what, void *argument) {
    (void)fd, (void)what;
    ln_health *health = argument;
    linnet_engine_stats stats;
    ln_registry_stats(health->registry, &stats);
    if (!stats.is_lost || health->is_lost)
        return;
    health->is_lost = true;
    health->hooks.on_lost(health->hooks.user);
}

void ln_health_note_failure(ln_health *health) {
    event_active(health->failure_event, EV_TIMEOUT, 0);
}

/* ---- a GPU that hangs ------------------------------------------------------------------- */

static void set_timer(ln_health *health) {
    uint32_t ms = health->hang_ms / 2 + 1;
    struct timeval later = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
    event_add(health->hang_timer, &later);
}

static void on_hang_timer(evutil_socket_t fd, short what, void *argument) {
    (void)fd, (void)what;
    ln_health *health = argument;
    linnet_engine_stats stats;
    if (!health->has_work)
        return;
    ln_registry_stats(health->registry, &stats);
    if (measure_silence(health, &stats) <= 2 * hang_ns(health)) {
        set_timer(health);
        return;
    }
    health->is_hung = true;
    health->hooks.on_hung(health->hooks.user);
}

void ln_health_begin_work(ln_health *health) {
    health->has_work = true;
    health->progress_ns = ln_clock_ns();
    if (health->has_gpu && !event_pending(health->hang_timer, EV_TIMEOUT, NULL))
        set_timer(health);
}

void ln_health_end_work(ln_health *health) {
    health->has_work = false;
}

void ln_health_note_progress(ln_health *health, uint64_t now_ns) {
    health->progress_ns = now_ns;
}

ln_status ln_health_start(ln_health *health, struct event_base *base, const ln_registry *registry,
                          bool has_gpu, bool has_ranks, uint32_t hang_ms,
                          const ln_health_hooks *hooks, ln_error *err) {
    health->registry = registry;
    health->has_gpu = has_gpu;
    health->hang_ms = hang_ms;
    health->hooks = *hooks;
    health->failure_event = event_new(base, -1, 0, on_failure, health);
    health->hang_timer = evtimer_new(base, on_hang_timer, health);
    health->rank_timer = event_new(base, -1, EV_PERSIST, on_failure, health);
    const struct timeval often = {.tv_usec = LOOK_US};
    if (health->failure_event == NULL || health->hang_timer == NULL || health->rank_timer == NULL ||
        (has_ranks && event_add(health->rank_timer, &often) != 0))
        return ln_fail(err, LINNET_ERR_NOMEM, "out of memory for the server");
    return LINNET_OK;
}

void ln_health_stop(ln_health *health) {
    if (health->failure_event != NULL)
        event_free(health->failure_event);
    if (health->hang_timer != NULL)
        event_free(health->hang_timer);
    if (health->rank_timer != NULL)
        event_free(health->rank_timer);
}
