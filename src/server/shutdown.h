/* The end of the server: signals, a drain that waits for what runs, and the cut when the drain's
 * time is up. */
#ifndef LN_SERVER_SHUTDOWN_H
#define LN_SERVER_SHUTDOWN_H

#include <event2/event.h>

#include "server/admission.h"
#include "server/http/listener.h"
#include "server/log.h"
#include "server/worker_pool.h"

/* What the drain waits for, and what it tells; all borrowed. */
typedef struct ln_shutdown_scope {
    struct event_base *base; /* its loop ends with the drain */
    ln_listener *listener;
    const ln_worker_pool *pool;
    ln_log *log;
    ln_admission *admission;
    uint32_t drain_ms;
    void *user;
    void (*on_cut_off)(void *user); /* ends what still runs, each with a last word */
    void (*on_reload)(void *user);  /* what SIGHUP is for; NULL: it drains */
} ln_shutdown_scope;

enum { LN_SHUTDOWN_SIGNALS = 3 };

typedef struct ln_shutdown {
    ln_shutdown_scope scope;
    struct event *signals[LN_SHUTDOWN_SIGNALS], *drain_timer, *cut_timer;
    bool is_draining;
    bool is_cut_off; /* what ran until the end of the drain was ended */
} ln_shutdown;

/* Takes SIGINT, SIGTERM and, unless it is ignored, SIGHUP from now on. */
ln_status ln_shutdown_start(ln_shutdown *shutdown, const ln_shutdown_scope *scope, ln_error *err);
void ln_shutdown_stop(ln_shutdown *shutdown); /* a zeroed one is fine */

/* No more requests; the loop ends when those that run are done. Once. */
void ln_shutdown_drain(ln_shutdown *shutdown, const char *why);
/* Ends what still runs, and the loop soon. */
void ln_shutdown_cut_off(ln_shutdown *shutdown, const char *why);

#endif
