#include "model/heads/eagle_spec.h"

#include <string.h>

#include "model/family.h"

/* "LlamaForCausalLMEagle3" and the like, of SpecForge, SGLang and speculators */
bool ln_spec_is_eagle(const ln_config *config, const char **nest) {
    static const char word[] = "Eagle3";
    ln_meta_value list, name;
    bool is_eagle = false;
    if (config->is_gguf || !ln_checkpoint_meta(config->checkpoint, "architectures", &list) ||
        !ln_meta_item(&list, 0, &name) || name.kind != LN_META_STRING)
        return false;
    for (size_t i = 0; i + sizeof word - 1 <= name.string.bytes && !is_eagle; i++)
        is_eagle = memcmp(name.string.data + i, word, sizeof word - 1) == 0;
    if (is_eagle && ln_checkpoint_meta(config->checkpoint, "transformer_layer_config", &list) &&
        list.kind == LN_META_OBJECT)
        *nest = "transformer_layer_config.";
    return is_eagle;
}

ln_status ln_spec_read_aux_layers(const ln_config *config, const char *key, size_t behind,
                                  ln_aux_layers *aux, ln_error *err) {
    ln_meta_value list, item;
    if (aux->n > 0 || !ln_checkpoint_meta(config->checkpoint, key, &list) ||
        list.kind == LN_META_NULL)
        return LINNET_OK;
    for (size_t i = 0; ln_meta_item(&list, i, &item); i++) {
        if (i == LN_MAX_AUX_LAYERS || item.kind != LN_META_INT || item.integer < 0 ||
            item.integer > LN_MAX_LAYERS)
            return ln_fail(err, LINNET_ERR_UNSUPPORTED, "%s: key %s lists impossible layers",
                           ln_checkpoint_path(config->checkpoint), key);
        aux->layers[aux->n++] = (size_t)item.integer + behind;
    }
    return LINNET_OK;
}

ln_status ln_spec_read_model_dim(const ln_config *config, ln_spec *spec, ln_error *err) {
    ln_eagle_spec *eagle = &spec->eagle;
    const ln_binding *binding;
    ln_tensor_id id = {.role = LN_ROLE_HEAD_INPUT};
    const ln_tensor *input = ln_family_find(spec->family, config->checkpoint, id, &binding);
    size_t n = eagle->aux_layers.n > 0 ? eagle->aux_layers.n : 3;
    if (input == NULL || input->n_dims != 2 || input->dims[1] == 0 || input->dims[1] % n != 0 ||
        input->dims[1] / n > LN_MAX_DIM)
        return ln_fail(err, LINNET_ERR_FORMAT,
                       "%s: tensor fc.weight is missing, or does not read %zu hidden states",
                       ln_checkpoint_path(config->checkpoint), n);
    eagle->model_dim = (size_t)(input->dims[1] / n);
    id.role = LN_ROLE_EMBEDDING;
    const ln_tensor *embedding = ln_family_find(spec->family, config->checkpoint, id, &binding);
    if (embedding != NULL && embedding->n_dims == 2)
        eagle->n_embedded = (size_t)embedding->dims[0];
    return LINNET_OK;
}

ln_status ln_spec_read_eagle(const ln_config *config, ln_spec *spec, ln_error *err) {
    ln_eagle_spec *eagle = &spec->eagle;
    ln_config outer = *config;
    outer.nest = "";
    *eagle = (ln_eagle_spec){.is_head = true};
    if (spec->n_layers != 1)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED, "%s: a head of %zu layers is not supported",
                       ln_checkpoint_path(config->checkpoint), spec->n_layers);
    LN_TRY(ln_config_flag(&outer, (ln_key){"norm_before_residual", "norm_before_residual"},
                          &eagle->norm_before_residual, err));
    LN_TRY(ln_config_flag(&outer, (ln_key){"norm_before_fc", "norm_before_fc"},
                          &eagle->norm_before_fc, err));
    LN_TRY(ln_spec_read_aux_layers(config, "eagle3.target_layers", 0, &eagle->aux_layers, err));
    LN_TRY(ln_spec_read_aux_layers(config, "eagle_aux_hidden_state_layer_ids", 0,
                                   &eagle->aux_layers, err));
    /* ModelOpt counts what a layer gives */
    LN_TRY(ln_spec_read_aux_layers(config, "eagle_config.eagle_aux_hidden_state_layer_ids", 1,
                                   &eagle->aux_layers, err));
    LN_TRY(ln_spec_read_model_dim(config, spec, err));
    spec->layers[0].attention.in_dim = 2 * spec->dim;
    return LINNET_OK;
}

ln_status ln_eagle_aux_layers(const ln_spec *head, const ln_spec *model, ln_aux_layers *aux,
                              ln_error *err) {
    size_t n = model->n_layers;
    *aux = head->eagle.aux_layers;
    if (aux->n == 0)
        *aux = (ln_aux_layers){.n = 3, .layers = {2, n / 2, n >= 3 ? n - 3 : 0}};
    for (size_t i = 0; i < aux->n; i++)
        if (aux->layers[i] > n)
            return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                           "the head reads layer %zu, but the model has %zu", aux->layers[i], n);
    return LINNET_OK;
}
