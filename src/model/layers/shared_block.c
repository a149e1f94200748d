#include "model/layers/shared_block.h"

#include "model/family.h"

/* ---- spec -------------------------------------------------------------------------------- */

static const ln_key kinds_key = {"layers_block_type|layer_types", ""};

/* Without a list: the third layer, and by a period of those behind it; period 0: not so. */
static ln_status find_in_period(const ln_config *config, size_t layer, size_t *period, bool *hybrid,
                                ln_error *err) {
    size_t offset = 0;
    *period = 0;
    LN_TRY(
        ln_config_size(config, (ln_key){"attn_layer_period", ""}, 1, LN_MAX_LAYERS, period, err));
    LN_TRY(
        ln_config_size(config, (ln_key){"attn_layer_offset", ""}, 0, LN_MAX_LAYERS, &offset, err));
    *hybrid = layer == 2 || (layer > 2 && *period > 0 && (layer - 3) % *period == offset);
    return LINNET_OK;
}

static ln_status is_hybrid(const ln_config *config, size_t layer, bool *hybrid, ln_error *err) {
    ln_meta_value list, item;
    char name[128] = "layers_block_type";
    size_t period;
    bool has_list = ln_config_find(config, kinds_key, &list, name);
    if (!has_list) {
        LN_TRY(find_in_period(config, layer, &period, hybrid, err));
        if (period > 0)
            return LINNET_OK;
    }
    if (!has_list || !ln_meta_item(&list, layer, &item) || item.kind != LN_META_STRING)
        return ln_fail(err, LINNET_ERR_FORMAT, "%s: key %s has no word for layer %zu",
                       ln_checkpoint_path(config->checkpoint), name, layer);
    *hybrid = ln_list_has("hybrid", item.string.data, item.string.bytes);
    if (*hybrid || ln_list_has("mamba|linear_attention", item.string.data, item.string.bytes))
        return LINNET_OK;
    return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                   "%s: key %s: the kind of layer %zu is not supported",
                   ln_checkpoint_path(config->checkpoint), name, layer);
}

/* What layers add to a block, and how many blocks there are, where they add anything; otherwise
 * there is one. */
static ln_status read_adapters(const ln_config *config, ln_spec *spec, size_t *n_blocks,
                               ln_error *err) {
    ln_tensor_id low = {.role = LN_ROLE_BLOCK_FFN_LOW};
    *n_blocks = 1;
    if (ln_family_binding(spec->family, LN_FORMAT_HF, low, 0) == NULL)
        return LINNET_OK;
    spec->shared_rank = 128;
    LN_TRY(ln_config_size(config, (ln_key){"num_mem_blocks", ""}, 1, LN_MAX_LAYERS, n_blocks, err));
    LN_TRY(ln_config_size(config, (ln_key){"adapter_rank", ""}, 1, LN_MAX_DIM, &spec->shared_rank,
                          err));
    return ln_config_flag(config, (ln_key){"use_shared_attention_adapter", ""}, &spec->adapts_heads,
                          err);
}

ln_status ln_spec_read_shared_block(const ln_config *config, ln_spec *spec, size_t i,
                                    ln_layer_spec *layer, ln_error *err) {
    size_t n_blocks, number = 0;
    bool hybrid = false;
    spec->shares_blocks = true;
    LN_TRY(read_adapters(config, spec, &n_blocks, err));
    LN_TRY(is_hybrid(config, i, &hybrid, err));
    if (!hybrid) {
        layer->attention = (ln_attention_spec){.rope = -1};
        layer->ffn = (ln_ffn_spec){0};
        return LINNET_OK;
    }
    /* models whose output is not tied may have a block for each layer */
    bool is_own = ln_family_has(spec->family, config->checkpoint,
                                (ln_tensor_id){.role = LN_ROLE_O, .layer = i});
    layer->shared.is_there = true;
    layer->shared.source = i;
    for (size_t j = 0; j < i; j++)
        number += spec->layers[j].shared.is_there;
    for (size_t j = 0; j < i && !is_own; j++)
        if (spec->layers[j].shared.is_there && spec->layers[j].shared.number == number % n_blocks)
            layer->shared.source = j;
    layer->shared.number = number;
    return LINNET_OK;
}

/* ---- weights ----------------------------------------------------------------------------- */

static ln_status load_low(ln_loader *l, const ln_layer_spec *layer, ln_role role, size_t n_rows,
                          ln_low_weights *w) {
    size_t rank = l->spec->shared_rank, n_in = layer->attention.in_dim;
    size_t from = layer->shared.source, number = layer->shared.number;
    LN_TRY(ln_load_numbered(l, role, from, number, rank, n_in, &w->low));
    return ln_load_numbered(l, (ln_role)(role + 1), from, number, n_rows, rank, &w->high);
}

ln_status ln_load_block(ln_loader *l, size_t i, const ln_layer_spec *layer, ln_block_weights *w) {
    const ln_attention_spec *a = &layer->attention;
    size_t dim = l->spec->dim, rank = l->spec->shared_rank, n_hidden = layer->ffn.n_hidden;
    size_t from = layer->shared.source, number = layer->shared.number;
    if (l->spec->adapts_heads) {
        LN_TRY(load_low(l, layer, LN_ROLE_BLOCK_Q_LOW, a->n_heads * a->k_dim, &w->q));
        LN_TRY(load_low(l, layer, LN_ROLE_BLOCK_K_LOW, a->n_kv_heads * a->k_dim, &w->k));
        LN_TRY(load_low(l, layer, LN_ROLE_BLOCK_V_LOW, a->n_kv_heads * a->v_dim, &w->v));
    }
    if (rank > 0) {
        LN_TRY(ln_load_numbered(l, LN_ROLE_BLOCK_FFN_LOW, from, number, rank, dim, &w->low));
        LN_TRY(ln_load_numbered(l, LN_ROLE_BLOCK_GATE_HIGH, from, number, n_hidden, rank,
                                &w->gate_high));
        LN_TRY(
            ln_load_numbered(l, LN_ROLE_BLOCK_UP_HIGH, from, number, n_hidden, rank, &w->up_high));
    }
    return ln_load_matrix(l, LN_ROLE_BLOCK_OUT, i, dim, dim, &w->out);
}

/* ---- a step ------------------------------------------------------------------------------ */

void ln_record_block_begin(recorder *r) {
    if (r->spec->shares_blocks)
        norm(r, &r->weights->copy, r->a->x, NULL, r->a->embedded);
}

static void copy_to_pairs(recorder *r, const float *x, size_t begin) {
    norm_to_columns(r, &r->weights->copy, x, r->a->pairs, 2 * r->spec->dim, begin);
}

const float *ln_record_block_input(recorder *r, const ln_layer_weights *w) {
    copy_to_pairs(r, r->a->x, 0);
    copy_to_pairs(r, r->a->embedded, r->spec->dim);
    norm(r, &w->block.norm, r->a->pairs, NULL, r->a->pairs);
    return r->a->pairs;
}

/* out = residual + weight x */
static void add_linear(recorder *r, const ln_weight *weight, const float *x, const float *residual,
                       float *out) {
    linear(r, weight, x, out)->residual = residual;
}

void ln_record_low(recorder *r, const ln_low_weights *w, const float *x, float *out) {
    linear(r, &w->low, x, r->a->block_low);
    add_linear(r, &w->high, r->a->block_low, out, out);
}

/* hidden = hidden * act(gated) */
static void activate(recorder *r, const ln_ffn_spec *ffn) {
    push(r, LN_OP_POINTWISE)->pointwise = (ln_op_pointwise){.function = LN_POINTWISE_ACTIVATED_GATE,
                                                            .n_rows = r->batch->n_tokens,
                                                            .dim = ffn->n_hidden,
                                                            .n_gates = ffn->n_hidden,
                                                            .activation = ffn->activation,
                                                            .x = r->a->hidden,
                                                            .gate = r->a->gated,
                                                            .out = r->a->hidden};
}

const float *ln_record_block_output(recorder *r, const ln_layer_weights *w) {
    const ln_activations *a = r->a;
    norm(r, &w->ffn_norm, a->block, NULL, a->ffn_normed);
    linear(r, &w->gate, a->ffn_normed, a->gated);
    linear(r, &w->up, a->ffn_normed, a->hidden);
    if (r->spec->shared_rank > 0) {
        linear(r, &w->block.low, a->ffn_normed, a->block_low);
        add_linear(r, &w->block.gate_high, a->block_low, a->gated, a->gated);
        add_linear(r, &w->block.up_high, a->block_low, a->hidden, a->hidden);
    }
    activate(r, &r->layer_spec->ffn);
    linear(r, &w->down, a->hidden, a->block);
    add_linear(r, &w->block.out, a->block, a->x, a->ffn_normed);
    norm(r, &w->attention_norm, a->ffn_normed, NULL, a->normed);
    return a->normed;
}
