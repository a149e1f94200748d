#include "server/json/fields.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json/big_integers.h"
#include "base/json/load.h"

enum { MAX_DEPTH = 128 };

/* ---- parsing ---------------------------------------------------------------------------- */

/* What a walk over JSON text sees without building anything. */
typedef struct json_walk {
    size_t depth, max_depth;
    size_t key, key_end; /* the last key of the outermost object: its bytes, without quotes */
} json_walk;

/* Walks the first n_bytes, which need not be valid, as far as they are not nested too deep. */
static json_walk walk(const char *text, size_t n_bytes) {
    json_walk seen = {0};
    bool is_key = false;
    for (size_t i = 0; i < n_bytes && seen.max_depth <= MAX_DEPTH; i++) {
        char c = text[i];
        if (c == '"') {
            size_t begin = ++i;
            while (i < n_bytes && text[i] != '"')
                i += text[i] == '\\' ? 2 : 1;
            if (seen.depth == 1 && is_key && i < n_bytes)
                seen.key = begin, seen.key_end = i;
            is_key = false;
        } else if (c == '{' || c == '[') {
            seen.depth++;
            seen.max_depth = seen.depth > seen.max_depth ? seen.depth : seen.max_depth;
            is_key = c == '{' && seen.depth == 1;
        } else if (c == '}' || c == ']') {
            seen.depth -= seen.depth > 0;
            if (seen.depth == 0) /* what follows belongs to no field */
                seen.key = seen.key_end = 0;
        } else if (c == ',') {
            is_key = seen.depth == 1;
        }
    }
    return seen;
}

/* The field in which parsing stopped, as a parameter's name. */
static void name_field(const json_walk *seen, const char *text, char *name, size_t capacity) {
    size_t n_bytes = seen->key_end - seen->key;
    name[0] = '\0';
    if (n_bytes == 0 || n_bytes >= capacity)
        return;
    for (size_t i = 0; i < n_bytes; i++) {
        char c = text[seen->key + i];
        if (c < 0x20 || c > 0x7e)
            return;
    }
    memcpy(name, text + seen->key, n_bytes);
    name[n_bytes] = '\0';
}

/* Parses a body, or else any value; where integers in it are too big, as
 * ln_json_rewrite_big_integers writes them. `where` is then about that text, which `rewritten`
 * has. */
static json_t *load(const char *text, size_t n_bytes, bool is_body, ln_strbuf *rewritten,
                    json_error_t *where) {
    size_t flags =
        JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | (is_body ? 0 : (size_t)JSON_DECODE_ANY);
    json_t *root = ln_json_load_bytes(text, n_bytes, flags, where);
    if (root != NULL || json_error_code(where) != json_error_numeric_overflow ||
        !ln_json_rewrite_big_integers(text, n_bytes, is_body, rewritten))
        return root;
    return ln_json_load_bytes(rewritten->data, rewritten->len, flags, where);
}

static void fail_parse(const char *text, size_t n_bytes, const json_error_t *where,
                       ln_api_error *error) {
    char name[sizeof error->param];
    size_t position = where->position > 0 ? (size_t)where->position : 0;
    json_walk seen = walk(text, position < n_bytes ? position : n_bytes);
    name_field(&seen, text, name, sizeof name);
    ln_api_fail(error, 400, name, "the body is not valid JSON: line %d, column %d: %s", where->line,
                where->column, where->text);
}

json_t *ln_fields_parse(const char *text, size_t n_bytes, ln_api_error *error) {
    char name[sizeof error->param];
    ln_json_memory_clear();
    json_walk all = walk(text, n_bytes);
    if (n_bytes == 0) {
        ln_api_fail(error, 400, NULL, "the body is empty");
        return NULL;
    }
    if (all.max_depth > MAX_DEPTH) {
        name_field(&all, text, name, sizeof name);
        ln_api_fail(error, 400, name, "the body is nested deeper than %d levels", MAX_DEPTH);
        return NULL;
    }
    json_error_t where;
    ln_strbuf rewritten;
    ln_strbuf_init(&rewritten);
    json_t *root = load(text, n_bytes, true, &rewritten, &where);
    if (root == NULL)
        fail_parse(rewritten.len > 0 ? rewritten.data : text,
                   rewritten.len > 0 ? rewritten.len : n_bytes, &where, error);
    ln_strbuf_free(&rewritten);
    if (root == NULL)
        return NULL;
    if (!json_is_object(root)) {
        ln_api_fail(error, 400, NULL, "the body is not a JSON object");
        json_decref(root);
        return NULL;
    }
    return root;
}

json_t *ln_fields_parse_value(const json_t *text) {
    size_t n_bytes = json_string_length(text);
    const char *bytes = json_string_value(text);
    if (bytes == NULL || walk(bytes, n_bytes).max_depth > MAX_DEPTH)
        return NULL;
    json_error_t where;
    ln_strbuf rewritten;
    ln_strbuf_init(&rewritten);
    json_t *value = load(bytes, n_bytes, false, &rewritten, &where);
    ln_strbuf_free(&rewritten);
    return value;
}

/* ---- fields ----------------------------------------------------------------------------- */

json_t *ln_fields_get(const ln_fields *fields, const char *name) {
    json_t *value = json_object_get(fields->root, name);
    return json_is_null(value) ? NULL : value;
}

/* Fails with the name of the field, and behind it what is wrong. */
__attribute__((format(printf, 3, 4))) static bool refuse(const ln_fields *fields, const char *name,
                                                         const char *format, ...) {
    char path[sizeof fields->error->param], what[256];
    va_list arguments;
    snprintf(path, sizeof path, "%s%.64s", fields->path, name);
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    return ln_api_fail(fields->error, 400, path, "%s %s", path, what);
}

bool ln_fields_bool(const ln_fields *fields, const char *name, bool *out) {
    const json_t *value = ln_fields_get(fields, name);
    if (value != NULL && !json_is_boolean(value))
        return refuse(fields, name, "is not true or false");
    if (value != NULL)
        *out = json_is_true(value);
    return fields->error->status == 0;
}

bool ln_fields_number(const ln_fields *fields, const char *name, double min, double max,
                      float *out) {
    const json_t *value = ln_fields_get(fields, name);
    if (value == NULL)
        return fields->error->status == 0;
    double number = json_is_number(value) ? json_number_value(value) : NAN;
    if (!(number >= min && number <= max))
        return refuse(fields, name, "is not a number from %g to %g", min, max);
    *out = (float)number;
    return fields->error->status == 0;
}

bool ln_fields_integer(const ln_fields *fields, const char *name, int64_t min, int64_t max,
                       int64_t *out) {
    const json_t *value = ln_fields_get(fields, name);
    if (value == NULL)
        return fields->error->status == 0;
    if (!json_is_integer(value) || json_integer_value(value) < min ||
        json_integer_value(value) > max)
        return refuse(fields, name, "is not a whole number from %lld to %lld", (long long)min,
                      (long long)max);
    *out = json_integer_value(value);
    return fields->error->status == 0;
}

/* Whether the parser's string is a number above INT64_MAX; what a client writes so is one, too. */
static bool read_big(const json_t *value, uint64_t *out) {
    const char *text = json_string_value(value);
    if (text == NULL || *text < '1' || *text > '9' ||
        strspn(text, "0123456789") != json_string_length(value))
        return false;
    errno = 0;
    unsigned long long number = strtoull(text, NULL, 10);
    *out = number;
    return errno == 0 && number > INT64_MAX;
}

bool ln_fields_seed(const ln_fields *fields, const char *name, bool *is_there, uint64_t *out) {
    const json_t *value = ln_fields_get(fields, name);
    *is_there = value != NULL;
    if (value == NULL)
        return fields->error->status == 0;
    if (json_is_integer(value))
        *out = (uint64_t)json_integer_value(value);
    else if (!read_big(value, out))
        return refuse(fields, name, "is not a whole number from %lld to %llu", (long long)INT64_MIN,
                      (unsigned long long)UINT64_MAX);
    return fields->error->status == 0;
}

bool ln_fields_text(const ln_fields *fields, const char *name, const char **out) {
    const json_t *value = ln_fields_get(fields, name);
    if (value == NULL)
        return fields->error->status == 0;
    if (!json_is_string(value) || strlen(json_string_value(value)) != json_string_length(value))
        return refuse(fields, name, "is not a string, or has a NUL in it");
    *out = json_string_value(value);
    return fields->error->status == 0;
}

typedef enum listing { UNKNOWN, ALLOWED, REFUSED } listing;

/* What an item of a list says of a field. */
static listing judge(const char *listed, const char *key, const json_t *value) {
    size_t n_bytes = strlen(key);
    if (*listed == '!')
        return strcmp(listed + 1, key) == 0 ? REFUSED : UNKNOWN;
    if (strncmp(listed, key, n_bytes) != 0 || (listed[n_bytes] != '\0' && listed[n_bytes] != '='))
        return UNKNOWN;
    if (listed[n_bytes] == '\0')
        return ALLOWED;
    json_t *only = ln_json_load_bytes(listed + n_bytes + 1, strlen(listed + n_bytes + 1),
                                      JSON_DECODE_ANY, NULL);
    bool is_same = only != NULL && json_equal(only, value);
    json_decref(only);
    return is_same ? ALLOWED : REFUSED;
}

/* The best of what the list says: a field may be listed with several values. */
static listing look_up(const char *const *names, const char *key, const json_t *value) {
    listing found = UNKNOWN;
    for (; *names != NULL && found != ALLOWED; names++) {
        listing said = judge(*names, key, value);
        found = said == UNKNOWN ? found : said;
    }
    return found;
}

static void note_ignored(const ln_fields *fields, const char *key) {
    ln_ignored_fields *ignored = fields->ignored;
    size_t n_bytes = strlen(ignored->names);
    char name[96];
    snprintf(name, sizeof name, "%s%.64s", fields->path, key);
    for (char *c = name; *c != '\0'; c++)
        if (*c < '!' || *c > '~' || *c == ',')
            *c = '?';
    ignored->count++;
    if (n_bytes + strlen(name) + 3 <= sizeof ignored->names)
        snprintf(ignored->names + n_bytes, sizeof ignored->names - n_bytes, "%s%s",
                 n_bytes > 0 ? ", " : "", name);
}

bool ln_fields_only(const ln_fields *fields, const char *const *names) {
    char path[sizeof fields->error->param];
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)fields->root, key, value) {
        listing found = json_is_null(value) ? ALLOWED : look_up(names, key, value);
        if (found == UNKNOWN && fields->ignored != NULL) {
            note_ignored(fields, key);
        } else if (found != ALLOWED) {
            snprintf(path, sizeof path, "%s%.64s", fields->path, key);
            return ln_api_fail(fields->error, 400, path, "the field '%s' is not supported here",
                               path);
        }
    }
    return fields->error->status == 0;
}
