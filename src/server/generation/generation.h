/* A generation: the engine's requests of one exchange, from submit to the last token. One
 * completion queue serves all: it wakes the event loop once per step, and the tokens that a request
 * got since are sent as one chunk. Only the server's thread calls these functions. */
#ifndef LN_SERVER_GENERATION_GENERATION_H
#define LN_SERVER_GENERATION_GENERATION_H

#include "server/api_task.h"
#include "server/generation/event_stream.h"

typedef struct ln_generation ln_generation;

/* All generations that run. */
typedef struct ln_generations {
    ln_context *context; /* borrowed */
    ln_generation *first;
    linnet_completion_queue *completion_queue; /* of all requests; workers submit with it */
    struct event *queue_event, *backoff_timer;
    uint64_t backoff_until_ns; /* events are not taken before */
    ln_event_budget events;    /* of streams that go on without their clients */
} ln_generations;

/* Creates the completion queue and adds it to the event loop. */
ln_status ln_generations_start(ln_generations *generations, ln_context *context,
                               struct event_base *base, ln_error *err);
/* Ends all generations, each with an error that says why. */
void ln_generations_end(ln_generations *generations);
void ln_generations_stop(ln_generations *generations); /* cancels what is left */

/* Takes a task whose runs were submitted; answers its exchange from now on. */
void ln_generation_begin(ln_api_task *task);
/* Ends the detached generation whose answer has this id; false when there is none. `out`, unless it
 * is NULL, receives what its client gets. */
bool ln_generations_cancel(ln_generations *generations, const char *id, ln_strbuf *out);
/* Answers the exchange with the events behind the number `after` of the detached generation whose
 * answer has this id, and with those to come. False: there is none that streams, or an error. */
bool ln_generations_follow(ln_generations *generations, const char *id, ln_exchange *exchange,
                           long long after, ln_api_error *error);
/* The client has gone, or the server ends: cancels the requests. */
void ln_generation_cancel(ln_generation *generation);

#endif
