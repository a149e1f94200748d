/* The notifier: a thread of the engine's that shows receivers what came of a step, while the next
 * step runs.
 *
 * The engine thread notes the requests that a step gave tokens or ends to, and hands all of them
 * over when the step is done. The thread then shows their new tokens and ends, wakes receivers
 * (eventfds, completion queues) and gives up requests that are over. It waits for nothing but
 * mutexes that are held briefly, no receiver among them, and allocates nothing.
 *
 * What the thread shows lies in the requests, so no queue can be full. Between a hand-over and the
 * end of its showing nobody else touches that part of them: the next note waits for it. */
#ifndef LN_ENGINE_NOTIFIER_H
#define LN_ENGINE_NOTIFIER_H

#include <pthread.h>

#include "engine/request/request.h"

typedef struct ln_notifier {
    pthread_t thread;
    bool has_mutex, has_thread;

    /* the engine thread's; the notifier's while handed over */
    ln_completion_batch batch;
    bool is_noting; /* the last batch was shown: more may be noted */

    pthread_mutex_t mutex;
    pthread_cond_t batch_came, batch_done;
    bool is_handed, stopping; /* under the mutex */
} ln_notifier;

/* Starts the thread; `notifier` is zeroed memory. After a failure stop is called, too. Errors:
 * NOMEM. */
ln_status ln_notifier_start(ln_notifier *notifier, ln_error *err);
/* Ends the thread once it has shown what was handed over. Zeroed memory is fine. */
void ln_notifier_stop(ln_notifier *notifier);

/* The engine thread's: before it changes what the receiver will see of a request. */
void ln_notifier_note(ln_notifier *notifier, linnet_request *request);
/* The step's changes are complete: they are shown from now on. */
void ln_notifier_hand_over(ln_notifier *notifier);

#endif
