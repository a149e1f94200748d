/* What the server knows of its engine's health, without looking while there is nothing to do: a
 * request that ends with an error may tell of a GPU that is lost, and while requests run on a GPU a
 * timer sees to it that the engine does not hang for ever. With several ranks a timer looks whether
 * one is lost. */
#ifndef LN_SERVER_HEALTH_H
#define LN_SERVER_HEALTH_H

#include <event2/event.h>
#include <linnet.h>
#include <stdbool.h>
#include <stdint.h>

#include "server/models/registry.h"

typedef struct ln_health_hooks {
    void *user;
    void (*on_lost)(void *user); /* the GPU failed for good, or a rank is lost */
    void (*on_hung)(void *user); /* it made no progress for so long that the server is to end */
} ln_health_hooks;

typedef struct ln_health {
    const ln_registry *registry; /* borrowed */
    bool has_gpu;
    uint32_t hang_ms;
    ln_health_hooks hooks;
    struct event *failure_event, *hang_timer, *rank_timer;
    bool has_work;
    bool is_lost, is_hung; /* on_lost, on_hung were called */
    /* when the engine last gave an event or was seen to step, or work came to an idle one */
    uint64_t progress_ns;
    uint64_t n_steps; /* of the engine, when last looked at */
} ln_health;

ln_status ln_health_start(ln_health *health, struct event_base *base, const ln_registry *registry,
                          bool has_gpu, bool has_ranks, uint32_t hang_ms,
                          const ln_health_hooks *hooks, ln_error *err);
void ln_health_stop(ln_health *health); /* a zeroed one is fine */

/* What is wrong with the engine, or NULL: it makes no progress although it has work, neither events
 * nor steps, or it fails step after step. */
const char *ln_health_find_trouble(ln_health *health);

/* Work has come to an engine that had none; the last of it has ended; it gave an event. */
void ln_health_begin_work(ln_health *health);
void ln_health_end_work(ln_health *health);
void ln_health_note_progress(ln_health *health, uint64_t now_ns);
/* A request ended with an error. */
void ln_health_note_failure(ln_health *health);

#endif
