#include "server/json/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/json/load.h"

bool ln_api_fail(ln_api_error *error, int status, const char *param, const char *format, ...) {
    if (error->status != 0)
        return false;
    va_list arguments;
    bool lacks_memory = status == 400 && ln_json_memory_failed(); /* it looked like a mistake */
    status = lacks_memory ? 503 : status;
    error->status = status;
    error->type = status >= 500   ? "server_error"
                  : status == 401 ? "authentication_error"
                  : status == 403 ? "permission_error"
                  : status == 404 ? "not_found_error"
                  : status == 429 ? "rate_limit_error"
                                  : "invalid_request_error";
    param = lacks_memory ? NULL : param;
    snprintf(error->param, sizeof error->param, "%s", param != NULL ? param : "");
    va_start(arguments, format);
    vsnprintf(error->message, sizeof error->message, format, arguments);
    va_end(arguments);
    if (lacks_memory)
        snprintf(error->message, sizeof error->message, "out of memory");
    return false;
}

bool ln_api_fail_context(ln_api_error *error, const char *param, size_t n_tokens,
                         size_t ctx_tokens) {
    ln_api_fail(error, 400, param,
                "prompt is too long: %zu tokens > %zu maximum. This model's maximum context length "
                "is %zu tokens, and one of them is for the answer",
                n_tokens, ctx_tokens - 1, ctx_tokens);
    error->code = "context_length_exceeded";
    return false;
}

bool ln_api_fail_memory(ln_api_error *error) {
    return ln_api_fail(error, 503, NULL, "out of memory");
}

/* Whether a text begins with the name of a field. */
static bool names_field(const char *text, const char *name) {
    static const char word[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
    size_t n_bytes = strlen(name);
    return strncmp(text, name, n_bytes) == 0 &&
           (text[n_bytes] == '\0' || strchr(word, text[n_bytes]) == NULL);
}

/* Puts one name in the place of the other at the beginning of a text. */
static void replace_name(char *text, size_t capacity, const ln_field_name *name) {
    char rest[sizeof((ln_api_error *)NULL)->message];
    if (!names_field(text, name->own))
        return;
    snprintf(rest, sizeof rest, "%s", text + strlen(name->own));
    snprintf(text, capacity, "%s%s", name->client, rest);
}

void ln_api_error_rename(ln_api_error *error, const ln_field_name *names) {
    for (; names != NULL && names->own != NULL; names++) {
        if (!names_field(error->param, names->own))
            continue;
        replace_name(error->message, sizeof error->message, names);
        replace_name(error->param, sizeof error->param, names);
        return;
    }
}
