/* Reasoning of chat models, which think aloud before they answer: what stands around it, as data,
 * and what a template shows of it. The parser is chat_text.h's. */
#ifndef LN_TEXT_CHAT_REASONING_H
#define LN_TEXT_CHAT_REASONING_H

#include <linnet.h>
#include <stdbool.h>
#include <stddef.h>

#include "text/chat/message_header.h"

/* Whether an answer begins with what a model thinks aloud. */
typedef enum ln_reasoning {
    LN_REASONING_NONE = LINNET_REASONING_NONE,
    LN_REASONING_MAY_COME = LINNET_REASONING_MAY_COME, /* it may begin with `begin` */
    LN_REASONING_OPEN = LINNET_REASONING_OPEN          /* the prompt ends with `begin` */
} ln_reasoning;

enum { LN_REASONING_MAX_DROPPED = 4 };

typedef struct ln_reasoning_format {
    const char *name;
    const char *begin, *end;
    const char *also_end; /* what comes after it, where the end itself was left out; or NULL */
    const char *dropped[LN_REASONING_MAX_DROPPED]; /* marks around the rest that are no content */
    const char
        *answer; /* before an answer that is no call; NULL: nothing, or dropped[0] at times */
    ln_message_style messages; /* of an answer that is several, with headers */
    bool is_none;              /* the model has headers, but does not think */
} ln_reasoning_format;

/* <think>, which most have. */
#define LN_THINK_BEGIN "<think>"
#define LN_THINK_END   "</think>"
const ln_reasoning_format *ln_reasoning_think(void);

/* What a template's model writes; NULL: it does not think aloud. Static storage. */
const ln_reasoning_format *ln_reasoning_detect(const char *chat_template, size_t n_bytes);
const ln_reasoning_format *ln_reasoning_find(const char *name); /* or NULL */

/* How the answer to a rendered prompt of such a model begins: within reasoning that the prompt ends
 * with, after its end, or perhaps with some. */
ln_reasoning ln_reasoning_of_prompt(const ln_reasoning_format *format, const char *prompt,
                                    size_t n_bytes);

#endif
