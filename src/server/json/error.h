/* What went wrong with a request, as its client shall read it. */
#ifndef LN_SERVER_JSON_ERROR_H
#define LN_SERVER_JSON_ERROR_H

#include <stdbool.h>
#include <stddef.h>

/* An error as OpenAI's clients read it. */
typedef struct ln_api_error {
    int status;              /* 0: none */
    const char *type, *code; /* static storage; code NULL: null */
    bool is_own;             /* a limit of the client's own is reached; the server has room */
    unsigned retry_s;        /* with 429 and 503: when to come again; 0: in a second */
    char param[96];          /* "": null */
    char message[1024];
} ln_api_error;

/* Fills an error that is not set yet; always false. */
__attribute__((format(printf, 4, 5))) bool ln_api_fail(ln_api_error *error, int status,
                                                       const char *param, const char *format, ...);

/* Says that a prompt leaves no room in the context, in the words by which clients of OpenAI's and
 * Anthropic's APIs know it from other mistakes; always false. */
bool ln_api_fail_context(ln_api_error *error, const char *param, size_t n_tokens,
                         size_t ctx_tokens);

/* Says that memory is out, with 503; always false. */
bool ln_api_fail_memory(ln_api_error *error);

/* A field of a body that was translated, and what its client calls it. */
typedef struct ln_field_name {
    const char *own, *client; /* own NULL ends a list */
} ln_field_name;

/* Says an error about such fields, or parts of them, by the clients' names; `names` NULL: there are
 * none. */
void ln_api_error_rename(ln_api_error *error, const ln_field_name *names);

#endif
