/* Parsing JSON that may have U+0000 in object keys, which jansson refuses: in such a file the
 * escape is replaced by a code point that the file does not use, and put back after parsing. */
#ifndef LN_FORMAT_JSON_NUL_H
#define LN_FORMAT_JSON_NUL_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/strbuf.h"

typedef struct ln_nul_stand_in {
    uint32_t code_point; /* 0: none needed */
    char text[4];        /* [n_bytes] */
    size_t n_bytes;
} ln_nul_stand_in;

/* Parses bytes[n_bytes]; *root is the caller's. Text values have U+0000 back; keys are read
 * through ln_json_key. */
ln_status ln_json_load(const char *bytes, size_t n_bytes, json_t **root, ln_nul_stand_in *stand_in,
                       ln_error *err);

/* The key with U+0000 back: itself, or a copy in `scratch`; NULL when memory is out. */
const char *ln_json_key(const char *key, const ln_nul_stand_in *stand_in, ln_strbuf *scratch,
                        size_t *n_bytes);

#endif
