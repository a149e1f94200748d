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

/* The byte that a part of a target begins with, and how many characters stand for it. */
static char take_byte(const char *part, size_t *n_chars) {
    int high = *part == '%' ? hex_digit(part[1]) : -1;
    int low = high >= 0 ? hex_digit(part[2]) : -1;
    *n_chars = low >= 0 ? 3 : 1;
    return low >= 0 ? (char)(high << 4 | low) : *part;
}

void ln_query_decode(char *text) {
    char *to = text;
    size_t n_chars;
    for (const char *from = text; *from != '\0'; from += n_chars) {
        char byte = take_byte(from, &n_chars);
        *to++ = byte != '\0' ? byte : *from;
        n_chars = byte != '\0' ? n_chars : 1;
    }
    *to = '\0';
}

bool ln_query_is(const char *part, const char *name) {
    size_t n_chars;
    for (; *part != '\0' && *name != '\0'; name++, part += n_chars)
        if (take_byte(part, &n_chars) != *name)
            return false;
    return *part == *name;
}
