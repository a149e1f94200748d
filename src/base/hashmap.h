/* A map from byte strings to 32-bit values: open addressing, a fixed capacity chosen at
 * creation, memory from an arena. Keys are borrowed and must outlive the map. */
#ifndef LN_BASE_HASHMAP_H
#define LN_BASE_HASHMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

typedef struct ln_hashmap_entry {
    const char *key; /* NULL: free */
    uint32_t key_bytes;
    uint32_t value;
} ln_hashmap_entry;

typedef struct ln_hashmap {
    ln_hashmap_entry *entries; /* [mask + 1] */
    size_t mask;
    size_t count, max_count;
} ln_hashmap;

/* Room for `max_count` keys; false when memory is out. */
bool ln_hashmap_init(ln_hashmap *map, ln_arena *arena, size_t max_count);

/* Adds a key; false when it is there already (its value is kept) or the map is full. */
bool ln_hashmap_add(ln_hashmap *map, const char *key, size_t key_bytes, uint32_t value);

bool ln_hashmap_get(const ln_hashmap *map, const char *key, size_t key_bytes, uint32_t *value);

#endif
