#include "engine/step.h"

#include <string.h>

#include "engine/pooler.h"
#include "kv/states.h"

_Static_assert((int)LN_KV_MAX_GROUPS >= (int)LN_MAX_KV_GROUPS, "every group of a batch");

/* Adds n ids to the layout; while binding, *array points to them. */
typedef struct binder {
    ln_layout *layout;
    char *memory; /* NULL while planning */
} binder;

static void add(const binder *b, int32_t **array, size_t count, size_t width) {
    size_t offset = ln_layout_add(b->layout, count, width * sizeof(int32_t));
    if (b->memory != NULL)
        *array = (int32_t *)(void *)(b->memory + offset);
}

static void add_adapters(const binder *b, ln_step_adapters *adapters, size_t n_rows) {
    add(b, &adapters->slots, n_rows, 1);
    add(b, &adapters->order, n_rows, 1);
    size_t runs = ln_layout_add(b->layout, n_rows, sizeof *adapters->runs);
    if (b->memory != NULL)
        adapters->runs = (ln_adapter_run *)(void *)(b->memory + runs);
}

static void bind(ln_step *step, const ln_step_budget *budget, const ln_kv_shape *shape,
                 const binder *b) {
    add(b, &step->tokens, budget->max_tokens, 1);
    add(b, &step->positions, budget->max_tokens, 1);
    add(b, &step->seq_starts, budget->max_seqs + 1, 1);
    add(b, &step->logit_rows, budget->max_logits, 1);
    add(b, &step->hidden_rows, budget->max_tokens, 1);
    add(b, &step->types, budget->max_tokens, 1);
    add(b, &step->edits, budget->max_seqs, LN_DRAW_WORDS);
    size_t draws = ln_layout_add(b->layout, budget->max_logits, sizeof *step->draws);
    if (b->memory != NULL)
        step->draws = (ln_draw *)(void *)(b->memory + draws);
    if (budget->n_adapters > 0) {
        add_adapters(b, &step->adapters, budget->max_tokens);
        add_adapters(b, &step->logit_adapters, budget->max_logits);
    }
    for (size_t g = 0; g < shape->n_groups; g++) {
        size_t max_blocks = ln_kv_table_blocks(shape->ctx_tokens);
        add(b, &step->groups[g].block_tables, budget->max_seqs, max_blocks);
        add(b, &step->groups[g].lengths, budget->max_seqs, 1);
        add(b, &step->groups[g].slots, budget->max_tokens, 1);
    }
}

void ln_step_plan(const ln_step_budget *budget, const ln_kv_shape *shape, ln_layout *layout) {
    ln_step step;
    bind(&step, budget, shape, &(binder){.layout = layout});
}

void ln_step_init(ln_step *step, const ln_step_budget *budget, const ln_kv_shape *shape,
                  void *memory) {
    ln_layout layout = {0};
    *step = (ln_step){.n_adapters = budget->n_adapters};
    bind(step, budget, shape, &(binder){.layout = &layout, .memory = memory});
    step->batch = (ln_batch){
        .n_groups = shape->n_groups,
        .repeats = true,
        .tokens = step->tokens,
        .positions = step->positions,
        .seq_starts = step->seq_starts,
        .logit_rows = step->logit_rows,
        .hidden_rows = step->hidden_rows,
        .types = step->types,
    };
    for (size_t g = 0; g < shape->n_groups; g++)
        step->batch.groups[g] = (ln_batch_group){
            .block_tables = step->groups[g].block_tables,
            .max_blocks = ln_kv_table_blocks(shape->ctx_tokens),
            .lengths = step->groups[g].lengths,
            .slots = step->groups[g].slots,
        };
}

/* Where keys and values of n_tokens tokens from n_cached on lie in each group. Tokens of the
 * decoder are written to groups of its own and see the source; those of an encoder are written to
 * the others. */
static void place(ln_step *step, const ln_scheduler *scheduler, const ln_sequence *sequence,
                  size_t n_cached, size_t n_tokens, size_t index, size_t first_token) {
    const ln_kv_cache *kv = scheduler->kv;
    bool encoding = scheduler->is_encoding;
    for (size_t g = 0; g < kv->n_groups; g++) {
        const ln_block_table *table = &kv->groups[g].tables[sequence->kv_row];
        ln_step_group *group = &step->groups[g];
        bool has_states = ln_kv_has_states(&kv->groups[g]);
        bool is_own = kv->groups[g].kind == LN_KV_GROUP_OWN;
        size_t length = is_own || has_states ? n_cached + n_tokens : sequence->group->n_encoder;
        memcpy(group->block_tables + index * kv->max_blocks, table->blocks,
               table->end * sizeof *table->blocks);
        group->lengths[index] = (int32_t)length;
        for (size_t i = 0; i < n_tokens && is_own != encoding && !has_states; i++)
            group->slots[first_token + i] = ln_kv_cache_slot(kv, g, sequence->kv_row, n_cached + i);
    }
}

/* The rows of a chunk whose hidden states are wanted, and which text its tokens are of; n_tokens
 * are before it. */
static void build_hidden(ln_step *step, const ln_chunk *chunk, size_t n_tokens) {
    bool first;
    size_t n_first = chunk->sequence->group->n_first, n_rows = ln_pooler_rows(chunk, &first);
    size_t begin = first ? n_tokens : n_tokens + chunk->n_tokens - n_rows;
    for (size_t i = 0; i < n_rows; i++)
        step->hidden_rows[step->batch.n_hidden++] = (int32_t)(begin + i);
    for (size_t i = 0; i < chunk->n_tokens; i++)
        step->types[n_tokens + i] = n_first > 0 && chunk->sequence->n_cached + i >= n_first;
}

/* Which rows of a step are a chunk's. */
typedef enum chunk_rows { ROWS_OF_TOKENS, ROWS_OF_LOGITS, ROW_THAT_FOLLOWS } chunk_rows;

static size_t count_rows(const ln_chunk *chunk, chunk_rows which) {
    return which == ROWS_OF_TOKENS   ? chunk->n_tokens
           : which == ROWS_OF_LOGITS ? chunk->n_logits
                                     : 1;
}

/* Rows that are sorted from `begin` on become runs of the slot. */
static void add_runs(const ln_step_adapters *to, ln_adapter_rows *rows, size_t slot, int32_t begin,
                     int32_t n_sorted) {
    for (; begin < n_sorted; begin += LN_ADAPTER_RUN) {
        int32_t end = begin + LN_ADAPTER_RUN < n_sorted ? begin + LN_ADAPTER_RUN : n_sorted;
        to->runs[rows->n_runs++] = (ln_adapter_run){(int32_t)slot, begin, end};
    }
}

/* The rows of each chunk by the adapter of its request. */
static ln_adapter_rows sort_rows(const ln_step *step, const ln_step_adapters *to,
                                 const ln_scheduler *scheduler, chunk_rows which) {
    ln_adapter_rows rows = {.slots = to->slots, .order = to->order, .runs = to->runs};
    int32_t n_sorted = 0;
    for (size_t slot = 0; slot <= step->n_adapters; slot++) {
        int32_t row = 0, begin = n_sorted;
        for (size_t i = 0; i < scheduler->n_chunks; i++) {
            const ln_chunk *chunk = &scheduler->chunks[i];
            int32_t end = row + (int32_t)count_rows(chunk, which);
            bool is_own = chunk->sequence->group->adapter == slot;
            for (; is_own && row < end; row++) {
                to->slots[row] = (int32_t)slot - 1;
                if (slot > 0)
                    to->order[n_sorted++] = row;
            }
            row = end;
        }
        if (slot > 0)
            add_runs(to, &rows, slot - 1, begin, n_sorted);
    }
    return rows;
}

ln_adapter_rows ln_step_sort_slots(const ln_step *step, const ln_step_adapters *to, size_t first,
                                   size_t n_rows) {
    const int32_t *slots = to->slots + first;
    ln_adapter_rows rows = {.slots = slots, .order = to->order, .runs = to->runs};
    int32_t n_sorted = 0;
    for (size_t slot = 0; slot < step->n_adapters; slot++) {
        int32_t begin = n_sorted;
        for (size_t row = 0; row < n_rows; row++)
            if (slots[row] == (int32_t)slot)
                to->order[n_sorted++] = (int32_t)row;
        add_runs(to, &rows, slot, begin, n_sorted);
    }
    return rows;
}

void ln_step_sort_adapters(ln_step *step, bool any) {
    ln_batch *batch = &step->batch;
    batch->adapters = batch->logit_adapters = (ln_adapter_rows){0};
    if (!any)
        return;
    batch->adapters = ln_step_sort_slots(step, &step->adapters, 0, batch->n_tokens);
    batch->logit_adapters = ln_step_sort_slots(step, &step->logit_adapters, 0, batch->n_logits);
}

/* Which rows have adapters; in most steps none has, and nothing is sorted. */
static void build_adapters(ln_step *step, const ln_scheduler *scheduler, bool follows) {
    bool any = false;
    for (size_t i = 0; step->n_adapters > 0 && i < scheduler->n_chunks; i++)
        any |= scheduler->chunks[i].sequence->group->adapter > 0;
    step->batch.adapters = step->batch.logit_adapters = (ln_adapter_rows){0};
    if (!any)
        return;
    step->batch.adapters =
        sort_rows(step, &step->adapters, scheduler, follows ? ROW_THAT_FOLLOWS : ROWS_OF_TOKENS);
    step->batch.logit_adapters = sort_rows(step, &step->logit_adapters, scheduler,
                                           follows ? ROW_THAT_FOLLOWS : ROWS_OF_LOGITS);
}

void ln_step_build(ln_step *step, const ln_scheduler *scheduler) {
    bool encoding = scheduler->is_encoding;
    size_t n_tokens = 0, n_logits = 0;
    step->batch.n_hidden = 0;
    for (size_t index = 0; index < scheduler->n_chunks; index++) {
        const ln_chunk *chunk = &scheduler->chunks[index];
        const ln_sequence *sequence = chunk->sequence;
        size_t n_cached = encoding ? 0 : sequence->n_cached;
        const int32_t *tokens =
            encoding ? sequence->group->encoder_tokens : sequence->tokens + n_cached;
        memcpy(step->tokens + n_tokens, tokens, chunk->n_tokens * sizeof *step->tokens);
        for (size_t i = 0; i < chunk->n_tokens; i++)
            step->positions[n_tokens + i] = (int32_t)(n_cached + i);
        place(step, scheduler, sequence, n_cached, chunk->n_tokens, index, n_tokens);
        step->seq_starts[index] = (int32_t)n_tokens;
        build_hidden(step, chunk, n_tokens);
        n_tokens += chunk->n_tokens;
        for (size_t i = chunk->n_logits; i > 0; i--)
            step->logit_rows[n_logits++] = (int32_t)(n_tokens - i);
    }
    step->seq_starts[scheduler->n_chunks] = (int32_t)n_tokens;
    step->batch.tokens = step->tokens;
    step->batch.has_device_tokens = false;
    step->batch.n_tokens = n_tokens;
    step->batch.n_seqs = scheduler->n_chunks;
    step->batch.n_logits = n_logits;
    build_adapters(step, scheduler, false);
}

void ln_step_follow(ln_step *step, const ln_scheduler *scheduler, const int32_t *tokens) {
    size_t n_chunks = scheduler->n_chunks;
    for (size_t index = 0; index < n_chunks; index++) {
        const ln_chunk *chunk = &scheduler->chunks[index];
        size_t position = chunk->sequence->n_cached + chunk->n_tokens;
        step->positions[index] = (int32_t)position;
        place(step, scheduler, chunk->sequence, position, 1, index, index);
        step->seq_starts[index] = step->logit_rows[index] = (int32_t)index;
    }
    step->seq_starts[n_chunks] = (int32_t)n_chunks;
    step->batch.tokens = tokens;
    step->batch.has_device_tokens = true;
    step->batch.n_tokens = step->batch.n_seqs = step->batch.n_logits = n_chunks;
    step->batch.n_hidden = 0;
    build_adapters(step, scheduler, true);
}
