/* A planned arena: a layout sums the sizes of its parts first (from headers, reserving nothing),
 * and the same offsets then index one reservation of exactly that many bytes. */
#ifndef LN_BASE_LAYOUT_H
#define LN_BASE_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

#define LN_LAYOUT_ALIGN 64 /* bytes; a cache line and an AVX-512 register */

typedef struct ln_layout {
    size_t bytes;
    bool overflow; /* a size did not fit; ln_layout_check reports it */
} ln_layout;

/* Adds `count` items of `item_bytes`, aligned; returns their offset in bytes. */
size_t ln_layout_add(ln_layout *layout, size_t count, size_t item_bytes);
/* The same; where that is in the memory, or NULL while there is none. */
void *ln_layout_place(ln_layout *layout, char *memory, size_t count, size_t item_bytes);
ln_status ln_layout_check(const ln_layout *layout, const char *what, ln_error *err);

/* Zeroed pages straight from the system, `bytes` long; 0 bytes give NULL and success. */
ln_status ln_reserve(size_t bytes, const char *what, void **memory, ln_error *err);
void ln_unreserve(void *memory, size_t bytes);

#endif
