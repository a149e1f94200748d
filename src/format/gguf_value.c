#include "format/gguf_value.h"

size_t ln_gguf_type_bytes(uint32_t type) {
    static const uint8_t bytes[LN_GGUF_TYPE_COUNT] = {
        [LN_GGUF_U8] = 1,  [LN_GGUF_I8] = 1,  [LN_GGUF_U16] = 2, [LN_GGUF_I16] = 2,
        [LN_GGUF_U32] = 4, [LN_GGUF_I32] = 4, [LN_GGUF_F32] = 4, [LN_GGUF_BOOL] = 1,
        [LN_GGUF_U64] = 8, [LN_GGUF_I64] = 8, [LN_GGUF_F64] = 8,
    };
    return type < LN_GGUF_TYPE_COUNT ? bytes[type] : 0;
}

static ln_meta_value integer(int64_t value) {
    return (ln_meta_value){.kind = LN_META_INT, .integer = value};
}

static ln_meta_value real(double value) {
    return (ln_meta_value){.kind = LN_META_FLOAT, .real = value};
}

ln_meta_value ln_gguf_scalar(uint32_t type, const uint8_t *bytes) {
    union {
        uint8_t u8;
        int8_t i8;
        uint16_t u16;
        int16_t i16;
        uint32_t u32;
        int32_t i32;
        uint64_t u64;
        int64_t i64;
        float f32;
        double f64;
    } raw = {.u64 = 0};
    memcpy(&raw, bytes, ln_gguf_type_bytes(type));
    switch (type) {
    case LN_GGUF_U8: return integer(raw.u8);
    case LN_GGUF_I8: return integer(raw.i8);
    case LN_GGUF_U16: return integer(raw.u16);
    case LN_GGUF_I16: return integer(raw.i16);
    case LN_GGUF_U32: return integer(raw.u32);
    case LN_GGUF_I32: return integer(raw.i32);
    case LN_GGUF_I64: return integer(raw.i64);
    case LN_GGUF_U64: return raw.u64 > INT64_MAX ? real((double)raw.u64) : integer(raw.i64);
    case LN_GGUF_F32: return real((double)raw.f32);
    case LN_GGUF_F64: return real(raw.f64);
    case LN_GGUF_BOOL: return (ln_meta_value){.kind = LN_META_BOOL, .boolean = raw.u8 != 0};
    default: return (ln_meta_value){.kind = LN_META_NULL};
    }
}
