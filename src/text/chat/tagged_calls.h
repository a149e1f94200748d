/* Calls of tools whose name and arguments stand between tags, each argument for itself, as models
 * for code write them. The syntaxes are data. Values become JSON: as they are where they are JSON
 * and the tool does not want text, else as a string. */
#ifndef LN_TEXT_CHAT_TAGGED_CALLS_H
#define LN_TEXT_CHAT_TAGGED_CALLS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/strbuf.h"

/* begin (call NAME name_end (key KEY key_end value VALUE value_end)* call_end)+ end, with white
 * space between the tags; "" is a tag that is not there. */
typedef struct ln_tagged_syntax {
    const char *name;
    const char *begin, *call, *name_end;
    const char *key, *key_end, *value, *value_end;
    const char *call_end, *end;
} ln_tagged_syntax;

/* The syntax that a chat template's text shows; NULL: none of these. Static storage. */
const ln_tagged_syntax *ln_tagged_syntax_detect(const char *chat_template, size_t n_bytes);
const ln_tagged_syntax *ln_tagged_syntax_find(const char *name); /* or NULL */

typedef enum ln_tagged_result {
    LN_TAGGED_GOES_ON,
    LN_TAGGED_ENDED, /* after the last tag, or because what follows is no part of calls */
    LN_TAGGED_FAILED /* before anything was handed on: it is no call */
} ln_tagged_result;

typedef struct ln_tagged_sink {
    void *user;
    void (*on_call)(void *user, const char *name, size_t n_bytes);
    void (*on_arguments)(void *user, const char *json, size_t n_bytes);
    /* Whether a parameter of a tool is text, whatever it looks like; NULL: none is known to be. */
    bool (*is_text)(void *user, const char *tool, const char *parameter);
} ln_tagged_sink;

/* A parser of what follows `begin`. */
typedef struct ln_tagged_calls {
    const ln_tagged_syntax *syntax;
    ln_tagged_sink sink;
    int state;      /* tagged_calls.c's */
    ln_strbuf held; /* all bytes until something was handed on; then those that may be a tag */
    ln_strbuf word, name, key;
    size_t n_parameters;
    bool has_called; /* something was handed on */
} ln_tagged_calls;

void ln_tagged_calls_init(ln_tagged_calls *calls, const ln_tagged_syntax *syntax,
                          const ln_tagged_sink *sink);
void ln_tagged_calls_free(ln_tagged_calls *calls);
/* After ENDED or FAILED, `held` has the bytes that are no part of a call. */
ln_tagged_result ln_tagged_calls_feed(ln_tagged_calls *calls, char byte);
bool ln_tagged_calls_has_failed(const ln_tagged_calls *calls); /* memory ran out */

#endif
