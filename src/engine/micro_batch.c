#include "engine/micro_batch.h"

/* ---- memory ---------------------------------------------------------------------------------- */

void ln_micro_batches_plan(const ln_step_budget *budget, const ln_kv_shape *shape,
                           ln_layout *layout) {
    ln_micro_batches parts;
    ln_micro_batches_init(&parts, budget, shape, layout, NULL);
}

void ln_micro_batches_init(ln_micro_batches *parts, const ln_step_budget *budget,
                           const ln_kv_shape *shape, ln_layout *layout, void *memory) {
    *parts = (ln_micro_batches){0};
    parts->seq_starts = ln_layout_place(layout, memory, budget->max_seqs + 1, sizeof(int32_t));
    parts->logit_rows = ln_layout_place(layout, memory, budget->max_logits, sizeof(int32_t));
    for (size_t g = 0; g < shape->n_groups; g++)
        parts->lengths[g] = ln_layout_place(layout, memory, budget->max_seqs, sizeof(int32_t));
}

/* ---- dividing -------------------------------------------------------------------------------- */

/* Every micro-batch takes a stage as long, and the last one begins when all others have passed the
 * first stage. */
static size_t step_cost(size_t n_tokens, size_t part_tokens, size_t n_stages,
                        size_t weight_tokens) {
    size_t n = (n_tokens + part_tokens - 1) / part_tokens;
    return (n + n_stages - 1) * (weight_tokens + part_tokens);
}

size_t ln_micro_batch_tokens(size_t n_tokens, size_t n_stages, const ln_micro_batch_cost *cost) {
    size_t tile = cost->tile_tokens, best = tile;
    size_t least = step_cost(n_tokens, best, n_stages, cost->weight_tokens);
    for (size_t tokens = 2 * tile; tokens < n_tokens + tile; tokens += tile) {
        size_t now = step_cost(n_tokens, tokens, n_stages, cost->weight_tokens);
        best = now <= least ? tokens : best;
        least = now < least ? now : least;
    }
    return best;
}

void ln_micro_batches_begin(ln_micro_batches *parts, const ln_step *step, bool cuts_sequences) {
    parts->step = step;
    parts->end_token = parts->end_logit = parts->next_seq = 0;
    parts->cuts_sequences = cuts_sequences;
}

static size_t find_end(const ln_micro_batches *parts, size_t begin) {
    const ln_batch *whole = &parts->step->batch;
    size_t end = begin + parts->step->part_tokens, seq = parts->next_seq;
    end = end < whole->n_tokens ? end : whole->n_tokens;
    if (parts->cuts_sequences)
        return end;
    while ((size_t)whole->seq_starts[seq] < end)
        seq++;
    return (size_t)whole->seq_starts[seq];
}

/* The sequences that have tokens in [begin, end); the first may have some before, the last
 * behind. */
static void cut_sequences(ln_micro_batches *parts, size_t begin, size_t end) {
    const ln_batch *whole = &parts->step->batch;
    const int32_t *starts = whole->seq_starts;
    ln_batch *batch = &parts->batch;
    size_t first = parts->next_seq, n = 0;
    for (; first + n < whole->n_seqs && (size_t)starts[first + n] < end; n++) {
        size_t start = (size_t)starts[first + n], seq_end = (size_t)starts[first + n + 1];
        size_t n_behind = seq_end > end ? seq_end - end : 0;
        parts->seq_starts[n] = start > begin ? (int32_t)(start - begin) : 0;
        for (size_t g = 0; g < whole->n_groups; g++)
            parts->lengths[g][n] = whole->groups[g].lengths[first + n] - (int32_t)n_behind;
    }
    parts->seq_starts[n] = (int32_t)(end - begin);
    parts->next_seq = (size_t)starts[first + n] > end ? first + n - 1 : first + n;
    batch->n_seqs = n;
    batch->seq_starts = parts->seq_starts;
    for (size_t g = 0; g < whole->n_groups; g++) {
        const ln_batch_group *group = &whole->groups[g];
        batch->groups[g].block_tables = group->block_tables + first * group->max_blocks;
        batch->groups[g].lengths = parts->lengths[g];
        batch->groups[g].slots = group->slots + begin;
    }
}

static void cut_logits(ln_micro_batches *parts, size_t begin, size_t end) {
    const ln_batch *whole = &parts->step->batch;
    size_t first = parts->end_logit, n = 0;
    for (; first + n < whole->n_logits && (size_t)whole->logit_rows[first + n] < end; n++)
        parts->logit_rows[n] = whole->logit_rows[first + n] - (int32_t)begin;
    parts->batch.n_logits = n;
    parts->batch.logit_rows = parts->logit_rows;
    parts->first_logit = first;
    parts->end_logit = first + n;
}

bool ln_micro_batches_next(ln_micro_batches *parts) {
    const ln_step *step = parts->step;
    const ln_batch *whole = &step->batch;
    ln_batch *batch = &parts->batch;
    size_t begin = parts->end_token;
    if (begin == whole->n_tokens)
        return false;
    size_t end = find_end(parts, begin);
    *batch = *whole;
    batch->n_tokens = end - begin;
    batch->tokens += begin;
    batch->positions += begin;
    batch->types += begin;
    batch->n_hidden = batch->n_edit_rows = 0;
    batch->draws = NULL;
    batch->edits = NULL;
    cut_sequences(parts, begin, end);
    cut_logits(parts, begin, end);
    if (step->batch.adapters.n_runs > 0) {
        batch->adapters = ln_step_sort_slots(step, &step->adapters, begin, end - begin);
        batch->logit_adapters =
            ln_step_sort_slots(step, &step->logit_adapters, parts->first_logit, batch->n_logits);
    }
    parts->end_token = end;
    return true;
}
