#include "format/safetensors.h"

#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#include "base/hashmap.h"
#include "format/gguf_value.h"
#include "format/json.h"

enum { LENGTH_BYTES = 8 };

/* A whole number of 0 or more; -1 for anything else. */
static int64_t whole_number(const json_t *value) {
    return json_is_integer(value) && json_integer_value(value) >= 0 ? json_integer_value(value)
                                                                    : -1;
}

static ln_status read_dtype(const json_t *item, ln_tensor *tensor, ln_error *err) {
    const char *name = json_string_value(json_object_get(item, "dtype"));
    if (name == NULL)
        return ln_fail(err, LINNET_ERR_FORMAT, "tensor %s: dtype is no string", tensor->name);
    /* the blocks of GGUF have names too, but no place here */
    if (!ln_dtype_from_name(name, &tensor->dtype) || ln_dtype_block_elems(tensor->dtype) != 1)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED, "tensor %s: unknown dtype %.32s", tensor->name,
                       name);
    return LINNET_OK;
}

static ln_status read_shape(const json_t *item, ln_tensor *tensor, ln_error *err) {
    const json_t *shape = json_object_get(item, "shape");
    if (!json_is_array(shape))
        return ln_fail(err, LINNET_ERR_FORMAT, "tensor %s: shape is no array", tensor->name);
    size_t n_dims = json_array_size(shape);
    if (n_dims > LN_MAX_DIMS)
        return ln_fail(err, LINNET_ERR_FORMAT, "tensor %s: %zu dimensions, more than %d",
                       tensor->name, n_dims, LN_MAX_DIMS);
    tensor->n_dims = (int)n_dims;
    for (size_t i = 0; i < n_dims; i++) {
        int64_t dim = whole_number(json_array_get(shape, i));
        if (dim < 0)
            return ln_fail(err, LINNET_ERR_FORMAT, "tensor %s: dimension %zu is no whole number",
                           tensor->name, i);
        tensor->dims[i] = (uint64_t)dim;
    }
    return ln_tensor_measure(tensor, err);
}

/* data_bytes: of the section that the offsets count in. */
static ln_status read_span(const json_t *item, uint64_t data_begin, uint64_t data_bytes,
                           ln_tensor *tensor, ln_error *err) {
    const json_t *offsets = json_object_get(item, "data_offsets");
    int64_t begin = whole_number(json_array_get(offsets, 0));
    int64_t end = whole_number(json_array_get(offsets, 1));
    if (json_array_size(offsets) != 2 || begin < 0 || end < begin)
        return ln_fail(err, LINNET_ERR_FORMAT,
                       "tensor %s: data_offsets are not two whole numbers in order", tensor->name);
    if ((uint64_t)end > data_bytes)
        return ln_fail(err, LINNET_ERR_FORMAT,
                       "tensor %s: data offset %" PRId64 " passes the end of the data (%" PRIu64
                       " bytes)",
                       tensor->name, end, data_bytes);
    if ((uint64_t)(end - begin) != tensor->bytes)
        return ln_fail(err, LINNET_ERR_FORMAT,
                       "tensor %s: its span of %" PRId64
                       " bytes differs from shape times type (%zu bytes)",
                       tensor->name, end - begin, tensor->bytes);
    tensor->file_offset = data_begin + (uint64_t)begin;
    return LINNET_OK;
}

static ln_status check_comments(const json_t *comments, ln_error *err) {
    if (!json_is_object(comments))
        return ln_fail(err, LINNET_ERR_FORMAT, "__metadata__ is no object");
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)comments, key, value) {
        if (!json_is_string(value))
            return ln_fail(err, LINNET_ERR_FORMAT, "__metadata__: %.64s is no string", key);
    }
    return LINNET_OK;
}

/* data_begin: the end of the header in data[n_bytes]. */
static ln_status read_tensors(const json_t *header, const uint8_t *data, size_t n_bytes,
                              size_t data_begin, uint32_t file, ln_arena *arena,
                              ln_tensor_list *tensors, ln_error *err) {
    size_t first = tensors->count;
    LN_TRY(ln_tensor_list_reserve(tensors, json_object_size(header), err));
    const char *name;
    json_t *item;
    json_object_foreach((json_t *)header, name, item) {
        if (strcmp(name, "__metadata__") == 0) {
            LN_TRY(check_comments(item, err));
            continue;
        }
        if (!ln_name_is_valid(name, strlen(name)))
            return ln_fail(err, LINNET_ERR_FORMAT,
                           "tensor %.64s: a name has 1 to %d bytes, this one %zu", name,
                           LN_MAX_NAME_BYTES, strlen(name));
        if (!json_is_object(item))
            return ln_fail(err, LINNET_ERR_FORMAT, "tensor %s: its value is no object", name);
        ln_tensor *tensor = ln_tensor_list_add(tensors);
        tensor->file = file;
        tensor->name = ln_arena_copy(arena, name, strlen(name));
        if (tensor->name == NULL)
            return ln_fail(err, LINNET_ERR_NOMEM, "tensor %s: out of memory", name);
        LN_TRY(read_dtype(item, tensor, err));
        LN_TRY(read_shape(item, tensor, err));
        LN_TRY(read_span(item, data_begin, n_bytes - data_begin, tensor, err));
        tensor->data = data + tensor->file_offset;
    }
    return ln_tensor_list_check_spans(tensors, first, true, data_begin, n_bytes, err);
}

ln_status ln_safetensors_parse(const uint8_t *data, size_t n_bytes, uint32_t file, ln_arena *arena,
                               ln_tensor_list *tensors, ln_error *err) {
    if (n_bytes < LENGTH_BYTES)
        return ln_fail(err, LINNET_ERR_FORMAT, "%zu bytes are too few for a safetensors file",
                       n_bytes);
    uint64_t header_bytes = ln_load_u64(data);
    if (header_bytes > LN_SAFETENSORS_MAX_HEADER_BYTES)
        return ln_fail(err, LINNET_ERR_LIMIT,
                       "the header length %" PRIu64 " passes the limit of %d bytes", header_bytes,
                       LN_SAFETENSORS_MAX_HEADER_BYTES);
    if (header_bytes > n_bytes - LENGTH_BYTES)
        return ln_fail(err, LINNET_ERR_FORMAT,
                       "the header of %" PRIu64 " bytes passes the end of the file (%zu bytes)",
                       header_bytes, n_bytes);
    json_t *header;
    ln_status status =
        ln_json_parse((const char *)data + LENGTH_BYTES, (size_t)header_bytes, &header, NULL, err);
    if (status != LINNET_OK)
        return ln_error_prefix(err, status, "header");
    status = read_tensors(header, data, n_bytes, LENGTH_BYTES + (size_t)header_bytes, file, arena,
                          tensors, err);
    json_decref(header);
    return status;
}

/* ---- the index of shards ---------------------------------------------------------------- */

/* A plain name of a safetensors file: an index must not reach outside its folder. */
static bool is_shard_name(const char *name) {
    static const char ending[] = ".safetensors";
    size_t n = strlen(name);
    return ln_name_is_valid(name, n) && strchr(name, '/') == NULL && name[0] != '.' &&
           n >= sizeof ending && strcmp(name + n - (sizeof ending - 1), ending) == 0;
}

/* The number of the shard, which is added when it is new. */
static ln_status find_shard(const char *tensor, const json_t *value, ln_arena *arena,
                            ln_hashmap *by_name, ln_shard_index *index, uint32_t *number,
                            ln_error *err) {
    const char *file = json_string_value(value);
    if (file == NULL || strlen(file) != json_string_length(value) || !is_shard_name(file))
        return ln_fail(err, LINNET_ERR_FORMAT,
                       "tensor %s: its shard %.128s is no name of a safetensors file in this "
                       "folder",
                       tensor, file != NULL ? file : "(no string)");
    if (ln_hashmap_get(by_name, file, strlen(file), number))
        return LINNET_OK;
    *number = (uint32_t)index->n_files;
    char *copy = ln_arena_copy(arena, file, strlen(file));
    if (copy == NULL || !ln_hashmap_add(by_name, copy, strlen(copy), *number))
        return ln_fail(err, LINNET_ERR_NOMEM, "tensor %s: out of memory", tensor);
    index->files[index->n_files++] = copy;
    return LINNET_OK;
}

static ln_status read_weight_map(const json_t *map, ln_arena *arena, ln_shard_index *index,
                                 ln_error *err) {
    size_t n = json_object_size(map);
    if (n == 0)
        return ln_fail(err, LINNET_ERR_FORMAT, "weight_map is no object with tensors");
    if (n > LN_MAX_TENSORS)
        return ln_fail(err, LINNET_ERR_LIMIT, "more than %d tensors", LN_MAX_TENSORS);
    ln_hashmap by_name;
    index->files = ln_arena_alloc(arena, n, sizeof *index->files);
    index->names = ln_arena_alloc(arena, n, sizeof *index->names);
    index->file_of = ln_arena_alloc(arena, n, sizeof *index->file_of);
    if (index->files == NULL || index->names == NULL || index->file_of == NULL ||
        !ln_hashmap_init(&by_name, arena, n))
        return ln_fail(err, LINNET_ERR_NOMEM, "out of memory for %zu tensors", n);
    const char *name;
    json_t *file;
    json_object_foreach((json_t *)map, name, file) {
        if (!ln_name_is_valid(name, strlen(name)))
            return ln_fail(err, LINNET_ERR_FORMAT,
                           "tensor %.64s: a name has 1 to %d bytes, this one %zu", name,
                           LN_MAX_NAME_BYTES, strlen(name));
        index->names[index->n_names] = ln_arena_copy(arena, name, strlen(name));
        if (index->names[index->n_names] == NULL)
            return ln_fail(err, LINNET_ERR_NOMEM, "tensor %s: out of memory", name);
        LN_TRY(
            find_shard(name, file, arena, &by_name, index, &index->file_of[index->n_names], err));
        index->n_names++;
    }
    return LINNET_OK;
}

ln_status ln_shard_index_parse(const char *text, size_t n_bytes, ln_arena *arena,
                               ln_shard_index *index, ln_error *err) {
    *index = (ln_shard_index){0};
    json_t *root;
    LN_TRY(ln_json_parse(text, n_bytes, &root, NULL, err));
    ln_status status = read_weight_map(json_object_get(root, "weight_map"), arena, index, err);
    json_decref(root);
    return status;
}
