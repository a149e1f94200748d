#include "base/locale/number.h"

#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* Of this thread alone. The C library has the C locale ready: nothing is loaded. Where it fails,
 * the thread keeps what it has. */
typedef struct c_locale {
    locale_t own, before;
} c_locale;

static c_locale enter(void) {
    c_locale c = {.own = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0)};
    if (c.own != (locale_t)0)
        c.before = uselocale(c.own);
    return c;
}

static void leave(c_locale c) {
    if (c.own == (locale_t)0)
        return;
    uselocale(c.before);
    freelocale(c.own);
}

double ln_strtod(const char *text, char **end) {
    c_locale c = enter();
    double number = strtod(text, end);
    leave(c);
    return number;
}

int ln_snprintf(char *text, size_t n_bytes, const char *format, ...) {
    va_list args;
    c_locale c = enter();
    va_start(args, format);
    int n = vsnprintf(text, n_bytes, format, args);
    va_end(args);
    leave(c);
    return n;
}
