#include "model/shard.h"

#include <stdlib.h>
#include <string.h>

#include "dist/collectives.h"
#include "model/activations.h"

/* ---- dividing -------------------------------------------------------------------------------- */

/* Part `rank` of n items in whole units; n 0 in the result: there is not a unit for each rank. */
static ln_slice divide(size_t n, size_t unit, size_t rank, size_t n_ranks) {
    size_t n_units = unit > 0 && n % unit == 0 ? n / unit : 0;
    size_t begin = n_units * rank / n_ranks, end = n_units * (rank + 1) / n_ranks;
    if (n_units < n_ranks)
        return (ln_slice){0};
    return (ln_slice){begin * unit, (end - begin) * unit, n};
}

/* The fewest of `width` columns each that end where blocks do. */
static size_t unit_of(size_t width, size_t block) {
    size_t unit = 1;
    while (unit <= block && unit * width % block != 0)
        unit++;
    return unit;
}

typedef struct divider {
    const ln_checkpoint *checkpoint;
    const ln_spec *whole;
    const ln_mesh *mesh;
    size_t rank, n_ranks; /* of a stage */
    const ln_dtype *quantize;
    size_t attention_block; /* columns that stay together in outputs of attention; 0: all do */
} divider;

/* Columns that stay together in a role's matrix; 0: all of them. */
static size_t block_of(const divider *d, ln_role role, size_t layer, bool encoder,
                       const ln_source_shape *shape) {
    ln_tensor_id id = {.role = role, .layer = layer, .encoder = encoder};
    ln_weight_request request;
    if (ln_source_matrix(d->checkpoint, d->whole, id, shape, &request, NULL) != LINNET_OK)
        return 1; /* loading says what is wrong */
    const ln_weight_source *source = &request.sources[0];
    if (source->packed.order != NULL)
        return 0;
    size_t block = ln_dtype_block_elems(ln_weight_source_dtype(source));
    size_t later = d->quantize != NULL ? ln_dtype_block_elems(*d->quantize) : 1;
    return later > block ? later : block; /* both are powers of two */
}

static size_t larger(size_t a, size_t b) {
    return a == 0 || b == 0 ? 0 : a > b ? a : b;
}

static size_t v_width(const ln_attention_spec *a) {
    return a->latent.n_latent > 0 ? a->latent.v_dim : a->v_dim;
}

/* The widest block of all layers, so that layers which share caches, biases and slopes are divided
 * alike. */
static size_t attention_block(const divider *d) {
    const ln_spec *spec = d->whole;
    size_t block = 1;
    for (size_t i = 0; i < spec->n_layers + spec->n_encoder_layers; i++) {
        bool encoder = i >= spec->n_layers;
        size_t layer = encoder ? i - spec->n_layers : i;
        const ln_layer_spec *l = encoder ? &spec->encoder_layers[layer] : &spec->layers[layer];
        const ln_attention_spec *a = &l->attention;
        ln_source_shape shape = {1, spec->dim, a->n_heads * v_width(a)};
        if (a->n_heads > 0)
            block = larger(block, block_of(d, LN_ROLE_O, layer, encoder, &shape));
        if (l->has_cross)
            block = larger(block, block_of(d, LN_ROLE_CROSS_O, layer, encoder, &shape));
    }
    return block;
}

static void divide_attention(const divider *d, ln_layer_spec *layer) {
    ln_attention_spec *a = &layer->attention;
    bool is_latent = a->latent.n_latent > 0;
    size_t n_kv = is_latent ? a->n_heads : a->n_kv_heads;
    if (a->n_heads == 0 || n_kv == 0 || a->n_heads % n_kv != 0 || d->attention_block == 0 ||
        a->qk_norm == LN_QK_NORM_FULL || a->out_norm || a->differential || a->n_experts > 0 ||
        a->compressed.q_latent > 0 || a->convolved || a->has_key_bias || layer->shared.is_there)
        return;
    size_t rank = ln_mesh_tensor_rank(d->mesh), n_ranks = d->mesh->n_tensor;
    size_t per_kv = a->n_heads / n_kv;
    size_t unit = unit_of(per_kv * v_width(a), d->attention_block);
    ln_slice kv = divide(n_kv, unit, rank, n_ranks), heads = {0};
    if (kv.n > 0) {
        heads = (ln_slice){kv.begin * per_kv, kv.n * per_kv, a->n_heads};
    } else if (n_kv < n_ranks && n_ranks % n_kv == 0 && a->n_heads % n_ranks == 0) {
        size_t n = a->n_heads / n_ranks;
        if (n * v_width(a) % d->attention_block != 0)
            return;
        heads = (ln_slice){n * rank, n, a->n_heads};
        kv = (ln_slice){rank / (n_ranks / n_kv), 1, n_kv};
    } else {
        return;
    }
    layer->part.heads = heads;
    a->n_heads = heads.n;
    if (is_latent)
        return;
    layer->part.kv_heads = kv;
    a->n_kv_heads = kv.n;
}

static ln_slice divide_hidden(const divider *d, ln_role role, size_t layer, bool encoder,
                              size_t n_packed, size_t n_hidden) {
    ln_source_shape shape = {n_packed, d->whole->dim, n_hidden};
    if (n_hidden == 0)
        return (ln_slice){0};
    return divide(n_hidden, block_of(d, role, layer, encoder, &shape), d->rank, d->n_ranks);
}

/* Whole experts, and beside them what can be divided; a shared expert that cannot is rank 0's. */
static void divide_experts(const divider *d, ln_layer_spec *layer, size_t i, bool encoder) {
    ln_ffn_spec *ffn = &layer->ffn;
    ln_moe_spec *moe = &ffn->moe;
    ln_slice hidden = {0}, shared = {0};
    layer->part.experts = divide(moe->n_experts, 1, d->rank, d->n_ranks);
    if (moe->beside)
        hidden = divide_hidden(d, LN_ROLE_DOWN, i, encoder, 1, ffn->n_hidden);
    if (hidden.n > 0) {
        layer->part.hidden = hidden;
        ffn->n_hidden = hidden.n;
    }
    if (moe->shared_hidden == 0 || moe->n_latent > 0)
        return;
    shared = divide_hidden(d, LN_ROLE_SHARED_DOWN, i, encoder, 1, moe->shared_hidden);
    layer->part.shared_hidden = shared;
    if (shared.n > 0 || d->rank > 0)
        moe->shared_hidden = shared.n;
    moe->shared_gate &= moe->shared_hidden > 0;
}

/* All that a layer's feed-forward sums up is divided, or nothing of it. */
static void divide_feed_forward(const divider *d, ln_layer_spec *layer, size_t i, bool encoder) {
    ln_ffn_spec *ffn = &layer->ffn;
    ln_moe_spec *moe = &ffn->moe;
    bool has_experts = moe->n_experts > 0;
    bool has_dense = ffn->n_hidden > 0 && (!has_experts || moe->beside);
    bool has_shared = has_experts && moe->shared_hidden > 0;
    ln_slice hidden = {0}, experts = {0}, shared = {0};
    if (has_dense)
        hidden = divide_hidden(d, LN_ROLE_DOWN, i, encoder, 1, ffn->n_hidden);
    if (has_experts)
        experts = divide_hidden(d, LN_ROLE_EXPERT_DOWN, i, encoder, moe->n_experts, moe->n_hidden);
    if (has_shared)
        shared = divide_hidden(d, LN_ROLE_SHARED_DOWN, i, encoder, 1, moe->shared_hidden);
    if (ffn->is_sparse || ffn->out_norm || ffn->retrieved.n_experts > 0 || layer->shared.is_there ||
        moe->n_latent > 0 || (has_dense && hidden.n == 0) || (has_experts && experts.n == 0) ||
        (has_shared && shared.n == 0))
        return;
    layer->part.hidden = hidden;
    layer->part.expert_hidden = experts;
    layer->part.shared_hidden = shared;
    if (has_dense)
        ffn->n_hidden = hidden.n;
    if (has_experts)
        moe->n_hidden = experts.n;
    if (has_shared)
        moe->shared_hidden = shared.n;
}

/* The first layer of a stage: all from the first one on whose cache others read are the last's. */
static size_t stage_begin(const ln_spec *whole, size_t stage, size_t n_stages) {
    size_t n = whole->n_layers, shared = ln_kv_first_shared(whole);
    size_t even = n * stage / n_stages, n_behind = n_stages - 1 - stage;
    size_t most = shared < n_behind ? 0 : shared - n_behind;
    if (stage == 0 || stage == n_stages)
        return even;
    return even < most ? even : most;
}

static ln_status divide_stages(const ln_checkpoint *checkpoint, const ln_spec *whole,
                               const ln_mesh *mesh, ln_slice *layers, ln_error *err) {
    size_t n = mesh->n_stages, stage = ln_mesh_stage(mesh);
    *layers = (ln_slice){0};
    if (n == 1)
        return LINNET_OK;
    if (n > whole->n_layers)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED, "%s: %zu stages cannot share %zu layers",
                       ln_checkpoint_path(checkpoint), n, whole->n_layers);
    if (stage_begin(whole, 1, n) == 0)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                       "%s: the layers from %zu on share keys and values, so there are at most %zu "
                       "stages",
                       ln_checkpoint_path(checkpoint), ln_kv_first_shared(whole),
                       ln_kv_first_shared(whole) + 1);
    layers->begin = stage_begin(whole, stage, n);
    layers->n = stage_begin(whole, stage + 1, n) - layers->begin;
    layers->of = whole->n_layers;
    return LINNET_OK;
}

/* What the ranks of a stage divide. */
static void divide_layers(divider *d, ln_layer_spec *layers) {
    size_t n = d->whole->n_layers, n_all = n + d->whole->n_encoder_layers;
    if (d->n_ranks == 1)
        return;
    d->attention_block = attention_block(d);
    for (size_t i = 0; i < n_all; i++) {
        bool whole_experts = d->mesh->n_expert > 1 && layers[i].ffn.moe.n_experts > 0;
        if (d->mesh->n_tensor > 1)
            divide_attention(d, &layers[i]);
        (whole_experts ? divide_experts : divide_feed_forward)(d, &layers[i], i < n ? i : i - n,
                                                               i >= n);
    }
}

static ln_status check_experts(const ln_checkpoint *checkpoint, const ln_spec *whole,
                               const ln_mesh *mesh, ln_error *err) {
    size_t n_ranks = ln_mesh_in_stage(mesh), most = 0;
    if (n_ranks > 1 && whole->embedded_dim > 0)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                       "%s: word_embed_proj_dim: ranks cannot divide an embedding of another width",
                       ln_checkpoint_path(checkpoint));
    for (size_t i = 0; i < whole->n_layers && n_ranks > 1; i++)
        if (whole->layers[i].ffn.moe.n_zero > 0)
            return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                           "%s: %s: ranks cannot divide experts of which some have no matrices",
                           ln_checkpoint_path(checkpoint),
                           whole->layers[i].ffn.moe.zero_skips ? "router_hidden_size"
                                                               : "zero_expert_num");
    for (size_t i = 0; i < whole->n_layers && n_ranks > 1; i++)
        if (whole->layers[i].mixer.kind == LN_MIXER_SHORT_CONVS)
            return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                           "%s: ranks cannot divide layers with short convolutions",
                           ln_checkpoint_path(checkpoint));
    for (size_t i = 0; i < whole->n_layers && mesh->n_expert > 1; i++) {
        size_t n = whole->layers[i].ffn.moe.n_experts;
        most = n > most ? n : most;
        if (n > 0 && n < n_ranks)
            return ln_fail(err, LINNET_ERR_UNSUPPORTED, "%s: %zu ranks cannot share %zu experts",
                           ln_checkpoint_path(checkpoint), n_ranks, n);
    }
    if (mesh->n_expert > 1 && most == 0)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED, "%s has no experts to divide among ranks",
                       ln_checkpoint_path(checkpoint));
    return LINNET_OK;
}

static ln_slice divide_vocabulary(const divider *d, size_t n) {
    size_t begin = ln_rank_begin(n, d->rank, d->n_ranks);
    if (d->n_ranks == 1 || n == 0)
        return (ln_slice){0};
    return (ln_slice){begin, ln_rank_begin(n, d->rank + 1, d->n_ranks) - begin, n};
}

ln_status ln_shard_make(const ln_checkpoint *checkpoint, const ln_spec *whole, const ln_mesh *mesh,
                        const ln_dtype *quantize, ln_spec *out, ln_error *err) {
    size_t n = whole->n_layers + whole->n_encoder_layers, n_ranks = ln_mesh_in_stage(mesh);
    divider d = {.checkpoint = checkpoint,
                 .whole = whole,
                 .mesh = mesh,
                 .rank = ln_mesh_rank_in_stage(mesh),
                 .n_ranks = n_ranks,
                 .quantize = quantize};
    ln_slice own_layers;
    LN_BUG_ON(mesh->n_tensor == 0 || mesh->n_expert == 0 || mesh->n_stages == 0);
    LN_TRY(check_experts(checkpoint, whole, mesh, err));
    LN_TRY(divide_stages(checkpoint, whole, mesh, &own_layers, err));
    size_t n_own = whole->n_encoder_vocab;
    size_t n_vocab = n_own > 0 && n_own < whole->n_vocab ? n_own : whole->n_vocab;
    if (n_vocab < n_ranks) /* no rank may have nothing */
        return ln_fail(err, LINNET_ERR_UNSUPPORTED, "%s: %zu ranks cannot share %zu tokens",
                       ln_checkpoint_path(checkpoint), n_ranks, n_vocab);
    ln_layer_spec *layers = calloc(n + 1, sizeof *layers);
    if (layers == NULL)
        return ln_fail(err, LINNET_ERR_NOMEM, "out of memory dividing the model among ranks");
    memcpy(layers, whole->layers, whole->n_layers * sizeof *layers);
    if (whole->n_encoder_layers > 0)
        memcpy(layers + whole->n_layers, whole->encoder_layers,
               whole->n_encoder_layers * sizeof *layers);
    divide_layers(&d, layers);
    *out = *whole;
    out->layers = layers;
    out->encoder_layers = layers + whole->n_layers;
    out->mtp = NULL;
    out->head = NULL;
    out->ranks.mesh = *mesh;
    out->ranks.rank = d.rank;
    out->ranks.n = n_ranks > 1 ? n_ranks : 0;
    out->ranks.whole = whole;
    out->ranks.vocab = divide_vocabulary(&d, whole->n_vocab);
    out->ranks.encoder_vocab = divide_vocabulary(&d, whole->n_encoder_vocab);
    out->ranks.layers = own_layers;
    return LINNET_OK;
}

size_t ln_shard_token_bytes(const ln_spec *spec) {
    const ln_mesh *mesh = &spec->ranks.mesh;
    const ln_activations none = {0};
    ln_border borders[LN_MAX_BORDERS];
    size_t n_borders = ln_activations_borders(spec, &none, borders), width = 0;
    size_t n_sums = spec->ranks.n > 0, n_of_heads = 0; /* of embeddings */
    for (size_t i = 0; i < n_borders; i++)
        width += borders[i].width;
    for (size_t i = 0; i < spec->n_layers; i++) {
        const ln_layer_spec *layer = &spec->layers[i];
        size_t has_hidden = layer->part.hidden.n > 0;
        size_t has_experts = layer->part.expert_hidden.n > 0 || layer->part.experts.n > 0;
        n_of_heads += layer->part.heads.n > 0 ? 1 + (size_t)layer->has_cross : 0;
        n_sums += layer->ffn.moe.beside ? has_hidden + has_experts : has_hidden || has_experts;
    }
    size_t in_stage = ln_mesh_in_stage(mesh), n_tensor = mesh->n_tensor;
    size_t of_sums = 2 * n_sums * spec->dim * (in_stage - 1) / in_stage +
                     2 * n_of_heads * spec->dim * (n_tensor - 1) / n_tensor;
    return (of_sums + width * (mesh->n_stages - 1)) * sizeof(float) / mesh->n_stages;
}

void ln_shard_free(ln_spec *spec) {
    if (spec->ranks.whole == NULL)
        return;
    free(spec->layers);
    *spec = *spec->ranks.whole;
}

/* ---- cutting --------------------------------------------------------------------------------- */

/* So many rows or columns of each item. */
static ln_slice times(ln_slice part, size_t n) {
    return (ln_slice){part.begin * n, part.n * n, part.of * n};
}

static ln_cut cut_attention(const ln_spec *spec, ln_tensor_id id) {
    const ln_layer_spec *layer = ln_layer_of(spec, id);
    const ln_attention_spec *a = &layer->attention;
    ln_slice heads = layer->part.heads, kv = layer->part.kv_heads;
    ln_cut cut = {0};
    bool is_latent = a->latent.n_latent > 0;
    size_t q_dim = is_latent ? a->latent.n_plain + a->latent.n_rope : a->k_dim;
    bool own_norms = a->qk_norm == LN_QK_NORM_OWN;
    switch (id.role) {
    case LN_ROLE_Q:
    case LN_ROLE_Q_B:
    case LN_ROLE_CROSS_Q: cut.rows = times(heads, q_dim); break;
    case LN_ROLE_K: cut.rows = times(kv, a->k_dim); break;
    case LN_ROLE_V: cut.rows = times(kv, a->v_dim); break;
    case LN_ROLE_CROSS_K:
    case LN_ROLE_CROSS_V: cut.rows = times(heads, a->k_dim); break;
    case LN_ROLE_ATTENTION_GATE: cut.rows = times(heads, ln_gate_width(a)); break;
    case LN_ROLE_O:
    case LN_ROLE_CROSS_O: cut.cols = times(heads, v_width(a)); break;
    case LN_ROLE_Q_LOG_SCALE:
    case LN_ROLE_Q_LOG_BIAS:
    case LN_ROLE_SINKS: cut.rows = heads; break;
    case LN_ROLE_RELATIVE_BIAS: cut.cols = heads; break;
    case LN_ROLE_Q_NORM: cut.rows = own_norms ? heads : (ln_slice){0}; break;
    case LN_ROLE_K_NORM: cut.rows = own_norms ? kv : (ln_slice){0}; break;
    default: cut.packed = heads; break; /* K_B, V_B */
    }
    return cut;
}

ln_cut ln_shard_cut(const ln_spec *spec, ln_tensor_id id) {
    ln_cut cut = {0};
    if (spec->ranks.whole == NULL)
        return cut;
    switch (id.role) {
    case LN_ROLE_Q:
    case LN_ROLE_Q_B:
    case LN_ROLE_K:
    case LN_ROLE_V:
    case LN_ROLE_O:
    case LN_ROLE_ATTENTION_GATE:
    case LN_ROLE_CROSS_Q:
    case LN_ROLE_CROSS_K:
    case LN_ROLE_CROSS_V:
    case LN_ROLE_CROSS_O:
    case LN_ROLE_Q_LOG_SCALE:
    case LN_ROLE_Q_LOG_BIAS:
    case LN_ROLE_SINKS:
    case LN_ROLE_RELATIVE_BIAS:
    case LN_ROLE_Q_NORM:
    case LN_ROLE_K_NORM:
    case LN_ROLE_K_B:
    case LN_ROLE_V_B: cut = cut_attention(spec, id); break;
    case LN_ROLE_GATE:
    case LN_ROLE_UP: cut.rows = ln_layer_of(spec, id)->part.hidden; break;
    case LN_ROLE_DOWN: cut.cols = ln_layer_of(spec, id)->part.hidden; break;
    case LN_ROLE_EXPERT_GATE:
    case LN_ROLE_EXPERT_UP:
        cut.rows = ln_layer_of(spec, id)->part.expert_hidden;
        cut.packed = ln_layer_of(spec, id)->part.experts;
        break;
    case LN_ROLE_EXPERT_DOWN:
        cut.cols = ln_layer_of(spec, id)->part.expert_hidden;
        cut.packed = ln_layer_of(spec, id)->part.experts;
        break;
    case LN_ROLE_SHARED_GATE:
    case LN_ROLE_SHARED_UP: cut.rows = ln_layer_of(spec, id)->part.shared_hidden; break;
    case LN_ROLE_SHARED_DOWN: cut.cols = ln_layer_of(spec, id)->part.shared_hidden; break;
    case LN_ROLE_EMBEDDING:
        cut.rows = id.encoder ? spec->ranks.encoder_vocab : spec->ranks.vocab;
        break;
    case LN_ROLE_OUTPUT:
    case LN_ROLE_OUTPUT_BIAS: cut.rows = spec->ranks.vocab; break;
    default: break;
    }
    cut.drops_bias = cut.cols.n > 0 && cut.cols.begin > 0;
    return cut;
}

ln_source_shape ln_cut_shape(const ln_cut *cut, const ln_source_shape *shape) {
    ln_source_shape whole = *shape;
    if (cut->rows.n > 0)
        whole.n_rows = cut->rows.of;
    if (cut->cols.n > 0)
        whole.n_cols = cut->cols.of;
    if (cut->packed.n > 0)
        whole.n_packed = cut->packed.of;
    return whole;
}

ln_status ln_cut_request(const ln_cut *cut, ln_weight_request *request, ln_error *err) {
    if (cut->rows.n > 0 && request->n_sources > 0)
        LN_TRY(ln_weight_cut_rows(request, cut->rows.begin, cut->rows.n, err));
    if (cut->cols.n > 0 && request->n_sources > 0)
        LN_TRY(ln_weight_cut_columns(request, cut->cols.begin, cut->cols.n, err));
    return LINNET_OK;
}
