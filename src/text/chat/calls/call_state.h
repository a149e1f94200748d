/* Where a parser of calls stands, and what its forms share (forms.h). */
#ifndef LN_TEXT_CHAT_CALLS_CALL_STATE_H
#define LN_TEXT_CHAT_CALLS_CALL_STATE_H

#include "base/strbuf.h"
#include "text/chat/calls/call_syntax.h"
#include "text/chat/calls/parameter_type.h"

enum { LN_CALLS_MAX_NAME = 256, LN_CALLS_MAX_HELD = 64 << 10, LN_CALLS_MAX_VALUE = 16 << 20 };

typedef enum ln_calls_result {
    LN_CALLS_GO_ON,
    LN_CALLS_ENDED, /* after the last tag, or because what follows is no part of calls */
    LN_CALLS_FAILED /* before anything was handed on: it is no call */
} ln_calls_result;

typedef struct ln_call_sink {
    void *user;
    void (*on_call)(void *user, const char *name, size_t n_bytes);
    void (*on_arguments)(void *user, const char *json, size_t n_bytes);
    /* NULL: nothing is known. */
    ln_parameter_type (*type_of)(void *user, const char *tool, const char *parameter);
} ln_call_sink;

typedef struct ln_call_reader {
    const ln_call_syntax *syntax;
    ln_call_sink sink;
    ln_call_form form; /* of what is read, which may be another than the syntax's */
    int state;         /* the form's */
    ln_strbuf held;    /* all bytes since something was handed on */
    ln_strbuf word, name, key, arguments;
    ln_strbuf close; /* of a nested value: the tag that ends it */
    size_t n_calls, n_parameters;
    bool has_called; /* something was handed on */
    bool is_open;    /* a call whose arguments go on */
    bool in_list, list_is_over;
    /* a value in JSON, or what it is between quote marks of a language */
    unsigned depth;
    bool in_string, is_escaped;
    char quote;
    /* the object of a call */
    bool has_name, has_arguments, is_text;
} ln_call_reader;

static inline bool ln_calls_is_space(char byte) {
    return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t';
}

/* Hands on the name, then what `arguments` has; nothing is held any more. */
void ln_calls_announce(ln_call_reader *reader);
void ln_calls_give(ln_call_reader *reader, const char *json);
/* What is held is no part of a call. */
ln_calls_result ln_calls_stop(ln_call_reader *reader);
/* Adds a byte to the word and compares it with tags, of which some are NULL: the index of the one
 * that is whole, -1 while one may come, -2 when none can. White space before a tag is passed. */
int ln_calls_match(ln_call_reader *reader, char byte, const char *const *tags, int n);
/* Whether a value in JSON ends with this byte. A number or a word ends before the byte. */
typedef enum ln_value_end { LN_VALUE_GOES_ON, LN_VALUE_ENDS, LN_VALUE_ENDED } ln_value_end;
ln_value_end ln_calls_step_value(ln_call_reader *reader, char byte);
bool ln_calls_ends_with(const ln_strbuf *text, const char *end);

#endif
