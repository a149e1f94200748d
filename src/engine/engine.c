/* The engine thread: take what was submitted, schedule, build the batch, record and run the
 * forward pass, sample, deliver, again. */
#include "engine/engine.h"

#include "base/clock.h"
#include "engine/request.h"
#include "engine/request_rules.h"

/* ---- statistics ------------------------------------------------------------------------- */

/* What is so now; the rest is counted where it happens. */
static void show_state(linnet_engine *engine) {
    const ln_kv_cache *kv = &engine->cache;
    size_t n_blocks = 0, n_free = 0;
    for (size_t g = 0; g < kv->n_groups; g++) {
        n_blocks += kv->groups[g].pool.n_blocks;
        n_free += kv->groups[g].pool.n_free;
    }
    ln_stat_set(&engine->stats.n_kv_blocks, n_blocks);
    ln_stat_set(&engine->stats.n_kv_used, n_blocks - n_free);
    ln_stat_set(&engine->stats.n_running, engine->scheduler.n_running);
    ln_stat_set(&engine->stats.n_waiting, engine->scheduler.n_waiting);
}

/* ---- ends of sequences ------------------------------------------------------------------ */

static void end_running(linnet_engine *engine, ln_sequence *sequence, linnet_finish finish,
                        const ln_error *err) {
    ln_scheduler_end(&engine->scheduler, sequence);
    ln_stat_add(&engine->stats.n_requests, 1);
    show_state(engine);
    ln_request_give_end(sequence->request, finish, err);
}

/* Why a sequence ends without a step, or NONE. */
static linnet_finish finish_of(const ln_sequence *sequence, bool stopping, uint64_t now_ns) {
    linnet_request *request = sequence->request;
    if (stopping || ln_request_is_cancelled(request))
        return LINNET_FINISH_CANCELLED;
    bool is_late = request->deadline_ns > 0 && request->deadline_ns <= now_ns;
    return is_late ? LINNET_FINISH_TIMEOUT : LINNET_FINISH_NONE;
}

/* The first deadline of what is left, or UINT64_MAX. */
static uint64_t earlier(uint64_t deadline_ns, const ln_sequence *sequence) {
    uint64_t own_ns = sequence->request->deadline_ns;
    return own_ns > 0 && own_ns < deadline_ns ? own_ns : deadline_ns;
}

/* Ends the sequences that were cancelled or are late, or all of them. */
static void end_early(linnet_engine *engine, bool stopping, uint64_t now_ns) {
    ln_scheduler *scheduler = &engine->scheduler;
    engine->deadline_ns = UINT64_MAX;
    for (size_t i = scheduler->n_running; i-- > 0;) {
        ln_sequence *sequence = scheduler->running[i];
        linnet_finish finish = finish_of(sequence, stopping, now_ns);
        if (finish != LINNET_FINISH_NONE)
            end_running(engine, sequence, finish, NULL);
        else
            engine->deadline_ns = earlier(engine->deadline_ns, sequence);
    }
    ln_sequence_queue waiting = scheduler->waiting;
    scheduler->waiting = (ln_sequence_queue){0};
    scheduler->n_waiting = 0;
    for (ln_sequence *sequence; (sequence = ln_sequence_queue_pop(&waiting)) != NULL;) {
        linnet_finish finish = finish_of(sequence, stopping, now_ns);
        if (finish != LINNET_FINISH_NONE) {
            ln_stat_add(&engine->stats.n_requests, 1);
            ln_request_give_end(sequence->request, finish, NULL);
            continue;
        }
        engine->deadline_ns = earlier(engine->deadline_ns, sequence);
        ln_sequence_queue_push(&scheduler->waiting, sequence);
        scheduler->n_waiting++;
    }
}

/* ---- a step ----------------------------------------------------------------------------- */

/* Samples a sequence's next token from its row of logits [n_vocab] and delivers it. */
static void extend(linnet_engine *engine, ln_sequence *sequence, float *logits) {
    linnet_request *request = sequence->request;
    ln_sample_place place = {.tokens = sequence->tokens,
                             .n_tokens = sequence->n_tokens,
                             .index = sequence->index,
                             .rules = &request->rules,
                             .mirostat_excess = &sequence->mirostat_excess};
    int32_t token;
    ln_error err = {0};
    ln_request_take_logprobs(request, &engine->sampler, logits);
    if (ln_sampler_sample(&engine->sampler, &request->options.sampling, &place, logits, &token,
                          &err) != LINNET_OK) {
        end_running(engine, sequence, LINNET_FINISH_ERROR, &err);
        return;
    }
    if (ln_request_rules_stop(&request->rules, token)) {
        end_running(engine, sequence, LINNET_FINISH_STOP, NULL);
        return;
    }
    ln_stat_add(&engine->stats.n_output_tokens, 1);
    bool stops = ln_request_give_token(request, &engine->sampler, token);
    sequence->n_tokens++;
    if (stops)
        end_running(engine, sequence, LINNET_FINISH_STOP, NULL);
    else if (sequence->n_tokens == sequence->max_tokens)
        end_running(engine, sequence, LINNET_FINISH_LENGTH, NULL);
}

/* Hands a chunk's rows of logits to on_logits. */
static void score(linnet_engine *engine, const ln_chunk *chunk, const float *logits) {
    ln_sequence *sequence = chunk->sequence;
    size_t n_vocab = engine->model->spec.n_vocab;
    size_t first = sequence->n_cached - chunk->n_logits;
    for (size_t i = 0; i < chunk->n_logits; i++)
        ln_request_give_logits(sequence->request, first + i, logits + i * n_vocab, n_vocab);
    if (sequence->n_cached == sequence->n_tokens)
        end_running(engine, sequence, LINNET_FINISH_STOP, NULL);
}

/* Rows of a prompt give its logprobs, and the last row of all the next token. */
static void generate(linnet_engine *engine, const ln_chunk *chunk, float *logits) {
    ln_sequence *sequence = chunk->sequence;
    size_t n_vocab = engine->model->spec.n_vocab;
    size_t first = sequence->n_cached - chunk->n_logits;
    for (size_t i = 0; sequence->wants_all_logits && i < chunk->n_logits; i++)
        if (first + i < sequence->n_prompt)
            ln_request_give_prompt_logprobs(sequence->request, &engine->sampler, first + i,
                                            logits + i * n_vocab);
    if (chunk->n_logits > 0 && sequence->n_cached == sequence->n_tokens)
        extend(engine, sequence, logits + (chunk->n_logits - 1) * n_vocab);
}

/* What came of the step's chunks: their logits lie one after another. Encoders give none. */
static void deliver(linnet_engine *engine) {
    const ln_scheduler *scheduler = &engine->scheduler;
    float *logits = engine->activations.logits;
    for (size_t i = 0; i < scheduler->n_chunks && !scheduler->is_encoding; i++) {
        const ln_chunk *chunk = &scheduler->chunks[i];
        if (chunk->sequence->request->options.kind == LINNET_REQUEST_SCORE)
            score(engine, chunk, logits);
        else
            generate(engine, chunk, logits);
        logits += chunk->n_logits * engine->model->spec.n_vocab;
    }
}

static void fail(linnet_engine *engine, const ln_error *err) {
    for (size_t i = 0; i < engine->scheduler.n_chunks; i++)
        end_running(engine, engine->scheduler.chunks[i].sequence, LINNET_FINISH_ERROR, err);
}

static void run_step(linnet_engine *engine) {
    ln_error err = {0};
    ln_step_build(&engine->step, &engine->scheduler);
    size_t n_ops = (engine->scheduler.is_encoding ? ln_forward_record_encoder : ln_forward_record)(
        &engine->model->spec, &engine->weights, &engine->activations, engine->kv_layers,
        &engine->step.batch, engine->ops);
    if (engine->backend->vtable->run(engine->backend, engine->ops, n_ops, &err) != LINNET_OK ||
        ln_checkpoint_check(engine->model->checkpoint, &err) != LINNET_OK) {
        fail(engine, &err);
        return;
    }
    ln_stat_add(&engine->stats.n_steps, 1);
    ln_stat_add(&engine->stats.n_computed_tokens, engine->scheduler.n_tokens);
    ln_scheduler_commit(&engine->scheduler);
    show_state(engine);
    deliver(engine);
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
    for (const ln_sequence *s = engine->submitted.first; s != NULL; s = s->next)
        engine->deadline_ns = earlier(engine->deadline_ns, s);
    ln_sequence_queue_append(&engine->scheduler.waiting, &engine->submitted);
    engine->scheduler.n_waiting += engine->n_submitted;
    engine->n_submitted = 0;
    show_state(engine);
    bool stopping = engine->stopping;
    pthread_mutex_unlock(&engine->mutex);
    uint64_t now_ns = engine->deadline_ns < UINT64_MAX ? ln_clock_ns() : 0;
    if (cancelled || stopping || now_ns >= engine->deadline_ns)
        end_early(engine, stopping, now_ns);
    return !stopping;
}

void *ln_engine_main(void *argument) {
    linnet_engine *engine = argument;
    while (wait_for_work(engine))
        if (ln_scheduler_schedule(&engine->scheduler) > 0)
            run_step(engine);
    return NULL;
}

void ln_engine_enqueue(linnet_engine *engine, ln_sequence *sequence) {
    pthread_mutex_lock(&engine->mutex);
    ln_sequence_queue_push(&engine->submitted, sequence);
    engine->n_submitted++;
    pthread_cond_signal(&engine->work_came);
    pthread_mutex_unlock(&engine->mutex);
}
