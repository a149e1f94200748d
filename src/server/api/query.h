/* Parameters of a request's target: "limit=20&order=asc". */
#ifndef LN_SERVER_API_QUERY_H
#define LN_SERVER_API_QUERY_H

#include <stdbool.h>
#include <stddef.h>

typedef enum ln_query_value {
    LN_QUERY_ABSENT = 0,
    LN_QUERY_GIVEN,
    LN_QUERY_TOO_LONG /* not shorter than `capacity`: nothing is written */
} ln_query_value;

/* The value of a parameter, as it is written. `query` may be NULL. */
ln_query_value ln_query_get(const char *query, const char *name, char *value, size_t capacity);

/* Puts the bytes in the place of their %XX; %00 stays. */
void ln_query_decode(char *text);

/* Whether a part of a target stands for the name, with %XX for some of its bytes. */
bool ln_query_is(const char *part, const char *name);

#endif
