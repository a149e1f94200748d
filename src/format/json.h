/* JSON documents of a checkpoint, parsed within a bound on the memory they may take. */
#ifndef LN_FORMAT_JSON_H
#define LN_FORMAT_JSON_H

#include <jansson.h>
#include <stddef.h>

#include "base/error.h"
#include "format/meta.h"

/* Parses an object; duplicate keys are refused, integers beyond 64 bits are reals, and Python's
 * Infinity, -Infinity and NaN are objects {"__float__": NAME}. *root is owned by the caller
 * (json_decref). *heap_bytes (may be NULL) receives an upper estimate of the memory behind it; a
 * document whose estimate passes 256 MB is LINNET_ERR_LIMIT. Errors name line and column. */
ln_status ln_json_parse(const char *text, size_t n_bytes, json_t **root, size_t *heap_bytes,
                        ln_error *err);

/* The value at a dotted path ("rope_parameters.rope_theta"), borrowed from root; NULL when it is
 * absent or null, or root is NULL. */
const json_t *ln_json_find(const json_t *root, const char *path);

/* The value as metadata, borrowed from it; NULL gives LN_META_NULL. */
ln_meta_value ln_json_meta(const json_t *value);

#endif
