/* A tensor of a checkpoint's file, and the checks that every format shares: its size follows
 * from shape and type, and its bytes lie inside the file and apart from all others. */
#ifndef LN_FORMAT_TENSOR_H
#define LN_FORMAT_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hashmap.h"
#include "format/dtype.h"

enum { LN_MAX_DIMS = 8, LN_MAX_NAME_BYTES = 255, LN_MAX_TENSORS = 1 << 20 };

typedef struct ln_tensor {
    const char *name; /* NUL-terminated, owned by the checkpoint */
    ln_dtype dtype;
    int n_dims;
    uint64_t dims[LN_MAX_DIMS]; /* outermost first: dims[n_dims - 1] is contiguous */
    uint64_t n_elems;
    size_t bytes;
    const uint8_t *data; /* [bytes], mapped; alignment as in the file */
    uint32_t file;       /* index for ln_checkpoint_file */
    uint64_t file_offset;
    const ln_file_map *map; /* of that file, the checkpoint's; NULL: there is only `data` */
} ln_tensor;

/* Tensors in the order of their files. Zero it before use. */
typedef struct ln_tensor_list {
    ln_tensor *items; /* [count], owned (malloc) */
    size_t count, capacity;
} ln_tensor_list;

void ln_tensor_list_free(ln_tensor_list *list);

/* Room for n_more tensors; more than LN_MAX_TENSORS in all is LINNET_ERR_LIMIT. */
ln_status ln_tensor_list_reserve(ln_tensor_list *list, size_t n_more, ln_error *err);

/* Appends a zeroed tensor into reserved room. */
ln_tensor *ln_tensor_list_add(ln_tensor_list *list);

/* Fills n_elems and bytes from n_dims, dims and dtype. */
ln_status ln_tensor_measure(ln_tensor *tensor, ln_error *err);

/* Checks that the tensors from `first` on, all of one file, do not overlap. `contiguous`: also
 * that they fill the bytes from data_begin to data_end without a gap. */
ln_status ln_tensor_list_check_spans(const ln_tensor_list *list, size_t first, bool contiguous,
                                     uint64_t data_begin, uint64_t data_end, ln_error *err);

/* Maps each name to its index; a name that occurs twice is an error and *culprit the index of
 * the second. Memory from the arena. */
ln_status ln_tensor_list_index(const ln_tensor_list *list, ln_arena *arena, ln_hashmap *by_name,
                               size_t *culprit, ln_error *err);

/* True when the bytes are a usable key or name: 1 to LN_MAX_NAME_BYTES bytes of UTF-8, no NUL. */
bool ln_name_is_valid(const char *name, size_t n_bytes);

#endif
