/* One value of a checkpoint's metadata, whether it came from GGUF or from JSON. */
#ifndef LN_FORMAT_META_H
#define LN_FORMAT_META_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum ln_meta_kind {
    LN_META_NULL = 0,
    LN_META_BOOL,
    LN_META_INT, /* whole numbers that fit in int64 */
    LN_META_FLOAT,
    LN_META_STRING,
    LN_META_ARRAY, /* items through ln_meta_item */
    LN_META_OBJECT /* JSON only: reached by dotted keys, or ln_meta_entry; array.count of them */
} ln_meta_kind;

/* Borrowed from its checkpoint. */
typedef struct ln_meta_value {
    ln_meta_kind kind;
    union {
        bool boolean;
        int64_t integer;
        double real;
        struct {
            const char *data; /* [bytes], not NUL-terminated in GGUF */
            size_t bytes;
        } string;
        struct {
            const void *items; /* private: json_t, or packed GGUF items */
            size_t count;
            uint32_t gguf_type; /* private: item type, or UINT32_MAX for JSON */
            /* private: [count + 1] where GGUF strings begin in items, and the last one ends */
            const uint32_t *string_offsets;
        } array;
    };
} ln_meta_value;

/* Item `index` of an array value; false when it is out of range or `array` is none. O(1). */
bool ln_meta_item(const ln_meta_value *array, size_t index, ln_meta_value *item);

/* The entries of an object in turn: *position is NULL before the first, and moves on; false past
 * the last, or when `object` is none. */
bool ln_meta_entry(const ln_meta_value *object, void **position, const char **key,
                   ln_meta_value *value);

#endif
