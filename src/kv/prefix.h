/* Prefix caching: full blocks are found by a hash of their tokens and all that come before. A group
 * without a window needs all blocks of a prefix, one with a window those that the next token sees.
 */
#ifndef LN_KV_PREFIX_H
#define LN_KV_PREFIX_H

#include "kv/group.h"

/* How far the blocks of a sequence were hashed. */
typedef struct ln_kv_chain {
    uint64_t hash; /* of the last one and all before; first, the root */
    size_t n_blocks;
} ln_kv_chain;

/* Finds the longest prefix of whole blocks before the last of tokens[n_tokens] that every one of
 * groups[n_groups] has, in a chain that begins with the hash `root`: its blocks are in the groups'
 * `found`, its hashes in hashes [max_blocks]. Returns how many blocks it is long. */
size_t ln_kv_prefix_find(ln_kv_group *groups, size_t n_groups, const uint64_t secret[2],
                         const int32_t *tokens, size_t n_tokens, uint64_t root, uint64_t *hashes);

/* tokens[n_tokens] of a row are in its blocks once the coming step has run: from now on others find
 * the full blocks among these, in the same step too. */
void ln_kv_prefix_add(ln_kv_group *groups, size_t n_groups, const uint64_t secret[2],
                      ln_kv_chain *chain, size_t row, const int32_t *tokens, size_t n_tokens);

#endif
