#include "engine/completion.h"

#include <string.h>

#include "engine/beam.h"
#include "engine/draft/length.h"

/* ---- ends ------------------------------------------------------------------------------- */

/* The sequence's group, and its request, may be gone afterwards. */
static void end_sequence(ln_completion *c, ln_sequence *sequence, linnet_finish finish,
                         const ln_error *err) {
    linnet_request *request = sequence->group->request;
    ln_output *output = &request->outputs[sequence->index];
    output->n_predicted = sequence->n_predicted;
    output->n_predicted_came = sequence->n_predicted_came;
    ln_scheduler_end(c->scheduler, sequence);
    if (sequence->group->n_live == 0)
        ln_adapters_release(c->adapters, sequence->group->adapter);
    ln_stat_add(&c->stats->n_requests, sequence->group->n_live == 0);
    ln_stats_observe(c->stats, c->scheduler);
    ln_notifier_note(c->notifier, request);
    ln_request_end_output(request, sequence->index, finish, err);
}

void ln_completion_end_group(ln_completion *c, ln_sequence_group *group, linnet_finish finish,
                             const ln_error *err) {
    ln_scheduler_end_group(c->scheduler, group);
    ln_adapters_release(c->adapters, group->adapter);
    ln_stat_add(&c->stats->n_requests, 1);
    ln_stats_observe(c->stats, c->scheduler);
    ln_notifier_note(c->notifier, group->request);
    ln_request_end_all(group->request, finish, err);
}

/* ---- one sequence ------------------------------------------------------------------------ */

/* Notes what was sampled; false when that ends the sequence, which may be gone then. */
static bool accept(ln_completion *c, const ln_row *row) {
    ln_sequence *sequence = row->sequence;
    linnet_finish finish = row->finish;
    if (row->token >= 0) {
        if (sequence->is_predicted && row->token == sequence->drafted)
            sequence->n_predicted_came++;
        ln_stat_add(&c->stats->n_output_tokens, 1);
        ln_notifier_note(c->notifier, sequence->group->request);
        ln_request_add_token(sequence->group->request, sequence->index, c->step_end_ns);
        sequence->n_tokens++;
        if (finish == LINNET_FINISH_NONE && sequence->n_tokens == sequence->max_tokens)
            finish = LINNET_FINISH_LENGTH;
    }
    if (finish == LINNET_FINISH_NONE)
        return true;
    end_sequence(c, sequence, finish, NULL);
    return false;
}

/* Samples a sequence's next token from its row of logits [n_vocab] and notes it; false when that
 * ends the sequence, which may be gone then. */
static bool extend(ln_completion *c, ln_sequence *sequence, float *logits) {
    ln_row row = {.sequence = sequence, .logits = logits};
    ln_error err = {0};
    if (ln_row_sampler_sample(c->rows, ln_row_sampler_own(c->rows), &row, &err) == LINNET_OK)
        return accept(c, &row);
    end_sequence(c, sequence, LINNET_FINISH_ERROR, &err);
    return false;
}

/* Samples where the drafted tokens stand, for as long as they are accepted, and once more. */
static void verify_draft(ln_completion *c, const ln_chunk *chunk, float *logits) {
    ln_sequence *sequence = chunk->sequence;
    size_t n_draft = chunk->n_draft, n_accepted = 0;
    ln_stat_add(&c->stats->n_draft_tokens, n_draft);
    sequence->is_predicted &= !sequence->is_forced;
    sequence->n_predicted += sequence->is_predicted ? n_draft : 0;
    for (;; logits += c->n_vocab) {
        size_t at = sequence->n_tokens;
        int32_t drafted = n_accepted < n_draft ? sequence->tokens[at] : -1;
        sequence->drafted = drafted;
        if (!extend(c, sequence, logits))
            return;
        if (sequence->tokens[at] != drafted)
            break;
        sequence->n_cached++;
        n_accepted++;
        ln_stat_add(&c->stats->n_accepted_tokens, 1);
    }
    sequence->is_predicted = false;
    sequence->drafted = -1;
    if (!sequence->is_forced)
        ln_speculate_learn(sequence, n_draft, n_accepted);
}

/* ---- requests --------------------------------------------------------------------------- */

/* The first token of every sequence of a group, from one row of logits. The last may end it. */
static void begin_group(ln_completion *c, ln_sequence_group *group, const float *logits) {
    size_t n_left = group->n_live, n_vocab = c->n_vocab;
    for (ln_sequence *sequence = group->sequences; n_left > 0; sequence++) {
        if (sequence->is_over)
            continue;
        n_left--;
        memcpy(c->logits, logits, n_vocab * sizeof *logits);
        extend(c, sequence, c->logits);
    }
}

/* Rows of a prompt give its logprobs. */
static void read_prompt(ln_completion *c, const ln_chunk *chunk, const float *logits) {
    ln_sequence *sequence = chunk->sequence;
    ln_sequence_group *group = sequence->group;
    linnet_request *request = group->request;
    size_t first = sequence->n_cached - chunk->n_logits;
    for (size_t i = 0; group->wants_all_logits && i < chunk->n_logits; i++)
        if (first + i < group->n_prompt)
            ln_request_give_prompt_logprobs(request, ln_row_sampler_own(c->rows), first + i,
                                            logits + i * c->n_vocab);
    group->wants_all_logits &= !request->has_prompt_logprobs;
}

/* A step of a group's beams, whose rows lie together; the last of a prompt's rows begins it. */
static void search_beams(ln_completion *c, const ln_chunk *chunk, size_t n_chunks, float *logits) {
    const ln_sequence *sequence = chunk->sequence;
    ln_sequence_group *group = sequence->group;
    linnet_request *request = group->request;
    ln_beams_tools tools = {c->scheduler->kv, ln_row_sampler_own(c->rows), c->rows->masker};
    ln_error err = {0};
    bool is_over = false;
    read_prompt(c, chunk, logits);
    if (!chunk->begins_group && sequence->n_cached < sequence->n_tokens)
        return;
    LN_BUG_ON(n_chunks != (chunk->begins_group ? 1 : request->beams->width));
    ln_stat_add(&c->stats->n_output_tokens, request->beams->width);
    ln_request_note_time(request, c->step_end_ns);
    logits += (chunk->n_logits - 1) * c->n_vocab;
    if (ln_beams_step(request->beams, group, &tools, logits, chunk->begins_group, &is_over, &err) !=
        LINNET_OK) {
        ln_completion_end_group(c, group, LINNET_FINISH_ERROR, &err);
        return;
    }
    if (!is_over)
        return;
    ln_scheduler_end_group(c->scheduler, group);
    ln_adapters_release(c->adapters, group->adapter);
    ln_stat_add(&c->stats->n_requests, 1);
    ln_stats_observe(c->stats, c->scheduler);
    ln_notifier_note(c->notifier, request);
    ln_beams_end(request->beams, request);
}

/* Chunks from this one on that belong to its group. */
static size_t count_chunks(const ln_scheduler *scheduler, size_t first) {
    const ln_sequence_group *group = scheduler->chunks[first].sequence->group;
    size_t end = first;
    while (end < scheduler->n_chunks && scheduler->chunks[end].sequence->group == group)
        end++;
    return end - first;
}

/* Hands a chunk's rows of logits to on_logits. */
static void score(ln_completion *c, const ln_chunk *chunk, const float *logits) {
    ln_sequence *sequence = chunk->sequence;
    size_t n_vocab = c->n_vocab;
    size_t first = sequence->n_cached - chunk->n_logits;
    for (size_t i = 0; i < chunk->n_logits; i++)
        ln_request_give_logits(sequence->group->request, first + i, logits + i * n_vocab, n_vocab);
    if (sequence->n_cached == sequence->n_tokens)
        end_sequence(c, sequence, LINNET_FINISH_STOP, NULL);
}

/* The text has been read, if this was the last of it. */
static void embed(ln_completion *c, const ln_chunk *chunk) {
    ln_sequence *sequence = chunk->sequence;
    if (sequence->n_cached < sequence->n_tokens)
        return;
    ln_error err = {0};
    ln_status status = ln_pooler_finish(c->pooler, sequence->group->request, &err);
    end_sequence(c, sequence, status == LINNET_OK ? LINNET_FINISH_STOP : LINNET_FINISH_ERROR, &err);
}

/* The last row of all gives the next token. */
static void generate(ln_completion *c, const ln_chunk *chunk, float *logits) {
    ln_sequence *sequence = chunk->sequence;
    ln_sequence_group *group = sequence->group;
    size_t n_vocab = c->n_vocab;
    read_prompt(c, chunk, logits);
    float *last = logits + (chunk->n_logits - 1 - chunk->n_draft) * n_vocab;
    if (chunk->n_draft > 0)
        verify_draft(c, chunk, last);
    else if (chunk->begins_group)
        begin_group(c, group, last);
    else if (chunk->n_logits > 0 && sequence->n_cached == sequence->n_tokens)
        extend(c, sequence, last);
}

/* Whether a chunk's one row of logits is for the next token of its sequence. */
static bool is_plain(const ln_chunk *chunk) {
    const ln_sequence *sequence = chunk->sequence;
    const linnet_request *request = sequence->group->request;
    return chunk->n_logits == 1 && chunk->n_draft == 0 && !chunk->begins_group &&
           sequence->n_cached == sequence->n_tokens && !sequence->group->wants_all_logits &&
           request->beams == NULL && request->options.kind == LINNET_REQUEST_GENERATE;
}

/* Samples rows that need nothing else, together; row i is chunk i's. */
static void sample_together(ln_completion *c) {
    const ln_scheduler *scheduler = c->scheduler;
    ln_row_sampler *rows = c->rows;
    size_t at = 0;
    rows->n_rows = scheduler->n_chunks;
    for (size_t i = 0; i < scheduler->n_chunks; i++) {
        const ln_chunk *chunk = &scheduler->chunks[i];
        ln_row *row = &rows->rows[i];
        row->sequence = chunk->sequence;
        row->on_backend &= chunk->sequence != NULL;
        row->is_sampled = false;
        row->logits = NULL;
        if (chunk->sequence != NULL && !row->on_backend && is_plain(chunk))
            row->logits = ln_row_sampler_logits(rows, at);
        at += chunk->n_logits;
    }
    ln_row_sampler_sample_all(c->rows);
}

/* Rows of logits of the chunks[n_chunks]. */
static size_t count_rows(const ln_chunk *chunks, size_t n_chunks) {
    size_t n_rows = 0;
    for (size_t i = 0; i < n_chunks; i++)
        n_rows += chunks[i].n_logits;
    return n_rows;
}

/* Ends a sequence for whose row the backend could not sample a token. */
static void end_unsampled(ln_completion *c, ln_row *row) {
    ln_error err = {0};
    LN_BUG_ON(ln_row_sampler_sample(c->rows, ln_row_sampler_own(c->rows), row, &err) == LINNET_OK);
    end_sequence(c, row->sequence, LINNET_FINISH_ERROR, &err);
}

/* What came of n_chunks chunks of one request, whose rows of logits begin with number `at`. */
static void complete_chunks(ln_completion *c, size_t first, size_t n_chunks, size_t at) {
    const ln_chunk *chunk = &c->scheduler->chunks[first];
    const linnet_request *request = chunk->sequence->group->request;
    ln_row *row = &c->rows->rows[first];
    if (request->options.kind == LINNET_REQUEST_EMBED) {
        embed(c, chunk);
        return;
    }
    if (row->is_sampled)
        accept(c, row);
    else if (row->on_backend)
        end_unsampled(c, row);
    if (row->is_sampled || row->on_backend || count_rows(chunk, n_chunks) == 0)
        return;
    float *logits = ln_row_sampler_logits(c->rows, at);
    if (request->beams != NULL)
        search_beams(c, chunk, n_chunks, logits);
    else if (request->options.kind == LINNET_REQUEST_SCORE)
        score(c, chunk, logits);
    else
        generate(c, chunk, logits);
}

/* What came of the step's chunks: their logits lie one after another. Encoders give none. */
void ln_completion_run(ln_completion *c) {
    const ln_scheduler *scheduler = c->scheduler;
    size_t n_chunks, n_rows, at = 0;
    if (scheduler->is_encoding)
        return;
    sample_together(c);
    for (size_t i = 0; i < scheduler->n_chunks; i += n_chunks) {
        const ln_chunk *chunk = &scheduler->chunks[i];
        bool is_open = chunk->sequence != NULL;
        bool has_beams = is_open && chunk->sequence->group->request->beams != NULL;
        n_chunks = has_beams ? count_chunks(scheduler, i) : 1;
        n_rows = count_rows(chunk, n_chunks);
        if (is_open)
            complete_chunks(c, i, n_chunks, at);
        at += n_rows;
    }
}
