#include "engine/execute.h"

#include <string.h>

#include "backend/values.h"
#include "engine/request/request.h"

/* ---- what the backend samples ----------------------------------------------------------- */

/* Whether logprobs are made of each row. */
static bool wants_report(const ln_sequence_group *group) {
    return group->request->options.logprobs || group->request->is_ranked;
}

/* Whether all that comes of a chunk is the token that `draw`, which is then filled, says of its one
 * row, with n_more tokens behind the sequence's; `words` are its edits. */
static bool is_device_draw(const ln_chunk *chunk, size_t n_more, ln_draw *draw, int32_t *words) {
    const ln_sequence *sequence = chunk->sequence;
    const ln_sequence_group *group = sequence->group;
    const linnet_request *request = group->request;
    const linnet_request_options *options = &request->options;
    size_t n_top = options->logprobs ? (size_t)options->top_logprobs : 0;
    ln_sample_context context = {.tokens = sequence->tokens,
                                 .n_tokens = sequence->n_tokens + n_more,
                                 .index = options->first_output + sequence->index,
                                 .rules = &request->rules};
    bool is_draw = chunk->n_logits == 1 && chunk->n_draft == 0 && group->is_forked &&
                   sequence->n_cached + chunk->n_tokens == sequence->n_tokens &&
                   !group->wants_all_logits && options->kind == LINNET_REQUEST_GENERATE &&
                   request->beams == NULL && request->grammar == NULL && n_top <= LN_DRAW_TOP &&
                   ln_sampler_is_draw(&options->sampling, &context, draw, words);
    if (is_draw && wants_report(group))
        draw->reports = 1 + (uint32_t)n_top;
    return is_draw;
}

/* The draws of a batch, as they are put together. */
static void begin_draws(ln_step *step) {
    step->batch.draws = NULL; /* nothing but the best */
    step->batch.edits = NULL;
    step->batch.n_edit_rows = 0;
}

/* The draw of a row is there, with its edits behind those of the rows before. */
static void add_draw(ln_step *step, ln_draw *draw) {
    ln_batch *batch = &step->batch;
    if (draw->temperature > 0 || draw->n_biases > 0 || draw->penalizes || draw->reports > 0)
        batch->draws = step->draws;
    if (draw->n_biases == 0 && !draw->penalizes)
        return;
    draw->edits_at = (uint32_t)batch->n_edit_rows++;
    batch->edits = step->edits;
}

static int32_t *next_words(const ln_step *step) {
    return step->edits + step->batch.n_edit_rows * LN_DRAW_WORDS;
}

/* Divides the rows of logits between the backend and the host. */
static void divide_rows(ln_executor *executor) {
    const ln_scheduler *scheduler = executor->scheduler;
    ln_row_sampler *rows = executor->rows;
    ln_draw *draws = executor->step.draws;
    size_t end = 0, n_rows = scheduler->is_encoding ? 0 : scheduler->n_logits;
    bool samples = executor->backend->vtable->start != NULL && !scheduler->is_encoding &&
                   n_rows * (sizeof(int32_t) + sizeof(float)) <= LN_STARTED_BYTES;
    bool reports = n_rows * LN_CHOSEN_BYTES <= LN_STARTED_BYTES;
    begin_draws(&executor->step);
    rows->n_sampled = 0;
    rows->first_logits = rows->end_logits = n_rows;
    for (size_t i = 0; i < scheduler->n_chunks; i++) {
        const ln_chunk *chunk = &scheduler->chunks[i];
        size_t begin = end;
        end += chunk->n_logits;
        ln_draw draw;
        for (size_t row = begin; row < end; row++)
            draws[row] = (ln_draw){0}; /* the best, whoever needs it */
        rows->rows[i].on_backend = samples &&
                                   is_device_draw(chunk, 0, &draw, next_words(&executor->step)) &&
                                   (reports || draw.reports == 0);
        rows->n_sampled += rows->rows[i].on_backend;
        if (rows->rows[i].on_backend) {
            draws[begin] = draw;
            add_draw(&executor->step, &draws[begin]);
        } else if (chunk->n_logits > 0) {
            rows->first_logits = begin < rows->first_logits ? begin : rows->first_logits;
            rows->end_logits = end;
        }
    }
}

/* The draws of the step behind the one of the chunks, all of which are sampled, in their order;
 * false: not all can be. */
static bool follow_draws(ln_executor *executor) {
    const ln_scheduler *scheduler = executor->scheduler;
    ln_step *step = &executor->step;
    begin_draws(step);
    for (size_t i = 0; i < scheduler->n_chunks; i++) {
        if (!is_device_draw(&scheduler->chunks[i], 1, &step->draws[i], next_words(step)))
            return false;
        add_draw(step, &step->draws[i]);
    }
    return true;
}

/* Whether logprobs are asked for of a row that is sampled. */
static bool any_reports(const ln_step *step) {
    const ln_draw *draws = step->batch.draws;
    bool any = false;
    for (size_t i = 0; draws != NULL && i < step->batch.n_logits && !any; i++)
        any = draws[i].reports > 0;
    return any;
}

/* Behind the ids of a step, which begin at `chosen`, and their logits. */
static const ln_draw_report *reports_behind(const int32_t *chosen, size_t n_logits) {
    return (const ln_draw_report *)(const void *)(chosen + 2 * n_logits);
}

/* ---- starting ---------------------------------------------------------------------------- */

/* Records what a batch of the step computes, whose logits begin with that row of the step's. The
 * first one copies what is to be copied. */
static size_t record_batch(ln_executor *executor, const ln_batch *batch, size_t first_logit) {
    ln_op *ops = executor->ops;
    ln_kv_cache *kv = executor->scheduler->kv;
    ln_activations activations = executor->activations;
    size_t n_ops = 0;
    if (activations.logits != NULL) /* else another rank has them */
        activations.logits += first_logit * executor->spec->n_vocab;
    if (kv->n_copies > 0)
        ops[n_ops++] = ln_kv_copy_op(&executor->kv, executor->layers, kv->copies, kv->n_copies);
    return n_ops + (executor->scheduler->is_encoding
                        ? ln_forward_record_encoder
                        : ln_forward_record)(executor->spec, executor->weights, &activations,
                                             executor->kv.layers, batch, ops + n_ops);
}

/* Records how the tokens that are sampled of a batch come to the ranks that embed them, where these
 * are several. */
static size_t record_share(const ln_executor *executor, const ln_batch *batch, int32_t *ids,
                           ln_op *op) {
    const ln_spec *spec = executor->spec;
    if (!executor->step.shares_tokens || spec->ranks.n == 0 || ln_spec_follows(spec))
        return 0;
    *op = (ln_op){.kind = LN_OP_RANK_PASS,
                  .layer = -1,
                  .batch = batch,
                  .rank_pass = {.ranks = executor->activations.stage_ranks,
                                .other = LN_NO_RANK,
                                .sends = spec->ranks.rank == 0,
                                .n_rows = batch->n_logits,
                                .dim = 1, /* the bits of an id, as of a float */
                                .x = (float *)(void *)ids}};
    return 1;
}

/* Records behind the last one what becomes of logits: of all of the step's, or of those of a batch
 * that begin with row `first`. */
static size_t record_results(ln_executor *executor, const ln_step *step, const ln_batch *batch,
                             size_t first, size_t n_ops) {
    ln_op *ops = executor->ops;
    ln_activations activations = executor->activations;
    int32_t *chosen = activations.chosen, *ids = chosen + first;
    size_t n_logits = step->batch.n_logits, n_before = n_ops;
    if (activations.logits != NULL)
        activations.logits += first * executor->spec->n_vocab;
    if (!executor->scheduler->is_encoding)
        n_ops += ln_forward_record_results(executor->spec, &activations, batch, ops + n_ops);
    if (executor->rows->n_sampled > 0)
        ops[n_ops++] = (ln_op){.kind = LN_OP_SAMPLE,
                               .layer = -1,
                               .batch = batch,
                               .sample = {.logits = activations.logits,
                                          .n_rows = batch->n_logits,
                                          .n_vocab = executor->spec->n_vocab,
                                          .ids = ids,
                                          .best = (float *)(void *)(ids + n_logits)}};
    if (executor->rows->n_sampled > 0 && any_reports(step))
        ops[n_ops - 1].sample.reports = (ln_draw_report *)(void *)(chosen + 2 * n_logits) + first;
    n_ops += record_share(executor, batch, ids, &ops[n_ops]);
    if (n_ops > n_before)
        ln_values_number(ops, n_ops); /* again, with the last ones */
    return n_ops;
}

static size_t record_step_results(ln_executor *executor, size_t n_ops) {
    return record_results(executor, &executor->step, &executor->step.batch, 0, n_ops);
}

/* How the stages are to divide the step that was built. */
static size_t choose_part(const ln_executor *executor) {
    const ln_batch *batch = &executor->step.batch;
    size_t n_tokens = batch->n_tokens, n_stages = executor->spec->ranks.mesh.n_stages;
    if (executor->part_cost.weight_tokens == 0 || executor->scheduler->is_encoding ||
        batch->n_hidden > 0)
        return 0;
    size_t tokens = ln_micro_batch_tokens(n_tokens, n_stages, &executor->part_cost);
    return tokens < n_tokens ? tokens : 0;
}

/* Whether the step behind the one that was built may get its tokens from it, and how the stages
 * divide it. */
static void divide_step(ln_executor *executor) {
    ln_step *step = &executor->step;
    const ln_batch *batch = &step->batch;
    size_t n_stages = executor->spec->ranks.mesh.n_stages, n_seqs = batch->n_seqs;
    step->shares_tokens = executor->link.ranks != NULL && executor->can_start_ahead &&
                          executor->rows->n_sampled > 0 &&
                          executor->rows->n_sampled == executor->scheduler->n_chunks;
    step->by_part = step->shares_tokens && n_stages <= LN_MAX_STARTED && executor->part_seqs > 0 &&
                    batch->n_tokens == n_seqs && n_seqs >= n_stages * executor->part_seqs &&
                    executor->backend->profile == NULL;
    step->part_tokens = step->by_part ? (n_seqs + n_stages - 1) / n_stages : choose_part(executor);
}

/* ---- runs under way ---------------------------------------------------------------------- */

static ln_status finish_first(ln_executor *executor, ln_error *err) {
    ln_runs *runs = &executor->runs;
    bool is_result = runs->results & 1u;
    void *host;
    runs->n--;
    runs->results >>= 1;
    LN_TRY(executor->backend->vtable->finish(executor->backend, &host, err));
    if (is_result) {
        runs->host = host;
        runs->is_there = true;
    }
    return LINNET_OK;
}

static ln_status finish_runs(ln_executor *executor, size_t n_left, ln_error *err) {
    while (executor->runs.n > n_left)
        LN_TRY(finish_first(executor, err));
    return LINNET_OK;
}

/* Starts what was recorded behind what is under way. is_result: a step's results are then in
 * `memory`, and are read. */
static ln_status start_run(ln_executor *executor, const ln_op *ops, size_t n_ops, void *memory,
                           size_t bytes, bool is_result, ln_error *err) {
    ln_runs *runs = &executor->runs;
    LN_TRY(finish_runs(executor, bytes <= LN_STARTED_BYTES ? LN_MAX_STARTED - 1 : 0, err));
    LN_TRY(executor->backend->vtable->start(executor->backend, ops, n_ops, memory, bytes, err));
    runs->results |= (unsigned)is_result << runs->n++;
    return LINNET_OK;
}

/* Runs what was recorded, of which nothing is read; where the backend starts runs, behind those
 * that are under way. */
static ln_status run_behind(ln_executor *executor, size_t n_ops, ln_error *err) {
    ln_backend *backend = executor->backend;
    if (backend->vtable->start == NULL)
        return backend->vtable->run(backend, executor->ops, n_ops, err);
    return start_run(executor, executor->ops, n_ops, NULL, 0, false, err);
}

/* Of a step that the backend samples: ids, their logits, and reports where there are some. */
static size_t chosen_bytes(const ln_step *step) {
    size_t row = any_reports(step) ? (size_t)LN_CHOSEN_BYTES : 2 * sizeof(int32_t);
    return step->batch.n_logits * row;
}

/* ---- results by part ----------------------------------------------------------------------
 *
 * With stages, a step of sequences that all lack one token is divided into as many micro-batches,
 * and each goes through all stages on its own: its rows of logits are passed on, sampled and
 * shared by themselves, so that the first stage goes on with it in the next step while others are
 * on their way. The first stage computes a micro-batch, then takes the results of the one that was
 * passed on n - 1 micro-batches ago, then passes the rows on: so all stages work, and no two wait
 * for each other however little a message buffers. */

/* The step whose results are pending makes room for the next one; or comes back, as there is none.
 */
static void swap_steps(ln_executor *executor, bool is_behind) {
    ln_step step = executor->step;
    executor->step = executor->before;
    executor->before = step;
    executor->results.step = is_behind ? &executor->before : &executor->step;
}

/* Records what becomes of the logits of the micro-batch that has waited longest for it. */
static size_t record_pending(ln_executor *executor, bool *is_last) {
    ln_micro_batches *results = &executor->results;
    if (!ln_micro_batches_next(results)) {
        ln_micro_batches_begin(results, &executor->step, true);
        (void)ln_micro_batches_next(results);
    }
    const ln_batch *whole = &results->step->batch;
    results->batch.draws = whole->draws != NULL ? whole->draws + results->first_logit : NULL;
    results->batch.edits = whole->edits;
    results->batch.n_edit_rows = whole->n_edit_rows;
    *is_last = ln_micro_batches_is_last(results);
    executor->n_pending--;
    return record_results(executor, results->step, &results->batch, results->first_logit, 0);
}

/* Starts results, n_ops operations, with what else was recorded behind them. */
static ln_status start_results(ln_executor *executor, size_t n_ops, bool is_last, ln_error *err) {
    bool is_read = is_last && executor->rows->n_sampled > 0; /* on rank 0 */
    return start_run(executor, executor->ops, n_ops, executor->activations.chosen,
                     is_read ? chosen_bytes(executor->results.step) : 0, is_read, err);
}

static ln_status run_pending(ln_executor *executor, ln_error *err) {
    while (executor->n_pending > 0) {
        bool is_last;
        size_t n_ops = record_pending(executor, &is_last);
        LN_TRY(start_results(executor, n_ops, is_last, err));
    }
    return LINNET_OK;
}

/* Takes the last operations, which pass rows on, out of the list. */
static size_t take_passes(const ln_op *ops, size_t *n_ops, ln_op passes[LN_MAX_BORDERS]) {
    size_t n = 0;
    while (n < *n_ops && ops[*n_ops - 1 - n].kind == LN_OP_RANK_PASS)
        n++;
    LN_BUG_ON(n > LN_MAX_BORDERS);
    *n_ops -= n;
    memcpy(passes, ops + *n_ops, n * sizeof *passes);
    return n;
}

/* On the first stage: what was recorded of a micro-batch, n_ops operations, then results that are
 * due, then what passes rows on. */
static ln_status run_first_stage(ln_executor *executor, size_t n_ops, size_t n_parts,
                                 ln_error *err) {
    ln_op passes[LN_MAX_BORDERS];
    ln_op *ops = executor->ops;
    bool is_last = false;
    size_t n_passes = take_passes(ops, &n_ops, passes), n_results = 0;
    LN_TRY(run_behind(executor, n_ops, err));
    executor->scheduler->kv->n_copies = 0;
    if (executor->n_pending == n_parts - 1)
        n_results = record_pending(executor, &is_last);
    for (size_t i = 0; i < n_passes; i++) {
        ops[n_results + i] = passes[i];
        if (n_results > 0) /* a run has one batch, which passes do not read */
            ops[n_results + i].batch = ops[0].batch;
    }
    ln_values_number(ops, n_results + n_passes);
    executor->n_pending++;
    return start_results(executor, n_results + n_passes, is_last, err);
}

static ln_status run_by_part(ln_executor *executor, ln_error *err) {
    const ln_spec *spec = executor->spec;
    const ln_step *step = &executor->step;
    ln_micro_batches *parts = &executor->parts;
    size_t n_parts = (step->batch.n_tokens + step->part_tokens - 1) / step->part_tokens;
    if (executor->n_pending == 0)
        ln_micro_batches_begin(&executor->results, step, true);
    ln_micro_batches_begin(parts, step, true);
    while (ln_micro_batches_next(parts)) {
        size_t n_ops = record_batch(executor, &parts->batch, parts->first_logit);
        if (!ln_spec_follows(spec)) {
            LN_TRY(run_first_stage(executor, n_ops, n_parts, err));
            continue;
        }
        if (!ln_spec_leads(spec))
            n_ops = record_results(executor, step, &parts->batch, parts->first_logit, n_ops);
        LN_TRY(run_behind(executor, n_ops, err));
        executor->scheduler->kv->n_copies = 0;
    }
    return LINNET_OK;
}

/* ---- whole steps -------------------------------------------------------------------------- */

/* Runs all micro-batches of the step and records its results, or the last one where there are none;
 * of a step that is not divided, records all of it. */
static ln_status run_parts(ln_executor *executor, size_t *n_ops, ln_error *err) {
    const ln_spec *spec = executor->spec;
    ln_micro_batches *parts = &executor->parts;
    if (executor->step.part_tokens == 0) {
        *n_ops = record_step_results(executor, record_batch(executor, &executor->step.batch, 0));
        return LINNET_OK;
    }
    ln_micro_batches_begin(parts, &executor->step,
                           !spec->has_mixers && spec->n_encoder_layers == 0);
    while (ln_micro_batches_next(parts)) {
        *n_ops = record_batch(executor, &parts->batch, parts->first_logit);
        if (ln_micro_batches_is_last(parts) && executor->step.batch.n_logits == 0)
            return LINNET_OK;
        LN_TRY(run_behind(executor, *n_ops, err));
        executor->scheduler->kv->n_copies = 0;
    }
    *n_ops = record_step_results(executor, 0);
    return LINNET_OK;
}

static size_t row_bytes(const ln_executor *executor) {
    return executor->spec->n_vocab * sizeof(float);
}

/* Tells other ranks of adapters that the step is the first to need. */
static ln_status tell_adapters(ln_executor *executor, ln_error *err) {
    const ln_adapter_rows *rows = &executor->step.batch.adapters;
    if (executor->link.ranks == NULL || executor->link.ranks->n_ranks == 1)
        return LINNET_OK;
    for (size_t i = 0; i < rows->n_runs; i++) {
        size_t index = (size_t)rows->runs[i].slot;
        ln_adapter_slot *slot = &executor->adapters->slots[index]; /* a request has it */
        if (slot->told == slot->number)
            continue;
        LN_TRY(
            ln_rank_link_tell_adapter(&executor->link, index, slot->path, slot->info.scale, err));
        slot->told = slot->number;
    }
    return LINNET_OK;
}

/* What the others were told has failed here: they wait for this rank in it, and would take what it
 * sends later for that. So nothing follows, and the process is to end. */
static ln_status give_up(ln_executor *executor, const ln_error *why, ln_error *err) {
    ln_collectives *ranks = executor->link.ranks;
    if (ranks != NULL && ranks->n_ranks > 1)
        ln_collectives_give_up(ranks, why);
    if (err != NULL)
        *err = *why;
    return why->status;
}

/* Starts what was told; the backend's tokens come back, or all logits where it chooses none. */
static ln_status start_told(ln_executor *executor, ln_error *err) {
    ln_backend *backend = executor->backend;
    const ln_row_sampler *rows = executor->rows;
    const ln_activations *a = &executor->activations;
    ln_op *ops = executor->ops;
    size_t n_ops, n_done;
    if (executor->step.by_part)
        return run_by_part(executor, err);
    LN_TRY(run_parts(executor, &n_ops, err));
    LN_TRY(ln_cpu_layers_run(executor->cpu_layers, &executor->step.batch, &executor->kv,
                             executor->scheduler->kv, ops + n_ops, backend, a, err));
    LN_TRY(ln_cpu_experts_run(executor->cpu_experts, backend, a, ops, n_ops, &n_done, err));
    ops += n_done;
    n_ops -= n_done;
    bool samples = rows->n_sampled > 0;
    size_t bytes = samples ? chosen_bytes(&executor->step) : rows->end_logits * row_bytes(executor);
    if (backend->vtable->start == NULL)
        LN_TRY(backend->vtable->run(backend, ops, n_ops, err));
    else
        LN_TRY(start_run(executor, ops, n_ops, samples ? (void *)a->chosen : a->logits, bytes, true,
                         err));
    executor->scheduler->kv->n_copies = 0;
    return LINNET_OK;
}

/* Tells other ranks of what was built, and starts it. */
static ln_status start(ln_executor *executor, ln_error *err) {
    ln_error why = {0};
    LN_TRY(tell_adapters(executor, err));
    LN_TRY(ln_rank_link_tell(&executor->link, executor->scheduler->is_encoding, &executor->step,
                             executor->scheduler->kv->copies, executor->scheduler->kv->n_copies,
                             err));
    return start_told(executor, &why) == LINNET_OK ? LINNET_OK : give_up(executor, &why, err);
}

/* Whether a collective has failed, now or before; *err says how. */
static bool is_rank_lost(const ln_executor *executor, ln_error *err) {
    const ln_collectives *ranks = executor->link.ranks;
    bool is_lost = ranks != NULL && ranks->failure.status != LINNET_OK;
    if (is_lost && err != NULL)
        *err = ranks->failure;
    return is_lost;
}

ln_status ln_execute_start(ln_executor *executor, ln_error *err) {
    if (is_rank_lost(executor, err)) /* what the step copies is lost, too */
        return LINNET_ERR_COMPUTE;
    ln_step_build(&executor->step, executor->scheduler);
    divide_rows(executor);
    divide_step(executor);
    executor->n_pending = 0;
    return start(executor, err);
}

bool ln_execute_start_next(ln_executor *executor) {
    ln_scheduler *scheduler = executor->scheduler;
    bool has_pending = executor->n_pending > 0;
    if (executor->rows->n_sampled < scheduler->n_chunks || !executor->can_start_ahead ||
        executor->backend->profile != NULL || !ln_scheduler_can_follow(scheduler))
        return false;
    if (has_pending)
        swap_steps(executor, true);
    bool is_known = follow_draws(executor);
    if (!is_known && has_pending)
        swap_steps(executor, false);
    if (!is_known)
        return false;
    ln_step_follow(&executor->step, scheduler, executor->activations.chosen);
    divide_step(executor);
    return start(executor, NULL) == LINNET_OK; /* a failure shows in the next step, too */
}

/* ---- finishing ---------------------------------------------------------------------------- */

/* chosen: [n_logits] ids, then [n_logits] logits, then reports of those that have one. */
static void take_chosen(ln_executor *executor, const int32_t *chosen) {
    const ln_scheduler *scheduler = executor->scheduler;
    const float *best = (const float *)(const void *)(chosen + scheduler->n_logits);
    const ln_draw_report *reports = reports_behind(chosen, scheduler->n_logits);
    size_t row = 0;
    for (size_t i = 0; i < scheduler->n_chunks; i++) {
        ln_row *out = &executor->rows->rows[i];
        if (out->on_backend) {
            const ln_sequence *sequence = scheduler->chunks[i].sequence; /* NULL: it has ended */
            out->report = sequence != NULL && wants_report(sequence->group) ? &reports[row] : NULL;
            out->sampled = chosen[row];
            out->sampled_logit = best[row];
        }
        row += scheduler->chunks[i].n_logits;
    }
}

/* Waits for the results of the first step under way; what is pending of them, all ranks run now. */
static ln_status wait_for_results(ln_executor *executor, void **host, ln_error *err) {
    ln_runs *runs = &executor->runs;
    if (runs->results == 0 && !runs->is_there && executor->n_pending > 0) {
        ln_error why = {0};
        LN_TRY(ln_rank_link_tell_results(&executor->link, err));
        if (run_pending(executor, &why) != LINNET_OK)
            return give_up(executor, &why, err);
    }
    while (runs->results != 0 && !runs->is_there)
        LN_TRY(finish_first(executor, err));
    if (!runs->is_there)
        return ln_fail(err, LINNET_ERR_COMPUTE, "the step before has failed");
    *host = runs->host;
    runs->is_there = false;
    return LINNET_OK;
}

ln_status ln_execute_finish(ln_executor *executor, ln_error *err) {
    ln_backend *backend = executor->backend;
    ln_row_sampler *rows = executor->rows;
    size_t first = rows->n_sampled > 0 ? rows->first_logits : 0, n = rows->end_logits - first;
    void *host = NULL;
    if (backend->vtable->start != NULL)
        LN_TRY(wait_for_results(executor, &host, err));
    if (is_rank_lost(executor, err))
        return LINNET_ERR_COMPUTE;
    if (rows->n_sampled > 0)
        take_chosen(executor, host);
    if (executor->step.batch.n_hidden > 0) {
        size_t row = executor->spec->dim * sizeof(float);
        LN_TRY(backend->vtable->read_back(backend, executor->activations.ffn_normed,
                                          executor->step.batch.n_hidden * row, &host, err));
        ln_pooler_take(executor->pooler, executor->scheduler, host);
    }
    bool is_read = backend->vtable->start != NULL && rows->n_sampled == 0 &&
                   executor->step.batch.n_hidden == 0;
    if (!is_read && (n > 0 || backend->vtable->start == NULL))
        LN_TRY(backend->vtable->read_back(
            backend, executor->activations.logits + first * executor->spec->n_vocab,
            n * row_bytes(executor), &host, err));
    rows->first_logits = first;
    rows->logits = host;
    return ln_checkpoint_check(executor->checkpoint, err);
}

/* ---- other ranks --------------------------------------------------------------------------- */

/* Loads the adapter that rank 0 tells of. */
static bool load_adapter(ln_executor *executor, ln_error *err) {
    size_t slot;
    const char *path;
    float scale;
    ln_rank_link_adapter(&executor->link, &slot, &path, &scale);
    ln_status status = ln_adapters_put(executor->adapters, slot, path, scale, err);
    return ln_ranks_agree(executor->link.ranks, status, err) == LINNET_OK;
}

/* Runs the step that was told. */
static ln_status run_told(ln_executor *executor, ln_error *err) {
    size_t n_ops;
    if (executor->step.by_part)
        return run_by_part(executor, err);
    LN_TRY(run_parts(executor, &n_ops, err));
    if (n_ops > 0)
        LN_TRY(run_behind(executor, n_ops, err));
    executor->scheduler->kv->n_copies = 0;
    return LINNET_OK;
}

bool ln_execute_follow(ln_executor *executor, ln_error *err) {
    ln_kv_cache *kv = executor->scheduler->kv; /* where copies have room */
    ln_rank_order order;
    bool has_pending = executor->n_pending > 0;
    if (has_pending)
        swap_steps(executor, true);
    if (ln_rank_link_take(&executor->link, &order, &executor->step, executor->activations.chosen,
                          kv->copies, kv->max_copies, &kv->n_copies, err) != LINNET_OK)
        return false;
    if (order == LN_RANK_STOP) {
        (void)finish_runs(executor, 0, err);
        return false;
    }
    if (order == LN_RANK_ADAPTER)
        return load_adapter(executor, err);
    if (order == LN_RANK_RESULTS && has_pending)
        swap_steps(executor, false);
    executor->scheduler->is_encoding = order == LN_RANK_ENCODE;
    ln_status status =
        order == LN_RANK_RESULTS ? run_pending(executor, err) : run_told(executor, err);
    return status == LINNET_OK && !is_rank_lost(executor, err) &&
           ln_checkpoint_check(executor->checkpoint, err) == LINNET_OK;
}

void ln_execute_drop(ln_executor *executor) {
    void *host;
    (void)wait_for_results(executor, &host, NULL);
}
