#include "server/admission.h"

void ln_admission_init(ln_admission *admission) {
    atomic_init(&admission->n_open, 0);
    admission->limit = 0;
}

bool ln_admission_take(ln_admission *admission, size_t own, size_t more, const char *culprit,
                       ln_api_error *error) {
    size_t limit = admission->limit;
    size_t before = atomic_fetch_add(&admission->n_open, more);
    if (before + more <= limit)
        return true;
    atomic_fetch_sub(&admission->n_open, more);
    if (own + more > limit)
        return ln_api_fail(error, 400, culprit,
                           "the request makes more than %zu sequences, all that the server holds",
                           limit);
    return ln_api_fail(error, 429, NULL, "the server is busy: %zu sequences run or wait", before);
}

void ln_admission_release(ln_admission *admission, size_t count) {
    atomic_fetch_sub(&admission->n_open, count);
}
