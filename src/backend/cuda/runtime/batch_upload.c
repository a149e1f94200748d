#include "backend/cuda/runtime/batch_upload.h"

#include <string.h>

#include "base/error.h"

enum {
    ALIGN = 16,
    DRAW_WORDS = sizeof(ln_draw) / sizeof(int32_t),
    RUN_WORDS = sizeof(ln_adapter_run) / sizeof(int32_t)
};

static size_t align_up(size_t bytes) {
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static size_t array_bytes(size_t count) {
    return align_up(count * sizeof(int32_t));
}

size_t ln_cuda_batch_upload_bytes(const ln_step_limits *limits) {
    size_t group = array_bytes(limits->max_seqs * limits->max_blocks) +
                   array_bytes(limits->max_seqs) + array_bytes(limits->max_tokens);
    size_t adapters = 2 * array_bytes(limits->max_tokens) + array_bytes(2) +
                      array_bytes(limits->max_tokens * RUN_WORDS); /* of tokens, or of logits */
    return 6 * array_bytes(limits->max_tokens) + array_bytes(limits->max_tokens * DRAW_WORDS) +
           array_bytes(limits->max_seqs + 1) + LN_MAX_KV_GROUPS * group +
           (limits->n_adapters > 0 ? 2 * adapters : 0) +
           array_bytes(limits->max_seqs * LN_DRAW_WORDS);
}

/* Where the next array goes. */
typedef struct writer {
    ln_cuda_batch_upload *upload;
    size_t at; /* bytes used */
} writer;

/* Room for n ids: to be filled at the result, and found by kernels at *device. */
static int32_t *add(writer *w, size_t n, const int32_t **device) {
    char *buffer = w->upload->host + w->upload->buffer * w->upload->bytes;
    int32_t *host = (int32_t *)(void *)(buffer + w->at);
    *device = (const int32_t *)(const void *)(w->upload->device + w->at);
    w->at += array_bytes(n);
    LN_BUG_ON(w->at > w->upload->bytes);
    return host;
}

static void add_copy(writer *w, const int32_t *ids, size_t n, const int32_t **device) {
    memcpy(add(w, n, device), ids, n * sizeof *ids);
}

/* Widths of block tables are powers of two, so that steps that follow another keep their layout. */
static size_t table_width(size_t n_blocks) {
    size_t width = 16;
    while (width < n_blocks)
        width *= 2;
    return width;
}

/* Entries of a table that sequences of up to `longest` tokens have. */
static size_t count_entries(const ln_cuda_table_use *use, size_t longest) {
    if (use->has_tail)
        return 1;
    if (use->has_states)
        return longest / LN_STATE_CHUNK + 1;
    return (longest + use->block_tokens - 1) / use->block_tokens;
}

static void add_group(writer *w, const ln_batch *batch, const ln_batch_group *group,
                      const ln_cuda_table_use *use, ln_batch_group *out) {
    size_t longest = 0;
    for (size_t seq = 0; seq < batch->n_seqs; seq++)
        if ((size_t)group->lengths[seq] > longest)
            longest = (size_t)group->lengths[seq];
    size_t n_blocks = count_entries(use, longest);
    LN_BUG_ON(n_blocks > group->max_blocks);
    n_blocks = table_width(n_blocks);
    n_blocks = n_blocks < group->max_blocks ? n_blocks : group->max_blocks;
    int32_t *tables = add(w, batch->n_seqs * n_blocks, &out->block_tables);
    for (size_t seq = 0; seq < batch->n_seqs; seq++)
        memcpy(tables + seq * n_blocks, group->block_tables + seq * group->max_blocks,
               n_blocks * sizeof *tables);
    out->max_blocks = n_blocks;
    add_copy(w, group->lengths, batch->n_seqs, &out->lengths);
    if (use->block_tokens > 0) /* states and tails have no slots */
        add_copy(w, group->slots, batch->n_tokens, &out->slots);
}

/* The runs of n_rows rows in n_groups groups, at most. */
static size_t most_runs(size_t n_groups, size_t n_rows) {
    size_t most = n_groups + n_rows / LN_ADAPTER_RUN;
    return most < n_rows ? most : n_rows;
}

/* Rows with adapters, and behind their runs those of the other rows. */
static void add_adapters(writer *w, const ln_adapter_rows *rows, size_t n_rows, bool repeats,
                         ln_cuda_adapter_rows *to) {
    ln_adapter_rows *out = &to->rows;
    *to = (ln_cuda_adapter_rows){.rows.n_runs = rows->n_runs};
    if (rows->n_runs == 0)
        return;
    const int32_t *device_runs;
    int32_t *counts = add(w, 2, &to->counts);
    add_copy(w, rows->slots, n_rows, &out->slots);
    int32_t *order = add(w, n_rows, &out->order);
    ln_adapter_run *runs = (void *)add(w, n_rows * RUN_WORDS, &device_runs);
    out->runs = (const ln_adapter_run *)(const void *)device_runs;
    int32_t n = rows->runs[rows->n_runs - 1].end;
    size_t n_runs = rows->n_runs;
    memcpy(order, rows->order, (size_t)n * sizeof *order);
    memcpy(runs, rows->runs, n_runs * sizeof *runs);
    for (size_t row = 0; row < n_rows; row++) {
        ln_adapter_run *last = &runs[n_runs - 1];
        if (rows->slots[row] >= 0)
            continue;
        order[n++] = (int32_t)row;
        if (last->slot < 0 && last->end - last->begin < LN_ADAPTER_RUN)
            last->end = n;
        else
            runs[n_runs++] = (ln_adapter_run){-1, n - 1, n};
    }
    size_t n_adapters = w->upload->n_adapters;
    counts[0] = (int32_t)rows->n_runs;
    counts[1] = (int32_t)n_runs;
    to->most_runs = repeats ? most_runs(n_adapters, n_rows) : rows->n_runs;
    to->most_all_runs = repeats ? most_runs(n_adapters + 1, n_rows) : n_runs;
}

/* Whether several sequences have the block that sequence `owner` writes its token to. column: of
 * block number `index`, the block of each sequence, -1 where it has none. */
static bool is_shared(const int32_t *column, size_t n_seqs, int32_t block) {
    size_t n = 0;
    for (size_t seq = 0; seq < n_seqs; seq++)
        n += column[seq] == block;
    return n > 1;
}

/* Whether, of sequences of one token, one has the block of another that its token goes to; of many
 * it may. */
static bool shares_new(const ln_batch *batch, const ln_batch_group *group, size_t block_tokens) {
    enum { MANY = 1024 };
    int32_t column[MANY], last[MANY]; /* last: the number of the block that a token goes to */
    size_t n = batch->n_seqs;
    if (batch->n_tokens != n)
        return false;
    if (n > MANY)
        return true;
    for (size_t seq = 0; seq < n; seq++)
        last[seq] = (int32_t)(((size_t)group->lengths[seq] - 1) / block_tokens);
    for (size_t first = 0; first < n; first++) {
        int32_t index = last[first];
        if (index < 0)
            continue; /* with an earlier one of the same number */
        for (size_t seq = 0; seq < n; seq++) {
            bool is_there = (size_t)group->lengths[seq] > (size_t)index * block_tokens;
            column[seq] =
                is_there ? group->block_tables[seq * group->max_blocks + (size_t)index] : -1;
        }
        for (size_t seq = first; seq < n; seq++) {
            if (last[seq] != index)
                continue;
            if (is_shared(column, n, column[seq]))
                return true;
            last[seq] = -1;
        }
    }
    return false;
}

/* Tokens of one sequence, and seqs [n_tokens], the sequence of each token. */
static void count_tokens(const ln_batch *batch, int32_t *seqs, ln_cuda_step *step) {
    size_t n_single = 0;
    step->least_tokens = batch->n_tokens;
    for (size_t seq = 0; seq < batch->n_seqs; seq++) {
        size_t n = (size_t)(batch->seq_starts[seq + 1] - batch->seq_starts[seq]);
        step->least_tokens = n < step->least_tokens ? n : step->least_tokens;
        step->most_tokens = n > step->most_tokens ? n : step->most_tokens;
        step->n_decodes += n == 1 && n_single == seq;
        n_single += n == 1;
        for (int32_t token = batch->seq_starts[seq]; token < batch->seq_starts[seq + 1]; token++)
            seqs[token] = (int32_t)seq;
    }
    if (step->n_decodes < n_single)
        step->n_decodes = 0;
}

int ln_cuda_batch_send(ln_cuda_batch_upload *upload, const ln_batch *batch,
                       const ln_cuda_table_use *uses, ln_cuda_step *step, ln_cuda_stream stream) {
    writer w = {.upload = upload};
    upload->buffer = (upload->buffer + 1) % LN_MAX_STARTED;
    *step = (ln_cuda_step){.batch = *batch};
    ln_batch *out = &step->batch;
    if (batch->tokens != NULL && !batch->has_device_tokens)
        add_copy(&w, batch->tokens, batch->n_tokens, &out->tokens);
    else if (batch->tokens != NULL)
        add(&w, batch->n_tokens, &(const int32_t *){NULL}); /* what follows lies where it did */
    if (batch->positions != NULL)
        add_copy(&w, batch->positions, batch->n_tokens, &out->positions);
    if (batch->logit_rows != NULL)
        add_copy(&w, batch->logit_rows, batch->n_logits, &out->logit_rows);
    if (batch->hidden_rows != NULL)
        add_copy(&w, batch->hidden_rows, batch->n_hidden, &out->hidden_rows);
    if (batch->types != NULL)
        add_copy(&w, batch->types, batch->n_tokens, &out->types);
    const int32_t *draws = NULL;
    if (batch->draws != NULL)
        memcpy(add(&w, batch->n_logits * DRAW_WORDS, &draws), batch->draws,
               batch->n_logits * sizeof *batch->draws);
    out->draws = (const ln_draw *)(const void *)draws;
    if (batch->seq_starts != NULL) {
        add_copy(&w, batch->seq_starts, batch->n_seqs + 1, &out->seq_starts);
        int32_t *seqs = add(&w, batch->n_tokens, &step->token_seqs);
        count_tokens(batch, seqs, step);
    }
    for (size_t g = 0; g < LN_MAX_KV_GROUPS; g++) {
        out->groups[g] = (ln_batch_group){0};
        const ln_cuda_table_use *use = &uses[g];
        if (use->block_tokens == 0 && !use->has_states && !use->has_tail)
            continue;
        add_group(&w, batch, &batch->groups[g], use, &out->groups[g]);
        if (use->block_tokens > 0)
            step->shares_new |= shares_new(batch, &batch->groups[g], use->block_tokens);
    }
    bool repeats = batch->repeats && batch->n_tokens == batch->n_seqs; /* as graphs want it */
    add_adapters(&w, &batch->adapters, batch->n_tokens, repeats, &step->adapters);
    add_adapters(&w, &batch->logit_adapters, batch->n_logits, repeats, &step->logit_adapters);
    out->adapters = step->adapters.rows;
    out->logit_adapters = step->logit_adapters.rows;
    out->edits = NULL;
    if (batch->edits != NULL) /* last, as their number changes from step to step */
        add_copy(&w, batch->edits, batch->n_edit_rows * LN_DRAW_WORDS, &out->edits);
    return ln_cuda_copy_to_device(upload->device, upload->host + upload->buffer * upload->bytes,
                                  w.at, stream);
}
