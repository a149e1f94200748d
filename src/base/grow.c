#include "base/grow.h"

#include <stdint.h>
#include <stdlib.h>

enum { SMALLEST = 64 };

bool ln_grow(void **data, size_t *capacity, size_t count, size_t item_bytes) {
    if (count <= *capacity)
        return true;
    size_t wanted = *capacity < SMALLEST ? SMALLEST : *capacity * 2;
    if (wanted < count)
        wanted = count;
    if (wanted > SIZE_MAX / 4 / item_bytes)
        return false;
    void *larger = realloc(*data, wanted * item_bytes);
    if (larger == NULL)
        return false;
    *data = larger;
    *capacity = wanted;
    return true;
}
