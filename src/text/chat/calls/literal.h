/* Values as Python writes them, or Gemma's templates, as JSON. */
#ifndef LN_TEXT_CHAT_CALLS_LITERAL_H
#define LN_TEXT_CHAT_CALLS_LITERAL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/strbuf.h"

/* A text that is being read. */
typedef struct ln_literal {
    const char *at, *end;
    const char *quote; /* Gemma's mark around texts; keys and some texts have none. NULL: Python */
    unsigned depth;
    ln_strbuf *json; /* what was read is appended */
} ln_literal;

/* One value. False: it is none; what was appended then counts for nothing. */
bool ln_literal_read(ln_literal *literal);
/* key=value, key=value up to the end, as an object. */
bool ln_literal_read_arguments(ln_literal *literal);
/* Appends a JSON string. */
void ln_literal_put_string(ln_strbuf *json, const char *text, size_t n_bytes);
/* A whole text that is such a value. */
bool ln_literal_convert(const char *text, size_t n_bytes, ln_strbuf *json);

#endif
