/* The thread that opens models, loads and frees their engines: one job at a time, as each may take
 * seconds and as memory is counted between them. */
#ifndef LN_SERVER_MODELS_LOADER_H
#define LN_SERVER_MODELS_LOADER_H

#include <event2/event.h>
#include <linnet.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "server/models/residence.h"

/* A model that can be loaded; everything borrowed. */
typedef struct ln_model_spec {
    const char *name; /* to clients */
    /* Opens it; any thread. */
    linnet_status (*open)(void *user, linnet_model **model, linnet_error *err);
    void *user;
    linnet_engine_options options;
    size_t file_bytes;  /* 0: not known */
    int64_t modified_s; /* seconds since 1970; 0: not known */
    int64_t keep_ms;    /* how long it stays without requests; negative: for ever */
} ln_model_spec;

enum { LN_MAX_MODELS = 4096 };

/* Where models come from, some of them while the server runs. */
typedef struct ln_model_source {
    void *user;
    /* Looks for models, and says how many there are: the first ones are those of the last time. */
    size_t (*look)(void *user);
    /* It lives as long as the server. */
    const ln_model_spec *(*get)(void *user, size_t i);
    /* Whether the model was gone at the last look; NULL: none ever is. */
    bool (*is_gone)(void *user, size_t i);
    /* Looks at a model's files, for what `get` says of them, too: a number that is another one when
     * they have been replaced, and 0 when there are none. *is_written: somebody may still be
     * writing them. NULL: they stay. */
    uint64_t (*identify)(void *user, size_t i, bool *is_written);
} ln_model_source;

/* Bytes of memory; of budgets 0 is any. */
typedef struct ln_memory_need {
    size_t host_bytes, device_bytes;
} ln_memory_need;

/* What an engine by this plan takes: what it reserves, and what it reads where it lies. */
ln_memory_need ln_memory_need_of(const linnet_memory_plan *plan);

typedef enum ln_load_kind {
    LN_LOAD_OPEN,   /* opens the model and plans its engine */
    LN_LOAD_CREATE, /* the engine */
    LN_LOAD_SLEEP,  /* frees the engine, keeps the model's files in memory */
    LN_LOAD_CLOSE   /* frees all */
} ln_load_kind;

typedef struct ln_load_job {
    ln_load_kind kind;
    const ln_model_spec *spec;
    ln_memory_need budget; /* for OPEN: of all models */
    /* in and out; of whoever has the job */
    linnet_engine_options options;
    linnet_model *model;
    linnet_engine *engine;
    ln_residence residence;
    linnet_memory_plan plan;
    linnet_status status;
    linnet_error error;
    /* of both threads: somebody waits for the model, so SLEEP is to end soon */
    atomic_bool is_awaited;
} ln_load_job;

typedef struct ln_loader {
    pthread_t thread;
    bool has_thread;
    pthread_mutex_t mutex;
    pthread_cond_t job_came;
    ln_load_job *todo, *done; /* under the mutex; one of them at most */
    bool is_stopping;         /* under the mutex */
    int done_fd;
    struct event *done_event;
    void (*on_done)(void *user, ln_load_job *job); /* on the server's thread */
    void *user;
    bool is_busy; /* the server thread's: a job was pushed and is not done */
} ln_loader;

ln_status ln_loader_start(ln_loader *loader, struct event_base *base,
                          void (*on_done)(void *user, ln_load_job *job), void *user, ln_error *err);
/* Waits for the job that runs; the job stays with its owner. A zeroed loader is fine. */
void ln_loader_stop(ln_loader *loader);
/* Hands a job over, until on_done; the loader is not busy. */
void ln_loader_push(ln_loader *loader, ln_load_job *job);

/* Does a job on this thread. */
void ln_load_job_run(ln_load_job *job);

#endif
