#include "format/gguf.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "format/gguf_value.h"

enum {
    DEFAULT_ALIGNMENT = 32,
    MIN_ALIGNMENT = 8,
    MAX_DIMS = 4,
    MAX_HEADER_BYTES = 512 << 20,
    MIN_KEY_BYTES = 8 + 1 + 4 + 1,        /* length, name, type, value */
    MIN_TENSOR_BYTES = 8 + 1 + 4 + 4 + 8, /* length, name, number of dimensions, type, offset */
    PLACE_BYTES = 32 + LN_MAX_NAME_BYTES
};

typedef struct reader {
    const uint8_t *data; /* [n_bytes] */
    size_t n_bytes, at;
    ln_arena *arena;
    char place[PLACE_BYTES]; /* what is being read, for errors: "key general.name" */
    ln_error *err;
} reader;

static ln_status fail_at(const reader *r, const char *what) {
    return ln_fail(r->err, LINNET_ERR_FORMAT, "%s: %s", r->place, what);
}

static ln_status fail_memory(const reader *r) {
    return ln_fail(r->err, LINNET_ERR_NOMEM, "%s: out of memory", r->place);
}

/* ---- reading ---------------------------------------------------------------------------- */

/* Checks that n more bytes of headers are there. */
static ln_status check_room(const reader *r, uint64_t n) {
    if (n > r->n_bytes - r->at)
        return ln_fail(r->err, LINNET_ERR_FORMAT,
                       "%s: offset %zu + %" PRIu64 " bytes passes the end of the file (%zu bytes)",
                       r->place, r->at, n, r->n_bytes);
    if (n > MAX_HEADER_BYTES || r->at > MAX_HEADER_BYTES - n)
        return ln_fail(r->err, LINNET_ERR_LIMIT,
                       "%s: offset %zu + %" PRIu64 " bytes passes the limit of %d on headers",
                       r->place, r->at, n, MAX_HEADER_BYTES);
    return LINNET_OK;
}

/* Borrows the next n bytes. */
static ln_status take(reader *r, uint64_t n, const uint8_t **bytes) {
    *bytes = r->data + r->at;
    LN_TRY(check_room(r, n));
    r->at += (size_t)n;
    return LINNET_OK;
}

static ln_status take_u32(reader *r, uint32_t *value) {
    const uint8_t *bytes;
    LN_TRY(take(r, sizeof *value, &bytes));
    *value = ln_load_u32(bytes);
    return LINNET_OK;
}

static ln_status take_u64(reader *r, uint64_t *value) {
    const uint8_t *bytes;
    LN_TRY(take(r, sizeof *value, &bytes));
    *value = ln_load_u64(bytes);
    return LINNET_OK;
}

/* A copy, since the file may change under its map after the length was checked. */
static ln_status take_string(reader *r, const char **text, size_t *n_bytes) {
    uint64_t length;
    const uint8_t *bytes;
    LN_TRY(take_u64(r, &length));
    LN_TRY(take(r, length, &bytes));
    *n_bytes = (size_t)length;
    *text = ln_arena_copy(r->arena, (const char *)bytes, *n_bytes);
    return *text != NULL ? LINNET_OK : fail_memory(r);
}

static ln_status take_name(reader *r, const char **name) {
    uint64_t length;
    const uint8_t *bytes;
    LN_TRY(take_u64(r, &length));
    if (length == 0)
        return fail_at(r, "the name is empty");
    if (length > LN_MAX_NAME_BYTES)
        return ln_fail(r->err, LINNET_ERR_LIMIT,
                       "%s: a name of %" PRIu64 " bytes passes the limit of %d", r->place, length,
                       LN_MAX_NAME_BYTES);
    LN_TRY(take(r, length, &bytes));
    *name = ln_arena_copy(r->arena, (const char *)bytes, (size_t)length);
    if (*name == NULL)
        return fail_memory(r);
    if (!ln_name_is_valid(*name, (size_t)length))
        return fail_at(r, "the name is no UTF-8 text");
    return LINNET_OK;
}

/* ---- metadata --------------------------------------------------------------------------- */

/* Two passes over packed strings: lengths first, which are never read again, then the text. */
static ln_status take_strings(reader *r, size_t count, ln_meta_value *value) {
    size_t start = r->at;
    uint32_t *begins = ln_arena_alloc(r->arena, count + 1, sizeof *begins);
    if (begins == NULL)
        return fail_memory(r);
    for (size_t i = 0; i < count; i++) {
        uint64_t length;
        const uint8_t *bytes;
        LN_TRY(take_u64(r, &length));
        LN_TRY(take(r, length, &bytes));
        if (length > UINT32_MAX - begins[i])
            return ln_fail(r->err, LINNET_ERR_LIMIT, "%s: the strings pass 4 GB", r->place);
        begins[i + 1] = begins[i] + (uint32_t)length;
    }
    char *text = ln_arena_alloc(r->arena, begins[count] + (size_t)1, 1);
    if (text == NULL)
        return fail_memory(r);
    for (size_t i = 0; i < count; i++)
        memcpy(text + begins[i], r->data + start + begins[i] + 8 * (i + 1),
               begins[i + 1] - begins[i]);
    value->array.items = text;
    value->array.string_offsets = begins;
    return LINNET_OK;
}

static ln_status check_bools(const reader *r, const uint8_t *bytes, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (bytes[i] > 1)
            return fail_at(r, "a bool is neither 0 nor 1");
    return LINNET_OK;
}

static ln_status take_array(reader *r, ln_meta_value *value) {
    uint32_t type;
    uint64_t count;
    LN_TRY(take_u32(r, &type));
    LN_TRY(take_u64(r, &count));
    if (type == LN_GGUF_ARRAY)
        return ln_fail(r->err, LINNET_ERR_UNSUPPORTED, "%s: arrays of arrays are not supported",
                       r->place);
    size_t item_bytes = type == LN_GGUF_STRING ? 8 : ln_gguf_type_bytes(type);
    if (item_bytes == 0)
        return ln_fail(r->err, LINNET_ERR_FORMAT, "%s: array of the unknown type %" PRIu32,
                       r->place, type);
    uint64_t least_bytes;
    if (!ln_mul_u64(count, item_bytes, &least_bytes))
        return ln_fail(r->err, LINNET_ERR_FORMAT, "%s: the size of %" PRIu64 " items overflows",
                       r->place, count);
    LN_TRY(check_room(r, least_bytes));
    *value = (ln_meta_value){.kind = LN_META_ARRAY};
    value->array.count = (size_t)count;
    value->array.gguf_type = type;
    if (type == LN_GGUF_STRING)
        return take_strings(r, (size_t)count, value);
    const uint8_t *bytes;
    LN_TRY(take(r, least_bytes, &bytes));
    value->array.items = ln_arena_copy(r->arena, (const char *)bytes, (size_t)least_bytes);
    if (value->array.items == NULL)
        return fail_memory(r);
    return type == LN_GGUF_BOOL ? check_bools(r, bytes, (size_t)count) : LINNET_OK;
}

static ln_status take_value(reader *r, ln_meta_value *value) {
    uint32_t type;
    LN_TRY(take_u32(r, &type));
    if (type == LN_GGUF_ARRAY)
        return take_array(r, value);
    if (type == LN_GGUF_STRING) {
        *value = (ln_meta_value){.kind = LN_META_STRING};
        return take_string(r, &value->string.data, &value->string.bytes);
    }
    size_t n_bytes = ln_gguf_type_bytes(type);
    if (n_bytes == 0)
        return ln_fail(r->err, LINNET_ERR_FORMAT, "%s: unknown value type %" PRIu32, r->place,
                       type);
    const uint8_t *bytes;
    LN_TRY(take(r, n_bytes, &bytes));
    *value = ln_gguf_scalar(type, bytes);
    return type == LN_GGUF_BOOL ? check_bools(r, bytes, 1) : LINNET_OK;
}

/* general.alignment has to be a U32, which a value no longer tells from other integers. */
static ln_status check_alignment(reader *r, uint32_t type, const ln_meta_value *value,
                                 uint64_t *alignment) {
    if (type != LN_GGUF_U32)
        return fail_at(r, "its type is not u32");
    int64_t bytes = value->integer;
    if (bytes < MIN_ALIGNMENT || (bytes & (bytes - 1)) != 0)
        return ln_fail(r->err, LINNET_ERR_FORMAT,
                       "%s: %" PRId64 " is no power of two of at least %d", r->place, bytes,
                       MIN_ALIGNMENT);
    *alignment = (uint64_t)bytes;
    return LINNET_OK;
}

static ln_status take_entry(reader *r, size_t index, ln_gguf *gguf) {
    ln_gguf_entry *entry = &gguf->entries[index];
    snprintf(r->place, sizeof r->place, "key %zu", index);
    LN_TRY(take_name(r, &entry->key));
    snprintf(r->place, sizeof r->place, "key %s", entry->key);
    if (!ln_hashmap_add(&gguf->by_key, entry->key, strlen(entry->key), (uint32_t)index))
        return fail_at(r, "the key occurs twice");
    size_t type_at = r->at;
    LN_TRY(take_value(r, &entry->value));
    if (strcmp(entry->key, "general.alignment") == 0)
        return check_alignment(r, ln_load_u32(r->data + type_at), &entry->value, &gguf->alignment);
    return LINNET_OK;
}

static ln_status take_metadata(reader *r, uint64_t count, ln_gguf *gguf) {
    if (count > LN_GGUF_MAX_KEYS || count > (r->n_bytes - r->at) / MIN_KEY_BYTES)
        return ln_fail(r->err, LINNET_ERR_FORMAT,
                       "%s: %" PRIu64 " keys do not fit in the file (%zu bytes; at most %d keys)",
                       r->place, count, r->n_bytes, LN_GGUF_MAX_KEYS);
    size_t n = (size_t)count;
    gguf->entries = ln_arena_alloc(r->arena, n, sizeof *gguf->entries);
    if (gguf->entries == NULL || !ln_hashmap_init(&gguf->by_key, r->arena, n))
        return fail_memory(r);
    gguf->n_entries = n;
    for (size_t i = 0; i < n; i++)
        LN_TRY(take_entry(r, i, gguf));
    return LINNET_OK;
}

/* ---- tensors ---------------------------------------------------------------------------- */

/* GGUF lists the contiguous dimension first. The offset still counts from the data section. */
static ln_status take_tensor(reader *r, size_t index, ln_tensor *tensor) {
    uint32_t n_dims, type;
    snprintf(r->place, sizeof r->place, "tensor %zu", index);
    LN_TRY(take_name(r, &tensor->name));
    snprintf(r->place, sizeof r->place, "tensor %s", tensor->name);
    LN_TRY(take_u32(r, &n_dims));
    if (n_dims > MAX_DIMS)
        return ln_fail(r->err, LINNET_ERR_FORMAT, "%s: %" PRIu32 " dimensions, more than %d",
                       r->place, n_dims, MAX_DIMS);
    tensor->n_dims = (int)n_dims;
    for (uint32_t i = 0; i < n_dims; i++)
        LN_TRY(take_u64(r, &tensor->dims[n_dims - 1 - i]));
    LN_TRY(take_u32(r, &type));
    if (!ln_dtype_from_gguf(type, &tensor->dtype))
        return ln_fail(r->err, LINNET_ERR_UNSUPPORTED, "%s: unknown type %" PRIu32, r->place, type);
    LN_TRY(take_u64(r, &tensor->file_offset));
    return ln_tensor_measure(tensor, r->err);
}

/* Turns the offset into one of the file and checks the span. */
static ln_status place_tensor(const reader *r, const ln_gguf *gguf, uint64_t data_begin,
                              ln_tensor *tensor) {
    if (tensor->file_offset % gguf->alignment != 0)
        return ln_fail(r->err, LINNET_ERR_FORMAT,
                       "tensor %s: offset %" PRIu64 " is no multiple of the alignment %" PRIu64,
                       tensor->name, tensor->file_offset, gguf->alignment);
    uint64_t begin, end;
    if (!ln_add_u64(data_begin, tensor->file_offset, &begin) ||
        !ln_add_u64(begin, tensor->bytes, &end))
        return ln_fail(r->err, LINNET_ERR_FORMAT,
                       "tensor %s: offset %" PRIu64 " + %zu bytes overflows", tensor->name,
                       tensor->file_offset, tensor->bytes);
    if (end > r->n_bytes)
        return ln_fail(r->err, LINNET_ERR_FORMAT,
                       "tensor %s: offset %" PRIu64
                       " + %zu bytes passes the end of the file (%zu bytes)",
                       tensor->name, begin, tensor->bytes, r->n_bytes);
    tensor->file_offset = begin;
    tensor->data = r->data + begin;
    return LINNET_OK;
}

static ln_status take_tensors(reader *r, uint64_t count, uint32_t file, const ln_gguf *gguf,
                              ln_tensor_list *tensors) {
    if (count > LN_MAX_TENSORS || count > (r->n_bytes - r->at) / MIN_TENSOR_BYTES)
        return ln_fail(r->err, LINNET_ERR_FORMAT,
                       "header: %" PRIu64
                       " tensors do not fit in the file (%zu bytes; at most %d tensors)",
                       count, r->n_bytes, LN_MAX_TENSORS);
    size_t first = tensors->count;
    LN_TRY(ln_tensor_list_reserve(tensors, (size_t)count, r->err));
    for (size_t i = 0; i < count; i++) {
        ln_tensor *tensor = ln_tensor_list_add(tensors);
        tensor->file = file;
        LN_TRY(take_tensor(r, i, tensor));
    }
    /* r->at is below 2^63 and the alignment below 2^32 */
    uint64_t data_begin = (r->at + gguf->alignment - 1) & ~(gguf->alignment - 1);
    for (size_t i = first; i < tensors->count; i++)
        LN_TRY(place_tensor(r, gguf, data_begin, &tensors->items[i]));
    return ln_tensor_list_check_spans(tensors, first, false, data_begin, r->n_bytes, r->err);
}

/* ---- the file --------------------------------------------------------------------------- */

ln_status ln_gguf_parse(const uint8_t *data, size_t n_bytes, uint32_t file, ln_arena *arena,
                        ln_gguf *gguf, ln_tensor_list *tensors, ln_error *err) {
    reader r = {.data = data, .n_bytes = n_bytes, .arena = arena, .place = "header", .err = err};
    *gguf = (ln_gguf){.alignment = DEFAULT_ALIGNMENT};
    const uint8_t *magic;
    uint32_t version;
    uint64_t n_tensors, n_keys;
    if (n_bytes < 4 || memcmp(data, "GGUF", 4) != 0)
        return ln_fail(err, LINNET_ERR_FORMAT,
                       "not a GGUF file; a model of Hugging Face is named by its folder");
    LN_TRY(take(&r, 4, &magic));
    LN_TRY(take_u32(&r, &version));
    if (version != 2 && version != 3) {
        uint32_t swapped = __builtin_bswap32(version);
        bool is_big_endian = swapped == 2 || swapped == 3;
        return ln_fail(err, LINNET_ERR_UNSUPPORTED, "GGUF version %" PRIu32 "%s is not supported",
                       is_big_endian ? swapped : version, is_big_endian ? " (big-endian)" : "");
    }
    LN_TRY(take_u64(&r, &n_tensors));
    LN_TRY(take_u64(&r, &n_keys));
    LN_TRY(take_metadata(&r, n_keys, gguf));
    return take_tensors(&r, n_tensors, file, gguf, tensors);
}

bool ln_gguf_find(const ln_gguf *gguf, const char *key, ln_meta_value *value) {
    uint32_t index;
    if (!ln_hashmap_get(&gguf->by_key, key, strlen(key), &index))
        return false;
    *value = gguf->entries[index].value;
    return true;
}
