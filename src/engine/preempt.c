#include "engine/preempt.h"

#include "engine/order.h"
#include "kv/swap.h"

/* Writes the group's rows to s->rows, with the tokens that each will hold; returns their number. */
static size_t collect_rows(ln_scheduler *s, const ln_sequence_group *group) {
    size_t n_rows = 0;
    for (size_t i = 0; i < group->n_sequences; i++) {
        const ln_sequence *sequence = &group->sequences[i];
        if (!sequence->has_row)
            continue;
        s->rows[n_rows] = sequence->kv_row;
        s->row_tokens[n_rows++] = sequence->n_tokens;
    }
    return n_rows;
}

/* Tokens that are computed again; a prompt once for all. */
static size_t count_computed(const ln_sequence_group *group) {
    size_t n_tokens = 0, n_shared = 0;
    for (size_t i = 0; i < group->n_sequences; i++) {
        const ln_sequence *sequence = &group->sequences[i];
        if (!sequence->has_row)
            continue;
        n_tokens += sequence->n_cached - n_shared;
        n_shared = group->n_prompt < sequence->n_cached ? group->n_prompt : sequence->n_cached;
    }
    return n_tokens;
}

/* Whether to copy blocks out and in is cheaper than to compute them again. */
static bool prefers_swap(const ln_scheduler *s, const ln_sequence_group *group, size_t n_rows) {
    if (s->options.preemption != LINNET_PREEMPTION_AUTO)
        return s->options.preemption == LINNET_PREEMPTION_SWAP;
    size_t counts[LN_KV_MAX_GROUPS];
    double copy_ns = 0;
    ln_kv_swap_count(s->kv, s->rows, n_rows, counts);
    for (size_t g = 0; g < s->kv->n_groups; g++)
        copy_ns += 2 * s->costs.ns_per_block[g] * (double)counts[g];
    return copy_ns < s->costs.ns_per_token * (double)count_computed(group);
}

static bool swap_out(ln_scheduler *s, ln_sequence_group *group) {
    size_t n_rows = collect_rows(s, group), n_swap_rows = s->kv->n_rows - s->budget.max_seqs;
    if (group->needs_encoder || count_computed(group) == 0 ||
        s->n_swap_rows + n_rows > n_swap_rows || !prefers_swap(s, group, n_rows) ||
        !ln_kv_swap_out(s->kv, s->rows, n_rows))
        return false;
    s->n_swap_rows += n_rows;
    group->state = LN_GROUP_SWAPPED;
    ln_order_insert(s, &s->swapped, group);
    s->n_swap_preemptions++;
    return true;
}

void ln_preempt(ln_scheduler *s, ln_sequence_group *group) {
    ln_order_unrun(s, group);
    if (swap_out(s, group))
        return;
    for (size_t i = 0; i < group->n_sequences; i++) {
        ln_sequence *sequence = &group->sequences[i];
        if (sequence->has_row)
            ln_kv_cache_release(s->kv, sequence->kv_row);
        sequence->has_row = false;
        sequence->n_cached = 0;
    }
    group->is_forked = false;
    group->needs_encoder = group->n_encoder > 0;
    group->state = LN_GROUP_WAITING;
    ln_order_insert(s, &s->waiting, group);
    s->n_recompute_preemptions++;
}

bool ln_preempt_resume(ln_scheduler *s, ln_sequence_group *group, size_t *place) {
    size_t n_rows = collect_rows(s, group);
    if (s->n_seqs + group->n_live > s->budget.max_seqs ||
        !ln_kv_swap_in(s->kv, s->rows, s->row_tokens, n_rows, s->n_running == 0))
        return false;
    ln_group_queue_remove(&s->swapped, group);
    s->n_swap_rows -= n_rows;
    *place = ln_order_run(s, group);
    return true;
}
