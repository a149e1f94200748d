/* Which KV blocks belong to which sequence. Layers that cache alike form a group; a group has a
 * pool of blocks, and each sequence a block table in each group. In a group with a window the
 * blocks that fell wholly out of sight are given back while the sequence runs.
 *
 * Sequences share blocks: forks share all that they have in common, and a block that is written
 * to while it is shared is copied first; full blocks whose tokens are known are found by others
 * that begin with the same tokens (prefix.c). Copies are noted in order and made by the backend
 * before the step.
 *
 * Groups of kind STATE and TAIL are those of recurrent layers (states.h).
 *
 * Groups of kind SOURCE and ENCODER hold the tokens that a sequence's encoder reads, all from the
 * admission on; those of kind ENCODER are dropped once the encoder has run. They are not found by
 * their tokens, and with them nothing is.
 *
 * Blocks for all tokens that are known at admission are reserved, so that a prompt that was begun
 * can be read; what comes after takes blocks as it grows, and extend says when there is none.
 *
 * A row names a sequence. A row that is swapped out (swap.c) has its blocks in the swap space. */
#ifndef LN_KV_CACHE_H
#define LN_KV_CACHE_H

#include "base/block_copy.h"
#include "kv/prefix.h"

typedef struct ln_kv_shape {
    size_t n_groups;
    ln_kv_group_kind kinds[LN_KV_MAX_GROUPS];
    size_t windows[LN_KV_MAX_GROUPS];       /* tokens that stay visible; 0: all */
    size_t n_blocks[LN_KV_MAX_GROUPS];      /* in each group's pool */
    size_t n_swap_blocks[LN_KV_MAX_GROUPS]; /* in each group's swap space */
    size_t ctx_tokens;                      /* of the longest sequence */
    size_t max_seqs;
    size_t max_chunk_tokens; /* tokens that one step adds to a sequence, at most */
    bool shares_prefixes;
    uint64_t secret[2]; /* of the hashes of prefixes */
} ln_kv_shape;

typedef struct ln_kv_row {
    ln_kv_chain chain;
    size_t wanted_state; /* tokens: its keys and values were found so far, without a state there */
    bool is_swapped;
} ln_kv_row;

typedef struct ln_kv_cache {
    size_t n_groups, n_rows;
    size_t max_blocks; /* entries of a block table */
    bool shares_prefixes;
    uint64_t secret[2];
    ln_kv_group groups[LN_KV_MAX_GROUPS];
    ln_kv_row *rows;   /* [n_rows] */
    size_t *free_rows; /* [n_rows], the first n_free_rows count */
    size_t n_free_rows;
    uint64_t *hashes; /* [max_blocks] of the prefix that was looked up last */
    /* [n_copies] for the backend, in this order; whoever has made them sets n_copies to 0 */
    ln_block_copy *copies;
    size_t n_copies, max_copies;
    uint64_t step;                                           /* so many have been done */
    uint64_t n_query_tokens, n_hit_tokens, n_swapped_blocks; /* so far */
} ln_kv_cache;

/* Adds the bookkeeping of a cache to an empty layout; init takes that many bytes, zeroed, which
 * outlive the cache. */
void ln_kv_cache_plan(const ln_kv_shape *shape, ln_layout *layout);
void ln_kv_cache_init(ln_kv_cache *cache, const ln_kv_shape *shape, void *memory);

/* What a group of sequences with one prompt may come to. */
typedef struct ln_kv_need {
    size_t n_sequences;
    size_t n_prompt;
    size_t max_tokens; /* of each sequence, prompt and output */
    size_t n_encoder;
} ln_kv_need;

/* Whether that fits when there is nothing else. */
bool ln_kv_cache_fits(const ln_kv_shape *shape, ln_kv_need need);

/* A sequence that is to run. */
typedef struct ln_kv_arrival {
    const int32_t *tokens; /* [n_tokens] that are known, at least one */
    size_t n_tokens;
    size_t max_tokens; /* that it may come to */
    size_t n_forks;    /* sequences that will go on from its tokens, and may come to as many */
    size_t n_encoder;
    uint64_t root;                  /* sequences find the blocks of others with the same root */
    bool may_hit;                   /* it may use blocks of others, for all but its last token */
    bool is_alone;                  /* nothing else runs: no room is left for what does */
    const ln_prefix_origin *origin; /* of the root, for observers; NULL: nothing but tokens */
} ln_kv_arrival;

/* Gives it a row with the cached blocks of its prefix, whose tokens *n_cached counts, and reserves
 * blocks for the rest; false, and nothing happens, when there is no room now. */
bool ln_kv_cache_admit(ln_kv_cache *cache, const ln_kv_arrival *arrival, size_t *row,
                       size_t *n_cached);
/* An empty row, for fork; there must be one in free_rows. */
size_t ln_kv_cache_take_row(ln_kv_cache *cache);
/* Its encoder has run: frees the blocks of kind ENCODER. */
void ln_kv_cache_drop_encoder(ln_kv_cache *cache, size_t row);
/* Gives it blocks of its own to write the tokens from n_cached to n_tokens to; false, and nothing
 * happens, when there are not enough. Again with more tokens before a step, it adds to these. */
bool ln_kv_cache_extend(ln_kv_cache *cache, size_t row, size_t n_cached, size_t n_tokens);
/* n_tokens are cached and the next one comes: frees the blocks that it cannot see. */
void ln_kv_cache_trim(ln_kv_cache *cache, size_t row, size_t n_tokens);
/* `to` is empty, and shares all blocks of `from` from now on. */
void ln_kv_cache_fork(ln_kv_cache *cache, size_t from, size_t to);
/* Frees its blocks; the row stays. */
void ln_kv_cache_clear(ln_kv_cache *cache, size_t row);
/* The sequence has ended: frees its blocks and its row. */
void ln_kv_cache_release(ln_kv_cache *cache, size_t row);

/* The root of the hashes of sequences with a salt, of n_bytes. */
uint64_t ln_kv_cache_root(const ln_kv_cache *cache, const char *salt, size_t n_bytes);
/* Blocks of the longest prefix before the last of tokens[n_tokens] that is cached. */
size_t ln_kv_cache_find_prefix(ln_kv_cache *cache, const int32_t *tokens, size_t n_tokens,
                               uint64_t root);
/* tokens[n_tokens] of a row are in its blocks once the coming step has run: from now on others find
 * the full blocks among these, in the same step too. */
void ln_kv_cache_add_prefix(ln_kv_cache *cache, size_t row, const int32_t *tokens, size_t n_tokens);
/* The step that copies and blocks were for has been done, or has failed. */
void ln_kv_cache_end_step(ln_kv_cache *cache);
/* The step failed: nobody finds the row's blocks from token n_cached on. */
void ln_kv_cache_forget_prefix(ln_kv_cache *cache, size_t row, size_t n_cached);

/* The observer, which outlives the cache, is told of the group's blocks that others can find. */
void ln_kv_cache_observe(ln_kv_cache *cache, size_t group, const ln_prefix_observer *observer);
/* The group without which no prefix is found: of keys and values without a window, where there is
 * one. */
size_t ln_kv_cache_main_group(const ln_kv_cache *cache);

/* The slot of a token: block * LN_KV_BLOCK_TOKENS + offset in the block. */
int32_t ln_kv_cache_slot(const ln_kv_cache *cache, size_t group, size_t row, size_t position);

/* Whether pools and tables agree: every block in use is in as many tables as it has references,
 * every other one is cached or free, and what is reserved is there. For tests. */
bool ln_kv_cache_check(const ln_kv_cache *cache);

#endif
