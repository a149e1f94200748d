#include "format/json.h"

#include <string.h>

#include "base/json/load.h"
#include "base/strbuf.h"

enum { MAX_HEAP_BYTES = 256 << 20 };

/* Whether a number is an integer that json_int_t cannot hold. */
static bool is_wide_integer(const char *number, size_t n) {
    bool is_negative = number[0] == '-';
    const char *digits = number + is_negative, *limit = "9223372036854775808";
    size_t n_digits = n - is_negative, n_limit = strlen(limit);
    for (size_t i = 0; i < n_digits; i++)
        if (digits[i] < '0' || digits[i] > '9')
            return false;
    if (n_digits != n_limit)
        return n_digits > n_limit;
    return memcmp(digits, limit, n_limit) >= is_negative;
}

static bool is_word(char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '-' ||
           c == '+' || c == '.';
}

/* Bytes of the string, number or word that begins here; 1 for anything else. */
static size_t span_token(const char *text, size_t n_bytes) {
    size_t n = 1;
    bool is_string = text[0] == '"';
    if (!is_string && !is_word(text[0]))
        return 1;
    while (n < n_bytes && (is_string ? text[n] != '"' : is_word(text[n])))
        n += is_string && text[n] == '\\' && n + 1 < n_bytes ? 2 : 1;
    return is_string && n < n_bytes ? n + 1 : n;
}

/* What Python writes into files and jansson refuses: integers beyond 64 bits, as the
 * model_max_length of 1e30 in many a tokenizer_config.json, become reals, and words such as the
 * Infinity of time_step_limit become the objects that newer versions of transformers write. */
static void put_strict(ln_strbuf *out, const char *text, size_t n_bytes) {
    static const char *const words[] = {"NaN", "Infinity", "-Infinity"};
    for (size_t i = 0, n; i < n_bytes; i += n) {
        const char *token = text + i, *word = NULL;
        n = span_token(token, n_bytes - i);
        for (size_t k = 0; k < sizeof words / sizeof *words; k++)
            if (n == strlen(words[k]) && memcmp(token, words[k], n) == 0)
                word = words[k];
        if (word != NULL)
            ln_strbuf_printf(out, "{\"__float__\":\"%s\"}", word);
        else
            ln_strbuf_append(out, token, n);
        if (is_word(token[0]) && is_wide_integer(token, n))
            ln_strbuf_puts(out, ".0");
    }
}

/* *root is NULL, and `where` says why, when the text is no JSON. */
static ln_status load(const char *text, size_t n_bytes, json_t **root, size_t *heap_bytes,
                      json_error_t *where, ln_error *err) {
    size_t estimate = ln_json_estimate_bytes(text, n_bytes);
    if (estimate > MAX_HEAP_BYTES)
        return ln_fail(err, LINNET_ERR_LIMIT, "the JSON may take %zu bytes, past the limit of %d",
                       estimate, MAX_HEAP_BYTES);
    if (heap_bytes != NULL)
        *heap_bytes = estimate;
    *root = ln_json_load_bytes(text, n_bytes, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, where);
    /* jansson leaves the text empty when an allocation failed inside a container */
    if (*root == NULL &&
        (where->text[0] == '\0' || json_error_code(where) == json_error_out_of_memory))
        return ln_fail_memory(err, "JSON");
    return LINNET_OK;
}

static ln_status load_python(const char *text, size_t n_bytes, json_t **root, size_t *heap_bytes,
                             json_error_t *where, ln_error *err) {
    ln_strbuf strict = {0};
    put_strict(&strict, text, n_bytes);
    ln_status status = strict.failed ? ln_fail_memory(err, "JSON")
                                     : load(strict.data, strict.len, root, heap_bytes, where, err);
    ln_strbuf_free(&strict);
    return status;
}

ln_status ln_json_parse(const char *text, size_t n_bytes, json_t **root, size_t *heap_bytes,
                        ln_error *err) {
    json_error_t where;
    LN_TRY(load(text, n_bytes, root, heap_bytes, &where, err));
    if (*root == NULL && (json_error_code(&where) == json_error_numeric_overflow ||
                          json_error_code(&where) == json_error_invalid_syntax))
        LN_TRY(load_python(text, n_bytes, root, heap_bytes, &where, err));
    if (*root == NULL)
        return ln_fail(err, LINNET_ERR_FORMAT, "line %d column %d: %s", where.line, where.column,
                       where.text);
    if (!json_is_object(*root)) {
        json_decref(*root);
        *root = NULL;
        return ln_fail(err, LINNET_ERR_FORMAT, "the JSON is no object");
    }
    return LINNET_OK;
}

const json_t *ln_json_find(const json_t *root, const char *path) {
    while (root != NULL) {
        size_t n = strcspn(path, ".");
        root = json_object_getn(root, path, n); /* NULL unless an object */
        if (path[n] == '\0')
            break;
        path += n + 1;
    }
    return json_is_null(root) ? NULL : root;
}

ln_meta_value ln_json_meta(const json_t *value) {
    ln_meta_value meta = {.kind = LN_META_NULL};
    switch (value == NULL ? JSON_NULL : json_typeof(value)) {
    case JSON_TRUE:
    case JSON_FALSE:
        meta.kind = LN_META_BOOL;
        meta.boolean = json_is_true(value);
        break;
    case JSON_INTEGER:
        meta.kind = LN_META_INT;
        meta.integer = json_integer_value(value);
        break;
    case JSON_REAL:
        meta.kind = LN_META_FLOAT;
        meta.real = json_real_value(value);
        break;
    case JSON_STRING:
        meta.kind = LN_META_STRING;
        meta.string.data = json_string_value(value);
        meta.string.bytes = json_string_length(value);
        break;
    case JSON_ARRAY:
        meta.kind = LN_META_ARRAY;
        meta.array.items = value;
        meta.array.count = json_array_size(value);
        meta.array.gguf_type = UINT32_MAX;
        break;
    case JSON_OBJECT:
        meta.kind = LN_META_OBJECT;
        meta.array.items = value;
        meta.array.count = json_object_size(value);
        break;
    case JSON_NULL: break;
    }
    return meta;
}
