/* An engine that computes nothing: a step gives each request a token, and steps come with the clock
 * or when they are asked for. It takes the place of the library's engine in programs that link it:
 * what a server does beside the engine shows, and when. */
#ifndef LN_TESTS_SERVER_MODELLED_ENGINE_H
#define LN_TESTS_SERVER_MODELLED_ENGINE_H

#include <linnet.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "engine/completion_queue.h"

struct linnet_engine {
    size_t max_seqs;
    bool has_gpu;         /* it says so */
    atomic_bool is_lost;  /* likewise */
    atomic_bool is_stuck; /* it cannot be destroyed */
    uint64_t step_ns;     /* between steps of the clock */
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t work_came;
    linnet_request *submitted; /* under the mutex, as is_stopping */
    bool is_stopping;
    linnet_request *running; /* the stepping thread's, as what follows */
    ln_completion_batch batch;
    atomic_uint_fast64_t n_steps, n_failed_steps; /* the latter in a row */
    atomic_size_t n_open;                         /* submitted and not ended */
    atomic_uint_fast64_t n_ended;
    uint64_t n_late; /* steps of the clock that came over a step late */
    /* requests that ended */
    size_t n_finished, n_cancelled, n_failed;
    char rest[1 << 16]; /* zeros, for who reads a plan in the library's engine */
};

/* Steps by hand: a token's text is its number in its output. */
void modelled_engine_init(linnet_engine *engine, size_t max_seqs);
void modelled_engine_step(linnet_engine *engine); /* of one thread */
void modelled_engine_fail(linnet_engine *engine); /* a step that ends all requests with errors */
size_t modelled_engine_count(const linnet_engine *engine); /* running requests; of that thread */

/* Steps with the clock, on a thread, while there are requests: a token's text is the time of its
 * step, as ln_clock_ns has it. 0, or an error number. */
int modelled_engine_start(linnet_engine *engine, uint64_t step_ns);
void modelled_engine_stop(linnet_engine *engine);

/* What linnet_engine_create makes, of each model; zeros: nothing. Creating an engine and destroying
 * it each wait for a pass at one gate, a prompt that begins with the token MODELLED_HANG at the
 * other. */
enum { MODELLED_HANG = 7 };
typedef struct modelled_kind {
    uint64_t step_ns;
    bool has_gpu;
    sem_t load_gate, hang_gate;
} modelled_kind;
extern modelled_kind modelled_engine_kind;

#endif
