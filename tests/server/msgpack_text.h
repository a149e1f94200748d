/* MessagePack as text like JSON's: nil, unsigned integers, 64-bit floats, text and arrays. */
#ifndef LN_TESTS_SERVER_MSGPACK_TEXT_H
#define LN_TESTS_SERVER_MSGPACK_TEXT_H

#include <stddef.h>
#include <stdint.h>

/* The one value that the bytes hold, NUL-terminated, malloc'd; fails the test when they hold
 * anything else. */
char *msgpack_text(const uint8_t *bytes, size_t n_bytes);

#endif
