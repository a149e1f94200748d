#include "server/json/error.h"

#include <stdarg.h>
#include <stdio.h>

bool ln_api_fail(ln_api_error *error, int status, const char *param, const char *format, ...) {
    if (error->status != 0)
        return false;
    va_list arguments;
    error->status = status;
    error->type = status >= 500   ? "server_error"
                  : status == 401 ? "authentication_error"
                  : status == 403 ? "permission_error"
                  : status == 404 ? "not_found_error"
                  : status == 429 ? "rate_limit_error"
                                  : "invalid_request_error";
    snprintf(error->param, sizeof error->param, "%s", param != NULL ? param : "");
    va_start(arguments, format);
    vsnprintf(error->message, sizeof error->message, format, arguments);
    va_end(arguments);
    return false;
}
