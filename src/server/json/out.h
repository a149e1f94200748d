/* Writing JSON to a buffer. */
#ifndef LN_SERVER_JSON_OUT_H
#define LN_SERVER_JSON_OUT_H

#include <stddef.h>

#include "base/strbuf.h"

/* A string with its quotes; ill-formed UTF-8 becomes U+FFFD. */
void ln_json_put_string(ln_strbuf *out, const char *text, size_t n_bytes);
void ln_json_put_text(ln_strbuf *out, const char *text); /* NULL: null */

/* The bytes as an array of numbers. */
void ln_json_put_bytes(ln_strbuf *out, const char *bytes, size_t n_bytes);

/* A number; not a finite one: null. */
void ln_json_put_number(ln_strbuf *out, double value);

#endif
