#include "server/api/query.h"

#include <string.h>

ln_query_value ln_query_get(const char *query, const char *name, char *value, size_t capacity) {
    size_t n_name = strlen(name);
    while (query != NULL && *query != '\0') {
        size_t n_item = strcspn(query, "&");
        if (n_item > n_name && strncmp(query, name, n_name) == 0 && query[n_name] == '=') {
            size_t n_bytes = n_item - n_name - 1;
            if (n_bytes >= capacity)
                return LN_QUERY_TOO_LONG;
            memcpy(value, query + n_name + 1, n_bytes);
            value[n_bytes] = '\0';
            return LN_QUERY_GIVEN;
        }
        query += n_item + (query[n_item] == '&');
    }
    return LN_QUERY_ABSENT;
}

static int hex_digit(char c) {
    const char *digits = "0123456789abcdef", *found = c != '\0' ? strchr(digits, c | 32) : NULL;
    return found != NULL ? (int)(found - digits) : -1;
}

bool ln_query_is(const char *part, const char *name) {
    for (; *part != '\0' && *name != '\0'; name++) {
        int high = *part == '%' ? hex_digit(part[1]) : -1;
        int low = high >= 0 ? hex_digit(part[2]) : -1;
        char byte = low >= 0 ? (char)(high << 4 | low) : *part;
        if (byte != *name)
            return false;
        part += low >= 0 ? 3 : 1;
    }
    return *part == *name;
}
