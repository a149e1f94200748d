/* Block tables of recurrent layers (backend/recurrent.h). A group of kind STATE has a block for the
 * state at every multiple of LN_KV_STATE_TOKENS that somebody keeps: entry j of a table is the
 * state before token j * LN_KV_STATE_TOKENS, and a running sequence needs the one at or before its
 * next token. A group of kind TAIL has one block a sequence.
 *
 * Pools have two states for each sequence, the one that it reads and the one that a step writes,
 * and one tail, so that there is always room; what is left caches prefixes. */
#ifndef LN_KV_STATES_H
#define LN_KV_STATES_H

#include "kv/group.h"

enum { LN_KV_STATE_TOKENS = 64, LN_KV_STATES_PER_SEQ = 2 };

static inline bool ln_kv_has_states(const ln_kv_group *group) {
    return group->kind == LN_KV_GROUP_STATE || group->kind == LN_KV_GROUP_TAIL;
}

/* Blocks of KV before a state, or before the next one. */
static inline bool ln_kv_is_at_state(size_t n_blocks) {
    return n_blocks % (LN_KV_STATE_TOKENS / LN_KV_BLOCK_TOKENS) == 0;
}

/* The table of an admitted sequence takes the state behind n_tokens, which `found` has. */
void ln_kv_states_take_prefix(ln_kv_group *group, ln_block_table *table, size_t n_tokens);

/* Gives a table blocks for the states that a step with the tokens n_cached .. n_tokens - 1 passes:
 * the last; the one at `wanted` tokens; and, where blocks are free, further ones at regular
 * distances. */
void ln_kv_states_extend(ln_kv_group *group, ln_block_table *table, size_t n_cached,
                         size_t n_tokens, size_t wanted);

/* Frees the states that a sequence does not need once n_tokens are cached. */
void ln_kv_states_trim(ln_kv_group *group, ln_block_table *table, size_t n_tokens);

#endif
