/* The models that the server offers, each with an engine of its own while it is loaded. Requests
 * lease a model: one that is not loaded is, and the request waits meanwhile. Where memory does not
 * hold another one, those that were used the longest ago leave once their requests are over, and
 * new requests for these wait in turn, so no model is kept out for ever.
 *
 * All of this is the server thread's; the loader does the work. */
#ifndef LN_SERVER_MODELS_REGISTRY_H
#define LN_SERVER_MODELS_REGISTRY_H

#include "server/log.h"
#include "server/metrics.h"
#include "server/models/loader.h"
#include "server/served_model.h"

typedef enum ln_model_state {
    LN_MODEL_CLOSED,
    LN_MODEL_OPENING,
    LN_MODEL_OPEN, /* its plan is known, there is no engine */
    LN_MODEL_LOADING,
    LN_MODEL_LOADED,
    LN_MODEL_FREEING, /* its engine, or all of it */
} ln_model_state;

/* Why a loaded model is to lose its engine when its requests are over. */
typedef enum ln_model_leave { LN_LEAVE_NONE, LN_LEAVE_SLEEP, LN_LEAVE_CLOSE } ln_model_leave;

/* What health.h knows of a loaded model's engine; zeros until it has looked. */
typedef struct ln_model_health {
    uint64_t n_done;                  /* steps, and requests that ended */
    uint64_t progress_ns, silence_ns; /* when that changed, or work came; since then, at the look */
    bool has_work, hangs;
    const char *trouble; /* NULL: none */
} ln_model_health;

typedef struct ln_model_entry ln_model_entry;
typedef struct ln_lease ln_lease;

/* A use of a model, from take to release. */
struct ln_lease {
    ln_model_entry *entry; /* NULL: none was taken */
    bool needs_engine;     /* else the model alone */
    bool is_granted;
    bool sets_keep; /* keep_ms is the entry's from the lease's end on */
    int64_t keep_ms;
    uint64_t serial;           /* the older goes first */
    ln_lease *next, *previous; /* while it waits */
    /* What it waited for is there, or is not to be had; perhaps within take. */
    void (*grant)(ln_lease *lease);
    void (*refuse)(ln_lease *lease, int status, const char *message);
};

struct ln_model_entry {
    ln_model_spec spec;
    ln_model_state state;
    ln_model_leave leave;
    ln_served_model served; /* its engine is NULL unless LOADED */
    ln_load_job job;        /* the loader's while OPENING, LOADING or FREEING */
    ln_memory_need need;    /* of the loaded model; known once it has been open */
    size_t open_bytes;      /* of host memory while it is open and has no engine */
    bool has_plan;
    bool is_asleep; /* OPEN, with its files kept in memory */
    bool is_gone;   /* from its source: it is offered no more, and leaves behind its last request */
    uint64_t files; /* what the source said of those that were opened */
    uint64_t files_ms; /* when it was asked last */
    size_t n_missing;  /* times in a row that there were none: twice is no replacement under way */
    size_t n_users;    /* granted leases */
    ln_lease *first;   /* waiting ones */
    ln_lease *last;
    uint64_t used_ms; /* when the last lease ended */
    int64_t keep_ms;
    double load_s;      /* how long its engine took, the last time */
    char failure[1024]; /* of the last attempt to load it; "": it had none */
    ln_model_health health;
    ln_model_metrics metrics;
};

typedef struct ln_registry {
    ln_model_entry *entries; /* [n_entries], owned; they stay where they are */
    size_t n_entries;
    bool is_fixed; /* one model, loaded from start to end */
    ln_model_source source;
    uint64_t look_ms; /* when the source is asked for models the next time */
    ln_memory_need budget;
    ln_loader loader;
    ln_log *log;
    struct event *look_event, *idle_timer; /* NULL where is_fixed */
    uint64_t n_leases;
    int64_t created_s;
    bool has_ended;
} ln_registry;

/* One model with its engine, which stay the caller's. */
ln_status ln_registry_init_fixed(ln_registry *registry, const linnet_model *model,
                                 linnet_engine *engine, const char *name, ln_log *log,
                                 int64_t created_s, ln_error *err);
/* Models that are loaded when asked for. */
ln_status ln_registry_init(ln_registry *registry, const ln_model_source *source,
                           const ln_memory_need *budget, struct event_base *base, ln_log *log,
                           int64_t created_s, ln_error *err);
/* Takes what the source has now, and drops what it has no more, unless it was asked within the last
 * second. */
void ln_registry_look(ln_registry *registry);
/* Refuses what waits, from now on; what is granted stays so. */
void ln_registry_end(ln_registry *registry);
/* Frees models and engines, none of which is leased any more; a zeroed registry is fine. */
void ln_registry_stop(ln_registry *registry);

/* The model of this name, or the one that has an adapter of this name; NULL: there is none, nor has
 * one come. None that is gone is found. With name NULL the only model, if it is the only one. Where
 * its files have been replaced, it leaves behind its last request, and what is taken from now on
 * waits for the new ones. */
ln_model_entry *ln_registry_find(ln_registry *registry, const char *name);
/* The loaded model that was used last, or NULL. */
ln_model_entry *ln_registry_latest(const ln_registry *registry);

/* Asks for a model: grant or refuse follows, or has come already. */
void ln_lease_take(ln_registry *registry, ln_model_entry *entry, ln_lease *lease);
/* Gives back what was granted, or no longer waits; one that was not taken is fine. */
void ln_lease_release(ln_registry *registry, ln_lease *lease);

/* A loaded model loses its engine and, unless it is to sleep, all else. False with a reason while
 * requests have it or wait for it. Nothing happens to one that has no engine, or sleeps already. */
bool ln_registry_free(ln_registry *registry, ln_model_entry *entry, bool sleeps, const char **why);

/* A loaded model hangs, or no longer does. While it hangs it is not freed, which would not come to
 * an end, and beside other models it takes no more requests. */
void ln_registry_note_hang(ln_registry *registry, ln_model_entry *entry, bool hangs);

/* "unloaded", "loading", "loaded", "sleeping". */
const char *ln_model_state_name(const ln_model_entry *entry);
/* What it will be once it has left, if it is to. */
const char *ln_model_next_state_name(const ln_model_entry *entry);
/* Milliseconds until a loaded model leaves for want of requests; negative: it does not. */
int64_t ln_model_rest_ms(const ln_model_entry *entry);
/* What all models take now. */
ln_memory_need ln_registry_count(const ln_registry *registry);

/* The sum of all loaded engines' counts; `is_lost`, `n_failed_steps`: the greatest. */
void ln_registry_stats(const ln_registry *registry, linnet_engine_stats *sum);

#endif
