/* A group of layers that cache alike: a pool of blocks, and the block tables of all sequences.
 * Blocks are reserved for tokens that are known, before they are written. */
#ifndef LN_KV_GROUP_H
#define LN_KV_GROUP_H

#include "kv/block_pool.h"

enum { LN_KV_MAX_GROUPS = 6 };

typedef enum ln_kv_group_kind {
    LN_KV_GROUP_OWN = 0,
    LN_KV_GROUP_SOURCE,
    LN_KV_GROUP_ENCODER,
    LN_KV_GROUP_STATE, /* states.h */
    LN_KV_GROUP_TAIL
} ln_kv_group_kind;

/* The blocks of one sequence in one group. */
typedef struct ln_block_table {
    /* [max_blocks], the cache's; -1 outside [begin, end), and for states that nobody keeps */
    int32_t *blocks;
    size_t begin, end; /* blocks before `begin` are behind the window */
    size_t n_reserved; /* blocks kept for it besides */
    size_t most;       /* blocks that it may come to hold at once */
    size_t n_forks;    /* sequences that will go on from here beside its own, and grow as it may */
    bool is_swapped;   /* its blocks are of the swap space */
} ln_block_table;

typedef struct ln_kv_group {
    ln_kv_group_kind kind;
    size_t window;            /* tokens that stay visible; 0: all */
    size_t max_chunk_tokens;  /* tokens that one step adds to a sequence, at most */
    ln_block_pool pool, swap; /* nothing is found in `swap` */
    size_t n_reserved;        /* sum over the tables; never more than are available */
    size_t n_rows;
    ln_block_table *tables; /* [n_rows] */
    int32_t *marks;         /* [blocks of the larger pool], -1 between calls */
    int32_t *found;         /* [max_blocks] of a prefix */
    /* of kind STATE */
    uint64_t *written_in;    /* [blocks] the step that writes it, of those that can be found */
    size_t n_kept, max_kept; /* states that the coming step keeps for others */
} ln_kv_group;

/* Entries of a block table: the blocks of n_tokens. */
size_t ln_kv_table_blocks(size_t n_tokens);

/* The most blocks that a sequence of n_tokens holds at once in a group with `window`. */
size_t ln_kv_blocks_needed(size_t n_tokens, size_t window, size_t max_chunk_tokens);

/* The first block that the token at `position` sees. */
static inline size_t ln_kv_first_seen(size_t window, size_t position) {
    return window == 0 || position < window ? 0 : (position - window + 1) / LN_KV_BLOCK_TOKENS;
}

/* The blocks that a table with `end` still takes until it holds n_tokens. */
size_t ln_kv_group_blocks_missing(const ln_kv_group *group, size_t end, size_t n_tokens);

/* What a table and its forks may grow by beyond what it holds, what is reserved and n_blocks. */
size_t ln_kv_table_growth(const ln_block_table *table, size_t n_blocks);

/* Whether n_blocks can be taken or reserved by a table that may grow by n_growth more. What all
 * tables that are not swapped out may grow by stays free, but no more than one block in a hundred,
 * and nothing when nothing else runs. Alone, any number fits: see ln_kv_cache_fits. */
bool ln_kv_group_has_room(const ln_kv_group *group, size_t n_blocks, size_t n_growth,
                          bool is_alone);

/* Reserves what a table needs for n_tokens, as far as that is there. */
void ln_kv_group_reserve(ln_kv_group *group, ln_block_table *table, size_t n_tokens);

#endif
