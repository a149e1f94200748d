/* Metadata of families whose layers differ: lists with an entry for each layer, and numbers of
 * layers that see a window beside those of layers that see all. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "convert/plan.h"

typedef struct list {
    const ln_convert_plan *plan;
    ln_gguf_writer *writer;
    char key[128];
} list;

static const char *name_key(list *l, const char *name) {
    snprintf(l->key, sizeof l->key, "%s.%s", l->plan->architecture, name);
    return l->key;
}

static void put_number(list *l, const char *name, size_t value) {
    ln_gguf_put_u32(l->writer, name_key(l, name), (uint32_t)value);
}

/* One number where all layers have the same. */
static void put_numbers(list *l, const char *name, const uint32_t *values) {
    size_t n = l->plan->spec->n_layers, n_alike = 1;
    while (n_alike < n && values[n_alike] == values[0])
        n_alike++;
    if (n_alike == n)
        put_number(l, name, values[0]);
    else
        ln_gguf_put_array(l->writer, name_key(l, name), LN_GGUF_U32, values, n);
}

/* The first layer that rotates by this table, or the first of all. */
static const ln_attention_spec *layer_of(const ln_spec *spec, int rope) {
    for (size_t i = 0; i < spec->n_layers; i++)
        if (spec->layers[i].attention.rope == rope)
            return &spec->layers[i].attention;
    return &spec->layers[0].attention;
}

/* Of several streams; where nothing of a gate is set to zero the number is minus infinity. */
static void put_streams(list *l) {
    const ln_spec *spec = l->plan->spec;
    float deviations[LN_MAX_LAYERS];
    if (spec->n_streams == 0)
        return;
    for (size_t i = 0; i < spec->n_layers; i++)
        deviations[i] = spec->layers[i].ffn.is_sparse ? spec->layers[i].ffn.deviations : -INFINITY;
    put_number(l, "altup.active_idx", 0);
    put_number(l, "altup.num_inputs", spec->n_streams + 1);
    ln_gguf_put_array(l->writer, name_key(l, "activation_sparsity_scale"), LN_GGUF_F32, deviations,
                      spec->n_layers);
}

bool ln_convert_has_lists(const ln_convert_plan *plan) {
    return plan->target->by_layer || plan->target->gguf_lists;
}

/* Limits of what gate and up give, where a layer has one. */
static void put_limits(list *l, const char *name, const float *values) {
    size_t n = l->plan->spec->n_layers;
    bool any = false;
    for (size_t i = 0; i < n; i++)
        any |= values[i] > 0;
    if (any)
        ln_gguf_put_array(l->writer, name_key(l, name), LN_GGUF_F32, values, n);
}

void ln_convert_put_limits(const ln_convert_plan *plan, ln_gguf_writer *writer) {
    list l = {plan, writer, ""};
    float limits[LN_MAX_LAYERS], shared_limits[LN_MAX_LAYERS];
    for (size_t i = 0; i < plan->spec->n_layers; i++) {
        limits[i] = plan->spec->layers[i].ffn.moe.limit;
        shared_limits[i] = plan->spec->layers[i].ffn.limit;
    }
    put_limits(&l, "swiglu_clamp_exp", limits);
    put_limits(&l, "swiglu_clamp_shexp", shared_limits);
}

/* Where lists say all that differs. */
static void put_listed(list *l) {
    const ln_spec *spec = l->plan->spec;
    uint32_t heads[LN_MAX_LAYERS], kv_heads[LN_MAX_LAYERS];
    bool windowed[LN_MAX_LAYERS];
    size_t window = 0;
    for (size_t i = 0; i < spec->n_layers; i++) {
        const ln_attention_spec *a = &spec->layers[i].attention;
        heads[i] = (uint32_t)a->n_heads;
        kv_heads[i] = (uint32_t)a->n_kv_heads;
        windowed[i] = a->window > 0;
        window = a->window > 0 ? a->window : window;
    }
    const ln_attention_spec *first = &spec->layers[0].attention;
    put_number(l, "feed_forward_length", spec->layers[0].ffn.n_hidden);
    put_numbers(l, "attention.head_count", heads);
    put_numbers(l, "attention.head_count_kv", kv_heads);
    put_number(l, "attention.key_length", first->k_dim);
    put_number(l, "attention.value_length", first->v_dim);
    put_number(l, "attention.sliding_window", window);
    if (spec->n_ropes > 1 && spec->ropes[1].n_dims != spec->ropes[0].n_dims)
        put_number(l, "rope.dimension_count_swa", spec->ropes[1].n_dims);
    ln_gguf_put_array(l->writer, name_key(l, "attention.sliding_window_pattern"), LN_GGUF_BOOL,
                      windowed, spec->n_layers);
}

void ln_convert_put_by_layer(const ln_convert_plan *plan, ln_gguf_writer *writer) {
    const ln_spec *spec = plan->spec;
    list l = {plan, writer, ""};
    if (plan->target->lists_alone || plan->target->gguf_lists) {
        put_listed(&l);
        return;
    }
    uint32_t kv_heads[LN_MAX_LAYERS], hidden[LN_MAX_LAYERS];
    bool windowed[LN_MAX_LAYERS];
    size_t n_shared = 0, window = 0;
    for (size_t i = 0; i < spec->n_layers; i++) {
        const ln_attention_spec *a = &spec->layers[i].attention;
        kv_heads[i] = (uint32_t)a->n_kv_heads;
        hidden[i] = (uint32_t)spec->layers[i].ffn.n_hidden;
        windowed[i] = a->rope == 1;
        n_shared += a->borrows_kv;
        window = a->window > 0 ? a->window : window;
    }
    const ln_attention_spec *full = layer_of(spec, 0), *local = layer_of(spec, 1);
    put_numbers(&l, "attention.head_count_kv", kv_heads);
    put_numbers(&l, "feed_forward_length", hidden);
    put_number(&l, "attention.key_length", full->k_dim);
    put_number(&l, "attention.value_length", full->v_dim);
    put_number(&l, "attention.key_length_swa", local->k_dim);
    put_number(&l, "attention.value_length_swa", local->v_dim);
    put_number(&l, "rope.dimension_count_swa", spec->ropes[1].n_dims);
    put_number(&l, "attention.shared_kv_layers", n_shared);
    put_number(&l, "attention.sliding_window", window);
    put_number(&l, "embedding_length_per_layer_input", spec->lookup_dim);
    ln_gguf_put_array(writer, name_key(&l, "attention.sliding_window_pattern"), LN_GGUF_BOOL,
                      windowed, spec->n_layers);
    put_streams(&l);
}
