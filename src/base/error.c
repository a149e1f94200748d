#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

const char *ln_status_text(ln_status status) {
    switch (status) {
#define STATUS_CASE(name, value, text)                                                             \
    case name: return text;
        LINNET_STATUSES(STATUS_CASE)
#undef STATUS_CASE
    }
    return "unknown status";
}

ln_status ln_fail(ln_error *err, ln_status status, const char *format, ...) {
    if (err == NULL)
        return status;
    err->status = status;
    va_list args;
    va_start(args, format);
    vsnprintf(err->message, sizeof err->message, format, args);
    va_end(args);
    for (char *c = err->message; *c != '\0'; c++) /* input quoted in a message stays one line */
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
    return status;
}

ln_status ln_fail_memory(ln_error *err, const char *what) {
    return ln_fail(err, LINNET_ERR_NOMEM, "out of memory for %s", what);
}

ln_status ln_error_prefix(ln_error *err, ln_status status, const char *prefix) {
    if (err == NULL)
        return status;
    char old[sizeof err->message];
    memcpy(old, err->message, sizeof old);
    return ln_fail(err, status, "%s: %s", prefix, old);
}

void ln_bug(const char *file, int line, const char *condition) {
    char text[512];
    int n = snprintf(text, sizeof text, "linnet: bug at %s:%d: %s\n", file, line, condition);
    if (n > 0 && write(STDERR_FILENO, text, (size_t)n) < 0) {
        /* nothing left to tell it to */
    }
    __builtin_trap();
}
