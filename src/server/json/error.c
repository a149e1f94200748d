#include "server/json/error.h"

#include <stdarg.h>
#include <stdio.h>

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
