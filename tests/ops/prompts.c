#include "ops/prompts.h"

#include <string.h>

void fill_tables(prompts *p, size_t group, size_t factor, size_t offset) {
    size_t n = N_SEQS * p->n_blocks;
    for (size_t i = 0; i < n; i++)
        p->tables[group][i] = (int32_t)((i * factor + offset) % n);
}

static void add_sequence(step *s, const prompts *p, size_t seq, size_t begin, size_t end) {
    const int32_t *blocks = p->tables[0] + seq * p->n_blocks;
    for (size_t group = 0; group < p->n_groups; group++)
        memcpy(s->tables[group] + s->batch.n_seqs * p->n_blocks,
               p->tables[group] + seq * p->n_blocks, p->n_blocks * sizeof *blocks);
    s->lengths[s->batch.n_seqs++] = (int32_t)end;
    for (size_t position = begin; position < end; position++) {
        size_t token = s->batch.n_tokens++;
        s->positions[token] = (int32_t)position;
        s->slots[token] = blocks[position / BLOCK] * BLOCK + (int32_t)(position % BLOCK);
        s->rows[token] = seq * p->n_first + position;
    }
    s->starts[s->batch.n_seqs] = (int32_t)s->batch.n_tokens;
}

void make_step(step *s, const prompts *p, size_t begin, size_t end) {
    const size_t lengths[N_SEQS] = {p->n_first, p->n_tokens - p->n_first};
    s->starts[0] = 0;
    s->batch =
        (ln_batch){.n_groups = p->n_groups, .positions = s->positions, .seq_starts = s->starts};
    for (size_t group = 0; group < p->n_groups; group++)
        s->batch.groups[group] =
            (ln_batch_group){s->tables[group], p->n_blocks, s->lengths, s->slots};
    for (size_t seq = 0; seq < N_SEQS; seq++)
        if (begin < lengths[seq])
            add_sequence(s, p, seq, begin, lengths[seq] < end ? lengths[seq] : end);
}

float *put_rows(side *s, const step *st, const float *x, size_t width) {
    return put_rows_of(s, x, st->rows, st->batch.n_tokens, width);
}
