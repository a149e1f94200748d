#include "kv/states.h"

enum { KEPT_DISTANCE = 4 }; /* of the states of a prompt that are kept besides the last one */

static void release_entry(ln_kv_group *group, ln_block_table *table, size_t at) {
    if (table->blocks[at] >= 0)
        ln_block_pool_release(&group->pool, table->blocks[at]);
    table->blocks[at] = -1;
}

void ln_kv_states_take_prefix(ln_kv_group *group, ln_block_table *table, size_t n_tokens) {
    size_t at = n_tokens / LN_KV_STATE_TOKENS;
    if (at == 0)
        return;
    table->begin = at;
    table->end = at + 1;
    table->blocks[at] = group->found[at];
    ln_block_pool_share(&group->pool, table->blocks[at]);
}

/* Whether the entry has a block that nobody else knows: for this step already, or of a draft that
 * was refused. */
static bool is_own(const ln_kv_group *group, const ln_block_table *table, size_t at) {
    int32_t block = table->blocks[at];
    return block >= 0 && group->pool.references[block] == 1 && !group->pool.index.has[block];
}

static void own_entry(ln_kv_group *group, ln_block_table *table, size_t at) {
    release_entry(group, table, at);
    table->blocks[at] = ln_block_pool_take(&group->pool);
    LN_BUG_ON(table->blocks[at] < 0);
}

/* Whether the state is worth a block beside those that every sequence has. */
static bool keeps(ln_kv_group *group, size_t at, size_t wanted) {
    bool is_wanted = at == wanted / LN_KV_STATE_TOKENS;
    if (group->n_kept == group->max_kept)
        return false;
    if (!is_wanted && (at % KEPT_DISTANCE != 0 || group->pool.n_free == 0))
        return false;
    group->n_kept++;
    return true;
}

void ln_kv_states_extend(ln_kv_group *group, ln_block_table *table, size_t n_cached,
                         size_t n_tokens, size_t wanted) {
    size_t last = n_tokens / LN_KV_STATE_TOKENS;
    for (size_t at = n_cached / LN_KV_STATE_TOKENS + 1; at <= last; at++) {
        if (is_own(group, table, at))
            continue;
        if (at == last || keeps(group, at, wanted))
            own_entry(group, table, at);
        else
            release_entry(group, table, at);
    }
    if (n_cached / LN_KV_STATE_TOKENS < last && table->end <= last)
        table->end = last + 1;
}

void ln_kv_states_trim(ln_kv_group *group, ln_block_table *table, size_t n_tokens) {
    size_t current = n_tokens / LN_KV_STATE_TOKENS;
    for (; table->begin < current && table->begin < table->end; table->begin++)
        release_entry(group, table, table->begin);
}
