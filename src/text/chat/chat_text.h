/* What a chat model says, taken apart: reasoning, content, and calls of tools
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
#include "text/chat/tagged_calls.h"
#include "text/chat/tool_syntax.h"

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

typedef struct ln_chat_text {
    ln_tool_syntax syntax;
    bool reasons;      /* <think> at the beginning is looked for */
    bool hides_marker; /* what begins calls is no content when no call follows */
    int state;         /* chat_text.c's */
    ln_strbuf held;    /* a marker's beginning, or a call's text until it is certain */
    ln_strbuf pending; /* text of a kind, handed on at the end of a feed */
    ln_chat_piece_kind pending_kind;
    size_t n_calls;
    bool is_begun;      /* something but white space came */
    bool in_list;       /* Mistral's [...] */
    bool skips_newline; /* after </think>, calls */
    /* the object of a call */
    int object_state;
    ln_strbuf word, name, arguments; /* a key or the name; arguments that came before it */
    bool has_name, is_announced, is_escaped, in_string, has_arguments, is_text;
    unsigned depth;
    /* calls whose arguments stand between tags, beside the syntax's where both begin alike */
    const ln_tagged_syntax *tagged; /* NULL: none */
    ln_tagged_calls tagged_calls;   /* of those that have begun */
    bool (*is_text_parameter)(void *user, const char *tool, const char *parameter); /* or NULL */
    ln_chat_piece_fn on_piece;
    void *user;
} ln_chat_text;

/* `is_thinking` as above. A message without reasoning is content from the
 * start. */
void ln_chat_text_init(ln_chat_text *chat, ln_tool_syntax syntax, bool reasons, bool is_thinking,
                       ln_chat_piece_fn on_piece, void *user);
/* Before the first text: looks for such calls too. `is_text` may be NULL; it gets `user`. */
void ln_chat_text_set_tagged(ln_chat_text *chat, const ln_tagged_syntax *tagged,
                             bool (*is_text)(void *user, const char *tool, const char *parameter));
void ln_chat_text_free(ln_chat_text *chat);

/* Errors: NOMEM, after which the parser gives nothing more. */
ln_status ln_chat_text_feed(ln_chat_text *chat, const char *text, size_t n_bytes, ln_error *err);
/* What was fed last is reasoning. */
bool ln_chat_text_is_reasoning(const ln_chat_text *chat);
/* There is no more text: what is held is handed on. */
ln_status ln_chat_text_finish(ln_chat_text *chat, ln_error *err);

#endif
