/* The engine thread: take what was submitted, schedule, build the batch, record and run the
 * forward pass, sample, deliver, again. */
#include "engine/engine.h"

#include <string.h>

#include "base/clock.h"
#include "base/pool.h"
#include "engine/execute.h"
#include "engine/request.h"
#include "engine/request_rules.h"
#include "engine/speculate.h"

/* ---- statistics ------------------------------------------------------------------------- */

/* What is so now, and what the scheduler and the cache count. */
static void show_state(linnet_engine *engine) {
    const ln_kv_cache *kv = &engine->cache;
    const ln_scheduler *scheduler = &engine->scheduler;
    ln_stats *stats = &engine->stats;
    size_t n_blocks = 0, n_available = 0, n_cached = 0, n_swap = 0, n_swap_free = 0;
    for (size_t g = 0; g < kv->n_groups; g++) {
        n_blocks += kv->groups[g].pool.n_blocks;
        n_cached += kv->groups[g].pool.n_cached;
        n_available += ln_block_pool_available(&kv->groups[g].pool);
        n_swap += kv->groups[g].swap.n_blocks;
        n_swap_free += kv->groups[g].swap.n_free;
    }
    ln_stat_set(&stats->n_kv_blocks, n_blocks);
    ln_stat_set(&stats->n_kv_used, n_blocks - n_available);
    ln_stat_set(&stats->n_kv_cached, n_cached);
    ln_stat_set(&stats->n_swap_blocks, n_swap);
    ln_stat_set(&stats->n_swap_used, n_swap - n_swap_free);
    ln_stat_set(&stats->n_waiting, scheduler->queues.waiting.n_groups);
    ln_stat_set(&stats->n_running, scheduler->queues.n_running);
    ln_stat_set(&stats->n_swapped, scheduler->queues.swapped.n_groups);
    ln_stat_set(&stats->n_prompt_tokens, scheduler->n_prompt_tokens);
    ln_stat_set(&stats->n_prefix_query_tokens, kv->n_query_tokens);
    ln_stat_set(&stats->n_prefix_hit_tokens, kv->n_hit_tokens);
    ln_stat_set(&stats->n_swap_preemptions, scheduler->preemption.n_swapped);
    ln_stat_set(&stats->n_recompute_preemptions, scheduler->preemption.n_recomputed);
    ln_stat_set(&stats->n_swapped_blocks, kv->n_swapped_blocks);
}

/* ---- ends of sequences ------------------------------------------------------------------ */

/* The sequence's group, and its request, may be gone afterwards. */
static void end_sequence(linnet_engine *engine, ln_sequence *sequence, linnet_finish finish,
                         const ln_error *err) {
    linnet_request *request = sequence->group->request;
    ln_scheduler_end(&engine->scheduler, sequence);
    ln_stat_add(&engine->stats.n_requests, sequence->group->n_live == 0);
    show_state(engine);
    ln_request_give_end(request, sequence->index, finish, err);
}

static void end_group(linnet_engine *engine, ln_sequence_group *group, linnet_finish finish,
                      const ln_error *err) {
    ln_scheduler_end_group(&engine->scheduler, group);
    ln_stat_add(&engine->stats.n_requests, 1);
    show_state(engine);
    ln_request_give_end_to_all(group->request, finish, err);
}

/* Why a group ends without a step, or NONE. */
static linnet_finish finish_of(const ln_sequence_group *group, bool stopping, uint64_t now_ns) {
    linnet_request *request = group->request;
    if (stopping || ln_request_is_cancelled(request))
        return LINNET_FINISH_CANCELLED;
    bool is_late = request->deadline_ns > 0 && request->deadline_ns <= now_ns;
    return is_late ? LINNET_FINISH_TIMEOUT : LINNET_FINISH_NONE;
}

/* The first deadline of what is left, or UINT64_MAX. */
static uint64_t earlier(uint64_t deadline_ns, const ln_sequence_group *group) {
    uint64_t own_ns = group->request->deadline_ns;
    return own_ns > 0 && own_ns < deadline_ns ? own_ns : deadline_ns;
}

static void end_if_early(linnet_engine *engine, ln_sequence_group *group, bool stopping,
                         uint64_t now_ns) {
    linnet_finish finish = finish_of(group, stopping, now_ns);
    if (finish != LINNET_FINISH_NONE)
        end_group(engine, group, finish, NULL);
    else
        engine->deadline_ns = earlier(engine->deadline_ns, group);
}

/* Ends the groups that were cancelled or are late, or all of them. */
static void end_early(linnet_engine *engine, bool stopping, uint64_t now_ns) {
    ln_scheduler *scheduler = &engine->scheduler;
    ln_group_queue *queues[] = {&scheduler->queues.swapped, &scheduler->queues.waiting};
    engine->deadline_ns = UINT64_MAX;
    for (size_t i = scheduler->queues.n_running; i-- > 0;)
        end_if_early(engine, scheduler->queues.running[i], stopping, now_ns);
    for (size_t i = 0; i < 2; i++)
        for (ln_sequence_group *group = queues[i]->first, *next; group != NULL; group = next) {
            next = group->next;
            end_if_early(engine, group, stopping, now_ns);
        }
}

/* ---- a step ----------------------------------------------------------------------------- */

/* Delivers what was chosen; false when that ends the sequence, which may be gone then. */
static bool accept(linnet_engine *engine, const ln_row *row) {
    ln_sequence *sequence = row->sequence;
    linnet_finish finish = row->finish;
    if (row->token >= 0) {
        ln_stat_add(&engine->stats.n_output_tokens, 1);
        ln_request_add_token(sequence->group->request, sequence->index);
        sequence->n_tokens++;
        if (finish == LINNET_FINISH_NONE && sequence->n_tokens == sequence->max_tokens)
            finish = LINNET_FINISH_LENGTH;
    }
    if (finish == LINNET_FINISH_NONE)
        return true;
    end_sequence(engine, sequence, finish, NULL);
    return false;
}

/* Samples a sequence's next token from its row of logits [n_vocab] and delivers it; false when that
 * ends the sequence, which may be gone then. */
static bool extend(linnet_engine *engine, ln_sequence *sequence, float *logits) {
    ln_row row = {.sequence = sequence, .logits = logits};
    ln_error err = {0};
    if (ln_row_choose(engine, ln_engine_sampler(engine), &row, &err) == LINNET_OK)
        return accept(engine, &row);
    end_sequence(engine, sequence, LINNET_FINISH_ERROR, &err);
    return false;
}

/* Samples where the guesses stand, for as long as they are right, and once more. */
static void check_draft(linnet_engine *engine, const ln_chunk *chunk, float *logits) {
    ln_sequence *sequence = chunk->sequence;
    size_t n_draft = chunk->n_draft, n_accepted = 0;
    ln_stat_add(&engine->stats.n_draft_tokens, n_draft);
    for (;; logits += engine->model->spec.n_vocab) {
        size_t at = sequence->n_tokens;
        int32_t guessed = n_accepted < n_draft ? sequence->tokens[at] : -1;
        if (!extend(engine, sequence, logits))
            return;
        if (sequence->tokens[at] != guessed)
            break;
        sequence->n_cached++;
        n_accepted++;
        ln_stat_add(&engine->stats.n_accepted_tokens, 1);
    }
    ln_speculate_learn(sequence, n_draft, n_accepted);
}

/* Guesses what all sequences that decode may say next. */
static void guess(linnet_engine *engine) {
    ln_draft *draft = &engine->draft;
    size_t most = engine->plan.draft_tokens, n_decoding = 0;
    for (size_t g = 0; g < engine->scheduler.queues.n_running && most > 0; g++) {
        const ln_sequence_group *group = engine->scheduler.queues.running[g];
        for (size_t i = 0; i < group->n_sequences; i++) {
            ln_sequence *sequence = &group->sequences[i];
            sequence->n_draft = ln_speculate_length(sequence, most);
            if (sequence->n_draft == 0)
                continue;
            size_t end = sequence->n_tokens + sequence->n_draft;
            if (draft->plan->model == NULL)
                sequence->n_draft = ln_speculate_lookup(group->request->outputs[i].tokens,
                                                        sequence->n_tokens, sequence->n_draft);
            else if (ln_kv_cache_extend(&engine->cache, sequence->kv_row, sequence->n_cached, end))
                draft->decoding[n_decoding++] = sequence;
            else
                sequence->n_draft = 0;
        }
    }
    if (n_decoding > 0)
        ln_draft_guess(engine, n_decoding);
}

/* The first token of every sequence of a group, from one row of logits. The last may end it. */
static void begin_group(linnet_engine *engine, ln_sequence_group *group, const float *logits) {
    size_t n_left = group->n_live, n_vocab = engine->model->spec.n_vocab;
    for (ln_sequence *sequence = group->sequences; n_left > 0; sequence++) {
        if (sequence->is_over)
            continue;
        n_left--;
        memcpy(engine->logits, logits, n_vocab * sizeof *logits);
        extend(engine, sequence, engine->logits);
    }
}

/* Rows of a prompt give its logprobs. */
static void read_prompt(linnet_engine *engine, const ln_chunk *chunk, const float *logits) {
    ln_sequence *sequence = chunk->sequence;
    ln_sequence_group *group = sequence->group;
    linnet_request *request = group->request;
    size_t first = sequence->n_cached - chunk->n_logits;
    for (size_t i = 0; group->wants_all_logits && i < chunk->n_logits; i++)
        if (first + i < group->n_prompt)
            ln_request_give_prompt_logprobs(request, ln_engine_sampler(engine), first + i,
                                            logits + i * engine->model->spec.n_vocab);
    group->wants_all_logits &= !request->has_prompt_logprobs;
}

/* A step of a group's beams, whose rows lie together; the last of a prompt's rows begins it. */
static void search(linnet_engine *engine, const ln_chunk *chunk, size_t n_chunks, float *logits) {
    const ln_sequence *sequence = chunk->sequence;
    ln_sequence_group *group = sequence->group;
    linnet_request *request = group->request;
    ln_beams_tools tools = {&engine->cache, ln_engine_sampler(engine), &engine->constraints.masker};
    ln_error err = {0};
    bool is_over = false;
    read_prompt(engine, chunk, logits);
    if (!chunk->begins_group && sequence->n_cached < sequence->n_tokens)
        return;
    LN_BUG_ON(n_chunks != (chunk->begins_group ? 1 : request->beams->width));
    ln_stat_add(&engine->stats.n_output_tokens, request->beams->width);
    ln_request_note_time(request);
    logits += (chunk->n_logits - 1) * engine->model->spec.n_vocab;
    if (ln_beams_step(request->beams, group, &tools, logits, chunk->begins_group, &is_over, &err) !=
        LINNET_OK) {
        end_group(engine, group, LINNET_FINISH_ERROR, &err);
        return;
    }
    if (!is_over)
        return;
    ln_scheduler_end_group(&engine->scheduler, group);
    ln_stat_add(&engine->stats.n_requests, 1);
    show_state(engine);
    ln_request_give_beams(request);
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
static void score(linnet_engine *engine, const ln_chunk *chunk, const float *logits) {
    ln_sequence *sequence = chunk->sequence;
    size_t n_vocab = engine->model->spec.n_vocab;
    size_t first = sequence->n_cached - chunk->n_logits;
    for (size_t i = 0; i < chunk->n_logits; i++)
        ln_request_give_logits(sequence->group->request, first + i, logits + i * n_vocab, n_vocab);
    if (sequence->n_cached == sequence->n_tokens)
        end_sequence(engine, sequence, LINNET_FINISH_STOP, NULL);
}

/* The last row of all gives the next token. */
static void generate(linnet_engine *engine, const ln_chunk *chunk, float *logits) {
    ln_sequence *sequence = chunk->sequence;
    ln_sequence_group *group = sequence->group;
    size_t n_vocab = engine->model->spec.n_vocab;
    read_prompt(engine, chunk, logits);
    float *last = logits + (chunk->n_logits - 1 - chunk->n_draft) * n_vocab;
    if (chunk->n_draft > 0)
        check_draft(engine, chunk, last);
    else if (chunk->begins_group)
        begin_group(engine, group, last);
    else if (chunk->n_logits > 0 && sequence->n_cached == sequence->n_tokens)
        extend(engine, sequence, last);
}

/* Whether a chunk's one row of logits is for the next token of its sequence. */
static bool is_plain(const ln_chunk *chunk) {
    const ln_sequence *sequence = chunk->sequence;
    const linnet_request *request = sequence->group->request;
    return chunk->n_logits == 1 && chunk->n_draft == 0 && !chunk->begins_group &&
           sequence->n_cached == sequence->n_tokens && !sequence->group->wants_all_logits &&
           request->beams == NULL && request->options.kind == LINNET_REQUEST_GENERATE;
}

/* Chooses tokens from rows that need nothing else, together; row i is chunk i's. */
static void choose_together(linnet_engine *engine) {
    const ln_scheduler *scheduler = &engine->scheduler;
    ln_rows *rows = &engine->rows;
    size_t at = 0, n_vocab = engine->model->spec.n_vocab;
    rows->n_rows = scheduler->n_chunks;
    for (size_t i = 0; i < scheduler->n_chunks; i++) {
        const ln_chunk *chunk = &scheduler->chunks[i];
        ln_row *row = &rows->rows[i];
        row->sequence = chunk->sequence;
        row->is_sampled &= chunk->sequence != NULL;
        row->is_chosen = false;
        row->logits = NULL;
        if (chunk->sequence != NULL && !row->is_sampled && is_plain(chunk))
            row->logits = ln_rows_logits(rows, at, n_vocab);
        at += chunk->n_logits;
    }
    ln_rows_choose(engine);
}

/* Rows of logits of the chunks[n_chunks]. */
static size_t count_rows(const ln_chunk *chunks, size_t n_chunks) {
    size_t n_rows = 0;
    for (size_t i = 0; i < n_chunks; i++)
        n_rows += chunks[i].n_logits;
    return n_rows;
}

/* What a row that the backend chose a token of comes to, when that is none. */
static void end_sampled(linnet_engine *engine, ln_row *row) {
    ln_error err = {0};
    LN_BUG_ON(ln_row_choose(engine, ln_engine_sampler(engine), row, &err) == LINNET_OK);
    end_sequence(engine, row->sequence, LINNET_FINISH_ERROR, &err);
}

/* What came of n_chunks chunks of one request, whose rows of logits begin with number `at`. */
static void deliver_chunks(linnet_engine *engine, size_t first, size_t n_chunks, size_t at) {
    const ln_chunk *chunk = &engine->scheduler.chunks[first];
    const linnet_request *request = chunk->sequence->group->request;
    ln_row *row = &engine->rows.rows[first];
    if (row->is_chosen)
        accept(engine, row);
    else if (row->is_sampled)
        end_sampled(engine, row);
    if (row->is_chosen || row->is_sampled || count_rows(chunk, n_chunks) == 0)
        return;
    float *logits = ln_rows_logits(&engine->rows, at, engine->model->spec.n_vocab);
    if (request->beams != NULL)
        search(engine, chunk, n_chunks, logits);
    else if (request->options.kind == LINNET_REQUEST_SCORE)
        score(engine, chunk, logits);
    else
        generate(engine, chunk, logits);
}

/* What came of the step's chunks: their logits lie one after another. Encoders give none. */
static void deliver(linnet_engine *engine) {
    const ln_scheduler *scheduler = &engine->scheduler;
    size_t n_chunks, n_rows, at = 0;
    if (scheduler->is_encoding)
        return;
    choose_together(engine);
    for (size_t i = 0; i < scheduler->n_chunks; i += n_chunks) {
        const ln_chunk *chunk = &scheduler->chunks[i];
        bool is_open = chunk->sequence != NULL;
        bool has_beams = is_open && chunk->sequence->group->request->beams != NULL;
        n_chunks = has_beams ? count_chunks(scheduler, i) : 1;
        n_rows = count_rows(chunk, n_chunks);
        if (is_open)
            deliver_chunks(engine, i, n_chunks, at);
        at += n_rows;
    }
}

static void fail(linnet_engine *engine, const ln_error *err) {
    ln_scheduler *scheduler = &engine->scheduler;
    const ln_backend *backend = engine->backend;
    if (backend->vtable->is_lost != NULL && backend->vtable->is_lost(backend))
        ln_stat_set(&engine->stats.is_lost, 1);
    ln_stat_add(&engine->stats.n_failed_steps, 1);
    if (engine->is_ahead)
        ln_execute_drop(engine);
    engine->is_ahead = false;
    ln_scheduler_fail(scheduler);
    while (scheduler->queues.n_running > 0)
        end_group(engine, scheduler->queues.running[scheduler->queues.n_running - 1],
                  LINNET_FINISH_ERROR, err);
}

/* What a token of a prompt costs: of steps that hardly do anything else, the later the more. */
static void learn_cost(linnet_engine *engine, uint64_t step_ns) {
    const ln_scheduler *scheduler = &engine->scheduler;
    double *cost = &engine->scheduler.preemption.costs.ns_per_token;
    double measured = (double)step_ns / (double)scheduler->n_tokens;
    if (scheduler->n_tokens >= 4 * scheduler->n_chunks)
        *cost += (measured - *cost) * (*cost > 0 ? 0.25 : 1);
}

/* Starts the scheduler's step; false when that has failed. */
static bool begin_step(linnet_engine *engine) {
    ln_error err = {0};
    engine->step_begin_ns = ln_clock_ns();
    if (ln_execute_start(engine, &err) == LINNET_OK)
        return true;
    fail(engine, &err);
    return false;
}

/* Waits for the step that was started first, and delivers what comes of it, while the one behind
 * it runs if it is known. */
static void end_step(linnet_engine *engine) {
    ln_error err = {0};
    bool is_ahead = engine->is_ahead = ln_execute_start_next(engine);
    if (ln_execute_finish(engine, &err) != LINNET_OK) {
        fail(engine, &err);
        return;
    }
    uint64_t begin_ns = engine->step_begin_ns;
    engine->step_end_ns = engine->step_begin_ns = ln_clock_ns();
    learn_cost(engine, engine->step_end_ns - begin_ns);
    ln_stat_add(&engine->stats.n_steps, 1);
    ln_stat_set(&engine->stats.n_failed_steps, 0);
    ln_stat_add(&engine->stats.n_computed_tokens, engine->scheduler.n_tokens);
    ln_scheduler_commit(&engine->scheduler);
    show_state(engine);
    deliver(engine);
    if (is_ahead)
        ln_scheduler_follow(&engine->scheduler);
}

/* Nobody waits for the step ahead any more: it ends before the engine sleeps. */
static void drop_if_idle(linnet_engine *engine) {
    if (!engine->is_ahead || !ln_scheduler_is_idle(&engine->scheduler))
        return;
    ln_execute_drop(engine);
    engine->is_ahead = false;
}

/* ---- the thread ------------------------------------------------------------------------- */

/* Sleeps until there is work, and takes what was submitted; false when the engine stops. The look
 * at cancel_came is first: a request cancelled before it is among those taken. */
static bool wait_for_work(linnet_engine *engine) {
    bool cancelled = atomic_exchange(&engine->cancel_came, false);
    pthread_mutex_lock(&engine->mutex);
    while (!engine->stopping && engine->submitted.first == NULL &&
           ln_scheduler_is_idle(&engine->scheduler))
        pthread_cond_wait(&engine->work_came, &engine->mutex);
    for (ln_sequence_group *group; (group = ln_group_queue_pop(&engine->submitted)) != NULL;) {
        engine->deadline_ns = earlier(engine->deadline_ns, group);
        ln_scheduler_add(&engine->scheduler, group);
    }
    show_state(engine);
    bool stopping = engine->stopping;
    pthread_mutex_unlock(&engine->mutex);
    uint64_t now_ns = engine->deadline_ns < UINT64_MAX ? ln_clock_ns() : 0;
    if (cancelled || stopping || now_ns >= engine->deadline_ns)
        end_early(engine, stopping, now_ns);
    ln_delivery_hand_over(&engine->delivery);
    return !stopping;
}

void *ln_engine_main(void *argument) {
    linnet_engine *engine = argument;
    if (engine->plan.pins_threads)
        ln_pool_pin_caller();
    while (wait_for_work(engine)) {
        bool is_under_way = engine->is_ahead;
        if (!is_under_way)
            guess(engine);
        if (!is_under_way && ln_scheduler_schedule(&engine->scheduler) > 0)
            is_under_way = begin_step(engine);
        if (is_under_way)
            end_step(engine);
        ln_delivery_hand_over(&engine->delivery);
        drop_if_idle(engine);
    }
    drop_if_idle(engine);
    return NULL;
}

void ln_engine_enqueue(linnet_engine *engine, ln_sequence_group *group) {
    pthread_mutex_lock(&engine->mutex);
    ln_group_queue_insert(&engine->submitted, group, engine->submitted.last);
    pthread_cond_signal(&engine->work_came);
    pthread_mutex_unlock(&engine->mutex);
}
