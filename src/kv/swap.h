/* The swap space: where blocks go while others need the cache. Rows that share blocks go and come
 * together, and still share them. */
#ifndef LN_KV_SWAP_H
#define LN_KV_SWAP_H

#include "kv/cache.h"

/* Different blocks of rows[n_rows], all in the cache or all swapped: counts[n_groups]. */
void ln_kv_swap_count(ln_kv_cache *cache, const size_t *rows, size_t n_rows, size_t *counts);

/* Moves their blocks to the swap space; false, and nothing happens, when it has no room. */
bool ln_kv_swap_out(ln_kv_cache *cache, const size_t *rows, size_t n_rows);
/* Moves them back, and reserves blocks for n_tokens[n_rows] tokens of each; false, and nothing
 * happens, when there is no room. is_alone: as in ln_kv_arrival. */
bool ln_kv_swap_in(ln_kv_cache *cache, const size_t *rows, const size_t *n_tokens, size_t n_rows,
                   bool is_alone);

#endif
