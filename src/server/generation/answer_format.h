/* How an API shows what is generated. A generation collects choices; the format of the endpoint
 * writes them, whole or as the chunks of a stream. */
#ifndef LN_SERVER_GENERATION_ANSWER_FORMAT_H
#define LN_SERVER_GENERATION_ANSWER_FORMAT_H

#include "server/generation/choice.h"
#include "server/json/error.h"

/* What all parts of an answer have in common. */
typedef struct ln_answer_writer {
    const ln_generation_request *request;
    const ln_usage *usage;         /* so far */
    const ln_tokenizer *tokenizer; /* NULL: none */
    const char *model;             /* its served name */
    char id[48];
    int64_t created_s;
    uint64_t begin_ns, first_token_ns; /* of ln_clock_ns; the latter 0: none has come */
    ln_strbuf head;                    /* of every chunk, where a format's are alike; owned */
    size_t n_events;                   /* of a stream whose events are counted */
} ln_answer_writer;

typedef struct ln_answer_format {
    const char *id_prefix;  /* of answers: "chatcmpl-" */
    const char *media_type; /* of a stream */
    /* Of a stream: before its chunks (NULL: nothing comes); what a choice has that was not sent,
     * and its end once it is over; after its chunks. The error's status is 0 where all went well.
     */
    void (*begin)(ln_answer_writer *writer, ln_strbuf *out);
    void (*chunk)(ln_answer_writer *writer, ln_choice *choice, ln_strbuf *out);
    void (*end)(ln_answer_writer *writer, ln_choice *choices, size_t n_choices,
                const ln_api_error *error, ln_strbuf *out);
    /* Of a request that is detached (else NULL): what its client gets at once, unless it streams;
     * that its first token is there, and the event that says so; what becomes of it at its end,
     * which the client gets as well where it is cancelled; and all events of one that streams, at
     * its end. */
    void (*accept)(ln_answer_writer *writer, ln_strbuf *out);
    void (*run)(ln_answer_writer *writer, ln_strbuf *out);
    void (*settle)(ln_answer_writer *writer, const ln_choice *choices, const ln_api_error *error,
                   bool is_cancelled, ln_strbuf *out);
    void (*keep_events)(ln_answer_writer *writer, const char *events);
    /* All of it, when it is over. */
    void (*whole)(ln_answer_writer *writer, const ln_choice *choices, size_t n_choices,
                  ln_strbuf *out);
} ln_answer_format;

#endif
