/* What the server knows of its engines' health, without looking while there is nothing to do. Each
 * model is judged by itself: one hangs when its engine has requests and neither steps nor ends one
 * for so long. While requests run, a timer looks; one that ends with an error may tell of a GPU
 * that is lost. With several ranks a timer looks whether one is lost. */
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
    /* A model on a GPU hung twice as long, and no other one works: the server is to end. */
    void (*on_hung)(void *user);
} ln_health_hooks;

typedef struct ln_health {
    ln_registry *registry; /* borrowed; entries' health is kept here */
    uint32_t hang_ms;
    ln_health_hooks hooks;
    struct event *failure_event, *hang_timer, *rank_timer;
    bool has_work;         /* requests run, of whichever model */
    bool some_hang;        /* when last looked at */
    bool is_lost, is_hung; /* on_lost, on_hung were called */
    uint64_t event_ns;     /* when an engine last gave events: where there is one, its own */
} ln_health;

ln_status ln_health_start(ln_health *health, struct event_base *base, ln_registry *registry,
                          bool has_ranks, uint32_t hang_ms, const ln_health_hooks *hooks,
                          ln_error *err);
void ln_health_stop(ln_health *health); /* a zeroed one is fine */

/* Brings `health.trouble` of the registry's entries up to date. */
void ln_health_look(ln_health *health);
/* Looks, and says what is wrong with the first model with which something is, or NULL. */
const char *ln_health_find_trouble(ln_health *health);

/* Work has come to engines that had none; the last of it has ended; there were events. */
void ln_health_begin_work(ln_health *health);
void ln_health_end_work(ln_health *health);
void ln_health_note_progress(ln_health *health, uint64_t now_ns);
/* A request ended with an error. */
void ln_health_note_failure(ln_health *health);

#endif
