/* Inside the server: its state, jobs and generations. Everything here belongs to the server's
 * thread, except what a job says about its workers. */
#ifndef LN_SERVER_STATE_H
#define LN_SERVER_STATE_H

#include <event2/event.h>
#include <pthread.h>
#include <stdatomic.h>

#include "server/api.h"
#include "server/http/listener.h"
#include "server/metrics.h"
#include "server/server.h"
#include "text/tokenizer/tokenizer.h"

typedef struct ln_job ln_job;
typedef struct ln_generation ln_generation;

/* One request of the engine, which gives the outputs of one prompt. It is the user of its request.
 */
typedef struct ln_source {
    linnet_request *request;   /* NULL: over */
    ln_generation *generation; /* NULL: the job is not back yet */
    struct ln_choice *choices; /* [n] of the generation's */
    size_t n_open, n_cached_tokens;
} ln_source;

/* The work on a body: goes to a worker and comes back. Meanwhile the server's thread touches
 * `exchange` and `is_gone` only, and the worker everything else. */
struct ln_job {
    ln_server *server;
    ln_exchange *exchange; /* the server thread's; NULL: the client is gone */
    ln_job *next;          /* in a queue */
    /* Reads the body; fills `reply`, or `request` and `sources`, or `error`. */
    void (*work)(ln_job *job);
    ln_api_kind kind;
    uint64_t begin_ns; /* of ln_clock_ns */
    ln_strbuf body;
    atomic_bool is_gone; /* set by the server's thread: the work is not wanted any more */
    size_t n_reserved;   /* sequences counted in the server's n_open */

    ln_api_error error;
    ln_strbuf reply;
    ln_api_request request;
    ln_source *sources; /* [n_sources], one per prompt; owned */
    size_t n_sources;
};

typedef struct ln_job_queue {
    ln_job *first, *last;
    size_t count;
} ln_job_queue;

enum { LN_SERVER_REST_MS = 5, LN_SERVER_END_S = 3 };
enum { LN_SERVER_WORKERS = 2, LN_SERVER_MAX_JOBS = 4096 };

typedef struct ln_workers {
    pthread_t threads[LN_SERVER_WORKERS];
    size_t n_threads;
    pthread_mutex_t mutex;
    pthread_cond_t work_came;
    ln_job_queue todo, done; /* under the mutex */
    bool is_stopping;        /* under the mutex */
    int done_fd;             /* eventfd: readable when `done` has jobs */
    struct event *done_event;
    void (*on_done)(ln_job *job); /* on the server's thread */
    size_t n_jobs;                /* the server thread's: pushed and not back */
} ln_workers;

struct ln_server {
    ln_server_options options;
    struct event_base *base;
    ln_listener *listener;
    const linnet_model *model;
    linnet_engine *engine;
    const ln_tokenizer *tokenizer; /* NULL: none */
    linnet_model_info info;
    size_t ctx_tokens, max_seqs;
    const char *name; /* of the model, to clients */
    char own_name[256];
    int64_t created_s;
    ln_workers workers;
    ln_generation *generations;
    linnet_mailbox *mailbox; /* of all requests */
    struct event *mail_event, *rest_timer;
    uint64_t rest_until_ns; /* the mailbox is not looked at before */
    atomic_size_t n_open;   /* sequences that were admitted and are not over */
    ln_metrics metrics;
    struct event *signals[2], *drain_timer, *cut_timer;
    struct event *failure_event, *hang_timer; /* watch.c's */
    bool rests;   /* this turn of the event loop refused a request for want of room */
    bool has_gpu; /* the engine's */
    bool is_lost; /* it failed for good */
    bool is_hung; /* and it made no progress for so long that the server ends */
    bool is_draining;
    bool is_cut_off; /* what ran until the end of the drain was ended */
    /* when the engine last gave an event or was seen to step, or work came to an idle one */
    uint64_t progress_ns;
    uint64_t n_steps;  /* of the engine, when last looked at */
    ln_strbuf scratch; /* what is being rendered */
};

/* workers.c */

ln_status ln_workers_start(ln_server *server, void (*on_done)(ln_job *job), ln_error *err);
/* Ends the threads; jobs that are left are freed. */
void ln_workers_stop(ln_server *server);
void ln_workers_push(ln_server *server, ln_job *job);

ln_job *ln_job_create(ln_server *server, ln_exchange *exchange); /* takes the body; or NULL */
void ln_job_free(ln_job *job);                                   /* closes its requests */

/* Counts `more` sequences in beside the `own` ones that a request has, or says with 429 that there
 * is no room, with 400 that there never is, for which the field `culprit` asks. Any thread. */
bool ln_server_reserve(ln_server *server, size_t own, size_t more, const char *culprit,
                       ln_api_error *error);
void ln_server_release(ln_server *server, size_t count);

/* work.c: what workers do */

void ln_work_generate(ln_job *job);
void ln_work_tokenize(ln_job *job);
void ln_work_detokenize(ln_job *job);

/* server.c */

/* No more requests; the server ends when those that run are done. */
void ln_server_drain(ln_server *server, const char *why);
/* Ends what still runs, each with a last word, and leaves soon. */
void ln_server_cut_off(ln_server *server, const char *why);

/* watch.c */

ln_status ln_watch_start(ln_server *server, ln_error *err);
void ln_watch_stop(ln_server *server);
/* What is wrong with the engine, or NULL: it makes no progress although it has work, neither events
 * nor steps, or it fails step after step. */
const char *ln_watch_find_trouble(ln_server *server);
/* Work has come to an engine that had none. */
void ln_watch_begin(ln_server *server);
/* A request ended with an error. */
void ln_watch_note_failure(ln_server *server);

/* generation.c */

/* Creates the mailbox, and looks at it from now on. */
ln_status ln_generations_start(ln_server *server, ln_error *err);
/* Ends all generations, each with an error that says why. */
void ln_generations_end(ln_server *server);
void ln_generations_stop(ln_server *server); /* cancels what is left */
/* Takes a job whose requests were submitted; answers its exchange from now on. */
void ln_generation_begin(ln_job *job);
/* The client has gone, or the server ends: cancels the requests. */
void ln_generation_cancel(ln_generation *generation);

/* reply.c */

void ln_reply_error(ln_exchange *exchange, const ln_api_error *error);
void ln_reply_json(ln_server *server, ln_exchange *exchange, const ln_strbuf *json);
void ln_render_error(ln_strbuf *out, const ln_api_error *error);

/* log.c */

/* A line about the server itself. */
__attribute__((format(printf, 2, 3))) void ln_server_log(const ln_server *server,
                                                         const char *format, ...);
/* The line of an exchange that is over. */
void ln_server_log_access(const ln_server *server, const ln_exchange *exchange);

#endif
