/* Status and error inside the library: the public types under short names, and the macros that
 * pass failures on. */
#ifndef LN_BASE_ERROR_H
#define LN_BASE_ERROR_H

#include <linnet.h>

typedef linnet_status ln_status;
typedef linnet_error ln_error;

/* As linnet_status_text. */
const char *ln_status_text(ln_status status);

/* Fills *err (NULL is fine) with a printf-style sentence and returns `status`. */
__attribute__((format(printf, 3, 4))) ln_status ln_fail(ln_error *err, ln_status status,
                                                        const char *format, ...);

/* Fails with LINNET_ERR_NOMEM and "out of memory for WHAT". */
ln_status ln_fail_memory(ln_error *err, const char *what);

/* Puts "PREFIX: " before the message already in *err, to name the file or layer; returns the
 * status that is in it. */
ln_status ln_error_prefix(ln_error *err, ln_status status, const char *prefix);

/* Returns from the enclosing function when `call` fails. */
#define LN_TRY(call)                                                                               \
    do {                                                                                           \
        ln_status ln_try_status_ = (call);                                                         \
        if (ln_try_status_ != LINNET_OK)                                                           \
            return ln_try_status_;                                                                 \
    } while (0)

/* A broken invariant of our own (never bad input): prints file and line to stderr and traps, in
 * release builds too. */
#define LN_BUG_ON(cond)                                                                            \
    do {                                                                                           \
        if (__builtin_expect(!!(cond), 0))                                                         \
            ln_bug(__FILE__, __LINE__, #cond);                                                     \
    } while (0)
_Noreturn void ln_bug(const char *file, int line, const char *condition);

#endif
