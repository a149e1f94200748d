/* MiniMax M3: what chooses the blocks that layers see, which nothing reads here: contexts have no
 * more blocks. */
#include "convert/sparse_blocks.h"

#include "convert/metadata.h"

static const ln_tensor *find(const ln_convert_plan *plan, ln_tensor_id id) {
    const ln_binding *binding;
    return ln_family_find(plan->spec->family, plan->checkpoint, id, &binding);
}

ln_status ln_convert_block_indexer(ln_convert_plan *plan, ln_tensor_id id) {
    static const ln_role matrices[] = {LN_ROLE_INDEX_Q, LN_ROLE_INDEX_K};
    static const ln_role norms[] = {LN_ROLE_INDEX_Q_NORM, LN_ROLE_INDEX_K_NORM};
    for (size_t i = 0; i < 2 && plan->spec->family->sparse_blocks; i++) {
        const ln_tensor *matrix = find(plan, ln_id_as(id, matrices[i]));
        const ln_tensor *norm = find(plan, ln_id_as(id, norms[i]));
        if (matrix == NULL || norm == NULL)
            continue;
        LN_TRY(ln_convert_matrix(plan, ln_id_as(id, matrices[i]), (size_t)matrix->dims[0],
                                 plan->spec->dim));
        LN_TRY(ln_convert_norm(plan, ln_id_as(id, norms[i]), (size_t)norm->n_elems));
    }
    return LINNET_OK;
}

const char *ln_convert_unknown_blocks(const ln_convert_plan *plan) {
    const ln_spec *spec = plan->spec;
    for (size_t i = 0; i < spec->n_layers && spec->family->sparse_blocks; i++) {
        const ln_moe_spec *moe = &spec->layers[i].ffn.moe;
        ln_tensor_id id = {.role = LN_ROLE_INDEX_Q, .layer = i};
        if ((find(plan, id) != NULL) != (moe->n_experts > 0))
            return "layers with experts that see all, or without that do not";
        if (moe->n_experts > 0 && moe->shared_hidden % moe->n_hidden != 0)
            return "a shared expert of this width";
    }
    return NULL;
}

void ln_convert_put_blocks(const ln_convert_plan *plan, ln_gguf_writer *writer) {
    const ln_spec *spec = plan->spec;
    ln_tensor_id q = {.role = LN_ROLE_INDEX_Q}, k = {.role = LN_ROLE_INDEX_K};
    if (!plan->target->sparse_blocks)
        return;
    while (q.layer + 1 < spec->n_layers && find(plan, q) == NULL)
        k.layer = ++q.layer;
    const ln_tensor *queries = find(plan, q), *keys = find(plan, k);
    if (queries == NULL || keys == NULL || keys->dims[0] == 0)
        return;
    const struct {
        const char *name;
        uint64_t value;
    } sizes[] = {{"attention.indexer.head_count", queries->dims[0] / keys->dims[0]},
                 {"attention.indexer.key_length", keys->dims[0]},
                 {"attention.indexer.top_k", spec->max_ctx_tokens / spec->block_tokens},
                 {"attention.indexer.block_size", spec->block_tokens},
                 {"attention.indexer.local_blocks", spec->n_local_blocks}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        ln_convert_put_number(plan, writer, sizes[i].name, (size_t)sizes[i].value);
}
