#include "engine/execute.h"

#include "engine/engine.h"
#include "engine/request.h"

/* ---- what the backend chooses ----------------------------------------------------------- */

/* Whether all that comes of a chunk is the token that `draw`, which is then filled, says of its one
 * row, with n_more tokens behind the sequence's. */
static bool suits(const ln_chunk *chunk, size_t n_more, ln_draw *draw) {
    const ln_sequence *sequence = chunk->sequence;
    const ln_sequence_group *group = sequence->group;
    const linnet_request *request = group->request;
    ln_sample_place place = {.n_tokens = sequence->n_tokens + n_more,
                             .index = sequence->index,
                             .rules = &request->rules};
    return chunk->n_logits == 1 && chunk->n_draft == 0 && group->is_forked &&
           sequence->n_cached + chunk->n_tokens == sequence->n_tokens && !group->wants_all_logits &&
           request->options.kind == LINNET_REQUEST_GENERATE && request->beams == NULL &&
           request->grammar == NULL && !request->options.logprobs && !request->is_ranked &&
           ln_sampler_is_draw(&request->options.sampling, &place, draw);
}

/* Divides the rows of logits between the backend and the host. */
static void divide_rows(linnet_engine *engine) {
    const ln_scheduler *scheduler = &engine->scheduler;
    ln_rows *rows = &engine->rows;
    ln_draw *draws = engine->step.draws;
    size_t end = 0, n_rows = scheduler->is_encoding ? 0 : scheduler->n_logits;
    bool samples = engine->backend->vtable->start != NULL && !scheduler->is_encoding &&
                   n_rows * (sizeof(int32_t) + sizeof(float)) <= LN_STARTED_BYTES;
    bool draws_any = false;
    rows->n_sampled = 0;
    rows->first_logits = rows->end_logits = n_rows;
    for (size_t i = 0; i < scheduler->n_chunks; i++) {
        const ln_chunk *chunk = &scheduler->chunks[i];
        size_t begin = end;
        end += chunk->n_logits;
        for (size_t row = begin; row < end; row++)
            draws[row] = (ln_draw){0}; /* the best, whoever needs it */
        rows->rows[i].is_sampled = samples && suits(chunk, 0, &draws[begin]);
        rows->n_sampled += rows->rows[i].is_sampled;
        if (rows->rows[i].is_sampled)
            draws_any |= draws[begin].temperature > 0;
        else if (chunk->n_logits > 0) {
            rows->first_logits = begin < rows->first_logits ? begin : rows->first_logits;
            rows->end_logits = end;
        }
    }
    engine->step.batch.draws = draws_any ? draws : NULL;
}

/* The draws of the step behind the one of the chunks, all of which are sampled, in their order. */
static void follow_draws(linnet_engine *engine) {
    const ln_scheduler *scheduler = &engine->scheduler;
    for (size_t i = 0; i < scheduler->n_chunks; i++)
        LN_BUG_ON(!suits(&scheduler->chunks[i], 1, &engine->step.draws[i]));
}

/* ---- starting ---------------------------------------------------------------------------- */

/* Records the step that was built. */
static size_t record(linnet_engine *engine) {
    ln_op *ops = engine->ops;
    const ln_batch *batch = &engine->step.batch;
    size_t n_ops = 0, n_copies = engine->cache.n_copies;
    int32_t *chosen = engine->activations.chosen;
    if (n_copies > 0)
        ops[n_ops++] = ln_engine_copy_op(engine, ln_engine_back_layers(engine),
                                         engine->cache.copies, n_copies);
    n_ops += (engine->scheduler.is_encoding ? ln_forward_record_encoder : ln_forward_record)(
        &engine->model->spec, &engine->weights, &engine->activations, engine->kv_layers, batch,
        ops + n_ops);
    if (engine->rows.n_sampled > 0)
        ops[n_ops++] = (ln_op){.kind = LN_OP_SAMPLE,
                               .layer = -1,
                               .batch = batch,
                               .sample = {.logits = engine->activations.logits,
                                          .n_rows = batch->n_logits,
                                          .n_vocab = engine->model->spec.n_vocab,
                                          .ids = chosen,
                                          .best = (float *)(void *)(chosen + batch->n_logits)}};
    return n_ops;
}

static size_t row_bytes(const linnet_engine *engine) {
    return engine->model->spec.n_vocab * sizeof(float);
}

/* Starts what was built; the backend's tokens come back, or all logits where it chooses none. */
static ln_status start(linnet_engine *engine, ln_error *err) {
    ln_backend *backend = engine->backend;
    const ln_rows *rows = &engine->rows;
    const ln_activations *a = &engine->activations;
    size_t n_ops = record(engine);
    LN_TRY(ln_front_run(engine, engine->ops + n_ops, err));
    if (backend->vtable->start == NULL)
        LN_TRY(backend->vtable->run(backend, engine->ops, n_ops, err));
    else if (rows->n_sampled > 0)
        LN_TRY(backend->vtable->start(backend, engine->ops, n_ops, a->chosen,
                                      2 * engine->step.batch.n_logits * sizeof *a->chosen, err));
    else
        LN_TRY(backend->vtable->start(backend, engine->ops, n_ops, a->logits,
                                      rows->end_logits * row_bytes(engine), err));
    engine->cache.n_copies = 0;
    return LINNET_OK;
}

ln_status ln_execute_start(linnet_engine *engine, ln_error *err) {
    ln_step_build(&engine->step, &engine->scheduler);
    divide_rows(engine);
    return start(engine, err);
}

bool ln_execute_start_next(linnet_engine *engine) {
    ln_scheduler *scheduler = &engine->scheduler;
    if (engine->rows.n_sampled < scheduler->n_chunks || engine->plan.front.n_layers > 0 ||
        engine->plan.draft_tokens > 0 || engine->backend->profile != NULL ||
        !ln_scheduler_can_follow(scheduler))
        return false;
    ln_step_follow(&engine->step, scheduler, engine->activations.chosen);
    follow_draws(engine);
    return start(engine, NULL) == LINNET_OK; /* a failure shows in the next step, too */
}

/* ---- finishing ---------------------------------------------------------------------------- */

/* chosen: [n_logits] ids, then [n_logits] logits. */
static void take_chosen(linnet_engine *engine, const int32_t *chosen) {
    const ln_scheduler *scheduler = &engine->scheduler;
    const float *best = (const float *)(const void *)(chosen + scheduler->n_logits);
    size_t row = 0;
    for (size_t i = 0; i < scheduler->n_chunks; i++) {
        ln_row *out = &engine->rows.rows[i];
        if (out->is_sampled) {
            out->sampled = chosen[row];
            out->sampled_logit = best[row];
        }
        row += scheduler->chunks[i].n_logits;
    }
}

ln_status ln_execute_finish(linnet_engine *engine, ln_error *err) {
    ln_backend *backend = engine->backend;
    ln_rows *rows = &engine->rows;
    size_t first = rows->n_sampled > 0 ? rows->first_logits : 0, n = rows->end_logits - first;
    void *host = NULL;
    if (backend->vtable->start != NULL)
        LN_TRY(backend->vtable->finish(backend, &host, err));
    if (rows->n_sampled > 0)
        take_chosen(engine, host);
    if (backend->vtable->start == NULL || (rows->n_sampled > 0 && n > 0))
        LN_TRY(backend->vtable->read_back(
            backend, engine->activations.logits + first * engine->model->spec.n_vocab,
            n * row_bytes(engine), &host, err));
    rows->first_logits = first;
    rows->logits = host;
    return ln_checkpoint_check(engine->model->checkpoint, err);
}

void ln_execute_drop(linnet_engine *engine) {
    void *host;
    (void)engine->backend->vtable->finish(engine->backend, &host, NULL);
}
