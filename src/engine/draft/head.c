#include "engine/draft/head.h"

#include <math.h>
#include <string.h>

#include "engine/draft/length.h"
#include "engine/draft/sample.h"
#include "engine/plan/draft.h"
#include "model/load.h"

/* ---- memory ------------------------------------------------------------------------------- */

/* The model's tokens that the head's are: d2t says how far each is from its own number, in GGUF
 * which they are; without it they are the same. */
static ln_status read_ids(ln_draft_head *head, ln_error *err) {
    const ln_checkpoint *checkpoint = head->plan->draft.head->checkpoint;
    const ln_tensor *tensor = ln_checkpoint_find(checkpoint, "d2t");
    size_t n = head->spec->n_vocab, n_vocab = head->executor->spec->n_vocab;
    bool is_gguf = ln_checkpoint_get_format(checkpoint) == LN_FORMAT_GGUF;
    bool is_there = tensor != NULL && tensor->n_dims == 1 && tensor->dims[0] == n &&
                    tensor->dtype == LN_DTYPE_I64;
    if (!is_there && (tensor != NULL || n != n_vocab))
        return ln_fail(err, LINNET_ERR_FORMAT,
                       "%s: tensor d2t is not an I64 for each of %zu tokens",
                       ln_checkpoint_path(checkpoint), n);
    for (size_t i = 0; i < n; i++) {
        int64_t id = (int64_t)i, stored = 0;
        if (is_there)
            memcpy(&stored, tensor->data + i * sizeof stored, sizeof stored);
        bool fits = !__builtin_add_overflow(stored, is_there && is_gguf ? 0 : id, &id);
        if (!fits || id < 0 || id >= (int64_t)n_vocab)
            return ln_fail(err, LINNET_ERR_FORMAT, "%s: tensor d2t has impossible tokens",
                           ln_checkpoint_path(checkpoint));
        head->ids[i] = (int32_t)id;
    }
    return ln_checkpoint_check(checkpoint, err);
}

/* What a head of its own folder has besides. */
static ln_status init_own(ln_draft_head *head, ln_error *err) {
    ln_backend *backend = head->executor->backend;
    const ln_activations_shape shape = ln_engine_plan_head_activations(head->plan);
    LN_TRY(backend->vtable->reserve(backend, head->plan->draft.activation_bytes,
                                    "activations of the head", &head->activation_memory, err));
    ln_activations_bind(head->spec, &shape, head->activation_memory, &head->own);
    return read_ids(head, err);
}

ln_status ln_draft_head_init(ln_draft_head *head, const linnet_model *model,
                             const ln_engine_plan *plan, const ln_executor *executor,
                             ln_sampler *sampler, ln_error *err) {
    *head = (ln_draft_head){.plan = plan, .executor = executor, .sampler = sampler};
    const linnet_model *own = plan->draft.head;
    if (!ln_engine_plan_has_head(plan))
        return LINNET_OK;
    head->spec = own != NULL ? &own->spec : &plan->spec;
    head->activations = own != NULL ? &head->own : &executor->activations;
    ln_weights_options options = ln_engine_plan_weights_options(plan);
    options.head = true;
    options.model = executor->weights;
    options.progress = (ln_load_progress){0};
    options.first_layer = 0;
    LN_TRY(ln_weights_load((own != NULL ? own : model)->checkpoint, head->spec, &options,
                           executor->backend, &head->weights, err));
    head->has_weights = true;
    LN_TRY(ln_reserve(plan->draft.host_bytes, "head that drafts", &head->memory, err));
    ln_layout host = {0};
    ln_head_layout at = ln_engine_plan_lay_out_head(plan, &host);
    char *base = head->memory;
    head->ops = (ln_op *)(void *)(base + at.ops);
    head->asked = (ln_sequence **)(void *)(base + at.asked);
    head->rows = (int32_t *)(void *)(base + at.rows);
    ln_step_init(&head->step, &plan->budget, &plan->kv_shape, base + at.step);
    if (own == NULL)
        return LINNET_OK;
    head->ids = (int32_t *)(void *)(base + at.ids);
    head->row = (float *)(void *)(base + at.row);
    return init_own(head, err);
}

void ln_draft_head_free(ln_draft_head *head) {
    if (head->plan == NULL || !ln_engine_plan_has_head(head->plan))
        return;
    ln_unreserve(head->memory, head->plan->draft.host_bytes);
    head->executor->backend->vtable->release(head->executor->backend, head->activation_memory,
                                             head->plan->draft.activation_bytes);
    if (head->has_weights)
        ln_weights_free(&head->weights, head->executor->backend);
}

size_t ln_draft_head_bytes(const ln_draft_head *head) {
    if (!ln_engine_plan_has_head(head->plan))
        return 0;
    const ln_draft_plan *plan = &head->plan->draft;
    size_t of_model = plan->head != NULL ? ln_engine_plan_tokenizer_bytes(plan->head) +
                                               ln_engine_plan_header_bytes(plan->head)
                                         : 0;
    return head->weights.memory_bytes + head->weights.table_bytes + plan->host_bytes +
           plan->activation_bytes + of_model;
}

/* ---- batches ------------------------------------------------------------------------------ */

static void begin_batch(ln_draft_head *head) {
    head->step.batch.n_tokens = head->step.batch.n_seqs = head->step.batch.n_logits = 0;
    head->step.seq_starts[0] = 0;
}

/* Whether a layer reads this KV group: the head's own, or one of an assistant. */
static bool reads_group(const ln_draft_head *head, size_t g) {
    const ln_spec *plan = &head->plan->spec;
    const ln_layer_spec *layers = plan->head != NULL ? plan->head : head->spec->layers;
    size_t n_layers = plan->head != NULL ? plan->n_head_layers : head->spec->n_layers;
    for (size_t i = 0; i < n_layers; i++)
        if (layers[i].attention.kv_group == g)
            return true;
    return false;
}

/* Where a KV group has positions [begin, end) of a sequence, the batch's next one. */
static void add_blocks(ln_draft_head *head, const ln_sequence *sequence, size_t g, size_t begin,
                       size_t end) {
    ln_step *step = &head->step;
    const ln_batch *batch = &step->batch;
    const ln_kv_cache *kv = head->executor->scheduler->kv;
    const ln_block_table *table = &kv->groups[g].tables[sequence->kv_row];
    for (size_t i = 0; i < end - begin; i++)
        step->groups[g].slots[batch->n_tokens + i] =
            ln_kv_cache_slot(kv, g, sequence->kv_row, begin + i);
    memcpy(step->groups[g].block_tables + batch->n_seqs * kv->max_blocks, table->blocks,
           table->end * sizeof *table->blocks);
    step->groups[g].lengths[batch->n_seqs] = (int32_t)end;
}

/* Adds positions [begin, end) of a sequence, whose hidden states are rows from first_row on, each
 * with the token `ahead` behind it, a draft too; the logits of the last one are wanted or not. */
static void add(ln_draft_head *head, const ln_sequence *sequence, size_t begin, size_t end,
                size_t ahead, size_t first_row, bool wants_logits) {
    ln_step *step = &head->step;
    ln_batch *batch = &step->batch;
    for (size_t i = 0; i < end - begin; i++) {
        step->tokens[batch->n_tokens + i] = sequence->tokens[begin + i + ahead];
        step->positions[batch->n_tokens + i] = (int32_t)(begin + i);
        head->rows[batch->n_tokens + i] = (int32_t)(first_row + i);
    }
    for (size_t g = 0; g < batch->n_groups; g++)
        if (reads_group(head, g))
            add_blocks(head, sequence, g, begin, end);
    batch->n_tokens += end - begin;
    step->seq_starts[++batch->n_seqs] = (int32_t)batch->n_tokens;
    if (wants_logits)
        step->logit_rows[batch->n_logits++] = (int32_t)batch->n_tokens - 1;
}

/* What an assistant reads: the last hidden state, and at its position the token behind it, later
 * the last draft. */
static void add_last(ln_draft_head *head, const ln_sequence *sequence, size_t number, size_t row) {
    size_t at = sequence->n_tokens - 2;
    add(head, sequence, at, at + 1, number + 1, row, true);
}

/* A block whose first token is the sequence's last one, and masks of its n_draft drafts; false, and
 * nothing happens, where the batch has no room for it. */
static bool add_block(ln_draft_head *head, const ln_sequence *sequence) {
    ln_step *step = &head->step;
    ln_batch *batch = &step->batch;
    size_t first = sequence->n_tokens - 1, n = 1 + sequence->n_draft;
    if (batch->n_tokens + n > head->plan->budget.max_tokens ||
        batch->n_logits + n - 1 > ln_engine_plan_head_activations(head->plan).max_logits)
        return false;
    for (size_t g = 0; g < batch->n_groups; g++)
        if (reads_group(head, g))
            add_blocks(head, sequence, g, first, first + n);
    for (size_t i = 0; i < n; i++) {
        step->tokens[batch->n_tokens] =
            i == 0 ? sequence->tokens[first] : head->spec->dflash.mask_token;
        step->positions[batch->n_tokens] = (int32_t)(first + i);
        if (i > 0)
            step->logit_rows[batch->n_logits++] = (int32_t)batch->n_tokens;
        batch->n_tokens++;
    }
    step->seq_starts[++batch->n_seqs] = (int32_t)batch->n_tokens;
    return true;
}

/* Runs the batch on hidden states of the model's last step, or on the head's own. */
static bool run_batch(ln_draft_head *head, bool of_model) {
    const ln_executor *executor = head->executor;
    const ln_batch *batch = &head->step.batch;
    const ln_weights *weights = of_model ? executor->weights : &head->weights;
    const ln_activations *model = &executor->activations;
    bool assists = head->spec->assisted_dim > 0;
    ln_head_input in = {.norm = &weights->output_norm, .rows = head->rows};
    if (of_model)
        in.aux_hidden = assists ? model->x : model->aux_hidden;
    else if (assists)
        in.norm = &head->weights.head.aux_norm;
    const ln_kv_layer *kv = executor->kv.layers;
    if (!assists)
        kv += ln_kv_layer_count(executor->spec) - executor->spec->n_head_layers;
    void *logits = NULL;
    if (batch->n_tokens == 0)
        return true;
    head->step.batch.hidden_rows = head->rows;
    head->step.batch.n_hidden = batch->n_tokens;
    size_t n_ops = ln_forward_record_head(head->spec, &head->weights, head->activations, kv, batch,
                                          &in, head->ops);
    const ln_backend_vtable *vtable = executor->backend->vtable;
    size_t bytes = batch->n_logits * head->spec->n_vocab * sizeof(float);
    bool runs = vtable->run(executor->backend, head->ops, n_ops, NULL) == LINNET_OK;
    if (runs && bytes > 0)
        runs = vtable->read_back(executor->backend, head->activations->logits, bytes, &logits,
                                 NULL) == LINNET_OK;
    head->logits = logits;
    return runs;
}

/* ---- drafts ------------------------------------------------------------------------------- */

/* Whether a sequence whose next token follows gets drafts: n_draft of them, for which it has
 * blocks. Not where others have just been forked from it: blocks that become its own are copied
 * before the next step, and what the head wrote to them would be lost. */
static bool wants_drafts(const ln_scheduler *scheduler, const ln_chunk *chunk, size_t most) {
    ln_sequence *sequence = chunk->sequence;
    size_t length = ln_speculate_length(sequence, most);
    if (chunk->begins_group && sequence->group->n_live > 1)
        return false;
    if (length == 0 || !ln_kv_cache_extend(scheduler->kv, sequence->kv_row, sequence->n_cached,
                                           sequence->n_tokens + length))
        return false;
    sequence->n_draft = length;
    return true;
}

/* Puts what the step computed into a batch, as far as the next tokens are known; returns how many
 * sequences are asked for a token. Beams have changed places since, and are left out. */
static size_t follow_step(ln_draft_head *head, const ln_scheduler *scheduler, size_t most) {
    size_t n_asked = 0, row = 0;
    bool in_blocks = head->spec->dflash.block_tokens > 0;
    begin_batch(head);
    for (size_t i = 0; i < scheduler->n_chunks; i++) {
        const ln_chunk *chunk = &scheduler->chunks[i];
        ln_sequence *sequence = chunk->sequence;
        size_t first_row = row;
        row += chunk->n_tokens;
        if (sequence == NULL || !sequence->has_row ||
            (sequence->group->in_lockstep && sequence->group->is_forked))
            continue;
        size_t begin = (size_t)head->executor->step.positions[first_row];
        size_t end = begin + chunk->n_tokens;
        end = end < sequence->n_cached ? end : sequence->n_cached;
        end = end < sequence->n_tokens ? end : sequence->n_tokens - 1;
        if (begin >= end)
            continue;
        bool is_asked = end + 1 == sequence->n_tokens && wants_drafts(scheduler, chunk, most);
        if (is_asked)
            head->asked[n_asked++] = sequence;
        if (head->spec->assisted_dim == 0)
            add(head, sequence, begin, end, 1, first_row, is_asked && !in_blocks);
        else if (is_asked)
            add_last(head, sequence, 0, first_row + end - 1 - begin);
    }
    return n_asked;
}

/* The logits of all tokens of the model, of which those that the head cannot draft are impossible.
 */
static float *logits_of(const ln_draft_head *head, size_t i) {
    size_t n = head->spec->n_vocab;
    float *own = head->logits + i * n;
    if (head->ids == NULL)
        return own;
    for (size_t id = 0; id < head->executor->spec->n_vocab; id++)
        head->row[id] = -INFINITY;
    for (size_t id = 0; id < n; id++)
        head->row[head->ids[id]] = own[id];
    return head->row;
}

/* Draft `number` of those that are asked, from their rows of logits; keeps those that want another
 * one and puts it into the next batch, which reads the hidden states of this one. */
static size_t take_drafted(ln_draft_head *head, size_t n_asked, size_t number) {
    size_t n_left = 0;
    begin_batch(head);
    for (size_t i = 0; i < n_asked; i++) {
        ln_sequence *sequence = head->asked[i];
        size_t row = (size_t)head->step.logit_rows[i], at = sequence->n_tokens - 1 + number;
        if (!ln_draft_sample(head->sampler, sequence, number, logits_of(head, i)))
            sequence->n_draft = number;
        if (sequence->n_draft <= number + 1)
            continue;
        if (head->spec->assisted_dim > 0)
            add_last(head, sequence, number + 1, row);
        else
            add(head, sequence, at, at + 1, 1, row, true);
        head->asked[n_left++] = sequence;
    }
    return n_left;
}

/* The drafts of a block, whose first row of logits is this one. */
static void take_block(ln_draft_head *head, ln_sequence *sequence, size_t row) {
    size_t n = sequence->n_draft;
    for (size_t number = 0; number < n; number++)
        if (!ln_draft_sample(head->sampler, sequence, number, logits_of(head, row + number))) {
            sequence->n_draft = number;
            return;
        }
}

/* How many tokens a block drafts at most, by the room of a batch, too. */
static size_t longest_block(const ln_draft_head *head, size_t most) {
    const size_t limits[] = {head->spec->dflash.block_tokens - 1, head->plan->budget.max_tokens - 1,
                             ln_engine_plan_head_activations(head->plan).max_logits};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        most = most < limits[i] ? most : limits[i];
    return most;
}

/* Drafts blocks of those that are asked, as many in a batch as it has room for. */
static bool draft_in_blocks(ln_draft_head *head, size_t n_asked) {
    for (size_t first = 0, end = 0; first < n_asked; first = end) {
        begin_batch(head);
        while (end < n_asked && add_block(head, head->asked[end]))
            end++;
        if (end == first || !run_batch(head, false))
            return false;
        for (size_t i = first, row = 0; i < end; i++) {
            size_t n = head->asked[i]->n_draft;
            take_block(head, head->asked[i], row);
            row += n;
        }
    }
    return true;
}

static void forget_drafts(const ln_scheduler *scheduler) {
    for (size_t g = 0; g < scheduler->queues.n_running; g++) {
        const ln_sequence_group *group = scheduler->queues.running[g];
        for (size_t i = 0; i < group->n_sequences; i++)
            group->sequences[i].n_draft = 0;
    }
}

void ln_draft_head_propose(ln_draft_head *head, const ln_scheduler *scheduler, size_t most) {
    forget_drafts(scheduler);
    if (!head->has_step)
        return;
    head->has_step = false;
    bool in_blocks = head->spec->dflash.block_tokens > 0;
    size_t n_asked = follow_step(head, scheduler, in_blocks ? longest_block(head, most) : most);
    bool runs = run_batch(head, true);
    if (runs && in_blocks)
        runs = draft_in_blocks(head, n_asked);
    for (size_t number = 0; runs && n_asked > 0 && !in_blocks; number++) {
        n_asked = take_drafted(head, n_asked, number);
        runs = run_batch(head, false);
    }
    if (!runs)
        forget_drafts(scheduler);
}
