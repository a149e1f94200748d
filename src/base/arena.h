/* A growing arena for what is built once and freed together: parsed headers, vocabularies. */
#ifndef LN_BASE_ARENA_H
#define LN_BASE_ARENA_H

#include <stddef.h>

typedef struct ln_arena_chunk ln_arena_chunk;

typedef struct ln_arena {
    ln_arena_chunk *chunks; /* newest first */
    size_t reserved_bytes;  /* sum over chunks, headers included */
} ln_arena;

void ln_arena_init(ln_arena *arena);
void ln_arena_free(ln_arena *arena); /* frees every allocation; the arena is empty again */

/* `count` items of `item_bytes`, zeroed, 16-byte aligned; NULL when memory is out or the product
 * overflows. A count of 0 gives a valid pointer. */
void *ln_arena_alloc(ln_arena *arena, size_t count, size_t item_bytes);

/* A NUL-terminated copy of n_bytes; NULL when memory is out. */
char *ln_arena_copy(ln_arena *arena, const char *bytes, size_t n_bytes);

#endif
