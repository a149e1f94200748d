/* The work that the body of a request makes: parsed by a worker, answered by the server's thread.
 * While a worker has it, the server's thread touches `exchange` and the task's is_cancelled only,
 * and the worker everything else. Where the server has several models, a worker parses the body,
 * the task waits until the model that it names is there, and a worker goes on. */
#ifndef LN_SERVER_API_TASK_H
#define LN_SERVER_API_TASK_H

#include "server/context.h"
#include "server/generation/prompt_run.h"
#include "server/generation/request.h"
#include "server/json/fields.h"

typedef struct ln_api_task ln_api_task;

typedef enum ln_api_needs {
    LN_NEEDS_MODEL = 0, /* without its engine */
    LN_NEEDS_ENGINE,
    LN_NEEDS_NOTHING
} ln_api_needs;

/* What an endpoint does with a body. */
typedef struct ln_api_work {
    ln_api_kind kind;
    ln_api_needs needs;                    /* of the model that the body names; if it generates:
                                              the engine */
    bool generates;                        /* a sequence at least: there must be room for it */
    const struct ln_answer_format *format; /* of what is generated */
    const ln_field_name *names;            /* where `read` translates the body; else NULL */
    /* On a worker: fills the reply, or submits the task's runs; or false with the error set. */
    bool (*read)(ln_api_task *task, const ln_fields *fields);
    /* On the server's thread, unless read failed; takes the task. */
    void (*answer)(ln_api_task *task);
} ln_api_work;

struct ln_api_task {
    ln_task task; /* first: a task of the pool is this one */
    ln_context *context;
    ln_exchange *exchange; /* the server thread's; NULL: the client is gone */
    const ln_api_work *work;
    char serial[LN_HTTP_SERIAL_BYTES + 1]; /* the exchange's: ids are made of it */
    uint64_t begin_ns;                     /* of ln_clock_ns */
    ln_strbuf body;
    bool is_compressed;            /* the body */
    bool is_ollama;                /* the API */
    int64_t keep_ms;               /* how long the model shall stay, if the body says so */
    json_t *root;                  /* the body, parsed; owned */
    ln_lease lease;                /* the server thread's */
    const ln_served_model *served; /* what was leased; NULL: nothing yet */
    size_t n_reserved;             /* sequences that were admitted for it */
    ln_admission *admission;       /* by which: the key's or the server's */
    ln_api_error error;
    ln_ignored_fields ignored;
    ln_strbuf reply;
    ln_generation_request request;
    ln_prompt_run *runs; /* [n_runs], of one prompt after another; owned */
    size_t n_runs;
};

/* Takes the exchange's body to a worker, unless there is no room, which is the answer then. */
void ln_api_task_push(ln_context *context, ln_exchange *exchange, const ln_api_work *work);
void ln_api_task_free(ln_api_task *task); /* closes its requests; NULL is fine */
/* The client has gone: nobody waits for the answer. */
void ln_api_task_cancel(ln_api_task *task);

/* For `answer`: sends what `read` wrote. */
void ln_api_task_reply(ln_api_task *task);
/* On the server's thread, with the body parsed: the model that it names, or NULL with the error
 * set.
 */
ln_model_entry *ln_api_task_find_model(ln_api_task *task);

/* For `read`: whether the field "model" names the one that was leased. */
bool ln_api_task_check_model(ln_api_task *task, const ln_fields *fields);

#endif
