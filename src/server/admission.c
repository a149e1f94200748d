#include "server/admission.h"

void ln_admission_init(ln_admission *admission, ln_admission *parent) {
    atomic_init(&admission->n_open, 0);
    atomic_init(&admission->limit, 0);
    admission->name = NULL;
    admission->parent = parent;
}

static bool refuse(const ln_admission *admission, size_t n_open, size_t limit, bool ever,
                   const char *culprit, ln_api_error *error) {
    if (!ever && admission->name == NULL)
        return ln_api_fail(error, 400, culprit,
                           "the request makes more than %zu sequences, all that the server holds",
                           limit);
    if (!ever)
        return ln_api_fail(error, 400, culprit,
                           "the request makes more than %zu sequences, all that its key allows",
                           limit);
    if (admission->name == NULL)
        return ln_api_fail(error, 429, NULL, "the server is busy: %zu sequences run or wait",
                           n_open);
    error->is_own = true;
    return ln_api_fail(error, 429, NULL,
                       "%zu sequences of the key %.64s run or wait, and %zu are allowed", n_open,
                       admission->name, limit);
}

bool ln_admission_take(ln_admission *admission, size_t own, size_t more, const char *culprit,
                       ln_api_error *error) {
    size_t limit = atomic_load(&admission->limit);
    size_t before = atomic_fetch_add(&admission->n_open, more);
    bool fits = before <= limit && more <= limit - before;
    if (!fits)
        refuse(admission, before, limit, own + more <= limit, culprit, error);
    if (fits && (admission->parent == NULL ||
                 ln_admission_take(admission->parent, own, more, culprit, error)))
        return true;
    atomic_fetch_sub(&admission->n_open, more);
    return false;
}

void ln_admission_release(ln_admission *admission, size_t count) {
    for (; admission != NULL; admission = admission->parent)
        atomic_fetch_sub(&admission->n_open, count);
}
