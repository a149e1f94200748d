#include "engine/plan/kv.h"

#include "base/checked.h"
#include "kv/states.h"
#include "model/activations.h"
#include "model/shard.h"

enum { MIN_PREFIX_STATES = 8 };

_Static_assert((int)LN_KV_STATE_TOKENS == (int)LN_STATE_CHUNK, "states are where chunks begin");

/* Of K or V: rows of `dim` elements, all heads. */
static size_t block_bytes(const ln_kv_layer *layer, size_t dim) {
    return layer->n_heads * ln_kv_head_bytes(layer->dtype, layer->block_tokens, dim);
}

/* Says which states and tails belong together. */
static void join_states(const ln_spec *spec, const ln_engine_plan *plan, ln_kv_range range,
                        ln_kv_layer *kv_layers) {
    ln_state_cache *caches = (ln_state_cache *)(void *)(kv_layers + ln_kv_layer_count(spec));
    for (size_t i = 0; i < ln_kv_state_count(spec); i++) {
        ln_state_shape shape;
        size_t states;
        if (!ln_kv_state_shape(spec, i, plan->draft_tokens, &shape, &states) ||
            states < range.first || states >= range.end)
            continue;
        caches[i] = (ln_state_cache){
            .shape = shape,
            .states = &kv_layers[states],
            .tails = &kv_layers[states + 1],
        };
        kv_layers[states].recurrent = &caches[i];
    }
}

void ln_engine_plan_lay_out_kv(const ln_spec *spec, const ln_engine_plan *plan, ln_kv_range range,
                               const size_t *n_blocks, ln_layout *layout, ln_kv_layer *kv_layers,
                               void *memory) {
    for (size_t i = range.first; i < range.end; i++) {
        ln_kv_layer layer = {0};
        bool v_in_k;
        ln_kv_layer_shape(spec, i, plan->draft_tokens, &layer, &v_in_k);
        if (layer.block_tokens == 0) { /* keys and values */
            layer.dtype = ln_kv_layer_is_exact(spec, i) ? LN_KV_F32 : plan->kv_dtype;
            layer.block_tokens = layer.table_tokens = LN_KV_BLOCK_TOKENS;
            if (layer.entry_tokens > 0)
                layer.block_tokens = ln_kv_block_entries(layer.entry_tokens, LN_KV_BLOCK_TOKENS);
        }
        size_t n = n_blocks[layer.group];
        size_t k = ln_layout_add(layout, n, block_bytes(&layer, layer.k_dim));
        size_t v = k;
        if (!v_in_k)
            v = ln_layout_add(layout, n, block_bytes(&layer, layer.v_dim));
        if (kv_layers == NULL)
            continue;
        layer.k = memory != NULL ? (char *)memory + k : NULL; /* no swap space */
        layer.v = memory != NULL ? (char *)memory + v : NULL;
        kv_layers[i] = layer;
    }
    if (kv_layers != NULL)
        join_states(spec, plan, range, kv_layers);
}

/* What sequences need, and for prefixes as many again. */
static size_t count_states(const ln_kv_shape *shape, size_t g) {
    size_t n_seqs = shape->max_seqs;
    if (shape->kinds[g] == LN_KV_GROUP_TAIL)
        return n_seqs;
    size_t n_prefixes = n_seqs < MIN_PREFIX_STATES ? MIN_PREFIX_STATES : n_seqs;
    return LN_KV_STATES_PER_SEQ * n_seqs + (shape->shares_prefixes ? n_prefixes : 0);
}

/* Blocks of windows where every sequence has LN_SERVED_SEQ_TOKENS, or n_blocks if these are more.
 */
static size_t count_windows(size_t per_seq, size_t max_seqs, size_t n_blocks) {
    size_t served = ln_kv_table_blocks(LN_SERVED_SEQ_TOKENS);
    size_t of_all = per_seq + (max_seqs - 1) * (served < per_seq ? served : per_seq);
    return n_blocks > of_all ? n_blocks : of_all;
}

/* Blocks of a group's pool: by default what max_seqs sequences of ctx_tokens hold. */
static bool count_blocks(const ln_engine_plan *plan, size_t g, size_t *n_blocks) {
    const ln_kv_shape *shape = &plan->kv_shape;
    size_t per_seq = ln_kv_table_blocks(ln_engine_plan_max_encoder(plan)), scaled;
    if (shape->kinds[g] == LN_KV_GROUP_STATE || shape->kinds[g] == LN_KV_GROUP_TAIL) {
        *n_blocks = count_states(shape, g);
        return *n_blocks <= INT32_MAX / LN_KV_BLOCK_TOKENS;
    }
    if (shape->kinds[g] == LN_KV_GROUP_OWN)
        per_seq = ln_kv_blocks_needed(plan->ctx_tokens, shape->windows[g], plan->budget.max_tokens);
    if (!ln_mul(per_seq, shape->max_seqs, n_blocks) || !ln_mul(per_seq, plan->kv_tokens, &scaled))
        return false;
    size_t in_step = ln_kv_table_blocks(plan->budget.max_tokens) + shape->max_seqs;
    if (plan->spec.bidirectional && in_step < *n_blocks) /* none outlives its step */
        *n_blocks = in_step > per_seq ? in_step : per_seq;
    if (plan->kv_tokens > 0 && shape->kinds[g] == LN_KV_GROUP_OWN) {
        *n_blocks = ln_kv_table_blocks(plan->kv_tokens);
        if (shape->windows[g] > 0) /* in proportion, and enough for one */
            *n_blocks = per_seq + scaled / plan->ctx_tokens;
        if (shape->windows[g] > 0 && plan->shares_windows)
            *n_blocks = count_windows(per_seq, shape->max_seqs, *n_blocks);
    }
    return *n_blocks <= INT32_MAX / LN_KV_BLOCK_TOKENS;
}

static ln_status shape_kv(const ln_spec *spec, ln_engine_plan *plan, ln_error *err) {
    static const ln_kv_group_kind kinds[] = {[LN_KV_OWN] = LN_KV_GROUP_OWN,
                                             [LN_KV_CROSS] = LN_KV_GROUP_SOURCE,
                                             [LN_KV_ENCODER] = LN_KV_GROUP_ENCODER,
                                             [LN_KV_STATE] = LN_KV_GROUP_STATE,
                                             [LN_KV_TAIL] = LN_KV_GROUP_TAIL};
    ln_kv_shape *shape = &plan->kv_shape;
    *shape = (ln_kv_shape){
        .n_groups = spec->n_kv_groups,
        .ctx_tokens = plan->ctx_tokens,
        .max_seqs = plan->budget.max_seqs,
        .max_chunk_tokens = plan->budget.max_tokens,
        .shares_prefixes = plan->shares_prefixes,
    };
    for (size_t g = 0; g < spec->n_kv_groups; g++) {
        shape->kinds[g] = kinds[spec->kv_groups[g].kind];
        shape->windows[g] = spec->kv_groups[g].window;
        if (spec->keeps_rows && shape->windows[g] > 0)
            shape->windows[g]++; /* an assistant asks from the last cached token on, not the next */
        if (!count_blocks(plan, g, &shape->n_blocks[g]))
            return ln_fail(
                err, LINNET_ERR_LIMIT, "%zu %s of %zu tokens are more than the KV cache can number",
                shape->max_seqs, shape->max_seqs == 1 ? "sequence" : "sequences", plan->ctx_tokens);
    }
    return LINNET_OK;
}

ln_status ln_engine_plan_kv(const ln_spec *spec, ln_engine_plan *plan, ln_error *err) {
    ln_kv_shape *shape = &plan->kv_shape;
    ln_layout kv = {0}, cpu = {0}, swap = {0};
    const ln_kv_range all = {0, ln_kv_layer_count(spec)};
    const size_t n_cpu = ln_kv_layer_index(spec, plan->cpu_layers.n_layers);
    LN_TRY(shape_kv(spec, plan, err));
    ln_engine_plan_lay_out_kv(spec, plan, (ln_kv_range){0, n_cpu}, shape->n_blocks, &cpu, NULL,
                              NULL);
    ln_engine_plan_lay_out_kv(spec, plan, (ln_kv_range){n_cpu, all.end}, shape->n_blocks, &kv, NULL,
                              NULL);
    LN_TRY(ln_layout_check(&kv, "KV cache", err));
    LN_TRY(ln_layout_check(&cpu, "KV cache of the first layers", err));
    /* the same share of every pool; as many blocks on all ranks */
    double kv_bytes = (double)kv.bytes + (double)cpu.bytes;
    if (plan->n_ranks > 1) {
        ln_layout whole = {0};
        ln_engine_plan_lay_out_kv(ln_shard_whole(spec), plan, all, shape->n_blocks, &whole, NULL,
                                  NULL);
        LN_TRY(ln_layout_check(&whole, "KV cache of all ranks", err));
        const ln_mesh *mesh = &spec->ranks.mesh;
        kv_bytes = (double)whole.bytes / (double)(mesh->n_tensor * mesh->n_stages);
    }
    double share = kv_bytes > 0 ? (double)plan->swap_bytes / kv_bytes : 0;
    for (size_t g = 0; g < shape->n_groups; g++) {
        double n_blocks = share * (double)shape->n_blocks[g];
        if (n_blocks > INT32_MAX / LN_KV_BLOCK_TOKENS)
            return ln_fail(err, LINNET_ERR_LIMIT,
                           "swap_bytes is %zu, more than the swap space can number",
                           plan->swap_bytes);
        shape->n_swap_blocks[g] = (size_t)n_blocks;
    }
    ln_engine_plan_lay_out_kv(spec, plan, all, shape->n_swap_blocks, &swap, NULL, NULL);
    LN_TRY(ln_layout_check(&swap, "swap space", err));
    plan->bytes[LN_ARENA_KV] = kv.bytes;
    plan->cpu_layers.kv_bytes = cpu.bytes;
    plan->bytes[LN_ARENA_SWAP] = swap.bytes;
    return LINNET_OK;
}
