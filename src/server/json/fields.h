/* The body of a request: parsed within bounds, its fields read strictly. The first thing that is
 * wrong becomes the error, with the field's name; later calls then do nothing. A field that is
 * null counts as absent. Fields that nobody knows are refused, or noted and ignored. */
#ifndef LN_SERVER_JSON_FIELDS_H
#define LN_SERVER_JSON_FIELDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/json/error.h"

/* Fields of a body that were ignored, for who tells the client. */
typedef struct ln_ignored_fields {
    size_t count;
    char names[256]; /* with commas between them, as many as fit; harmless in a header */
} ln_ignored_fields;

typedef struct ln_fields {
    const json_t *root;
    const char *path; /* what errors put before a name: "response_format." and the like, or "" */
    ln_api_error *error;
    ln_ignored_fields *ignored; /* NULL: unknown fields are refused */
} ln_fields;

/* Parses an object; NULL with the error set. The caller owns it (json_decref). */
json_t *ln_fields_parse(const char *text, size_t n_bytes, ln_api_error *error);

/* The value that a string holds as JSON, within the same bounds; NULL: none. Owned. */
json_t *ln_fields_parse_value(const json_t *text);

/* The field's value, or NULL when it is absent or null. */
json_t *ln_fields_get(const ln_fields *fields, const char *name);

/* These leave *out as it is when the field is absent, and are false after an error. */
bool ln_fields_bool(const ln_fields *fields, const char *name, bool *out);
bool ln_fields_number(const ln_fields *fields, const char *name, double min, double max,
                      float *out);
bool ln_fields_integer(const ln_fields *fields, const char *name, int64_t min, int64_t max,
                       int64_t *out);
/* A seed: negative numbers are those of 64 bits that have the same bits. */
bool ln_fields_seed(const ln_fields *fields, const char *name, bool *is_there, uint64_t *out);
/* A string without NUL, borrowed from the root. */
bool ln_fields_text(const ln_fields *fields, const char *name, const char **out);

/* Checks the names of all fields against a list, which ends with NULL. "NAME=VALUE" lists a field
 * with the one value, as compact JSON, that asks for nothing else than what happens anyway; other
 * values are refused. "!NAME" lists one that is refused by name, since it would change the answer.
 * A field that is not listed is noted and ignored, or refused. */
bool ln_fields_only(const ln_fields *fields, const char *const *names);

#endif
