#include "format/json.h"

#include <string.h>

#include "base/json/load.h"

enum { MAX_HEAP_BYTES = 256 << 20 };

ln_status ln_json_parse(const char *text, size_t n_bytes, json_t **root, size_t *heap_bytes,
                        ln_error *err) {
    size_t estimate = ln_json_estimate_bytes(text, n_bytes);
    if (estimate > MAX_HEAP_BYTES)
        return ln_fail(err, LINNET_ERR_LIMIT, "the JSON may take %zu bytes, past the limit of %d",
                       estimate, MAX_HEAP_BYTES);
    if (heap_bytes != NULL)
        *heap_bytes = estimate;
    json_error_t where;
    *root = ln_json_load_bytes(text, n_bytes, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &where);
    /* jansson leaves the text empty when an allocation failed inside a container */
    if (*root == NULL &&
        (where.text[0] == '\0' || json_error_code(&where) == json_error_out_of_memory))
        return ln_fail(err, LINNET_ERR_NOMEM, "out of memory for JSON");
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
    case JSON_OBJECT: meta.kind = LN_META_OBJECT; break;
    case JSON_NULL: break;
    }
    return meta;
}
