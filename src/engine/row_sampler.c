#include "engine/row_sampler.h"

#include <stdatomic.h>

#include "engine/request/rules.h"

/* ---- memory ----------------------------------------------------------------------------- */

typedef struct rows_layout {
    size_t samplers, rows, memory, sampler_bytes, n_samplers;
} rows_layout;

/* More samplers than rows would be idle. */
static rows_layout lay_out(const ln_row_sampler_shape *shape, ln_layout *layout) {
    rows_layout r;
    ln_layout sampler = {0};
    r.n_samplers = shape->n_threads < shape->max_seqs ? shape->n_threads : shape->max_seqs;
    ln_sampler_plan(shape->n_vocab, shape->ctx_tokens, &sampler);
    r.sampler_bytes = sampler.bytes;
    r.samplers = ln_layout_add(layout, r.n_samplers, sizeof(ln_sampler));
    r.rows = ln_layout_add(layout, shape->max_seqs, sizeof(ln_row));
    r.memory = ln_layout_add(layout, r.n_samplers, r.sampler_bytes);
    layout->overflow |= sampler.overflow;
    return r;
}

void ln_row_sampler_plan(const ln_row_sampler_shape *shape, ln_layout *layout) {
    lay_out(shape, layout);
}

ln_status ln_row_sampler_init(ln_row_sampler *rows, const ln_row_sampler_shape *shape,
                              ln_backend *backend, ln_masker *masker, void *memory, ln_error *err) {
    ln_layout layout = {0};
    rows_layout at = lay_out(shape, &layout);
    char *base = memory;
    *rows = (ln_row_sampler){
        .backend = backend,
        .masker = masker,
        .n_vocab = shape->n_vocab,
        .n_samplers = at.n_samplers,
        .samplers = (ln_sampler *)(void *)(base + at.samplers),
        .rows = (ln_row *)(void *)(base + at.rows),
    };
    for (size_t i = 0; i < at.n_samplers; i++)
        ln_sampler_init(&rows->samplers[i], shape->n_vocab, shape->ctx_tokens,
                        base + at.memory + i * at.sampler_bytes);
    if (backend->vtable->share == NULL && at.n_samplers > 1)
        return ln_pool_create(at.n_samplers, &rows->pool, err);
    return LINNET_OK;
}

void ln_row_sampler_free(ln_row_sampler *rows) {
    ln_pool_destroy(rows->pool);
    rows->pool = NULL;
}

/* ---- sampling --------------------------------------------------------------------------- */

/* What the token does to its output: its logprob, and whether it completes a stop string. */
static void take_token(ln_row *row, const ln_sampler *sampler, int32_t token) {
    linnet_request *request = row->sequence->group->request;
    if (ln_request_rules_stop(&request->rules, token)) {
        row->finish = LINNET_FINISH_STOP;
        return;
    }
    if (request->rules.forces_end && row->sequence->n_tokens + 1 == row->sequence->max_tokens) {
        row->finish = LINNET_FINISH_LENGTH; /* an end stands in the token's place */
        return;
    }
    row->token = token;
    if (ln_request_note_token(request, row->sequence->index, sampler, token))
        row->finish = LINNET_FINISH_STOP;
}

ln_status ln_row_sampler_sample(ln_row_sampler *rows, ln_sampler *sampler, ln_row *row,
                                ln_error *err) {
    ln_sequence *sequence = row->sequence;
    linnet_request *request = sequence->group->request;
    ln_sample_context context = {.tokens = sequence->tokens,
                                 .n_tokens = sequence->n_tokens,
                                 .index = request->options.first_output + sequence->index,
                                 .rules = &request->rules,
                                 .mirostat_excess = &sequence->mirostat_excess};
    size_t n_prompt = sequence->group->n_prompt;
    bool is_complete = false; /* the grammar's text */
    ln_status status = LINNET_OK;
    int32_t token = row->sampled;
    row->token = -1;
    row->finish = LINNET_FINISH_NONE;
    if (row->on_backend) {
        LN_TRY(ln_sampler_check_best(row->sampled, row->sampled_logit, err));
        if (row->report != NULL)
            ln_request_put_logprobs(request, sequence->index, sampler, row->report, token);
        take_token(row, sampler, token);
        row->is_sampled = true;
        return LINNET_OK;
    }
    ln_request_take_logprobs(request, sequence->index, sampler, row->logits);
    if (request->grammar != NULL)
        status = ln_masker_apply(rows->masker, request->grammar, &sequence->grammar_state,
                                 sequence->tokens + n_prompt, sequence->n_tokens - n_prompt,
                                 request->rules.stop_ids, request->rules.n_stop_ids, row->logits,
                                 &is_complete, err);
    if (status != LINNET_OK)
        return ln_error_prefix(err, status, "grammar");
    if (is_complete)
        row->finish = LINNET_FINISH_STOP;
    else
        LN_TRY(ln_sampler_sample(sampler, &request->options.sampling, &context, row->logits, &token,
                                 err));
    if (!is_complete)
        take_token(row, sampler, token);
    row->is_sampled = true;
    return LINNET_OK;
}

typedef struct row_work {
    ln_row_sampler *rows;
    atomic_size_t next;
} row_work;

/* A thread's part: row after row, as long as there are any. */
static void sample_rows(void *context, size_t worker) {
    row_work *work = context;
    ln_row_sampler *rows = work->rows;
    if (worker >= rows->n_samplers)
        return;
    for (size_t i; (i = atomic_fetch_add(&work->next, 1)) < rows->n_rows;) {
        ln_row *row = &rows->rows[i];
        if (row->on_backend ||
            (row->logits != NULL && row->sequence->group->request->grammar == NULL))
            (void)ln_row_sampler_sample(rows, &rows->samplers[worker], row, NULL);
    }
}

void ln_row_sampler_sample_all(ln_row_sampler *rows) {
    const ln_backend_vtable *vtable = rows->backend->vtable;
    row_work work = {.rows = rows};
    atomic_init(&work.next, 0);
    if (rows->n_rows < 2 || rows->n_samplers < 2)
        sample_rows(&work, 0);
    else if (vtable->share != NULL)
        vtable->share(rows->backend, sample_rows, &work);
    else
        ln_pool_run(rows->pool, sample_rows, &work);
}
