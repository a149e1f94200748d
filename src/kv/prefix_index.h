/* The hash table of the prefix cache, which block holds which tokens: full blocks by the keyed hash
 * (SipHash) of their tokens and of all that came before them. A hit is confirmed by comparing the
 * tokens. */
#ifndef LN_KV_PREFIX_INDEX_H
#define LN_KV_PREFIX_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/layout.h"

enum { LN_KV_BLOCK_TOKENS = 16 };

/* What a full block holds. */
typedef struct ln_prefix_key {
    uint64_t hash, parent; /* of all tokens up to its end, and up to its beginning */
    int32_t tokens[LN_KV_BLOCK_TOKENS];
} ln_prefix_key;

/* The key of the block with tokens[LN_KV_BLOCK_TOKENS] behind `parent`, which for the first block
 * is anything that tells unrelated sequences apart. */
ln_prefix_key ln_prefix_key_of(const uint64_t secret[2], uint64_t parent, const int32_t *tokens);

/* What tells the prefixes of a sequence apart from those of others, beside their tokens. */
typedef struct ln_prefix_origin {
    const char *adapter;     /* its name, there as long as the sequence; NULL: none */
    uint64_t adapter_number; /* of its load */
    bool has_salt;
} ln_prefix_origin;

/* A block that can be found from now on. */
typedef struct ln_prefix_stored {
    const ln_prefix_key *key;
    const ln_prefix_origin *origin; /* of its sequence; NULL: nothing but tokens */
    bool is_first;                  /* the parent is a root, and no block */
} ln_prefix_stored;

/* Is told of each block that can be found from now on, and of each that no longer can. The calls
 * come from whoever changes the cache, and must not change it. */
typedef struct ln_prefix_observer {
    void (*stored)(void *context, const ln_prefix_stored *block);
    void (*removed)(void *context, const ln_prefix_key *key);
    void *context;
} ln_prefix_observer;

typedef struct ln_prefix_index {
    size_t n_buckets;                   /* a power of two */
    int32_t *buckets;                   /* [n_buckets] first block, or -1 */
    int32_t *next;                      /* [n_blocks] in its bucket, or -1 */
    bool *has;                          /* [n_blocks] */
    ln_prefix_key *keys;                /* [n_blocks] of those that it has */
    const ln_prefix_observer *observer; /* whoever set it owns it; NULL: none */
} ln_prefix_index;

/* Adds the index of n_blocks blocks to a layout, and returns its offset; `memory` below is there.
 */
size_t ln_prefix_index_plan(ln_layout *layout, size_t n_blocks);
void ln_prefix_index_init(ln_prefix_index *index, size_t n_blocks, void *memory);

/* A block with these tokens, or -1. */
int32_t ln_prefix_index_find(const ln_prefix_index *index, const ln_prefix_key *key);
/* The block is not in the index, and find gives none for its key. */
void ln_prefix_index_add(ln_prefix_index *index, int32_t block, const ln_prefix_stored *stored);
/* The block is in the index. */
void ln_prefix_index_remove(ln_prefix_index *index, int32_t block);

#endif
