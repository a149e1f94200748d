/* Headers of answers that are several messages: to whom, and so what, each of them is. */
#ifndef LN_TEXT_CHAT_MESSAGE_HEADER_H
#define LN_TEXT_CHAT_MESSAGE_HEADER_H

#include <stddef.h>

typedef enum ln_message_style {
    LN_MESSAGES_NONE,      /* an answer is one message without a header */
    LN_MESSAGES_CHANNELS,  /* <|channel|>CHANNEL to=functions.NAME<|message|> (harmony) */
    LN_MESSAGES_ADDRESSED, /* to=NAME<|message|>, calls in their own syntax behind it (Muse) */
    LN_MESSAGES_RECIPIENTS /* NAME and a line break, >>> before the next one (Functionary) */
} ln_message_style;

typedef enum ln_message_kind {
    LN_MESSAGE_UNKNOWN,   /* more of the header is to come */
    LN_MESSAGE_NONE,      /* what was read is no header but text */
    LN_MESSAGE_TEXT,      /* to the user */
    LN_MESSAGE_REASONING, /* to itself */
    LN_MESSAGE_NOTE,      /* to nobody who reads it here */
    LN_MESSAGE_CALL,      /* to a tool, whose arguments it is */
    LN_MESSAGE_CALLS      /* to a tool: the syntax of calls follows */
} ln_message_kind;

typedef struct ln_message_header {
    ln_message_kind kind, without_tools; /* the latter where no calls are looked for */
    const char *name;                    /* of the tool: [n_bytes], in the text that was read */
    size_t n_bytes;
    size_t n_left; /* bytes at the end that belong to the message */
} ln_message_header;

enum { LN_MESSAGE_MAX_HEADER = 1024, LN_MESSAGE_MAX_MARKS = 6 };

/* What a text says that may be a header, or the beginning of one. */
ln_message_header ln_message_header_read(ln_message_style style, const char *text, size_t n_bytes);

/* The marks within messages: those that begin a header, [*n_begins], then those that end a message,
 * [returned] in all. */
size_t ln_message_marks(ln_message_style style, const char *const **marks, size_t *n_begins);

#endif
