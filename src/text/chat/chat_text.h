/* What a chat model says, taken apart: reasoning, content, and tool calls
 * in the syntax that the model was taught.
 *
 * The text is fed as it comes, cut anywhere, and pieces are handed on as soon
 * as they are certain: the same text gives the same pieces, joined, however it
 * was cut. What only looked like a call, or is malformed before its name and
 * arguments are known, is content. Working memory is bounded. */
#ifndef LN_TEXT_CHAT_CHAT_TEXT_H
#define LN_TEXT_CHAT_CHAT_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/strbuf.h"
#include "text/chat/calls/call_reader.h"
#include "text/chat/reasoning.h"

typedef enum ln_chat_piece_kind {
    LN_PIECE_CONTENT,
    LN_PIECE_REASONING,
    LN_PIECE_CALL,     /* a call begins: the text is its name, whole */
    LN_PIECE_ARGUMENTS /* of the call that began last: JSON, in fragments */
} ln_chat_piece_kind;

typedef struct ln_chat_piece {
    ln_chat_piece_kind kind;
    size_t call;      /* of CALL and ARGUMENTS: counted from 0 */
    const char *text; /* [n_bytes], valid during the call */
    size_t n_bytes;
} ln_chat_piece;

typedef void (*ln_chat_piece_fn)(void *user, const ln_chat_piece *piece);
typedef ln_parameter_type (*ln_parameter_type_fn)(void *user, const char *tool,
                                                  const char *parameter);

enum { LN_CHAT_MAX_MARKS = LN_CALLS_MAX_ALSO + 1 + LN_REASONING_MAX_DROPPED + 1 };

typedef struct ln_chat_text {
    const ln_call_syntax *syntax;         /* NULL: no calls are looked for */
    const ln_reasoning_format *reasoning; /* that may begin; NULL: none */
    ln_message_style style;
    const char *ends[2 + LN_CALLS_MAX_ALSO + 1]; /* of reasoning: its own marks, then calls' */
    size_t n_own_ends, n_ends;
    bool was_reasoning;                   /* the calls began in it */
    const char *marks[LN_CHAT_MAX_MARKS]; /* in content: those that begin calls, then others, */
    size_t n_begins, n_dropped, n_marks;  /* which are dropped, then one that begins a header */
    bool hides_marker;                    /* what begins calls is no content when no call follows */
    int state;                            /* chat_text.c's */
    ln_strbuf held;                       /* a mark's beginning */
    ln_strbuf blank;                      /* white space before anything else, or a header */
    ln_strbuf pending;                    /* text of a kind, handed on at the end of a feed */
    ln_chat_piece_kind pending_kind;
    ln_chat_piece_kind message_kind; /* of the message that goes on */
    bool drops_message;
    size_t n_calls;
    bool skips_newline; /* after reasoning, calls */
    const char *mark;   /* that began the calls; "": none did */
    ln_call_reader reader;
    ln_parameter_type_fn type_of; /* or NULL; it gets `user` */
    ln_chat_piece_fn on_piece;
    void *user;
} ln_chat_text;

/* `syntax`, `reasoning`: what is looked for, or NULL. `is_thinking`: the text begins within
 * reasoning. A message without reasoning is content from the start. */
void ln_chat_text_init(ln_chat_text *chat, const ln_call_syntax *syntax,
                       const ln_reasoning_format *reasoning, bool is_thinking,
                       ln_chat_piece_fn on_piece, void *user);
void ln_chat_text_free(ln_chat_text *chat);

/* Errors: NOMEM, after which the parser gives nothing more. */
ln_status ln_chat_text_feed(ln_chat_text *chat, const char *text, size_t n_bytes, ln_error *err);
/* What was fed last is reasoning. */
bool ln_chat_text_is_reasoning(const ln_chat_text *chat);
/* There is no more text: what is held is handed on. */
ln_status ln_chat_text_finish(ln_chat_text *chat, ln_error *err);

#endif
