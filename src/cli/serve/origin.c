#include "cli/serve/origin.h"

#include <string.h>

bool ln_cli_is_origin(const char *text) {
    static const char of_scheme[] = "abcdefghijklmnopqrstuvwxyz0123456789+-.";
    static const char of_host[] = "abcdefghijklmnopqrstuvwxyz0123456789-._~%[]:";
    if (strcmp(text, "*") == 0 || strcmp(text, "null") == 0)
        return true;
    const char *host = text + strspn(text, of_scheme);
    if (host == text || strncmp(host, "://", 3) != 0)
        return false;
    host += 3;
    return *host != '\0' && *host != ':' && host[strspn(host, of_host)] == '\0';
}
