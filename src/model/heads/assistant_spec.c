#include "model/heads/assistant_spec.h"

#include "model/activations.h"

ln_status ln_spec_read_assistant(const ln_config *config, ln_spec *spec, ln_error *err) {
    ln_config outer = *config;
    outer.nest = "";
    spec->first_position = 1; /* it stands at the token behind the last one that is cached */
    return ln_config_need_size(&outer, (ln_key){"backbone_hidden_size", "embedding_length_out"}, 1,
                               LN_MAX_DIM, &spec->assisted_dim, err);
}

/* The last layer of the model that sees as this one does: through heads of the same size, and as
 * far back. */
static const ln_attention_spec *find_source(const ln_spec *model, const ln_attention_spec *own) {
    for (size_t i = model->n_layers; i-- > 0;) {
        const ln_attention_spec *a = &model->layers[i].attention;
        if (a->n_heads == 0 || (a->window > 0) != (own->window > 0))
            continue;
        bool fits = a->k_dim == own->k_dim && a->v_dim == own->v_dim && own->window <= a->window;
        return fits ? a : NULL;
    }
    return NULL;
}

ln_status ln_spec_assist(ln_spec *spec, const ln_spec *model, const char *path, ln_error *err) {
    if (model->n_encoder_layers > 0 || model->n_streams > 0 || model->hyper.n > 0)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED, "%s cannot draft for a model of this kind",
                       path);
    if (spec->assisted_dim != model->dim || spec->n_vocab != model->n_vocab)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                       "%s assists a model of %zu dimensions and %zu tokens, and this one has %zu "
                       "and %zu",
                       path, spec->assisted_dim, spec->n_vocab, model->dim, model->n_vocab);
    for (size_t i = 0; i < spec->n_layers; i++) {
        ln_attention_spec *a = &spec->layers[i].attention;
        const ln_attention_spec *source = find_source(model, a);
        if (source == NULL || a->n_heads % source->n_kv_heads != 0 || source->chunk > 0 ||
            source->latent.n_latent > 0 || source->compressed.q_latent > 0)
            return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                           "%s: layer %zu finds no keys of %zu dimensions and a window of %zu "
                           "tokens in the model",
                           path, i, a->k_dim, a->window);
        a->n_kv_heads = source->n_kv_heads;
        a->kv_layer = ln_kv_layer_index(model, source->kv_layer);
        a->kv_group = source->kv_group;
    }
    spec->embedding_scale = model->embedding_scale;
    return LINNET_OK;
}
