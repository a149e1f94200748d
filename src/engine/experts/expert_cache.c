#include "engine/experts/expert_cache.h"

#include <string.h>

enum { MAX_PART_OPS = 8 };

void ln_expert_cache_lay_out(const ln_spec *spec, const ln_engine_plan *plan, ln_layout *layout,
                             char *memory, ln_expert_cache *cache) {
    const ln_cpu_experts_plan *own = &plan->cpu_experts;
    size_t most = own->stored.most_experts, n_used = 0;
    if (own->slots == 0)
        return;
    cache->slots = ln_layout_place(layout, memory, own->n_layers, sizeof *cache->slots);
    for (size_t i = 0; i < own->n_layers; i++) {
        const ln_moe_spec *moe = &spec->layers[i].ffn.moe;
        size_t n_slots = own->slots < moe->n_experts ? own->slots : moe->n_experts;
        ln_expert_slots slots;
        slots.slot_of = ln_layout_place(layout, memory, moe->n_experts, sizeof *slots.slot_of);
        slots.expert_in = ln_layout_place(layout, memory, n_slots, sizeof *slots.expert_in);
        slots.used = ln_layout_place(layout, memory, n_slots, sizeof *slots.used);
        if (memory != NULL)
            cache->slots[i] = slots;
        n_used = moe->n_used > n_used ? moe->n_used : n_used;
    }
    cache->is_wanted = ln_layout_place(layout, memory, most, sizeof *cache->is_wanted);
    cache->experts = ln_layout_place(layout, memory, most, sizeof *cache->experts);
    cache->order =
        ln_layout_place(layout, memory, plan->budget.max_tokens * n_used, sizeof *cache->order);
    cache->starts = ln_layout_place(layout, memory, most + 1, sizeof *cache->starts);
    for (size_t m = 0; m < LN_EXPERT_MATRICES; m++)
        cache->matrices[m] = ln_layout_place(layout, memory, most, sizeof **cache->matrices);
    cache->ops = ln_layout_place(layout, memory, MAX_PART_OPS, sizeof *cache->ops);
}

/* ---- slots -------------------------------------------------------------------------------- */

static ln_weight *matrices_of(const ln_layer_weights *w, size_t index) {
    return index == 0 ? w->experts_gate : index == 1 ? w->experts_up : w->experts_down;
}

/* Reads an expert into a slot, or begins to: finish waits for it. */
static ln_status read_expert(ln_expert_cache *cache, size_t layer, size_t expert, size_t slot,
                             ln_error *err) {
    const ln_layer_weights *w = &cache->weights->layers[layer];
    const ln_expert_store *store = &w->store;
    ln_backend *backend = cache->backend;
    char *memory = store->slots + slot * store->slot_bytes;
    for (size_t m = 0; m < LN_EXPERT_MATRICES; m++) {
        if (store->matrices[m] == NULL)
            continue;
        const ln_stored_matrix *matrix = &store->matrices[m][expert];
        ln_weight *weight = &matrices_of(w, m)[expert];
        const float *bias = weight->bias;
        ln_weight_request request = {.n_sources = 1,
                                     .sources = {matrix->source},
                                     .n_cols = matrix->n_cols,
                                     .use = matrix->use,
                                     .copies = true};
        LN_TRY(backend->vtable->prepare_weight(backend, &request, memory, weight, err));
        weight->bias = bias;
        memory += store->matrix_bytes[m];
    }
    return LINNET_OK;
}

static ln_status finish_reads(ln_expert_cache *cache, ln_error *err) {
    ln_backend *backend = cache->backend;
    if (backend->vtable->finish_weights != NULL)
        LN_TRY(backend->vtable->finish_weights(backend, err));
    return ln_checkpoint_check(cache->checkpoint, err);
}

ln_status ln_expert_cache_init(ln_expert_cache *cache, const linnet_model *model,
                               const ln_engine_plan *plan, const ln_weights *weights,
                               ln_error *err) {
    const ln_cpu_experts_plan *own = &plan->cpu_experts;
    cache->backend = own->backend;
    cache->checkpoint = model->checkpoint;
    cache->spec = &model->spec;
    cache->weights = weights;
    for (size_t i = 0; i < own->n_layers; i++) {
        ln_expert_slots *slots = &cache->slots[i];
        size_t n_slots = weights->layers[i].store.n_slots;
        for (size_t e = 0; e < model->spec.layers[i].ffn.moe.n_experts; e++)
            slots->slot_of[e] = e < n_slots ? (int32_t)e : -1;
        for (size_t slot = 0; slot < n_slots; slot++) {
            slots->expert_in[slot] = (int32_t)slot;
            LN_TRY(read_expert(cache, i, slot, slot, err));
        }
    }
    ln_status status = finish_reads(cache, err);
    ln_checkpoint_drop_pages(cache->checkpoint);
    return status;
}

/* The slot that was used the longest time ago; none of the part's. */
static size_t choose_slot(const ln_expert_slots *slots, size_t n_slots) {
    size_t best = 0;
    for (size_t slot = 1; slot < n_slots; slot++)
        if (slots->used[slot] < slots->used[best])
            best = slot;
    return best;
}

/* What a part that failed has read is not there, and nor is what it was to use. */
static void forget_part(ln_expert_cache *cache, ln_expert_slots *slots, size_t n_slots) {
    for (size_t slot = 0; slot < n_slots; slot++) {
        if (slots->used[slot] != cache->part)
            continue;
        if (slots->expert_in[slot] >= 0)
            slots->slot_of[slots->expert_in[slot]] = -1;
        slots->expert_in[slot] = -1;
        slots->used[slot] = 0;
    }
}

/* ---- parts -------------------------------------------------------------------------------- */

/* A layer's experts within a step: ops[0] has grouped their rows. */
typedef struct layer_run {
    const ln_op *ops;
    size_t n_ops, layer;
    bool is_first; /* part */
} layer_run;

/* An expert joins the part, which has a slot for it. */
static ln_status add_expert(ln_expert_cache *cache, const layer_run *run, size_t expert,
                            ln_error *err) {
    ln_expert_slots *slots = &cache->slots[run->layer];
    const ln_expert_store *store = &cache->weights->layers[run->layer].store;
    bool is_there = slots->slot_of[expert] >= 0;
    size_t slot = is_there ? (size_t)slots->slot_of[expert] : choose_slot(slots, store->n_slots);
    cache->is_wanted[expert] = false;
    cache->experts[cache->n_in_part++] = (int32_t)expert;
    slots->used[slot] = cache->part;
    if (is_there) {
        cache->n_hits++;
        return LINNET_OK;
    }
    if (slots->expert_in[slot] >= 0)
        slots->slot_of[slots->expert_in[slot]] = -1;
    slots->expert_in[slot] = (int32_t)expert;
    slots->slot_of[expert] = (int32_t)slot;
    cache->n_reads++;
    cache->n_read_bytes += store->file_bytes;
    return read_expert(cache, run->layer, expert, slot, err);
}

/* The part's rows, sorted by its experts, and their matrices. */
static void gather_part(ln_expert_cache *cache, const layer_run *run) {
    const ln_layer_weights *w = &cache->weights->layers[run->layer];
    const ln_op_group *group = &run->ops[0].group;
    int32_t n_rows = 0;
    for (size_t i = 0; i < cache->n_in_part; i++) {
        int32_t expert = cache->experts[i], begin = group->starts[expert];
        int32_t n = group->starts[expert + 1] - begin;
        cache->starts[i] = n_rows;
        memcpy(cache->order + n_rows, group->order + begin, (size_t)n * sizeof *cache->order);
        n_rows += n;
        for (size_t m = 0; m < LN_EXPERT_MATRICES; m++)
            if (w->store.matrices[m] != NULL)
                cache->matrices[m][i] = matrices_of(w, m)[expert];
    }
    cache->starts[cache->n_in_part] = n_rows;
}

static const ln_weight *part_matrices(const ln_expert_cache *cache, const ln_layer_weights *w,
                                      const ln_weight *matrices) {
    for (size_t m = 0; m < LN_EXPERT_MATRICES; m++)
        if (matrices != NULL && matrices == matrices_of(w, m))
            return cache->matrices[m];
    return NULL;
}

/* Computes the part's rows. Inputs that are scaled by choice are made once for all rows: they lie
 * where results will. */
static ln_status run_part(ln_expert_cache *cache, layer_run *run, ln_error *err) {
    const ln_layer_weights *w = &cache->weights->layers[run->layer];
    ln_backend *backend = cache->backend;
    size_t n_ops = 0;
    LN_TRY(finish_reads(cache, err));
    gather_part(cache, run);
    for (size_t i = 1; i < run->n_ops; i++) {
        ln_op op = run->ops[i];
        if (op.kind == LN_OP_POINTWISE && op.pointwise.function == LN_POINTWISE_SCALE &&
            op.pointwise.n_gates == 1 && !run->is_first)
            continue;
        if (op.kind == LN_OP_LINEAR) {
            op.linear.weight = part_matrices(cache, w, op.linear.weight);
            op.linear.gate = part_matrices(cache, w, op.linear.gate);
            op.linear.groups = (ln_row_groups){cache->n_in_part, cache->order, cache->starts};
        }
        cache->ops[n_ops++] = op;
    }
    if (run->is_first && backend->explainer != NULL)
        backend->explainer->is_done = false; /* operations like those of a whole step */
    run->is_first = false;
    LN_TRY(backend->vtable->run(backend, cache->ops, n_ops, err));
    cache->n_in_part = 0;
    cache->part++;
    return LINNET_OK;
}

/* Adds wanted experts, those that are there or all of them, and runs every part that is full. */
static ln_status run_wanted(ln_expert_cache *cache, layer_run *run, bool only_there,
                            ln_error *err) {
    const ln_expert_slots *slots = &cache->slots[run->layer];
    size_t n_experts = run->ops[0].group.n_experts;
    size_t n_slots = cache->weights->layers[run->layer].store.n_slots;
    for (size_t expert = 0; expert < n_experts; expert++) {
        if (!cache->is_wanted[expert] || (only_there && slots->slot_of[expert] < 0))
            continue;
        if (cache->n_in_part == n_slots)
            LN_TRY(run_part(cache, run, err));
        LN_TRY(add_expert(cache, run, expert, err));
    }
    return LINNET_OK;
}

ln_status ln_expert_cache_run(ln_expert_cache *cache, const ln_op *ops, size_t n_ops,
                              ln_error *err) {
    layer_run run = {ops, n_ops, (size_t)ops[1].layer, true};
    const ln_op_group *group = &ops[0].group;
    ln_backend *backend = cache->backend;
    LN_BUG_ON(n_ops > MAX_PART_OPS + 1);
    LN_TRY(backend->vtable->run(backend, ops, 1, err));
    for (size_t expert = 0; expert < group->n_experts; expert++)
        cache->is_wanted[expert] = group->starts[expert] < group->starts[expert + 1];
    cache->n_in_part = 0;
    cache->part++;
    ln_status status = run_wanted(cache, &run, true, err);
    if (status == LINNET_OK)
        status = run_wanted(cache, &run, false, err);
    if (status == LINNET_OK && cache->n_in_part > 0)
        status = run_part(cache, &run, err);
    if (status == LINNET_OK)
        return LINNET_OK;
    (void)finish_reads(cache, NULL); /* nothing is written to slots any more */
    forget_part(cache, &cache->slots[run.layer], cache->weights->layers[run.layer].store.n_slots);
    return status;
}
