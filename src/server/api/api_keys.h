/* API keys: who may call the server, under which name, and how much. */
#ifndef LN_SERVER_API_API_KEYS_H
#define LN_SERVER_API_API_KEYS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "server/admission.h"

enum { LN_API_KEY_BYTES = 256, LN_API_KEY_NAME_BYTES = 64, LN_API_KEY_MAX = 1024 };

/* What is known of a key before the server runs. */
typedef struct ln_api_key_spec {
    char text[LN_API_KEY_BYTES + 1];
    char name[LN_API_KEY_NAME_BYTES + 1]; /* for logs and errors; "": none */
    size_t max_sequences;                 /* at once, running or waiting; 0: as many as others */
    uint32_t requests_per_minute;         /* 0: as many as come */
} ln_api_key_spec;

typedef struct ln_api_key_list {
    ln_api_key_spec *items; /* [count], owned */
    size_t count;
} ln_api_key_list;

/* Adds the key of a line: KEY [NAME] [max-sequences=N] [requests-per-minute=N]. `culprit` is what
 * the error names. Errors: ARGUMENT, NOMEM. */
ln_status ln_api_key_list_add(ln_api_key_list *list, const char *line, const char *culprit,
                              ln_error *err);
/* The same of all lines of a text, but empty ones and those that begin with #; there must be one.
 * The culprit is given a line's number. */
ln_status ln_api_key_list_read(ln_api_key_list *list, const char *text, const char *culprit,
                               ln_error *err);
void ln_api_key_list_free(ln_api_key_list *list);

/* A key in use. Its address stays valid until the table is freed. */
typedef struct ln_api_key {
    ln_api_key_spec spec;
    ln_admission admission; /* of its sequences, and then into the server */
    double n_allowed;       /* requests that may come now, at most a minute's */
    uint64_t since_ns;      /* when that was right */
} ln_api_key;

/* The keys of a server; its thread's. Keys that a change took away are kept for the requests that
 * came with them, but let nobody in. */
typedef struct ln_api_keys {
    ln_api_key **items; /* [count] in use, owned */
    size_t count;
    ln_api_key **past; /* [n_past], owned */
    size_t n_past;
} ln_api_keys;

/* Puts the keys of the list into the place of those that there are: one that was there before keeps
 * what it has used up. Errors, which change nothing: NOMEM. */
ln_status ln_api_keys_replace(ln_api_keys *keys, const ln_api_key_list *list, ln_admission *server,
                              ln_error *err);
/* The key that a client gave, or NULL. Takes the same time wherever they differ. */
ln_api_key *ln_api_keys_find(const ln_api_keys *keys, const char *given);
/* Counts a request, or says in how many seconds the next may come. */
bool ln_api_key_take(ln_api_key *key, uint64_t now_ns, unsigned *wait_s);
void ln_api_keys_free(ln_api_keys *keys);

#endif
