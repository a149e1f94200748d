#include "base/hashmap.h"

#include <string.h>
#include <xxhash.h>

bool ln_hashmap_init(ln_hashmap *map, ln_arena *arena, size_t max_count) {
    if (max_count > UINT32_MAX)
        return false;
    size_t capacity = 16;
    while (capacity < max_count * 2)
        capacity *= 2;
    *map = (ln_hashmap){.mask = capacity - 1, .max_count = max_count};
    map->entries = ln_arena_alloc(arena, capacity, sizeof *map->entries);
    return map->entries != NULL;
}

/* The entry that holds the key, or the free one where it belongs. */
static ln_hashmap_entry *probe(const ln_hashmap *map, const char *key, size_t key_bytes) {
    size_t at = (size_t)XXH3_64bits(key, key_bytes) & map->mask;
    for (;; at = (at + 1) & map->mask) {
        ln_hashmap_entry *entry = &map->entries[at];
        if (entry->key == NULL ||
            (entry->key_bytes == key_bytes && memcmp(entry->key, key, key_bytes) == 0))
            return entry;
    }
}

bool ln_hashmap_add(ln_hashmap *map, const char *key, size_t key_bytes, uint32_t value) {
    if (key_bytes > UINT32_MAX || map->count >= map->max_count)
        return false;
    ln_hashmap_entry *entry = probe(map, key, key_bytes);
    if (entry->key != NULL)
        return false;
    *entry = (ln_hashmap_entry){key, (uint32_t)key_bytes, value};
    map->count++;
    return true;
}

bool ln_hashmap_get(const ln_hashmap *map, const char *key, size_t key_bytes, uint32_t *value) {
    if (map->entries == NULL)
        return false;
    const ln_hashmap_entry *entry = probe(map, key, key_bytes);
    if (entry->key == NULL)
        return false;
    *value = entry->value;
    return true;
}
