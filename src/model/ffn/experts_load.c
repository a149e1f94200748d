#include "model/ffn/experts_load.h"

#include "base/checked.h"
#include "model/family.h"
#include "model/ffn/hash_routing.h"
#include "model/layers/lookup_load.h"

static size_t width_of(const ln_loader *l, const ln_moe_spec *moe) {
    return moe->n_latent > 0 ? moe->n_latent : l->spec->dim;
}

static ln_status experts(ln_loader *l, size_t i, const ln_layer_spec *layer, ln_layer_weights *w) {
    const ln_moe_spec *moe = &layer->ffn.moe;
    size_t width = width_of(l, moe), n_here = ln_layer_n_experts(layer);
    ln_source_shape in = {n_here, moe->n_hidden, width};
    ln_source_shape out = {n_here, width, moe->n_hidden};
    if (layer->ffn.gated)
        LN_TRY(ln_load_matrices(l, LN_ROLE_EXPERT_GATE, i, &in, &w->experts_gate));
    LN_TRY(ln_load_matrices(l, LN_ROLE_EXPERT_UP, i, &in, &w->experts_up));
    return ln_load_matrices(l, LN_ROLE_EXPERT_DOWN, i, &out, &w->experts_down);
}

/* Notes one of the matrices of all experts of a layer. */
static ln_status stored(ln_loader *l, size_t i, const ln_source_shape *shape, size_t index,
                        ln_role role, ln_weight **weights) {
    ln_expert_store *store = l->store;
    size_t offset =
        ln_layout_add(&l->table_layout, shape->n_packed, sizeof *store->matrices[index]);
    if (l->table != NULL)
        store->matrices[index] = (ln_stored_matrix *)(void *)(l->table + offset);
    l->stored_matrix = index;
    l->stored_expert = l->stored_bytes = 0;
    LN_TRY(ln_load_matrices(l, role, i, shape, weights));
    store->file_bytes += l->stored_bytes;
    return LINNET_OK;
}

/* The same for experts that stay in the file, and their slots. */
static ln_status stored_experts(ln_loader *l, size_t i, const ln_layer_spec *layer,
                                ln_layer_weights *w) {
    const ln_moe_spec *moe = &layer->ffn.moe;
    size_t width = width_of(l, moe), n = ln_layer_n_experts(layer), slots = l->options.expert_slots;
    ln_source_shape in = {n, moe->n_hidden, width}, out = {n, width, moe->n_hidden};
    ln_expert_store *store = l->store = &w->store;
    ln_expert_sizes *sizes = &l->expert_sizes;
    ln_status status = LINNET_OK;
    if (layer->ffn.gated)
        status = stored(l, i, &in, 0, LN_ROLE_EXPERT_GATE, &w->experts_gate);
    if (status == LINNET_OK)
        status = stored(l, i, &in, 1, LN_ROLE_EXPERT_UP, &w->experts_up);
    if (status == LINNET_OK)
        status = stored(l, i, &out, 2, LN_ROLE_EXPERT_DOWN, &w->experts_down);
    l->store = NULL;
    LN_TRY(status);
    store->n_slots = slots < n ? slots : n;
    for (size_t m = 0; m < LN_EXPERT_MATRICES; m++)
        if (!ln_add(store->slot_bytes, store->matrix_bytes[m], &store->slot_bytes))
            return ln_fail(l->err, LINNET_ERR_LIMIT, "the size of an expert overflows");
    size_t offset = ln_layout_add(&l->layout, store->n_slots, store->slot_bytes);
    if (l->memory != NULL)
        store->slots = l->memory + offset;
    sizes->n_experts += n;
    sizes->n_slots += store->n_slots;
    sizes->most_experts = n > sizes->most_experts ? n : sizes->most_experts;
    sizes->slot_bytes += store->slot_bytes;
    sizes->token_bytes += store->n_slots < n ? moe->n_used * store->file_bytes : 0;
    return LINNET_OK;
}

/* Shared experts that each have a weight. */
static ln_status weighted_experts(ln_loader *l, size_t i, const ln_ffn_spec *ffn,
                                  ln_layer_weights *w) {
    const ln_moe_spec *moe = &ffn->moe;
    ln_source_shape in = {moe->n_shared, moe->n_hidden, l->spec->dim};
    ln_source_shape out = {moe->n_shared, l->spec->dim, moe->n_hidden};
    if (ffn->gated)
        LN_TRY(ln_load_matrices(l, LN_ROLE_SHARED_GATE, i, &in, &w->shared_gates));
    LN_TRY(ln_load_matrices(l, LN_ROLE_SHARED_UP, i, &in, &w->shared_ups));
    return ln_load_matrices(l, LN_ROLE_SHARED_DOWN, i, &out, &w->shared_downs);
}

static ln_status shared_expert(ln_loader *l, size_t i, const ln_ffn_spec *ffn,
                               ln_layer_weights *w) {
    const ln_moe_spec *moe = &ffn->moe;
    size_t dim = l->spec->dim;
    if (moe->shared_hidden == 0)
        return LINNET_OK;
    if (moe->n_shared > 0)
        return weighted_experts(l, i, ffn, w);
    if (ffn->gated)
        LN_TRY(ln_load_matrix(l, LN_ROLE_SHARED_GATE, i, moe->shared_hidden, dim, &w->shared_gate));
    LN_TRY(ln_load_matrix(l, LN_ROLE_SHARED_UP, i, moe->shared_hidden, dim, &w->shared_up));
    LN_TRY(ln_load_matrix(l, LN_ROLE_SHARED_DOWN, i, dim, moe->shared_hidden, &w->shared_down));
    if (!moe->shared_gate)
        return LINNET_OK;
    return ln_load_matrix(l, LN_ROLE_SHARED_ROUTER, i, 1, dim, &w->shared_router);
}

/* Folders may have matrices of experts that give what they read, which nothing reads. */
static void skip_zero_experts(ln_loader *l, size_t i, const ln_moe_spec *moe) {
    static const ln_role roles[] = {LN_ROLE_EXPERT_GATE, LN_ROLE_EXPERT_UP, LN_ROLE_EXPERT_DOWN};
    const ln_binding *binding;
    for (size_t e = 0; e < moe->n_zero && l->unused != NULL; e++)
        for (size_t r = 0; r < sizeof roles / sizeof *roles; r++) {
            ln_tensor_id id = {.role = roles[r], .layer = i, .expert = moe->n_experts + e};
            const ln_tensor *tensor = ln_family_find(l->spec->family, l->checkpoint, id, &binding);
            if (tensor != NULL)
                ln_unused_tensors_mark(l->unused, tensor);
        }
}

/* What is in front of the last matrix of a router that is a feed-forward. The first one reads no
 * layer before it. */
static ln_status router_layers(ln_loader *l, size_t i, size_t n, ln_layer_weights *w) {
    ln_tensor_id carry = {.role = LN_ROLE_ROUTER_CARRY, .layer = i};
    LN_TRY(ln_load_matrix(l, LN_ROLE_ROUTER_IN, i, n, l->spec->dim, &w->router_in));
    if (i > 0)
        LN_TRY(ln_load_vector(l, carry, n, &w->router_carry));
    LN_TRY(ln_load_norm(l, LN_ROLE_ROUTER_NORM, i, n, &w->router_norm));
    LN_TRY(ln_load_matrix(l, LN_ROLE_ROUTER_FIRST, i, n, n, &w->router_first));
    return ln_load_matrix(l, LN_ROLE_ROUTER_SECOND, i, n, n, &w->router_second);
}

ln_status ln_load_experts(ln_loader *l, size_t i, const ln_layer_spec *layer, ln_layer_weights *w) {
    const ln_moe_spec *moe = &layer->ffn.moe;
    size_t dim = l->spec->dim, width = width_of(l, moe), n_routed = moe->n_experts + moe->n_zero;
    size_t router_dim = moe->router_hidden > 0 ? moe->router_hidden : dim;
    LN_TRY(ln_load_matrix(l, LN_ROLE_ROUTER, i, n_routed + moe->n_shared, router_dim, &w->router));
    if (moe->router_hidden > 0)
        LN_TRY(router_layers(l, i, moe->router_hidden, w));
    if (moe->beside)
        LN_TRY(ln_load_experts_beside(l, i, moe, w));
    ln_tensor_id bias = {.role = LN_ROLE_ROUTER_BIAS, .layer = i, .stem = l->stem};
    if (moe->hash_routed)
        LN_TRY(ln_load_hash_experts(l, i, moe, &w->hash_experts));
    else if (ln_family_binding(l->spec->family, ln_checkpoint_get_format(l->checkpoint), bias, 0) !=
             NULL)
        LN_TRY(ln_load_vector(l, bias, n_routed, &w->router_bias));
    ln_tensor_id sum_bias = {.role = LN_ROLE_EXPERTS_BIAS, .layer = i};
    if (ln_family_binding(l->spec->family, ln_checkpoint_get_format(l->checkpoint), sum_bias, 0) !=
        NULL)
        LN_TRY(ln_load_vector(l, sum_bias, dim, &w->experts_bias));
    skip_zero_experts(l, i, moe);
    if (i >= l->options.experts_apart)
        LN_TRY(experts(l, i, layer, w));
    if (moe->n_latent > 0) {
        LN_TRY(ln_load_matrix(l, LN_ROLE_EXPERT_LATENT_IN, i, width, dim, &w->latent_in));
        LN_TRY(ln_load_matrix(l, LN_ROLE_EXPERT_LATENT_OUT, i, dim, width, &w->latent_out));
        LN_TRY(ln_load_norm(l, LN_ROLE_EXPERT_LATENT_NORM, i, width, &w->latent_norm));
    }
    return shared_expert(l, i, &layer->ffn, w);
}

ln_status ln_load_zeros(ln_loader *l) {
    size_t n = 0;
    for (size_t i = 0; i < l->spec->n_layers; i++) {
        const ln_ffn_spec *ffn = &l->spec->layers[i].ffn;
        const ln_moe_spec *moe = &ffn->moe;
        size_t n_values = l->spec->layers[i].mixer.n_values;
        n = n_values > n ? n_values : n;
        size_t n_dense = moe->n_experts == 0 && ffn->limit > 0 ? ffn->n_hidden : 0;
        n = moe->limits_before && moe->n_hidden > n ? moe->n_hidden : n;
        n = moe->limits_before && moe->shared_hidden > n ? moe->shared_hidden : n;
        n = moe->limits_before && n_dense > n ? n_dense : n;
    }
    if (n == 0)
        return LINNET_OK;
    return ln_load_constant(l, 0.0f, n, &l->weights->zeros);
}

ln_status ln_load_only_experts(ln_loader *l) {
    const ln_spec *spec = l->spec;
    ln_layer_weights planned = {0};
    size_t end = l->options.experts_apart;
    size_t offset = ln_layout_add(&l->table_layout, end, sizeof *l->weights->layers);
    if (l->table != NULL)
        l->weights->layers = (ln_layer_weights *)(void *)(l->table + offset);
    for (size_t i = 0; i < end && i < spec->n_layers; i++) {
        ln_layer_weights *w = l->table != NULL ? &l->weights->layers[i] : &planned;
        *w = (ln_layer_weights){0};
        if (spec->layers[i].ffn.moe.n_experts > 0)
            LN_TRY((l->options.expert_slots > 0 ? stored_experts : experts)(l, i, &spec->layers[i],
                                                                            w));
    }
    LN_TRY(ln_load_zeros(l));
    LN_TRY(ln_layout_check(&l->table_layout, "table of the experts", l->err));
    return ln_layout_check(&l->layout, "experts", l->err);
}
