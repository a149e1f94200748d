#include "server/models/registry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "server/models/engine_counts.h"

/* Between two looks for new models, which read folders while nothing else is served: at least so
 * long, and so many times as long as the last look took. */
enum { LOOK_MS = 1000, LOOK_REST = 50 };

static uint64_t now_ms(void) {
    return ln_clock_ns() / 1000000;
}

/* ---- looking ---------------------------------------------------------------------------- */

static bool has_adapter(const ln_model_entry *entry, const char *name) {
    linnet_adapter adapter;
    return entry->state == LN_MODEL_LOADED &&
           ln_served_model_adapter(&entry->served, name, &adapter);
}

/* The state may have changed: has it looked at soon, not within the caller. */
static void look_soon(ln_registry *registry) {
    if (registry->look_event != NULL)
        event_active(registry->look_event, EV_TIMEOUT, 0);
}

static uint64_t identify(ln_registry *registry, const ln_model_entry *entry, bool *is_written) {
    const ln_model_source *source = &registry->source;
    *is_written = false;
    return source->identify != NULL
               ? source->identify(source->user, (size_t)(entry - registry->entries), is_written)
               : 0;
}

/* A model whose files have been replaced, and are whole as it seems, leaves. */
static void note_replaced(ln_registry *registry, ln_model_entry *entry) {
    bool is_there = entry->state == LN_MODEL_OPEN || entry->state == LN_MODEL_LOADED, is_written;
    uint64_t ms = now_ms();
    if (registry->is_fixed || !is_there || entry->is_gone || entry->leave != LN_LEAVE_NONE ||
        entry->health.hangs || ms < entry->files_ms + LOOK_MS)
        return;
    entry->files_ms = ms;
    uint64_t files = identify(registry, entry, &is_written);
    entry->n_missing = files == 0 ? entry->n_missing + 1 : 0;
    if (files == entry->files || is_written)
        return;
    entry->leave = LN_LEAVE_CLOSE;
    ln_log_message(registry->log, "the files of %s were replaced", entry->spec.name);
    look_soon(registry);
}

/* Notes which models are gone, or are back, perhaps as other files. */
static void note_gone(ln_registry *registry) {
    const ln_model_source *source = &registry->source;
    for (size_t i = 0; source->is_gone != NULL && i < registry->n_entries; i++) {
        ln_model_entry *entry = &registry->entries[i];
        bool is_gone = source->is_gone(source->user, i);
        if (is_gone == entry->is_gone)
            continue;
        entry->is_gone = is_gone;
        if (!is_gone && entry->state == LN_MODEL_CLOSED) {
            entry->spec = *source->get(source->user, i);
            entry->failure[0] = '\0';
            entry->has_plan = false;
        }
        look_soon(registry); /* what is gone leaves */
    }
    for (size_t i = 0; i < registry->n_entries; i++)
        note_replaced(registry, &registry->entries[i]);
}

void ln_registry_look(ln_registry *registry) {
    uint64_t begin_ms = now_ms();
    if (registry->is_fixed || begin_ms < registry->look_ms)
        return;
    size_t n_models = registry->source.look(registry->source.user);
    uint64_t end_ms = now_ms(), rest_ms = (end_ms - begin_ms) * LOOK_REST;
    registry->look_ms = end_ms + (rest_ms > LOOK_MS ? rest_ms : LOOK_MS);
    for (; registry->n_entries < n_models && registry->n_entries < LN_MAX_MODELS;
         registry->n_entries++) {
        ln_model_entry *entry = &registry->entries[registry->n_entries];
        entry->spec = *registry->source.get(registry->source.user, registry->n_entries);
        entry->served.name = entry->spec.name;
        entry->keep_ms = entry->spec.keep_ms;
    }
    note_gone(registry);
}

static ln_model_entry *find_named(const ln_registry *registry, const char *name) {
    for (size_t i = 0; i < registry->n_entries; i++) {
        ln_model_entry *entry = &registry->entries[i];
        if (!entry->is_gone && strcmp(entry->served.name, name) == 0)
            return entry;
    }
    for (size_t i = 0; i < registry->n_entries; i++) {
        ln_model_entry *entry = &registry->entries[i];
        if (!entry->is_gone && has_adapter(entry, name))
            return entry;
    }
    return NULL;
}

static ln_model_entry *find_only(const ln_registry *registry) {
    ln_model_entry *only = NULL;
    for (size_t i = 0; i < registry->n_entries; i++) {
        if (registry->entries[i].is_gone)
            continue;
        if (only != NULL)
            return NULL;
        only = &registry->entries[i];
    }
    return only;
}

static ln_model_entry *find(const ln_registry *registry, const char *name) {
    return name != NULL ? find_named(registry, name) : find_only(registry);
}

ln_model_entry *ln_registry_find(ln_registry *registry, const char *name) {
    ln_model_entry *found = find(registry, name);
    if (found != NULL)
        note_replaced(registry, found);
    if (name != NULL &&
        (found == NULL || found->state == LN_MODEL_CLOSED || found->n_missing > 1)) {
        ln_registry_look(registry);
        found = find(registry, name);
    }
    return found;
}

ln_model_entry *ln_registry_latest(const ln_registry *registry) {
    ln_model_entry *latest = NULL;
    for (size_t i = 0; i < registry->n_entries; i++) {
        ln_model_entry *entry = &registry->entries[i];
        if (entry->state == LN_MODEL_LOADED && !entry->is_gone &&
            (latest == NULL || entry->used_ms > latest->used_ms))
            latest = entry;
    }
    return latest;
}

const char *ln_model_state_name(const ln_model_entry *entry) {
    switch (entry->state) {
    case LN_MODEL_OPENING:
    case LN_MODEL_LOADING: return "loading";
    case LN_MODEL_LOADED: return "loaded";
    case LN_MODEL_OPEN: return entry->is_asleep ? "sleeping" : "unloaded";
    case LN_MODEL_FREEING: /* what is to sleep is not "unloaded" on the way there */
        return entry->job.kind == LN_LOAD_SLEEP ? "loaded" : "unloaded";
    case LN_MODEL_CLOSED: break;
    }
    return "unloaded";
}

const char *ln_model_next_state_name(const ln_model_entry *entry) {
    bool is_freed = entry->state == LN_MODEL_FREEING;
    if (entry->leave == LN_LEAVE_CLOSE)
        return "unloaded";
    if (entry->leave == LN_LEAVE_SLEEP || (is_freed && entry->job.kind == LN_LOAD_SLEEP))
        return "sleeping";
    return ln_model_state_name(entry);
}

int64_t ln_model_rest_ms(const ln_model_entry *entry) {
    if (entry->keep_ms < 0)
        return -1;
    if (entry->n_users > 0 || entry->first != NULL)
        return entry->keep_ms;
    uint64_t idle_ms = now_ms() - entry->used_ms;
    return idle_ms < (uint64_t)entry->keep_ms ? entry->keep_ms - (int64_t)idle_ms : 0;
}

/* What a model takes now. */
static ln_memory_need count_one(const ln_model_entry *entry) {
    switch (entry->state) {
    case LN_MODEL_LOADING:
    case LN_MODEL_LOADED:
    case LN_MODEL_FREEING: return entry->need;
    case LN_MODEL_OPEN:
        return (ln_memory_need){entry->open_bytes + entry->job.residence.n_bytes, 0};
    case LN_MODEL_CLOSED:
    case LN_MODEL_OPENING: break;
    }
    return (ln_memory_need){0};
}

ln_memory_need ln_registry_count(const ln_registry *registry) {
    ln_memory_need sum = {0};
    for (size_t i = 0; i < registry->n_entries; i++) {
        ln_memory_need own = count_one(&registry->entries[i]);
        sum.host_bytes += own.host_bytes;
        sum.device_bytes += own.device_bytes;
    }
    return sum;
}

void ln_registry_stats(const ln_registry *registry, linnet_engine_stats *sum) {
    *sum = (linnet_engine_stats){.struct_bytes = sizeof *sum};
    for (size_t i = 0; i < registry->n_entries; i++)
        if (registry->entries[i].state == LN_MODEL_LOADED)
            ln_engine_counts_add(sum, registry->entries[i].served.engine);
}

/* ---- leases ----------------------------------------------------------------------------- */

static void link_lease(ln_lease *lease) {
    ln_model_entry *entry = lease->entry;
    lease->next = NULL;
    lease->previous = entry->last;
    if (entry->last != NULL)
        entry->last->next = lease;
    else
        entry->first = lease;
    entry->last = lease;
}

static void unlink_lease(ln_lease *lease) {
    ln_model_entry *entry = lease->entry;
    if (lease->previous != NULL)
        lease->previous->next = lease->next;
    else
        entry->first = lease->next;
    if (lease->next != NULL)
        lease->next->previous = lease->previous;
    else
        entry->last = lease->previous;
    lease->next = lease->previous = NULL;
}

static bool can_grant(const ln_lease *lease) {
    const ln_model_entry *entry = lease->entry;
    bool has_model = entry->state == LN_MODEL_OPEN || entry->state == LN_MODEL_LOADED;
    return entry->leave == LN_LEAVE_NONE && has_model &&
           (entry->state == LN_MODEL_LOADED || !lease->needs_engine);
}

static void grant(ln_lease *lease) {
    lease->is_granted = true;
    lease->entry->n_users++;
    lease->grant(lease);
}

static void refuse_all(ln_model_entry *entry, int status, const char *message) {
    while (entry->first != NULL) {
        ln_lease *lease = entry->first;
        unlink_lease(lease);
        lease->entry = NULL;
        lease->refuse(lease, status, message);
    }
}

/* Leases for which all is there, in their order: one that needs an engine is overtaken by none, so
 * that the model is free of leases some time, which its loading waits for. */
static void grant_ready(ln_model_entry *entry) {
    while (entry->first != NULL && can_grant(entry->first)) {
        ln_lease *lease = entry->first;
        unlink_lease(lease);
        grant(lease);
    }
}

void ln_lease_take(ln_registry *registry, ln_model_entry *entry, ln_lease *lease) {
    lease->entry = entry;
    lease->is_granted = false;
    lease->serial = registry->n_leases++;
    if (entry->health.hangs && lease->needs_engine && !registry->is_fixed) {
        lease->entry = NULL;
        lease->refuse(lease, 503, "the model makes no progress");
        return;
    }
    if (entry->first == NULL && can_grant(lease)) {
        grant(lease);
        return;
    }
    if (registry->has_ended) {
        lease->entry = NULL;
        lease->refuse(lease, 503, "the server ends");
        return;
    }
    link_lease(lease);
    atomic_store(&entry->job.is_awaited, true);
    look_soon(registry);
}

void ln_lease_release(ln_registry *registry, ln_lease *lease) {
    ln_model_entry *entry = lease->entry;
    if (entry == NULL)
        return;
    if (lease->is_granted) {
        entry->n_users--;
        entry->used_ms = now_ms();
        if (lease->sets_keep)
            entry->keep_ms = lease->keep_ms;
        if (lease->sets_keep && lease->keep_ms == 0 && entry->state == LN_MODEL_OPEN)
            entry->leave = LN_LEAVE_CLOSE; /* one that sleeps */
    } else {
        unlink_lease(lease);
    }
    lease->entry = NULL;
    look_soon(registry);
}

/* ---- jobs ------------------------------------------------------------------------------- */

/* Before it is opened: what its files are now. */
static void note_files(ln_registry *registry, ln_model_entry *entry) {
    bool is_written;
    if (registry->source.identify == NULL)
        return;
    entry->files = identify(registry, entry, &is_written);
    entry->files_ms = now_ms();
    entry->n_missing = 0;
    entry->spec = *registry->source.get(registry->source.user, (size_t)(entry - registry->entries));
}

static void push(ln_registry *registry, ln_model_entry *entry, ln_load_kind kind) {
    static const ln_model_state during[] = {[LN_LOAD_OPEN] = LN_MODEL_OPENING,
                                            [LN_LOAD_CREATE] = LN_MODEL_LOADING,
                                            [LN_LOAD_SLEEP] = LN_MODEL_FREEING,
                                            [LN_LOAD_CLOSE] = LN_MODEL_FREEING};
    ln_load_job *job = &entry->job;
    job->kind = kind;
    job->spec = &entry->spec;
    atomic_store(&job->is_awaited, entry->first != NULL);
    job->budget = registry->budget;
    if (kind == LN_LOAD_OPEN) {
        note_files(registry, entry);
        job->options = entry->spec.options;
    }
    if (kind == LN_LOAD_CREATE)
        entry->load_s = (double)ln_clock_ns() / 1e9;
    entry->state = during[kind];
    entry->leave = LN_LEAVE_NONE;
    entry->health = (ln_model_health){0};
    entry->served.engine = NULL; /* the loader's */
    if (kind == LN_LOAD_CLOSE) {
        entry->served.model = NULL;
        entry->served.tokenizer = NULL;
    }
    ln_loader_push(&registry->loader, job);
}

static size_t count_open(const linnet_memory_plan *plan) {
    size_t n_bytes = 0;
    for (size_t i = 0; i < plan->n_arenas && i < LINNET_MAX_ARENAS; i++)
        if (strcmp(plan->arenas[i].name, "tokenizer") == 0 ||
            strcmp(plan->arenas[i].name, "headers") == 0)
            n_bytes += plan->arenas[i].bytes;
    return n_bytes;
}

static void serve(ln_registry *registry, ln_model_entry *entry) {
    ln_served_model_init(&entry->served, entry->job.model, entry->job.engine, &entry->job.plan,
                         entry->spec.name);
    entry->served.created_s = registry->created_s;
}

static void note_opened(ln_registry *registry, ln_model_entry *entry) {
    entry->need = ln_memory_need_of(&entry->job.plan);
    entry->open_bytes = count_open(&entry->job.plan);
    entry->has_plan = true;
    entry->used_ms = now_ms();
    entry->failure[0] = '\0';
    serve(registry, entry);
}

static void note_loaded(ln_registry *registry, ln_model_entry *entry) {
    entry->load_s = (double)ln_clock_ns() / 1e9 - entry->load_s;
    entry->used_ms = now_ms();
    entry->keep_ms = entry->spec.keep_ms;
    entry->failure[0] = '\0';
    serve(registry, entry);
    ln_log_message(registry->log, "loaded %s in %.2f s: %zu bytes", entry->spec.name, entry->load_s,
                   entry->need.host_bytes + entry->need.device_bytes);
}

static void note_failure(ln_registry *registry, ln_model_entry *entry) {
    const ln_load_job *job = &entry->job;
    snprintf(entry->failure, sizeof entry->failure, "%s", job->error.message);
    ln_log_message(registry->log, "cannot load %s: %s", entry->spec.name, entry->failure);
    refuse_all(entry, job->status == LINNET_ERR_NOMEM ? 503 : 500, entry->failure);
}

static void on_done(void *user, ln_load_job *job) {
    ln_registry *registry = user;
    ln_model_entry *entry = registry->entries;
    while (&entry->job != job)
        entry++;
    bool is_done = job->status == LINNET_OK;
    if (!is_done)
        note_failure(registry, entry);
    switch (job->kind) {
    case LN_LOAD_OPEN:
        entry->state = is_done ? LN_MODEL_OPEN : LN_MODEL_CLOSED;
        if (is_done)
            note_opened(registry, entry);
        break;
    case LN_LOAD_CREATE:
        entry->state = is_done ? LN_MODEL_LOADED : LN_MODEL_OPEN;
        entry->is_asleep = false; /* its files were let go, whatever came of it */
        if (is_done)
            note_loaded(registry, entry);
        else
            entry->load_s = 0;
        break;
    case LN_LOAD_SLEEP:
        entry->state = LN_MODEL_OPEN;
        entry->is_asleep = true;
        ln_log_message(registry->log, "%s sleeps: %zu bytes of its files stay in memory%s",
                       entry->spec.name, job->residence.n_bytes,
                       job->residence.is_locked ? "" : ", as long as there is room");
        break;
    case LN_LOAD_CLOSE:
        entry->state = LN_MODEL_CLOSED;
        entry->is_asleep = false;
        ln_log_message(registry->log, "unloaded %s", entry->spec.name);
        break;
    }
    look_soon(registry);
}

/* ---- what is to be done ----------------------------------------------------------------- */

static bool fits(ln_memory_need need, ln_memory_need used, ln_memory_need budget) {
    return (budget.host_bytes == 0 || used.host_bytes + need.host_bytes <= budget.host_bytes) &&
           (budget.device_bytes == 0 ||
            used.device_bytes + need.device_bytes <= budget.device_bytes);
}

/* What there will be in use once all that leaves has left, and the entry itself is loaded. */
static ln_memory_need count_staying(const ln_registry *registry, const ln_model_entry *entry) {
    ln_memory_need used = ln_registry_count(registry);
    for (size_t i = 0; i < registry->n_entries; i++) {
        const ln_model_entry *other = &registry->entries[i];
        if (other->leave == LN_LEAVE_NONE)
            continue;
        ln_memory_need own = count_one(other);
        used.host_bytes -= own.host_bytes;
        used.device_bytes -= own.device_bytes;
    }
    used.host_bytes -= count_one(entry).host_bytes; /* it is open */
    return used;
}

/* Idle before busy, and these before what is open and waited for, which holds little and would be
 * opened again. */
static int rank_victim(const ln_model_entry *entry) {
    bool is_awaited = entry->state == LN_MODEL_OPEN && entry->first != NULL;
    return is_awaited ? 2 : entry->n_users > 0 ? 1 : 0;
}

/* The one to give way: of the lowest rank the one that was used the longest ago; also models that
 * are open without an engine. NULL: none is left. */
static ln_model_entry *choose_victim(const ln_registry *registry, const ln_model_entry *except) {
    ln_model_entry *victim = NULL;
    for (size_t i = 0; i < registry->n_entries; i++) {
        ln_model_entry *entry = &registry->entries[i];
        bool is_there = entry->state == LN_MODEL_LOADED || entry->state == LN_MODEL_OPEN;
        if (entry == except || !is_there || entry->leave != LN_LEAVE_NONE || entry->health.hangs)
            continue;
        int lead = victim != NULL ? rank_victim(victim) - rank_victim(entry) : 1;
        if (lead > 0 || (lead == 0 && entry->used_ms < victim->used_ms))
            victim = entry;
    }
    return victim;
}

/* Begins what makes the open model loaded; false: it waits for others to leave, or for those that
 * have it without an engine. */
static bool advance_open(ln_registry *registry, ln_model_entry *entry) {
    char message[256];
    if (entry->n_users > 0)
        return false;
    if (!fits(entry->need, (ln_memory_need){0}, registry->budget)) {
        snprintf(message, sizeof message,
                 "the model needs %zu bytes of memory and %zu of the GPU's; the server has %zu and "
                 "%zu for models",
                 entry->need.host_bytes, entry->need.device_bytes, registry->budget.host_bytes,
                 registry->budget.device_bytes);
        snprintf(entry->failure, sizeof entry->failure, "%s", message);
        refuse_all(entry, 503, message);
        return true;
    }
    ln_memory_need used = ln_registry_count(registry);
    used.host_bytes -= count_one(entry).host_bytes;
    if (fits(entry->need, used, registry->budget)) {
        push(registry, entry, LN_LOAD_CREATE);
        return true;
    }
    while (!fits(entry->need, count_staying(registry, entry), registry->budget)) {
        ln_model_entry *victim = choose_victim(registry, entry);
        if (victim == NULL)
            break;
        victim->leave = LN_LEAVE_CLOSE;
    }
    return false;
}

/* An engine that hangs while it has requests, though they be cancelled, would keep the loader for
 * ever: they are to be over first. */
static bool is_at_work(const ln_model_entry *entry) {
    linnet_engine_stats stats = {.struct_bytes = sizeof stats};
    if (entry->state == LN_MODEL_LOADED)
        linnet_engine_get_stats(entry->served.engine, &stats);
    return ln_engine_counts_work(&stats);
}

static bool free_leaving(ln_registry *registry) {
    static const struct timeval soon = {.tv_usec = 20000};
    for (size_t i = 0; i < registry->n_entries; i++) {
        ln_model_entry *entry = &registry->entries[i];
        if (entry->leave == LN_LEAVE_NONE || entry->n_users > 0)
            continue;
        if (is_at_work(entry)) {
            event_add(registry->look_event, &soon);
            continue;
        }
        push(registry, entry, entry->leave == LN_LEAVE_SLEEP ? LN_LOAD_SLEEP : LN_LOAD_CLOSE);
        return true;
    }
    return false;
}

/* The model, not loaded, whose oldest waiting lease is the oldest of all behind `after`. */
static ln_model_entry *choose_waiting(const ln_registry *registry, uint64_t after) {
    ln_model_entry *oldest = NULL;
    for (size_t i = 0; i < registry->n_entries; i++) {
        ln_model_entry *entry = &registry->entries[i];
        bool can_begin = entry->leave == LN_LEAVE_NONE &&
                         (entry->state == LN_MODEL_CLOSED || entry->state == LN_MODEL_OPEN);
        if (entry->first != NULL && can_begin && entry->first->serial >= after &&
            (oldest == NULL || entry->first->serial < oldest->first->serial))
            oldest = entry;
    }
    return oldest;
}

/* Begins the next job, if there is one. Who needs memory first gets it first; behind it models are
 * opened only. */
static void advance(ln_registry *registry) {
    bool is_blocked = false;
    if (free_leaving(registry))
        return;
    ln_model_entry *entry = choose_waiting(registry, 0);
    while (entry != NULL && !registry->loader.is_busy) {
        uint64_t after = entry->first->serial + 1;
        if (entry->state == LN_MODEL_CLOSED)
            push(registry, entry, LN_LOAD_OPEN);
        else if (!is_blocked)
            is_blocked = !advance_open(registry, entry);
        if (is_blocked && free_leaving(registry)) /* a victim that is idle */
            return;
        entry = choose_waiting(registry, after);
    }
}

/* Models whose time without requests is up leave; sets the timer for the next one. */
static void expire(ln_registry *registry) {
    int64_t next_ms = -1;
    for (size_t i = 0; i < registry->n_entries; i++) {
        ln_model_entry *entry = &registry->entries[i];
        bool is_open = entry->state == LN_MODEL_OPEN && (!entry->is_asleep || entry->is_gone);
        bool is_there = entry->state == LN_MODEL_LOADED || is_open;
        if (!is_there || entry->n_users > 0 || entry->first != NULL || entry->health.hangs)
            continue;
        int64_t rest_ms = entry->is_gone ? 0 : ln_model_rest_ms(entry);
        if (rest_ms == 0)
            entry->leave = entry->leave == LN_LEAVE_NONE ? LN_LEAVE_CLOSE : entry->leave;
        else if (rest_ms > 0 && (next_ms < 0 || rest_ms < next_ms))
            next_ms = rest_ms;
    }
    if (next_ms < 0) {
        event_del(registry->idle_timer);
        return;
    }
    const struct timeval later = {.tv_sec = next_ms / 1000, .tv_usec = next_ms % 1000 * 1000 + 999};
    event_add(registry->idle_timer, &later);
}

static void on_look(evutil_socket_t fd, short what, void *argument) {
    (void)fd, (void)what;
    ln_registry *registry = argument;
    for (size_t i = 0; i < registry->n_entries; i++)
        grant_ready(&registry->entries[i]);
    expire(registry);
    if (!registry->loader.is_busy && !registry->has_ended)
        advance(registry);
}

void ln_registry_note_hang(ln_registry *registry, ln_model_entry *entry, bool hangs) {
    if (hangs == entry->health.hangs)
        return;
    entry->health.hangs = hangs;
    if (hangs)
        entry->leave = LN_LEAVE_NONE;
    ln_log_message(registry->log, "%s makes %s", entry->served.name,
                   hangs ? "no progress" : "progress again");
    look_soon(registry); /* others may have to leave instead */
}

bool ln_registry_free(ln_registry *registry, ln_model_entry *entry, bool sleeps, const char **why) {
    bool is_loading = entry->state == LN_MODEL_OPENING || entry->state == LN_MODEL_LOADING;
    bool is_closing = entry->state == LN_MODEL_CLOSED ||
                      (entry->state == LN_MODEL_FREEING && entry->job.kind == LN_LOAD_CLOSE);
    *why = registry->is_fixed                           ? "the server has this model alone"
           : entry->n_users > 0 || entry->first != NULL ? "requests have the model or wait for it"
           : entry->health.hangs                        ? "the model makes no progress"
           : is_loading                                 ? "the model is being loaded"
                                                        : NULL;
    if (*why != NULL)
        return false;
    if (entry->state == LN_MODEL_LOADED && sleeps)
        entry->leave = LN_LEAVE_SLEEP;
    else if (!is_closing && !sleeps)
        entry->leave = LN_LEAVE_CLOSE; /* once it sleeps, if it is about to */
    look_soon(registry);
    return true;
}

/* ---- begin and end ---------------------------------------------------------------------- */

static ln_status allocate(ln_registry *registry, size_t most, ln_error *err) {
    *registry = (ln_registry){.entries = calloc(most, sizeof *registry->entries)};
    if (registry->entries == NULL)
        return ln_fail_memory(err, "the models");
    return LINNET_OK;
}

ln_status ln_registry_init_fixed(ln_registry *registry, const linnet_model *model,
                                 linnet_engine *engine, const char *name, ln_log *log,
                                 int64_t created_s, ln_error *err) {
    linnet_memory_plan plan = {.struct_bytes = sizeof plan};
    LN_TRY(allocate(registry, 1, err));
    registry->n_entries = 1;
    registry->is_fixed = true;
    registry->log = log;
    registry->created_s = created_s;
    linnet_engine_get_memory(engine, &plan);
    ln_model_entry *entry = registry->entries;
    ln_served_model_init(&entry->served, model, engine, &plan, name);
    entry->served.created_s = created_s;
    entry->spec = (ln_model_spec){.name = entry->served.name};
    entry->need = ln_memory_need_of(&plan);
    entry->has_plan = true;
    entry->state = LN_MODEL_LOADED;
    entry->keep_ms = -1;
    return LINNET_OK;
}

ln_status ln_registry_init(ln_registry *registry, const ln_model_source *source,
                           const ln_memory_need *budget, struct event_base *base, ln_log *log,
                           int64_t created_s, ln_error *err) {
    /* so many that they need not move; pages that nobody touches take no memory */
    LN_TRY(allocate(registry, LN_MAX_MODELS, err));
    registry->source = *source;
    registry->budget = *budget;
    registry->log = log;
    registry->created_s = created_s;
    ln_registry_look(registry);
    registry->look_event = event_new(base, -1, 0, on_look, registry);
    registry->idle_timer = evtimer_new(base, on_look, registry);
    if (registry->look_event == NULL || registry->idle_timer == NULL)
        return ln_fail_memory(err, "the models");
    return ln_loader_start(&registry->loader, base, on_done, registry, err);
}

void ln_registry_end(ln_registry *registry) {
    registry->has_ended = true;
    for (size_t i = 0; i < registry->n_entries; i++)
        refuse_all(&registry->entries[i], 503, "the server ends");
}

void ln_registry_stop(ln_registry *registry) {
    ln_loader_stop(&registry->loader);
    for (size_t i = 0; i < registry->n_entries && !registry->is_fixed; i++) {
        ln_load_job *job = &registry->entries[i].job;
        job->kind = LN_LOAD_CLOSE;
        ln_load_job_run(job);
    }
    if (registry->look_event != NULL)
        event_free(registry->look_event);
    if (registry->idle_timer != NULL)
        event_free(registry->idle_timer);
    free(registry->entries);
    *registry = (ln_registry){0};
}
