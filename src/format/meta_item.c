/* Items of arrays, of GGUF and of JSON. */
#include "format/gguf_value.h"
#include "format/json.h"

bool ln_meta_item(const ln_meta_value *array, size_t index, ln_meta_value *item) {
    if (array->kind != LN_META_ARRAY || index >= array->array.count)
        return false;
    uint32_t type = array->array.gguf_type;
    if (type == UINT32_MAX) {
        *item = ln_json_meta(json_array_get(array->array.items, index));
    } else if (type == LN_GGUF_STRING) {
        const uint32_t *begins = array->array.string_offsets;
        *item = (ln_meta_value){.kind = LN_META_STRING};
        item->string.data = (const char *)array->array.items + begins[index];
        item->string.bytes = begins[index + 1] - begins[index];
    } else {
        const uint8_t *bytes = array->array.items;
        *item = ln_gguf_scalar(type, bytes + index * ln_gguf_type_bytes(type));
    }
    return true;
}

bool ln_meta_entry(const ln_meta_value *object, void **position, const char **key,
                   ln_meta_value *value) {
    if (object->kind != LN_META_OBJECT)
        return false;
    json_t *json = (json_t *)(uintptr_t)object->array.items; /* which is not changed */
    *position = *position == NULL ? json_object_iter(json) : json_object_iter_next(json, *position);
    if (*position == NULL)
        return false;
    *key = json_object_iter_key(*position);
    *value = ln_json_meta(json_object_iter_value(*position));
    return true;
}
