#include "server/kv_events/msgpack.h"

#include <string.h>

#include "base/error.h"

enum {
    FIX_ARRAY = 0x90,
    FIX_TEXT = 0xa0,
    NIL = 0xc0,
    FLOAT_64 = 0xcb,
    UINT_8 = 0xcc,
    UINT_16,
    UINT_32,
    UINT_64,
    TEXT_8 = 0xd9,
    ARRAY_16 = 0xdc
};

/* A byte that says what it is, and n_bytes of the value, the highest first. */
static void put(ln_msgpack *out, int type, uint64_t value, size_t n_bytes) {
    LN_BUG_ON(out->capacity - out->n_bytes < 1 + n_bytes);
    out->bytes[out->n_bytes++] = (uint8_t)type;
    for (size_t i = n_bytes; i > 0; i--)
        out->bytes[out->n_bytes++] = (uint8_t)(value >> 8 * (i - 1));
}

void ln_msgpack_nil(ln_msgpack *out) {
    put(out, NIL, 0, 0);
}

void ln_msgpack_uint(ln_msgpack *out, uint64_t value) {
    if (value < 0x80)
        put(out, (int)value, 0, 0);
    else if (value <= UINT8_MAX)
        put(out, UINT_8, value, 1);
    else if (value <= UINT16_MAX)
        put(out, UINT_16, value, 2);
    else if (value <= UINT32_MAX)
        put(out, UINT_32, value, 4);
    else
        put(out, UINT_64, value, 8);
}

void ln_msgpack_double(ln_msgpack *out, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    put(out, FLOAT_64, bits, sizeof bits);
}

void ln_msgpack_text(ln_msgpack *out, const char *text) {
    size_t n = strlen(text);
    LN_BUG_ON(n > LN_MSGPACK_MAX_TEXT);
    if (n < 32)
        put(out, FIX_TEXT | (int)n, 0, 0);
    else
        put(out, TEXT_8, n, 1);
    LN_BUG_ON(out->capacity - out->n_bytes < n);
    memcpy(out->bytes + out->n_bytes, text, n);
    out->n_bytes += n;
}

void ln_msgpack_array(ln_msgpack *out, size_t n_values) {
    LN_BUG_ON(n_values > LN_MSGPACK_MAX_ARRAY);
    if (n_values < 16)
        put(out, FIX_ARRAY | (int)n_values, 0, 0);
    else
        put(out, ARRAY_16, n_values, 2);
}
