/* Integers in JSON that jansson does not hold, as they have more than 63 bits. */
#ifndef LN_BASE_JSON_BIG_INTEGERS_H
#define LN_BASE_JSON_BIG_INTEGERS_H

#include "base/strbuf.h"

/* Appends the text with them as jansson takes them: real numbers, or, where it is a request's body,
 * for a "seed" below 2^64 in the outermost object or one within it, a string of the digits. The
 * text need not be valid. False: memory is out. */
bool ln_json_rewrite_big_integers(const char *text, size_t n_bytes, bool is_body, ln_strbuf *out);

#endif
