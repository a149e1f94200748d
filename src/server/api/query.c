#include "server/api/query.h"

#include <string.h>

bool ln_query_get(const char *query, const char *name, char *value, size_t capacity) {
    size_t n_name = strlen(name);
    while (query != NULL && *query != '\0') {
        size_t n_item = strcspn(query, "&");
        if (n_item > n_name && strncmp(query, name, n_name) == 0 && query[n_name] == '=') {
            size_t n_bytes = n_item - n_name - 1;
            if (n_bytes >= capacity)
                return false;
            memcpy(value, query + n_name + 1, n_bytes);
            value[n_bytes] = '\0';
            return true;
        }
        query += n_item + (query[n_item] == '&');
    }
    return false;
}
