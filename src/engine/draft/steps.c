#include "engine/draft/steps.h"

#include <string.h>

#include "engine/draft/sample.h"

/* Adds tokens [begin, end) of a sequence, drafts included, to the batch; the logits of the last
 * one are wanted or not. */
static void add(ln_draft_model *draft, const ln_sequence *sequence, size_t begin, size_t end,
                bool wants_logits) {
    ln_step *step = &draft->step;
    const ln_kv_cache *kv = draft->kv;
    ln_batch *batch = &step->batch;
    size_t n = end - begin, first = batch->n_tokens;
    memcpy(step->tokens + first, sequence->tokens + begin, n * sizeof *step->tokens);
    for (size_t i = 0; i < n; i++)
        step->positions[first + i] = (int32_t)(begin + i);
    for (size_t g = 0; g < batch->n_groups; g++) {
        size_t of_model = draft->plan->groups[g];
        const ln_block_table *table = &kv->groups[of_model].tables[sequence->kv_row];
        memcpy(step->groups[g].block_tables + batch->n_seqs * kv->max_blocks, table->blocks,
               table->end * sizeof *table->blocks);
        step->groups[g].lengths[batch->n_seqs] = (int32_t)end;
        for (size_t i = 0; i < n; i++)
            step->groups[g].slots[first + i] =
                ln_kv_cache_slot(kv, of_model, sequence->kv_row, begin + i);
    }
    batch->n_tokens += n;
    step->seq_starts[++batch->n_seqs] = (int32_t)batch->n_tokens;
    if (wants_logits)
        step->logit_rows[batch->n_logits++] = (int32_t)batch->n_tokens - 1;
}

static void begin_batch(ln_draft_model *draft) {
    draft->step.batch.n_tokens = draft->step.batch.n_seqs = draft->step.batch.n_logits = 0;
    draft->step.seq_starts[0] = 0;
}

static bool run_batch(ln_draft_model *draft) {
    if (draft->step.batch.n_tokens == 0)
        return true;
    size_t n_ops =
        ln_forward_record(&draft->plan->model->spec, &draft->weights, &draft->activations,
                          draft->layers, &draft->step.batch, draft->ops);
    const ln_backend_vtable *vtable = draft->backend->vtable;
    size_t row_bytes = draft->plan->model->spec.n_vocab * sizeof(float);
    void *logits = NULL;
    bool runs =
        vtable->run(draft->backend, draft->ops, n_ops, NULL) == LINNET_OK &&
        vtable->read_back(draft->backend, draft->activations.logits,
                          draft->step.batch.n_logits * row_bytes, &logits, NULL) == LINNET_OK;
    draft->logits = logits;
    return runs;
}

/* Where to begin, not before `begin`: all that the token there sees is in blocks that the sequence
 * still has. The model keeps them for its next token. */
static size_t first_readable(const ln_draft_model *draft, const ln_sequence *sequence,
                             size_t begin) {
    const ln_spec *spec = &draft->plan->model->spec;
    for (size_t g = 0; g < spec->n_kv_groups; g++) {
        const ln_kv_group *group = &draft->kv->groups[draft->plan->groups[g]];
        size_t first_block = group->tables[sequence->kv_row].begin;
        size_t first = first_block * LN_KV_BLOCK_TOKENS + spec->kv_groups[g].window - 1;
        begin = first_block > 0 && begin < first ? first : begin;
    }
    return begin;
}

/* Reads what the draft has not read of its sequences; those that it comes to the end of are asked.
 * What does not fit in a step is read in the next. */
static size_t read_tokens(ln_draft_model *draft, ln_sequence **sequences, size_t n) {
    size_t n_asked = 0;
    begin_batch(draft);
    for (size_t i = 0; i < n; i++) {
        ln_sequence *sequence = sequences[i];
        size_t begin = sequence->n_draft_cached, end = sequence->n_tokens;
        size_t room = draft->max_tokens - draft->step.batch.n_tokens;
        begin = begin < end ? begin : end - 1;
        begin = first_readable(draft, sequence, begin);
        bool is_whole = end - begin <= room;
        end = is_whole ? end : begin + room;
        if (begin == end)
            is_whole = false;
        else
            add(draft, sequence, begin, end, is_whole);
        sequence->n_draft_cached = end;
        if (is_whole)
            draft->asked[n_asked++] = sequence;
        else
            sequence->n_draft = 0;
    }
    return n_asked;
}

/* Draft `number` of those that are asked, from their rows of logits; keeps those that want another
 * one and puts it into the next batch. */
static size_t take_drafted(ln_draft_model *draft, size_t n_asked, size_t number) {
    size_t n_left = 0, n_vocab = draft->plan->model->spec.n_vocab;
    begin_batch(draft);
    for (size_t i = 0; i < n_asked; i++) {
        ln_sequence *sequence = draft->asked[i];
        if (!ln_draft_sample(draft->sampler, sequence, number, draft->logits + i * n_vocab))
            sequence->n_draft = number;
        if (sequence->n_draft <= number + 1)
            continue;
        size_t at = sequence->n_tokens + number;
        add(draft, sequence, at, at + 1, true);
        sequence->n_draft_cached = at + 1;
        draft->asked[n_left++] = sequence;
    }
    return n_left;
}

void ln_draft_model_propose(ln_draft_model *draft, size_t n) {
    ln_sequence **sequences = draft->decoding;
    size_t n_asked = read_tokens(draft, sequences, n);
    bool runs = run_batch(draft);
    for (size_t number = 0; runs && n_asked > 0; number++) {
        n_asked = take_drafted(draft, n_asked, number);
        runs = run_batch(draft);
    }
    for (size_t i = 0; !runs && i < n; i++)
        sequences[i]->n_draft = 0;
}
