/* Which KV blocks belong to which sequence. Layers that cache alike form a group; a group has a
 * pool of blocks, and each sequence a block table in each group. In a group with a window the
 * blocks that fell wholly out of sight are given back while the sequence runs.
 *
 * Groups of kind SOURCE and ENCODER hold the tokens that a sequence's encoder reads, all from the
 * admission on; those of kind ENCODER are dropped once the encoder has run.
 *
 * A sequence is admitted with the length that it may reach, and the blocks for that are promised
 * to it: extending an admitted sequence cannot fail. */
#ifndef LN_KV_CACHE_H
#define LN_KV_CACHE_H

#include "kv/block_pool.h"

enum { LN_KV_MAX_GROUPS = 4, LN_KV_BLOCK_TOKENS = 16 };

typedef enum ln_kv_group_kind {
    LN_KV_GROUP_OWN = 0,
    LN_KV_GROUP_SOURCE,
    LN_KV_GROUP_ENCODER
} ln_kv_group_kind;

/* What a sequence needs at most: tokens of its own, and those of its encoder. */
typedef struct ln_kv_need {
    size_t max_tokens, n_encoder;
} ln_kv_need;

typedef struct ln_kv_shape {
    size_t n_groups;
    ln_kv_group_kind kinds[LN_KV_MAX_GROUPS];
    size_t windows[LN_KV_MAX_GROUPS];  /* tokens that stay visible; 0: all */
    size_t n_blocks[LN_KV_MAX_GROUPS]; /* in each group's pool */
    size_t ctx_tokens;                 /* of the longest sequence */
    size_t max_seqs;
    size_t max_chunk_tokens; /* tokens that one step adds to a sequence, at most */
} ln_kv_shape;

/* The most blocks that a sequence of n_tokens holds at once in a group with `window`. */
size_t ln_kv_blocks_needed(size_t n_tokens, size_t window, size_t max_chunk_tokens);

/* Entries of a block table: the blocks of ctx_tokens. */
size_t ln_kv_table_blocks(size_t ctx_tokens);

/* The blocks of one sequence in one group. */
typedef struct ln_block_table {
    int32_t *blocks;   /* [max_blocks], the cache's; -1 outside [begin, end) */
    size_t begin, end; /* blocks before `begin` are behind the window */
    size_t n_promised; /* blocks that it may hold at once */
} ln_block_table;

typedef struct ln_kv_group {
    ln_kv_group_kind kind;
    size_t window;
    ln_block_pool pool;
    size_t n_promised;      /* sum over the tables */
    ln_block_table *tables; /* [max_seqs], by row */
} ln_kv_group;

typedef struct ln_kv_cache {
    size_t n_groups, max_seqs, ctx_tokens, max_chunk_tokens;
    size_t max_blocks; /* entries of a block table */
    ln_kv_group groups[LN_KV_MAX_GROUPS];
    size_t *free_rows; /* [max_seqs], the first n_free_rows count */
    size_t n_free_rows;
} ln_kv_cache;

/* Adds the bookkeeping of a cache to an empty layout; init takes that many bytes, zeroed, which
 * outlive the cache. */
void ln_kv_cache_plan(const ln_kv_shape *shape, ln_layout *layout);
void ln_kv_cache_init(ln_kv_cache *cache, const ln_kv_shape *shape, void *memory);

typedef enum ln_kv_answer {
    LN_KV_OK,
    LN_KV_LATER, /* once other sequences have ended */
    LN_KV_NEVER  /* not even alone */
} ln_kv_answer;

/* Whether a sequence with this need can be admitted. */
ln_kv_answer ln_kv_cache_can_allocate(const ln_kv_cache *cache, ln_kv_need need);

/* Admits it (can_allocate must say ok); returns its row, which names it below. */
size_t ln_kv_cache_admit(ln_kv_cache *cache, ln_kv_need need);
/* Its encoder has run: frees the blocks of kind ENCODER. */
void ln_kv_cache_drop_encoder(ln_kv_cache *cache, size_t row);
/* Gives it blocks for its first n_tokens tokens. */
void ln_kv_cache_extend(ln_kv_cache *cache, size_t row, size_t n_tokens);
/* n_tokens are cached and the next one comes: frees the blocks that it cannot see. */
void ln_kv_cache_trim(ln_kv_cache *cache, size_t row, size_t n_tokens);
/* The sequence has ended: frees its blocks and its row. */
void ln_kv_cache_release(ln_kv_cache *cache, size_t row);

/* The slot of a token: block * LN_KV_BLOCK_TOKENS + offset in the block. */
int32_t ln_kv_cache_slot(const ln_kv_cache *cache, size_t group, size_t row, size_t position);

/* Whether pools and tables agree: every block in use is in as many tables as it has references,
 * and no promise is exceeded. For tests. */
bool ln_kv_cache_check(const ln_kv_cache *cache);

#endif
