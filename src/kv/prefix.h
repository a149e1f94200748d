/* The prefix cache: full blocks are found by their tokens and all that come before. A group without
 * a window needs all blocks of a prefix, one with a window those that the next token sees. */
#ifndef LN_KV_PREFIX_H
#define LN_KV_PREFIX_H

#include "kv/cache.h"

/* The root of sequences with a salt, of n_bytes. */
uint64_t ln_kv_prefix_root(const ln_kv_cache *cache, const char *salt, size_t n_bytes);

/* Looks up the longest prefix of whole blocks before the last of tokens[n_tokens] that every group
 * has: its blocks are in the groups' `found` and its hashes in the cache's `chain`. Returns how
 * many blocks it is long. */
size_t ln_kv_prefix_find(ln_kv_cache *cache, const int32_t *tokens, size_t n_tokens, uint64_t root);

/* tokens[n_tokens] of a row are in its blocks once the coming step has run: from now on others find
 * the full blocks among these, in the same step too. */
void ln_kv_prefix_add(ln_kv_cache *cache, size_t row, const int32_t *tokens, size_t n_tokens);
/* The step failed: nobody finds the row's blocks from token n_cached on. */
void ln_kv_prefix_forget(ln_kv_cache *cache, size_t row, size_t n_cached);

/* The first block that the token at `position` sees. */
static inline size_t ln_kv_first_seen(size_t window, size_t position) {
    return window == 0 || position < window ? 0 : (position - window + 1) / LN_KV_BLOCK_TOKENS;
}

#endif
