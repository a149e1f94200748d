#include "base/arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

enum { ALIGN = 16, FIRST_CHUNK_BYTES = 16 << 10, LARGEST_CHUNK_BYTES = 4 << 20 };

struct ln_arena_chunk {
    ln_arena_chunk *next;
    size_t used_bytes;
    size_t capacity_bytes;
    size_t pad; /* keeps data[] 16-byte aligned */
    unsigned char data[];
};

void ln_arena_init(ln_arena *arena) {
    *arena = (ln_arena){0};
}

void ln_arena_free(ln_arena *arena) {
    while (arena->chunks != NULL) {
        ln_arena_chunk *next = arena->chunks->next;
        free(arena->chunks);
        arena->chunks = next;
    }
    arena->reserved_bytes = 0;
}

/* A chunk doubles the arena up to a limit, so that small checkpoints stay small. */
static ln_arena_chunk *grow(ln_arena *arena, size_t bytes) {
    size_t capacity = arena->reserved_bytes;
    if (capacity < FIRST_CHUNK_BYTES)
        capacity = FIRST_CHUNK_BYTES;
    if (capacity > LARGEST_CHUNK_BYTES)
        capacity = LARGEST_CHUNK_BYTES;
    if (capacity < bytes)
        capacity = bytes;
    size_t total;
    if (!ln_add(capacity, sizeof(ln_arena_chunk), &total))
        return NULL;
    ln_arena_chunk *chunk = calloc(1, total);
    if (chunk == NULL)
        return NULL;
    chunk->capacity_bytes = capacity;
    chunk->next = arena->chunks;
    arena->chunks = chunk;
    arena->reserved_bytes += total;
    return chunk;
}

void *ln_arena_alloc(ln_arena *arena, size_t count, size_t item_bytes) {
    size_t bytes;
    if (!ln_mul(count, item_bytes, &bytes) || bytes > SIZE_MAX - ALIGN)
        return NULL;
    bytes = (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    ln_arena_chunk *chunk = arena->chunks;
    if (chunk == NULL || chunk->capacity_bytes - chunk->used_bytes < bytes)
        chunk = grow(arena, bytes);
    if (chunk == NULL)
        return NULL;
    void *memory = chunk->data + chunk->used_bytes;
    chunk->used_bytes += bytes;
    return memory;
}

char *ln_arena_copy(ln_arena *arena, const char *bytes, size_t n_bytes) {
    if (n_bytes == SIZE_MAX)
        return NULL;
    char *copy = ln_arena_alloc(arena, n_bytes + 1, 1);
    if (copy != NULL && n_bytes > 0)
        memcpy(copy, bytes, n_bytes);
    return copy;
}
