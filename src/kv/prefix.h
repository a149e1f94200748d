/* Prefix caching: full blocks are found by a hash of their tokens and all that come before. A group
 * without a window needs all blocks of a prefix, one with a window those that the next token sees,
 * one of states the state behind it.
 */
#ifndef LN_KV_PREFIX_H
#define LN_KV_PREFIX_H

#include "kv/group.h"

/* How far the blocks of a sequence were hashed. */
typedef struct ln_kv_chain {
    uint64_t hash; /* of the last one and all before; first, the root */
    size_t n_blocks;
    const ln_prefix_origin *origin; /* of the sequence, which outlives its row; NULL: none */
} ln_kv_chain;

/* The groups of a cache, and its steps so far. */
typedef struct ln_kv_groups {
    ln_kv_group *groups; /* [n_groups] */
    size_t n_groups;
    uint64_t step;
    const uint64_t *secret; /* [2] */
} ln_kv_groups;

/* A prefix of whole blocks before the last token of a text. */
typedef struct ln_kv_prefix {
    size_t n_blocks; /* that every group has */
    size_t n_cached; /* at least n_blocks: that groups of keys and values have */
} ln_kv_prefix;

/* Finds the longest prefix of tokens[n_tokens] in a chain that begins with the hash `root`: its
 * blocks are in the groups' `found`, its hashes in hashes [max_blocks]. */
ln_kv_prefix ln_kv_prefix_find(const ln_kv_groups *cache, const int32_t *tokens, size_t n_tokens,
                               uint64_t root, uint64_t *hashes);

/* tokens[n_tokens] of a row are in its blocks once the coming step has run: from now on others find
 * the full blocks among these, in the same step too; states from the next step on. */
void ln_kv_prefix_add(const ln_kv_groups *cache, ln_kv_chain *chain, size_t row,
                      const int32_t *tokens, size_t n_tokens);

#endif
