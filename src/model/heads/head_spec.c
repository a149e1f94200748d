#include "model/heads/head_spec.h"

#include "model/family.h"

static bool has_role(const ln_config *config, const ln_spec *spec, ln_role role) {
    ln_tensor_id id = {.role = role, .layer = spec->n_layers, .stem = spec->family->head_stem};
    return ln_family_has(spec->family, config->checkpoint, id);
}

/* The last layer that keeps and sees the keys and values of all tokens; NULL: none. */
static const ln_layer_spec *last_full_layer(const ln_spec *spec) {
    for (size_t i = spec->n_layers; i-- > 0;) {
        const ln_attention_spec *a = &spec->layers[i].attention;
        if (a->n_heads > 0 && a->window == 0 && a->chunk == 0 && !a->borrows_kv)
            return &spec->layers[i];
    }
    return NULL;
}

void ln_spec_read_head(const ln_config *config, ln_spec *spec) {
    const ln_layer_spec *like = last_full_layer(spec);
    if (spec->family->drafts || !has_role(config, spec, LN_ROLE_HEAD_INPUT) || like == NULL ||
        spec->n_indexers > 0 || spec->n_encoder_layers > 0 || spec->n_streams > 0 ||
        spec->hyper.n > 0)
        return;
    spec->mtp = &spec->layers[spec->n_layers];
    *spec->mtp = *like;
    spec->mtp->attention.kv_layer = spec->n_layers;
    spec->mtp->mixer = (ln_mixer_spec){0};
    bool has_experts = has_role(config, spec, LN_ROLE_ROUTER);
    for (size_t i = spec->n_layers; i-- > 0 && has_experts && like->ffn.moe.n_experts == 0;)
        if (spec->layers[i].ffn.moe.n_experts > 0)
            like = &spec->layers[i];
    spec->mtp->ffn = like->ffn;
    if (!has_experts)
        spec->mtp->ffn.moe = (ln_moe_spec){0};
    if (!has_experts && !has_role(config, spec, LN_ROLE_UP)) /* attention is all that it has */
        spec->mtp->ffn = (ln_ffn_spec){0};
}
