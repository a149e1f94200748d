#include "backend/cuda/runtime/graph.h"

#include <stdlib.h>
#include <string.h>

bool ln_cuda_graphs_suit(const ln_op *ops, size_t n_ops) {
    const ln_batch *batch = ops[n_ops - 1].batch;
    for (size_t i = 0; i < n_ops; i++)
        if (ops[i].kind == LN_OP_COPY)
            return false;
    return batch != NULL && batch->repeats && batch->n_tokens == batch->n_seqs;
}

static bool is_same_rows(const ln_cuda_adapter_rows *a, const ln_cuda_adapter_rows *b) {
    return a->counts == b->counts && a->most_runs == b->most_runs &&
           a->most_all_runs == b->most_all_runs && a->rows.slots == b->rows.slots &&
           a->rows.order == b->rows.order && a->rows.runs == b->rows.runs;
}

/* Kernels take counts and addresses from the step; the arrays' contents they read when they run. */
static bool is_same_step(const ln_cuda_step *a, const ln_cuda_step *b) {
    const ln_batch *x = &a->batch, *y = &b->batch;
    bool same =
        x->n_tokens == y->n_tokens && x->n_seqs == y->n_seqs && x->n_logits == y->n_logits &&
        x->n_groups == y->n_groups && x->tokens == y->tokens && x->positions == y->positions &&
        x->seq_starts == y->seq_starts && x->logit_rows == y->logit_rows && x->draws == y->draws &&
        x->hidden_rows == y->hidden_rows && x->n_hidden == y->n_hidden && x->types == y->types &&
        is_same_rows(&a->adapters, &b->adapters) &&
        is_same_rows(&a->logit_adapters, &b->logit_adapters) && x->edits == y->edits &&
        a->token_seqs == b->token_seqs && a->shares_new == b->shares_new;
    for (size_t g = 0; g < x->n_groups && same; g++)
        same = x->groups[g].block_tables == y->groups[g].block_tables &&
               x->groups[g].max_blocks == y->groups[g].max_blocks &&
               x->groups[g].lengths == y->groups[g].lengths &&
               x->groups[g].slots == y->groups[g].slots;
    return same;
}

/* The entry of such a step, or where a new one goes: one that is free, or not used for longest. */
static ln_cuda_graph_entry *find(ln_cuda_graphs *graphs, const ln_op *ops, size_t n_ops,
                                 const ln_cuda_step *step, bool *is_there) {
    ln_cuda_graph_entry *oldest = &graphs->entries[0];
    *is_there = true;
    for (size_t i = 0; i < LN_CUDA_MAX_GRAPHS; i++) {
        ln_cuda_graph_entry *entry = &graphs->entries[i];
        if (entry->n_ops == n_ops && is_same_step(&entry->step, step) &&
            memcmp(entry->ops, ops, n_ops * sizeof *ops) == 0)
            return entry;
        if (entry->last_used < oldest->last_used)
            oldest = entry;
    }
    *is_there = false;
    return oldest;
}

static void free_entry(ln_cuda_graph_entry *entry) {
    if (entry->graph != NULL)
        ln_cuda_graph_destroy(entry->graph);
    free(entry->ops);
    *entry = (ln_cuda_graph_entry){0};
}

/* Frees graphs, the one not used for longest first, until n_ops operations more may be kept. */
static void make_room(ln_cuda_graphs *graphs, size_t n_ops) {
    size_t total = n_ops;
    for (size_t i = 0; i < LN_CUDA_MAX_GRAPHS; i++)
        total += graphs->entries[i].n_ops;
    while (total > LN_CUDA_MAX_GRAPH_OPS) {
        ln_cuda_graph_entry *oldest = NULL;
        for (size_t i = 0; i < LN_CUDA_MAX_GRAPHS; i++) {
            ln_cuda_graph_entry *entry = &graphs->entries[i];
            if (entry->n_ops > 0 && (oldest == NULL || entry->last_used < oldest->last_used))
                oldest = entry;
        }
        if (oldest == NULL)
            return;
        total -= oldest->n_ops;
        free_entry(oldest);
    }
}

void ln_cuda_graphs_free(ln_cuda_graphs *graphs) {
    for (size_t i = 0; i < LN_CUDA_MAX_GRAPHS; i++)
        free_entry(&graphs->entries[i]);
}

/* Remembers a step. Without memory it does not, and the step's graph is not made. */
static void remember(ln_cuda_graph_entry *entry, const ln_op *ops, size_t n_ops,
                     const ln_cuda_step *step) {
    free_entry(entry);
    entry->ops = malloc(n_ops * sizeof *ops);
    if (entry->ops == NULL)
        return;
    memcpy(entry->ops, ops, n_ops * sizeof *ops);
    entry->n_ops = n_ops;
    entry->step = *step;
}

/* Captures what launch_all queues. */
static int capture(ln_cuda_graph_entry *entry, const ln_op *ops, size_t n_ops,
                   const ln_cuda_step *step, ln_cuda_launch_all launch_all, void *context,
                   ln_cuda_stream stream) {
    int code = ln_cuda_capture_begin(stream);
    if (code != 0)
        return code;
    code = launch_all(context, ops, n_ops, step);
    int end_code = ln_cuda_capture_end(stream, &entry->graph);
    return code == 0 ? end_code : code;
}

/* A step that comes for the first time is queued kernel by kernel, which takes less time than a
 * graph of it: where sequences begin and end, few steps come again. */
int ln_cuda_graphs_run(ln_cuda_graphs *graphs, const ln_op *ops, size_t n_ops,
                       const ln_cuda_step *step, ln_cuda_launch_all launch_all, void *context,
                       ln_cuda_stream stream) {
    bool is_there;
    ln_cuda_graph_entry *entry = find(graphs, ops, n_ops, step, &is_there);
    if (!is_there) {
        make_room(graphs, n_ops);
        remember(entry, ops, n_ops, step);
    }
    entry->last_used = ++graphs->n_launches;
    if (!is_there)
        return launch_all(context, ops, n_ops, step);
    int code =
        entry->graph != NULL ? 0 : capture(entry, ops, n_ops, step, launch_all, context, stream);
    if (code != 0) {
        free_entry(entry);
        return code;
    }
    return ln_cuda_graph_launch(entry->graph, stream);
}
