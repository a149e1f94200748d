/* The engine thread: take what was submitted, schedule, build the batch, record and run the
 * forward pass, sample, deliver, again. */
#include "engine/engine.h"

#include "engine/request.h"

/* ---- ends of sequences ------------------------------------------------------------------ */

static void end_running(linnet_engine *engine, ln_sequence *sequence, linnet_finish finish,
                        const ln_error *err) {
    ln_scheduler_end(&engine->scheduler, sequence);
    ln_request_give_end(sequence->request, finish, err);
}

/* Ends the cancelled sequences, or all of them. */
static void end_cancelled(linnet_engine *engine, bool all) {
    ln_scheduler *scheduler = &engine->scheduler;
    for (size_t i = scheduler->n_running; i-- > 0;) {
        ln_sequence *sequence = scheduler->running[i];
        if (all || ln_request_is_cancelled(sequence->request))
            end_running(engine, sequence, LINNET_FINISH_CANCELLED, NULL);
    }
    ln_sequence_queue waiting = scheduler->waiting;
    scheduler->waiting = (ln_sequence_queue){0};
    for (ln_sequence *sequence; (sequence = ln_sequence_queue_pop(&waiting)) != NULL;) {
        if (all || ln_request_is_cancelled(sequence->request))
            ln_request_give_end(sequence->request, LINNET_FINISH_CANCELLED, NULL);
        else
            ln_sequence_queue_push(&scheduler->waiting, sequence);
    }
}

/* ---- a step ----------------------------------------------------------------------------- */

static bool is_stop_id(const linnet_model *model, int32_t id) {
    for (size_t i = 0; i < model->n_stop_ids; i++)
        if (model->stop_ids[i] == id)
            return true;
    return false;
}

/* Samples a sequence's next token from its row of logits [n_vocab] and delivers it. */
static void extend(linnet_engine *engine, ln_sequence *sequence, float *logits) {
    linnet_request *request = sequence->request;
    const linnet_request_options *options = &request->options;
    ln_sample_place place = {sequence->tokens, sequence->n_tokens, sequence->index};
    int32_t token;
    ln_error err = {0};
    if (ln_sampler_sample(&engine->sampler, &options->sampling, &place, logits, &token, &err) !=
        LINNET_OK) {
        end_running(engine, sequence, LINNET_FINISH_ERROR, &err);
        return;
    }
    if (!options->ignore_eos && is_stop_id(engine->model, token)) {
        end_running(engine, sequence, LINNET_FINISH_STOP, NULL);
        return;
    }
    bool stops = ln_request_give_token(request, token);
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

/* What came of the step's chunks: their logits lie one after another. Encoders give none. */
static void deliver(linnet_engine *engine) {
    const ln_scheduler *scheduler = &engine->scheduler;
    float *logits = engine->activations.logits;
    for (size_t i = 0; i < scheduler->n_chunks; i++) {
        const ln_chunk *chunk = &scheduler->chunks[i];
        if (chunk->sequence->wants_all_logits && !scheduler->is_encoding)
            score(engine, chunk, logits);
        else if (chunk->n_logits > 0)
            extend(engine, chunk->sequence, logits);
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
    ln_scheduler_commit(&engine->scheduler);
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
    ln_sequence_queue_append(&engine->scheduler.waiting, &engine->submitted);
    bool stopping = engine->stopping;
    pthread_mutex_unlock(&engine->mutex);
    if (cancelled || stopping)
        end_cancelled(engine, stopping);
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
    pthread_cond_signal(&engine->work_came);
    pthread_mutex_unlock(&engine->mutex);
}
