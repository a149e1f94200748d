#include "format/tensor.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/checked.h"

void ln_tensor_list_free(ln_tensor_list *list) {
    free(list->items);
    *list = (ln_tensor_list){0};
}

ln_status ln_tensor_list_reserve(ln_tensor_list *list, size_t n_more, ln_error *err) {
    if (n_more > LN_MAX_TENSORS - list->count)
        return ln_fail(err, LINNET_ERR_LIMIT, "more than %d tensors", LN_MAX_TENSORS);
    size_t count = list->count + n_more;
    if (count <= list->capacity)
        return LINNET_OK;
    size_t capacity = list->capacity * 2 > count ? list->capacity * 2 : count;
    ln_tensor *items = realloc(list->items, capacity * sizeof *items);
    if (items == NULL)
        return ln_fail(err, LINNET_ERR_NOMEM, "out of memory for %zu tensors", count);
    list->items = items;
    list->capacity = capacity;
    return LINNET_OK;
}

ln_tensor *ln_tensor_list_add(ln_tensor_list *list) {
    LN_BUG_ON(list->count >= list->capacity);
    ln_tensor *tensor = &list->items[list->count++];
    *tensor = (ln_tensor){0};
    return tensor;
}

ln_status ln_tensor_measure(ln_tensor *tensor, ln_error *err) {
    uint64_t n_elems = 1;
    for (int i = 0; i < tensor->n_dims; i++) {
        if (tensor->dims[i] == 0)
            return ln_fail(err, LINNET_ERR_FORMAT, "tensor %s: dimension %d is 0", tensor->name, i);
        if (!ln_mul_u64(n_elems, tensor->dims[i], &n_elems) || n_elems > INT64_MAX)
            return ln_fail(err, LINNET_ERR_FORMAT, "tensor %s: the number of elements overflows",
                           tensor->name);
    }
    uint64_t row = tensor->n_dims > 0 ? tensor->dims[tensor->n_dims - 1] : 1;
    size_t block = ln_dtype_block_elems(tensor->dtype);
    if (row % block != 0)
        return ln_fail(err, LINNET_ERR_FORMAT,
                       "tensor %s: rows of %" PRIu64 " elements are no multiple of the %s block of "
                       "%zu",
                       tensor->name, row, ln_dtype_name(tensor->dtype), block);
    if (!ln_dtype_row_bytes(tensor->dtype, n_elems, &tensor->bytes))
        return ln_fail(err, LINNET_ERR_FORMAT, "tensor %s: its size in bytes overflows",
                       tensor->name);
    tensor->n_elems = n_elems;
    return LINNET_OK;
}

static int compare_offsets(const void *a, const void *b) {
    const ln_tensor *x = *(const ln_tensor *const *)a, *y = *(const ln_tensor *const *)b;
    return (x->file_offset > y->file_offset) - (x->file_offset < y->file_offset);
}

/* `sorted` by file offset; spans inside the file, so that sums cannot wrap. */
static ln_status check_sorted(const ln_tensor *const *sorted, size_t n, bool contiguous,
                              uint64_t data_begin, uint64_t data_end, ln_error *err) {
    uint64_t end = data_begin;
    for (size_t i = 0; i < n; i++) {
        const ln_tensor *tensor = sorted[i];
        if (tensor->file_offset < end && i > 0)
            return ln_fail(err, LINNET_ERR_FORMAT, "tensor %s: its bytes overlap those of %s",
                           tensor->name, sorted[i - 1]->name);
        if (contiguous && tensor->file_offset != end)
            return ln_fail(err, LINNET_ERR_FORMAT,
                           "tensor %s: a gap of %" PRIu64 " bytes lies before it", tensor->name,
                           tensor->file_offset - end);
        end = tensor->file_offset + tensor->bytes;
    }
    if (contiguous && end != data_end)
        return ln_fail(err, LINNET_ERR_FORMAT, "%" PRIu64 " bytes at the end belong to no tensor",
                       data_end - end);
    return LINNET_OK;
}

ln_status ln_tensor_list_check_spans(const ln_tensor_list *list, size_t first, bool contiguous,
                                     uint64_t data_begin, uint64_t data_end, ln_error *err) {
    size_t n = list->count - first;
    const ln_tensor **sorted = malloc((n + 1) * sizeof *sorted);
    if (sorted == NULL)
        return ln_fail(err, LINNET_ERR_NOMEM, "out of memory for %zu tensors", n);
    for (size_t i = 0; i < n; i++)
        sorted[i] = &list->items[first + i];
    qsort(sorted, n, sizeof *sorted, compare_offsets);
    ln_status status = check_sorted(sorted, n, contiguous, data_begin, data_end, err);
    free(sorted);
    return status;
}

ln_status ln_tensor_list_index(const ln_tensor_list *list, ln_arena *arena, ln_hashmap *by_name,
                               size_t *culprit, ln_error *err) {
    if (!ln_hashmap_init(by_name, arena, list->count))
        return ln_fail(err, LINNET_ERR_NOMEM, "out of memory for %zu tensor names", list->count);
    for (size_t i = 0; i < list->count; i++) {
        const char *name = list->items[i].name;
        if (!ln_hashmap_add(by_name, name, strlen(name), (uint32_t)i)) {
            *culprit = i;
            return ln_fail(err, LINNET_ERR_FORMAT, "tensor %s: the name occurs twice", name);
        }
    }
    return LINNET_OK;
}

bool ln_name_is_valid(const char *name, size_t n_bytes) {
    if (n_bytes < 1 || n_bytes > LN_MAX_NAME_BYTES)
        return false;
    for (size_t at = 0; at < n_bytes;) {
        utf8proc_int32_t code_point;
        utf8proc_ssize_t n = utf8proc_iterate((const utf8proc_uint8_t *)name + at,
                                              (utf8proc_ssize_t)(n_bytes - at), &code_point);
        if (n <= 0 || code_point == 0)
            return false;
        at += (size_t)n;
    }
    return true;
}
