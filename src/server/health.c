#include "server/health.h"

#include "base/clock.h"
#include "server/models/engine_counts.h"

enum { LOOK_US = 200000 };          /* at a rank that may be lost */
enum { LOOKS = 4, END_FACTOR = 2 }; /* within hang_ms; of it, until a server with a GPU ends */

static uint64_t hang_ns(const ln_health *health) {
    return (uint64_t)health->hang_ms * 1000000u;
}

/* ---- a look at each engine -------------------------------------------------------------- */

static void look_at(const ln_health *health, ln_model_entry *entry, uint64_t now_ns) {
    enum { MAX_FAILED_STEPS = 2 };
    linnet_engine_stats stats = {.struct_bytes = sizeof stats};
    ln_model_health *own = &entry->health;
    linnet_engine_get_stats(entry->served.engine, &stats);
    bool has_work = ln_engine_counts_work(&stats);
    uint64_t n_done = stats.n_steps + stats.n_requests;
    if (!has_work || !own->has_work || n_done != own->n_done)
        own->progress_ns = now_ns; /* a long prompt gives no events */
    else if (health->registry->is_fixed && health->event_ns > own->progress_ns)
        own->progress_ns = health->event_ns;
    own->has_work = has_work;
    own->n_done = n_done;
    own->silence_ns = now_ns > own->progress_ns ? now_ns - own->progress_ns : 0;
    ln_registry_note_hang(health->registry, entry, own->silence_ns > hang_ns(health));
    own->trouble = stats.is_lost || stats.n_failed_steps > MAX_FAILED_STEPS ? "the engine fails"
                   : own->hangs ? "the engine makes no progress"
                                : NULL;
}

void ln_health_look(ln_health *health) {
    ln_registry *registry = health->registry;
    uint64_t now_ns = ln_clock_ns();
    health->some_hang = false;
    for (size_t i = 0; i < registry->n_entries; i++) {
        if (registry->entries[i].state == LN_MODEL_LOADED)
            look_at(health, &registry->entries[i], now_ns);
        health->some_hang |= registry->entries[i].health.hangs;
    }
}

const char *ln_health_find_trouble(ln_health *health) {
    const ln_registry *registry = health->registry;
    ln_health_look(health);
    for (size_t i = 0; i < registry->n_entries; i++)
        if (registry->entries[i].health.trouble != NULL)
            return registry->entries[i].health.trouble;
    return NULL;
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
    uint32_t ms = health->hang_ms / LOOKS + 1;
    struct timeval later = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
    event_add(health->hang_timer, &later);
}

/* Whether the server is to end: a model on a GPU hangs for good, and no other one is at work, which
 * the end would cut off. */
static bool is_to_end(const ln_health *health) {
    const ln_registry *registry = health->registry;
    bool hangs = false;
    for (size_t i = 0; i < registry->n_entries; i++) {
        const ln_model_entry *entry = &registry->entries[i];
        if (entry->health.has_work && !entry->health.hangs)
            return false;
        hangs |= entry->served.has_gpu && entry->health.hangs &&
                 entry->health.silence_ns > END_FACTOR * hang_ns(health);
    }
    return hangs;
}

static bool has_work(const ln_health *health) {
    bool found = health->has_work;
    for (size_t i = 0; i < health->registry->n_entries; i++)
        found |= health->registry->entries[i].health.has_work;
    return found;
}

static void on_hang_timer(evutil_socket_t fd, short what, void *argument) {
    (void)fd, (void)what;
    ln_health *health = argument;
    ln_health_look(health);
    if (is_to_end(health)) {
        health->is_hung = true;
        health->hooks.on_hung(health->hooks.user);
    } else if (has_work(health)) { /* also what nobody waits for any more */
        set_timer(health);
    }
}

void ln_health_begin_work(ln_health *health) {
    health->has_work = true;
    ln_health_look(health);
    if (!health->is_hung && !event_pending(health->hang_timer, EV_TIMEOUT, NULL))
        set_timer(health);
}

void ln_health_end_work(ln_health *health) {
    health->has_work = false;
}

void ln_health_note_progress(ln_health *health, uint64_t now_ns) {
    health->event_ns = now_ns;
    if (health->some_hang)
        ln_health_look(health);
}

ln_status ln_health_start(ln_health *health, struct event_base *base, ln_registry *registry,
                          bool has_ranks, uint32_t hang_ms, const ln_health_hooks *hooks,
                          ln_error *err) {
    health->registry = registry;
    health->hang_ms = hang_ms;
    health->hooks = *hooks;
    health->failure_event = event_new(base, -1, 0, on_failure, health);
    health->hang_timer = evtimer_new(base, on_hang_timer, health);
    health->rank_timer = event_new(base, -1, EV_PERSIST, on_failure, health);
    const struct timeval often = {.tv_usec = LOOK_US};
    if (health->failure_event == NULL || health->hang_timer == NULL || health->rank_timer == NULL ||
        (has_ranks && event_add(health->rank_timer, &often) != 0))
        return ln_fail_memory(err, "the server");
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
