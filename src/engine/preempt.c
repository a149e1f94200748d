#include "engine/preempt.h"

#include "kv/swap.h"

/* ---- memory ----------------------------------------------------------------------------- */

size_t ln_preemption_plan(ln_layout *layout, size_t max_seqs) {
    return ln_layout_add(layout, 2 * max_seqs, sizeof(size_t));
}

void ln_preemption_init(ln_preemption *preemption, linnet_preemption mode, size_t max_seqs,
                        void *memory) {
    size_t *rows = memory;
    *preemption = (ln_preemption){.mode = mode, .rows = rows, .row_tokens = rows + max_seqs};
}

/* ---- swap or recompute ------------------------------------------------------------------ */

/* Writes the group's rows to p->rows, with the tokens that each will hold; returns their number. */
static size_t collect_rows(ln_preemption *p, const ln_sequence_group *group) {
    size_t n_rows = 0;
    for (size_t i = 0; i < group->n_sequences; i++) {
        const ln_sequence *sequence = &group->sequences[i];
        if (!sequence->has_row)
            continue;
        p->rows[n_rows] = sequence->kv_row;
        p->row_tokens[n_rows++] = sequence->n_tokens;
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
static bool prefers_swap(const ln_preemption *p, ln_kv_cache *kv, const ln_sequence_group *group,
                         size_t n_rows) {
    if (p->mode != LINNET_PREEMPTION_AUTO)
        return p->mode == LINNET_PREEMPTION_SWAP;
    size_t counts[LN_KV_MAX_GROUPS];
    double copy_ns = 0;
    ln_kv_swap_count(kv, p->rows, n_rows, counts);
    for (size_t g = 0; g < kv->n_groups; g++)
        copy_ns += 2 * p->costs.ns_per_block[g] * (double)counts[g];
    return copy_ns < p->costs.ns_per_token * (double)count_computed(group);
}

static bool swap_out(ln_preemption *p, ln_queues *queues, ln_kv_cache *kv,
                     ln_sequence_group *group) {
    size_t n_rows = collect_rows(p, group), max_swap_rows = kv->n_rows - queues->max_seqs;
    if (group->needs_encoder || count_computed(group) == 0 ||
        p->n_swap_rows + n_rows > max_swap_rows || !prefers_swap(p, kv, group, n_rows) ||
        !ln_kv_swap_out(kv, p->rows, n_rows))
        return false;
    p->n_swap_rows += n_rows;
    group->state = LN_GROUP_SWAPPED;
    ln_queues_insert(queues, &queues->swapped, group);
    p->n_swapped++;
    return true;
}

/* Blocks are moved by the next step's copy operation; here they are only exchanged. */
void ln_preempt(ln_preemption *p, ln_queues *queues, ln_kv_cache *kv, ln_sequence_group *group) {
    ln_queues_unrun(queues, group);
    if (swap_out(p, queues, kv, group))
        return;
    for (size_t i = 0; i < group->n_sequences; i++) {
        ln_sequence *sequence = &group->sequences[i];
        if (sequence->has_row)
            ln_kv_cache_release(kv, sequence->kv_row);
        sequence->has_row = false;
        sequence->n_cached = 0;
    }
    group->is_forked = false;
    group->needs_encoder = group->n_encoder > 0;
    group->state = LN_GROUP_WAITING;
    ln_queues_insert(queues, &queues->waiting, group);
    p->n_recomputed++;
}

bool ln_preempt_resume(ln_preemption *p, ln_queues *queues, ln_kv_cache *kv,
                       ln_sequence_group *group, size_t *place) {
    size_t n_rows = collect_rows(p, group);
    if (queues->n_seqs + group->n_live > queues->max_seqs ||
        !ln_kv_swap_in(kv, p->rows, p->row_tokens, n_rows, queues->n_running == 0))
        return false;
    ln_group_queue_remove(&queues->swapped, group);
    p->n_swap_rows -= n_rows;
    *place = ln_queues_run(queues, group);
    return true;
}
