/* Responses that clients may come back to, by id: in memory, or in a file that outlives the server.
 * Bounded in number and bytes; the oldest give way. Any thread may call these functions. */
#ifndef LN_SERVER_RESPONSES_RESPONSE_STORE_H
#define LN_SERVER_RESPONSES_RESPONSE_STORE_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct ln_response_store ln_response_store;

typedef struct ln_response_store_limits {
    size_t max_responses, max_bytes;
} ln_response_store_limits;

/* What is kept of a response, as JSON; all borrowed. */
typedef struct ln_stored_response {
    const char *response; /* the object as clients see it */
    const char *input;    /* a list: the items that it answers */
    const char *messages; /* a list: the chat up to and with its answer, without instructions */
} ln_stored_response;

typedef enum ln_stored_part {
    LN_STORED_RESPONSE = 0,
    LN_STORED_INPUT,
    LN_STORED_MESSAGES
} ln_stored_part;

/* `path` NULL: in memory. What ran in the background has failed, with an error that says so, unless
 * another process has the file open: then that may run it. PATH.lock says whether one has, and
 * stays. Errors: IO, when the file cannot be opened or is no store; NOMEM. */
ln_status ln_response_store_open(const char *path, const ln_response_store_limits *limits,
                                 ln_response_store **store, ln_error *err);
void ln_response_store_close(ln_response_store *store); /* NULL is fine */

/* Adds a response or replaces it. False when it could not be kept: it is larger than the bound, or
 * the file or memory is full. */
bool ln_response_store_put(ln_response_store *store, const char *id,
                           const ln_stored_response *response);
/* A part of a response, NUL-terminated and malloc'd; NULL: there is none. */
char *ln_response_store_get(ln_response_store *store, const char *id, ln_stored_part part);
bool ln_response_store_delete(ln_response_store *store, const char *id); /* whether it was there */

#endif
