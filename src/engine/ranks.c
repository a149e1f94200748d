#include "engine/ranks.h"

#include <string.h>

/* A message begins with these words; as much of what follows as fits goes with them. */
enum {
    WORD_ORDER,
    WORD_COUNT, /* of words behind the head */
    WORD_TOKENS,
    WORD_SEQS,
    WORD_LOGITS,
    WORD_HIDDEN,
    WORD_COPIES,
    WORD_ADAPTERS, /* whether rows have some */
    WORD_PART,     /* tokens of a micro-batch */
    WORD_FOLLOWS,  /* whether its tokens are those that the step before shares */
    WORD_SHARES,   /* whether the tokens that it samples are shared */
    WORD_BY_PART,  /* whether its micro-batches have results of their own */
    HEAD_WORDS,
    MESSAGE_WORDS = 1024, /* of the first message, always */
    COPY_WORDS = sizeof(ln_block_copy) / sizeof(int32_t)
};

/* ---- memory ---------------------------------------------------------------------------------- */

static size_t count_copies(const ln_kv_shape *shape) {
    size_t n = 0;
    for (size_t g = 0; g < shape->n_groups; g++)
        n += shape->max_seqs + 2 * shape->n_swap_blocks[g];
    return n;
}

static size_t count_words(const ln_step_budget *budget, const ln_kv_shape *shape) {
    size_t per_seq = 1 + ln_kv_table_blocks(shape->ctx_tokens);
    size_t n = HEAD_WORDS + 3 * budget->max_tokens + budget->max_seqs + 1 + budget->max_logits;
    n += budget->n_adapters > 0 ? budget->max_tokens + budget->max_logits : 0;
    n += shape->n_groups * (budget->max_tokens + budget->max_seqs * per_seq);
    n += count_copies(shape) * COPY_WORDS;
    return n < MESSAGE_WORDS ? MESSAGE_WORDS : n;
}

void ln_rank_link_plan(const ln_step_budget *budget, const ln_kv_shape *shape, ln_layout *layout) {
    ln_layout_add(layout, count_words(budget, shape), sizeof(int32_t));
}

void ln_rank_link_init(ln_rank_link *link, ln_collectives *ranks, const ln_step_budget *budget,
                       const ln_kv_shape *shape, void *memory) {
    *link =
        (ln_rank_link){.ranks = ranks, .words = memory, .max_words = count_words(budget, shape)};
}

/* ---- a step in words ------------------------------------------------------------------------- */

/* Entries of a sequence's block table that a step can ask for. */
static size_t count_entries(const ln_batch_group *group, size_t sequence) {
    size_t n = (size_t)group->lengths[sequence] / LN_KV_BLOCK_TOKENS + 2;
    return n < group->max_blocks ? n : group->max_blocks;
}

static int32_t *put(int32_t *at, const void *from, size_t n) {
    memcpy(at, from, n * sizeof *at);
    return at + n;
}

static const int32_t *get(const int32_t *at, void *to, size_t n) {
    memcpy(to, at, n * sizeof *at);
    return at + n;
}

static ln_status send_words(ln_rank_link *link, ln_error *err) {
    size_t n = HEAD_WORDS + (size_t)link->words[WORD_COUNT];
    LN_BUG_ON(n > link->max_words);
    LN_TRY(ln_broadcast(link->ranks, link->words, MESSAGE_WORDS * sizeof(int32_t), false, err));
    if (n <= MESSAGE_WORDS)
        return LINNET_OK;
    return ln_broadcast(link->ranks, link->words + MESSAGE_WORDS,
                        (n - MESSAGE_WORDS) * sizeof(int32_t), false, err);
}

ln_status ln_rank_link_tell(ln_rank_link *link, bool is_encoding, const ln_step *step,
                            const ln_block_copy *copies, size_t n_copies, ln_error *err) {
    const ln_batch *batch = &step->batch;
    if (link->ranks == NULL || link->ranks->n_ranks == 1)
        return LINNET_OK;
    int32_t *at = link->words + HEAD_WORDS;
    at = put(at, copies, n_copies * COPY_WORDS);
    at = put(at, batch->tokens, batch->has_device_tokens ? 0 : batch->n_tokens);
    at = put(at, batch->positions, batch->n_tokens);
    at = put(at, batch->seq_starts, batch->n_seqs + 1);
    at = put(at, batch->logit_rows, batch->n_logits);
    at = put(at, batch->hidden_rows, batch->n_hidden);
    if (batch->adapters.n_runs > 0) {
        at = put(at, batch->adapters.slots, batch->n_tokens);
        at = put(at, batch->logit_adapters.slots, batch->n_logits);
    }
    for (size_t g = 0; g < batch->n_groups; g++) {
        const ln_batch_group *group = &batch->groups[g];
        at = put(at, group->lengths, batch->n_seqs);
        at = put(at, group->slots, batch->n_tokens);
        for (size_t i = 0; i < batch->n_seqs; i++)
            at = put(at, group->block_tables + i * group->max_blocks, count_entries(group, i));
    }
    link->words[WORD_ORDER] = is_encoding ? LN_RANK_ENCODE : LN_RANK_STEP;
    link->words[WORD_COUNT] = (int32_t)(at - link->words - HEAD_WORDS);
    link->words[WORD_TOKENS] = (int32_t)batch->n_tokens;
    link->words[WORD_SEQS] = (int32_t)batch->n_seqs;
    link->words[WORD_LOGITS] = (int32_t)batch->n_logits;
    link->words[WORD_HIDDEN] = (int32_t)batch->n_hidden;
    link->words[WORD_COPIES] = (int32_t)n_copies;
    link->words[WORD_ADAPTERS] = batch->adapters.n_runs > 0;
    link->words[WORD_PART] = (int32_t)step->part_tokens;
    link->words[WORD_FOLLOWS] = batch->has_device_tokens;
    link->words[WORD_SHARES] = step->shares_tokens;
    link->words[WORD_BY_PART] = step->by_part;
    return send_words(link, err);
}

void ln_rank_link_stop(ln_rank_link *link) {
    if (link->ranks == NULL || link->ranks->n_ranks == 1 || link->ranks->rank > 0)
        return;
    memset(link->words, 0, HEAD_WORDS * sizeof *link->words);
    (void)send_words(link, NULL); /* who is lost has stopped */
}

ln_status ln_rank_link_tell_results(ln_rank_link *link, ln_error *err) {
    memset(link->words, 0, HEAD_WORDS * sizeof *link->words);
    link->words[WORD_ORDER] = LN_RANK_RESULTS;
    return send_words(link, err);
}

static ln_status receive_words(ln_rank_link *link, ln_error *err) {
    LN_TRY(ln_broadcast(link->ranks, link->words, MESSAGE_WORDS * sizeof(int32_t), true, err));
    size_t n = HEAD_WORDS + (size_t)link->words[WORD_COUNT];
    if (n > link->max_words)
        return ln_fail(err, LINNET_ERR_COMPUTE, "rank 0 runs a larger step than rank %zu has",
                       link->ranks->rank);
    if (n <= MESSAGE_WORDS)
        return LINNET_OK;
    return ln_broadcast(link->ranks, link->words + MESSAGE_WORDS,
                        (n - MESSAGE_WORDS) * sizeof(int32_t), false, err);
}

ln_status ln_rank_link_take(ln_rank_link *link, ln_rank_order *order, ln_step *step,
                            const int32_t *device_tokens, ln_block_copy *copies, size_t max_copies,
                            size_t *n_copies, ln_error *err) {
    ln_batch *batch = &step->batch;
    LN_TRY(receive_words(link, err));
    const int32_t *at = link->words + HEAD_WORDS;
    *order = (ln_rank_order)link->words[WORD_ORDER];
    *n_copies = (size_t)link->words[WORD_COPIES];
    batch->n_tokens = (size_t)link->words[WORD_TOKENS];
    batch->n_seqs = (size_t)link->words[WORD_SEQS];
    batch->n_logits = (size_t)link->words[WORD_LOGITS];
    batch->n_hidden = (size_t)link->words[WORD_HIDDEN];
    step->part_tokens = (size_t)link->words[WORD_PART];
    step->shares_tokens = link->words[WORD_SHARES] != 0;
    step->by_part = link->words[WORD_BY_PART] != 0;
    batch->has_device_tokens = link->words[WORD_FOLLOWS] != 0;
    batch->tokens = batch->has_device_tokens ? device_tokens : step->tokens;
    bool has_adapters = link->words[WORD_ADAPTERS] != 0;
    if (*order != LN_RANK_STEP && *order != LN_RANK_ENCODE)
        return LINNET_OK;
    LN_BUG_ON(has_adapters && step->n_adapters == 0);
    LN_BUG_ON(*n_copies > max_copies);
    at = get(at, copies, *n_copies * COPY_WORDS);
    at = get(at, step->tokens, batch->has_device_tokens ? 0 : batch->n_tokens);
    at = get(at, step->positions, batch->n_tokens);
    at = get(at, step->seq_starts, batch->n_seqs + 1);
    at = get(at, step->logit_rows, batch->n_logits);
    at = get(at, step->hidden_rows, batch->n_hidden);
    if (has_adapters) {
        at = get(at, step->adapters.slots, batch->n_tokens);
        at = get(at, step->logit_adapters.slots, batch->n_logits);
    }
    ln_step_sort_adapters(step, has_adapters);
    for (size_t g = 0; g < batch->n_groups; g++) {
        const ln_batch_group *group = &batch->groups[g];
        at = get(at, step->groups[g].lengths, batch->n_seqs);
        at = get(at, step->groups[g].slots, batch->n_tokens);
        for (size_t i = 0; i < batch->n_seqs; i++)
            at = get(at, step->groups[g].block_tables + i * group->max_blocks,
                     count_entries(group, i));
    }
    return LINNET_OK;
}

/* ---- adapters -------------------------------------------------------------------------------- */

ln_status ln_rank_link_tell_adapter(ln_rank_link *link, size_t slot, const char *path, float scale,
                                    ln_error *err) {
    int32_t *at = link->words + HEAD_WORDS;
    size_t n_words = 2 + strlen(path) / sizeof *at + 1;
    if (n_words > link->max_words - HEAD_WORDS)
        return ln_fail(err, LINNET_ERR_LIMIT, "the path of an adapter is too long for other ranks");
    memset(link->words, 0, (HEAD_WORDS + n_words) * sizeof *at);
    link->words[WORD_ORDER] = LN_RANK_ADAPTER;
    link->words[WORD_COUNT] = (int32_t)n_words;
    at[0] = (int32_t)slot;
    memcpy(&at[1], &scale, sizeof scale);
    memcpy(&at[2], path, strlen(path));
    LN_TRY(send_words(link, err));
    return ln_ranks_agree(link->ranks, LINNET_OK, err);
}

void ln_rank_link_adapter(const ln_rank_link *link, size_t *slot, const char **path, float *scale) {
    const int32_t *at = link->words + HEAD_WORDS;
    *slot = (size_t)at[0];
    memcpy(scale, &at[1], sizeof *scale);
    *path = (const char *)(const void *)&at[2];
}

/* ---- agreeing -------------------------------------------------------------------------------- */

enum { MAX_RANKS = 1024 };

/* Every rank's number. Loading takes its time, and not the same on all ranks. */
static ln_status gather_numbers(ln_collectives *ranks, int32_t own, int32_t all[MAX_RANKS],
                                ln_error *err) {
    LN_BUG_ON(ranks->n_ranks > MAX_RANKS);
    uint64_t timeout_ns = ranks->timeout_ns;
    ranks->timeout_ns = 0;
    ln_status status = ln_all_gather(ranks, &own, sizeof own, all, err);
    ranks->timeout_ns = timeout_ns;
    return status;
}

ln_status ln_ranks_find_other(ln_collectives *ranks, bool own, size_t *other, ln_error *err) {
    int32_t all[MAX_RANKS];
    *other = ranks->n_ranks;
    LN_TRY(gather_numbers(ranks, own, all, err));
    for (size_t rank = ranks->n_ranks; rank-- > 0;)
        if (all[rank] != own)
            *other = rank;
    return LINNET_OK;
}

ln_status ln_ranks_agree(ln_collectives *ranks, ln_status own, ln_error *err) {
    int32_t statuses[MAX_RANKS];
    if (ranks->n_ranks == 1)
        return own;
    ln_status status = gather_numbers(ranks, (int32_t)own, statuses, own == LINNET_OK ? err : NULL);
    if (own != LINNET_OK || status != LINNET_OK)
        return own != LINNET_OK ? own : status;
    for (size_t rank = 0; rank < ranks->n_ranks; rank++)
        if (statuses[rank] != LINNET_OK)
            return ln_fail(err, (ln_status)statuses[rank], "rank %zu of %zu failed: %s", rank,
                           ranks->n_ranks, ln_status_text((ln_status)statuses[rank]));
    return LINNET_OK;
}
