/* Writes MessagePack (github.com/msgpack/msgpack/blob/master/spec.md), each value in its shortest
 * form, to memory that the caller has made large enough. */
#ifndef LN_SERVER_KV_EVENTS_MSGPACK_H
#define LN_SERVER_KV_EVENTS_MSGPACK_H

#include <stddef.h>
#include <stdint.h>

typedef struct ln_msgpack {
    uint8_t *bytes; /* [capacity], the caller's */
    size_t n_bytes, capacity;
} ln_msgpack;

enum { LN_MSGPACK_MAX_ARRAY = UINT16_MAX, LN_MSGPACK_MAX_TEXT = UINT8_MAX };

void ln_msgpack_nil(ln_msgpack *out);
void ln_msgpack_uint(ln_msgpack *out, uint64_t value);
void ln_msgpack_double(ln_msgpack *out, double value);
void ln_msgpack_text(ln_msgpack *out, const char *text);
/* The values of the array follow. */
void ln_msgpack_array(ln_msgpack *out, size_t n_values);

#endif
