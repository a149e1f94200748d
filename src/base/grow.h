/* Growing arrays of the working memory. */
#ifndef LN_BASE_GROW_H
#define LN_BASE_GROW_H

#include <stdbool.h>
#include <stddef.h>

/* Makes *data hold `count` items of item_bytes, at least doubling *capacity (in items) when it
 * must grow. False when memory is out; the array is then as it was. */
bool ln_grow(void **data, size_t *capacity, size_t count, size_t item_bytes);

#endif
