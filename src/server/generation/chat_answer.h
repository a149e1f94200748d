/* A chat's answer, parsed as it streams in: its parts in their order, which every API shows in its
 * own way. A part is text, reasoning, or a tool call. */
#ifndef LN_SERVER_GENERATION_CHAT_ANSWER_H
#define LN_SERVER_GENERATION_CHAT_ANSWER_H

#include "server/generation/request.h"
#include "text/chat/chat_text.h"

typedef enum ln_answer_part_kind {
    LN_PART_TEXT,
    LN_PART_REASONING,
    LN_PART_CALL
} ln_answer_part_kind;

typedef struct ln_answer_part {
    ln_answer_part_kind kind;
    size_t call;       /* of a call: counted from 0 */
    ln_strbuf name;    /* of a call */
    ln_strbuf text;    /* of a call: its arguments; of a custom one its input */
    ln_strbuf raw;     /* of a custom call: its arguments, as long as they grow */
    bool is_custom;    /* a call of a tool whose input is free text */
    bool is_malformed; /* a custom call whose arguments were none */
    size_t n_sent;     /* bytes of the text that chunks had */
    bool is_begun;     /* a chunk said that it begins */
    bool is_ended;     /* and that it ends */
} ln_answer_part;

typedef struct ln_chat_answer {
    ln_chat_text parser;
    ln_answer_part *parts; /* [n_parts] of [capacity], owned */
    size_t n_parts, capacity;
    size_t n_calls;
    size_t n_complete; /* parts at the beginning whose text was sent and will not grow */
    ln_strbuf output;  /* all that was fed, where calls may yet turn out to be text */
    const ln_generation_request *request;
    bool failed; /* memory ran out */
} ln_chat_answer;

/* `answer` keeps its place until it is freed; zeroed ones may be freed. */
void ln_chat_answer_init(ln_chat_answer *answer, const ln_generation_request *request);
void ln_chat_answer_free(ln_chat_answer *answer);

void ln_chat_answer_feed(ln_chat_answer *answer, const char *text, size_t n_bytes);
/* There is no more text. In an answer that nobody has seen a part of, a call whose arguments are no
 * JSON makes all calls text; unless the answer was cut, and the call with it. */
void ln_chat_answer_finish(ln_chat_answer *answer, bool is_cut);

/* Whether a call's arguments are a whole object of JSON. */
bool ln_answer_part_has_object(const ln_answer_part *call);

/* What a part has that was not sent: its bytes, or where they begin. */
size_t ln_answer_part_count_unsent(const ln_answer_part *part);
const char *ln_answer_part_get_unsent(const ln_answer_part *part);
/* All of a part was sent. Its text is kept where the request says so. */
void ln_chat_answer_note_sent(ln_chat_answer *answer, ln_answer_part *part);

/* Something was not sent: text, or that a call begins. */
bool ln_chat_answer_is_pending(const ln_chat_answer *answer);

/* The id of a call. Where the model's syntax numbers its calls, the template writes ids down as the
 * model does, so it is that form, as functions.NAME:0, counted through the chat. Elsewhere it is
 * `prefix` and nine letters and digits, as Mistral's templates ask for, made from `id`, the
 * answer's, and the choice. */
void ln_chat_answer_put_call_id(ln_strbuf *out, const ln_chat_answer *answer,
                                const ln_answer_part *call, const char *prefix, const char *id,
                                uint32_t choice);

#endif
