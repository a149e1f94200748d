/* Parameters of a request's target: "limit=20&order=asc". */
#ifndef LN_SERVER_API_QUERY_H
#define LN_SERVER_API_QUERY_H

#include <stdbool.h>
#include <stddef.h>

/* The value of a parameter, which has no escapes; false when it is not there, or not shorter than
 * `capacity`. `query` may be NULL. */
bool ln_query_get(const char *query, const char *name, char *value, size_t capacity);

/* Whether a part of a target stands for the name, with %XX for some of its bytes. */
bool ln_query_is(const char *part, const char *name);

#endif
