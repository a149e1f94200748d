/* Metadata of families whose layers differ: lists with an entry for each layer, and numbers of
 * layers that see a window beside those of layers that see all. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "convert/metadata.h"

typedef struct list {
    const ln_convert_plan *plan;
    ln_gguf_writer *writer;
} list;

static void put_number(const list *l, const char *name, size_t value) {
    ln_convert_put_number(l->plan, l->writer, name, value);
}

/* One number where all layers have the same. */
static void put_numbers(list *l, const char *name, const uint32_t *values) {
    size_t n = l->plan->spec->n_layers, n_alike = 1;
    while (n_alike < n && values[n_alike] == values[0])
        n_alike++;
    if (n_alike == n)
        put_number(l, name, values[0]);
    else
        ln_gguf_put_array(l->writer, ln_convert_key_of(l->plan, name).text, LN_GGUF_U32, values, n);
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
    ln_gguf_put_array(l->writer, ln_convert_key_of(l->plan, "activation_sparsity_scale").text,
                      LN_GGUF_F32, deviations, spec->n_layers);
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
        ln_gguf_put_array(l->writer, ln_convert_key_of(l->plan, name).text, LN_GGUF_F32, values, n);
}

void ln_convert_put_limits(const ln_convert_plan *plan, ln_gguf_writer *writer) {
    list l = {plan, writer};
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
    ln_gguf_put_array(l->writer,
                      ln_convert_key_of(l->plan, "attention.sliding_window_pattern").text,
                      LN_GGUF_BOOL, windowed, spec->n_layers);
}

/* Where layers have what their tensors have. */
static void put_sizes(list *l) {
    const ln_spec *spec = l->plan->spec;
    uint32_t heads[LN_MAX_LAYERS], kv_heads[LN_MAX_LAYERS], hidden[LN_MAX_LAYERS];
    for (size_t i = 0; i < spec->n_layers; i++) {
        heads[i] = (uint32_t)spec->layers[i].attention.n_heads;
        kv_heads[i] = (uint32_t)spec->layers[i].attention.n_kv_heads;
        hidden[i] = (uint32_t)spec->layers[i].ffn.n_hidden;
    }
    const ln_attention_spec *any = ln_convert_attention(spec);
    put_numbers(l, "attention.head_count", heads);
    put_numbers(l, "attention.head_count_kv", kv_heads);
    put_numbers(l, "feed_forward_length", hidden);
    put_number(l, "attention.key_length", any->k_dim);
    put_number(l, "attention.value_length", any->v_dim);
}

/* The first layer of a kind, or NULL. */
static const ln_attention_spec *kind_of(const ln_spec *spec, bool windowed) {
    for (size_t i = 0; i < spec->n_layers; i++)
        if ((spec->layers[i].attention.window > 0) == windowed)
            return &spec->layers[i].attention;
    return NULL;
}

const char *ln_convert_unknown_latents(const ln_spec *spec) {
    const ln_attention_spec *full = kind_of(spec, false), *local = kind_of(spec, true);
    if (full == NULL || local == NULL)
        return "layers that all see alike";
    for (size_t i = 0; i < spec->n_layers; i++) {
        const ln_latent_spec *l = &spec->layers[i].attention.latent;
        const ln_latent_spec *like =
            spec->layers[i].attention.window > 0 ? &local->latent : &full->latent;
        if (l->n_rope != full->latent.n_rope || l->q_latent != full->latent.q_latent)
            return "windowed layers whose queries have latents, or rotations, of their own size";
        if (l->n_latent != like->n_latent || l->n_plain != like->n_plain || l->v_dim != like->v_dim)
            return "latents of more sizes";
        if (spec->layers[i].attention.indexer.shared)
            return "indexers that layers share";
        const ln_moe_spec *moe = &spec->layers[i].ffn.moe;
        if (moe->n_experts > 0 && moe->shared_hidden % moe->n_hidden != 0)
            return "a shared expert of this width";
    }
    return NULL;
}

/* Latents by what a layer sees. */
static void put_latents(list *l) {
    const ln_spec *spec = l->plan->spec;
    const ln_attention_spec *full = kind_of(spec, false), *local = kind_of(spec, true);
    uint32_t heads[LN_MAX_LAYERS];
    bool windowed[LN_MAX_LAYERS];
    for (size_t i = 0; i < spec->n_layers; i++) {
        heads[i] = (uint32_t)spec->layers[i].attention.n_heads;
        windowed[i] = spec->layers[i].attention.window > 0;
    }
    ln_gguf_put_array(l->writer, ln_convert_key_of(l->plan, "attention.head_count").text,
                      LN_GGUF_I32, heads, spec->n_layers);
    ln_gguf_put_array(l->writer,
                      ln_convert_key_of(l->plan, "attention.sliding_window_pattern").text,
                      LN_GGUF_BOOL, windowed, spec->n_layers);
    put_number(l, "attention.head_count_kv", 1);
    put_number(l, "feed_forward_length", ln_convert_ffn(spec)->n_hidden);
    put_number(l, "attention.q_lora_rank", full->latent.q_latent);
    put_number(l, "attention.sliding_window", local->window);
    for (size_t i = 0; i < 2; i++) {
        const ln_attention_spec *a = i == 0 ? full : local;
        const struct {
            const char *name;
            size_t value;
        } sizes[] = {{"kv_lora_rank", a->latent.n_latent},
                     {"key_length", a->k_dim},
                     {"value_length", a->v_dim},
                     {"key_length_mla", a->latent.n_plain + a->latent.n_rope},
                     {"value_length_mla", a->latent.v_dim}};
        for (size_t j = 0; j < sizeof sizes / sizeof *sizes; j++) {
            char name[64];
            snprintf(name, sizeof name, "attention.%s%s", sizes[j].name, i == 0 ? "" : "_swa");
            put_number(l, name, sizes[j].value);
        }
    }
}

void ln_convert_put_by_layer(const ln_convert_plan *plan, ln_gguf_writer *writer) {
    const ln_spec *spec = plan->spec;
    list l = {plan, writer};
    if (plan->target->latents_by_kind) {
        put_latents(&l);
        return;
    }
    if (plan->target->sized_by_tensors || plan->target->lists_widths) {
        put_sizes(&l);
        return;
    }
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
    ln_gguf_put_array(writer, ln_convert_key_of(l.plan, "attention.sliding_window_pattern").text,
                      LN_GGUF_BOOL, windowed, spec->n_layers);
    put_streams(&l);
}
