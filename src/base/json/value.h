/* Readings of JSON values; NULL is a value of no kind. */
#ifndef LN_BASE_JSON_VALUE_H
#define LN_BASE_JSON_VALUE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Whether it is this string. */
static inline bool ln_json_is(const json_t *value, const char *text) {
    return json_is_string(value) && strcmp(json_string_value(value), text) == 0;
}

/* A member that is a string, borrowed; "" where there is none. */
static inline const char *ln_json_text_of(const json_t *object, const char *name) {
    const char *text = json_string_value(json_object_get(object, name));
    return text != NULL ? text : "";
}

/* One more reference to it. */
static inline json_t *ln_json_share(const json_t *value) {
    return json_incref((json_t *)(uintptr_t)value);
}

#endif
