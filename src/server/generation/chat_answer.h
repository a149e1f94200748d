/* A chat's answer, parsed as it streams in: content, reasoning, tool calls; and its JSON. */
#ifndef LN_SERVER_GENERATION_CHAT_ANSWER_H
#define LN_SERVER_GENERATION_CHAT_ANSWER_H

#include "server/generation/request.h"
#include "text/chat/chat_text.h"

/* A tool call, and what of it was not sent yet. */
typedef struct ln_chat_answer_call {
    ln_strbuf name, arguments;
    bool is_sent; /* in a chunk, with its name */
} ln_chat_answer_call;

typedef struct ln_chat_answer {
    ln_chat_text parser;
    ln_strbuf *content; /* the choice's text */
    ln_strbuf reasoning;
    ln_chat_answer_call *calls; /* [n_calls] of [capacity], owned */
    size_t n_calls, capacity;
    size_t n_sent; /* calls that were sent with all of their arguments */
    const ln_generation_request *request;
    size_t n_reasoning_tokens;
    bool failed; /* memory ran out */
} ln_chat_answer;

/* `answer` keeps its place until it is freed; zeroed ones may be freed. */
void ln_chat_answer_init(ln_chat_answer *answer, const ln_generation_request *request,
                         ln_strbuf *content);
void ln_chat_answer_free(ln_chat_answer *answer);

void ln_chat_answer_feed(ln_chat_answer *answer, const char *text, size_t n_bytes);
void ln_chat_answer_finish(ln_chat_answer *answer); /* there is no more text */

/* Something beside content was not sent. */
bool ln_chat_answer_is_pending(const ln_chat_answer *answer);

/* The members of a message, or of a delta, which has what was not sent. The ids of calls are made
 * from `id`, the completion's, and `choice`. */
void ln_chat_answer_put_message(const ln_chat_answer *answer, const char *id, uint32_t choice,
                                ln_strbuf *out);
void ln_chat_answer_put_delta(ln_chat_answer *answer, const char *id, uint32_t choice,
                              ln_strbuf *out);

#endif
