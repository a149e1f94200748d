/* How many sequences the server lets in: those that run and those that may wait. */
#ifndef LN_SERVER_ADMISSION_H
#define LN_SERVER_ADMISSION_H

#include <stdatomic.h>
#include <stddef.h>

#include "server/json/error.h"

typedef struct ln_admission {
    atomic_size_t n_open; /* sequences that were admitted and are not over */
    atomic_size_t limit;
    const char *name;            /* of the key that this is of; NULL: it is the server's */
    struct ln_admission *parent; /* which counts them too; NULL: none */
} ln_admission;

void ln_admission_init(ln_admission *admission, ln_admission *parent);

/* Counts `more` sequences in beside the `own` ones that a request has, or says with 429 that there
 * is no room, with 400 that there never is, for which the field `culprit` asks. Any thread, as is
 * release. */
bool ln_admission_take(ln_admission *admission, size_t own, size_t more, const char *culprit,
                       ln_api_error *error);
void ln_admission_release(ln_admission *admission, size_t count);

#endif
