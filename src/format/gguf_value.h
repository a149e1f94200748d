/* The types of GGUF metadata values, and loads of the ones of fixed size. */
#ifndef LN_FORMAT_GGUF_VALUE_H
#define LN_FORMAT_GGUF_VALUE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "format/meta.h"

typedef enum ln_gguf_type {
    LN_GGUF_U8,
    LN_GGUF_I8,
    LN_GGUF_U16,
    LN_GGUF_I16,
    LN_GGUF_U32,
    LN_GGUF_I32,
    LN_GGUF_F32,
    LN_GGUF_BOOL,
    LN_GGUF_STRING,
    LN_GGUF_ARRAY,
    LN_GGUF_U64,
    LN_GGUF_I64,
    LN_GGUF_F64,
    LN_GGUF_TYPE_COUNT
} ln_gguf_type;

/* Bytes of a value; 0 for strings, arrays and unknown types. */
size_t ln_gguf_type_bytes(uint32_t type);

/* Decodes a value of fixed size from `bytes`, of any alignment. U64 past INT64_MAX is a FLOAT. */
ln_meta_value ln_gguf_scalar(uint32_t type, const uint8_t *bytes);

static inline uint32_t ln_load_u32(const uint8_t *bytes) {
    uint32_t value;
    memcpy(&value, bytes, sizeof value);
    return value;
}

static inline uint64_t ln_load_u64(const uint8_t *bytes) {
    uint64_t value;
    memcpy(&value, bytes, sizeof value);
    return value;
}

#endif
