#include "model/heads/dflash_spec.h"

#include <string.h>

#include "model/attention/pattern.h"
#include "model/family.h"
#include "model/heads/eagle_spec.h"

/* Transformers' own folders. */
static const ln_key type_key = {"model_type", ""};
static const char own_type[] = "muse_glimmer_assistant";

/* The keys around those of layers. */
static ln_config around(const ln_config *config) {
    ln_config outer = *config;
    outer.nest = "";
    return outer;
}

/* What a folder calls its kind; empty where it says nothing, as in a file. */
static ln_meta_value architecture_of(const ln_config *config) {
    ln_meta_value list, name;
    if (!config->is_gguf && ln_checkpoint_meta(config->checkpoint, "architectures", &list) &&
        ln_meta_item(&list, 0, &name) && name.kind == LN_META_STRING)
        return name;
    return (ln_meta_value){.kind = LN_META_STRING, .string = {"", 0}};
}

bool ln_spec_is_dflash(const ln_config *config, const char **nest) {
    static const char word[] = "DFlash";
    const ln_meta_value name = architecture_of(config);
    ln_meta_value layers;
    if (name.string.bytes < sizeof word - 1 || memcmp(name.string.data, word, sizeof word - 1) != 0)
        return false;
    if (ln_checkpoint_meta(config->checkpoint, "transformer_layer_config", &layers) &&
        layers.kind == LN_META_OBJECT)
        *nest = "transformer_layer_config.";
    return true;
}

/* Later kinds begin with the same word, and have parts of their own. */
static ln_status check_kind(const ln_config *config, ln_error *err) {
    static const char parts[] = "markov_rank|conv_kernel_size|dflash_config.conv_kernel_size";
    const ln_config outer = around(config);
    const ln_meta_value name = architecture_of(config);
    ln_meta_value value;
    bool is_known = config->is_gguf || ln_config_is(&outer, type_key, own_type) ||
                    ln_config_is(&outer, (ln_key){"speculators_model_type", ""}, "dflash") ||
                    ln_list_has("DFlashDraftModel", name.string.data, name.string.bytes);
    if (is_known && !ln_config_find(&outer, (ln_key){parts, ""}, &value, NULL))
        return LINNET_OK;
    return ln_fail(err, LINNET_ERR_UNSUPPORTED, "%s: this kind of DFlash (%.*s) is not supported",
                   ln_checkpoint_path(config->checkpoint),
                   name.string.bytes < 64 ? (int)name.string.bytes : 0, name.string.data);
}

ln_status ln_spec_read_dflash_vocab(const ln_config *config, size_t most, ln_spec *spec,
                                    ln_error *err) {
    const ln_binding *binding;
    ln_tensor_id id = {.role = LN_ROLE_OUTPUT};
    const ln_tensor *output = ln_family_find(spec->family, config->checkpoint, id, &binding);
    if (output == NULL)
        return ln_config_size(config, (ln_key){"vocab_size", "vocab_size"}, 1, most, &spec->n_vocab,
                              err);
    if (output->n_dims != 2 || output->dims[0] == 0 || output->dims[0] > most)
        return ln_fail(err, LINNET_ERR_FORMAT, "%s: tensor %s has an impossible shape",
                       ln_checkpoint_path(config->checkpoint), output->name);
    spec->n_vocab = (size_t)output->dims[0];
    spec->dflash.has_output = true;
    return LINNET_OK;
}

/* Of a folder, by the layout of its writer, or of a file. */
static ln_status read_block(const ln_config *config, ln_spec *spec, ln_error *err) {
    const ln_config outer = around(config);
    ln_dflash_spec *dflash = &spec->dflash;
    size_t mask = 0;
    ln_meta_value value;
    dflash->block_tokens = 16;
    LN_TRY(ln_config_size(&outer, (ln_key){"dflash_config.block_size|block_size", "block_size"}, 2,
                          LN_MAX_DRAFT_BLOCK, &dflash->block_tokens, err));
    if (config->is_gguf) {
        static const char key[] = "tokenizer.ggml.mask_token_id";
        bool is_there = ln_checkpoint_meta(config->checkpoint, key, &value);
        if (!is_there || value.kind != LN_META_INT || value.integer < 0 ||
            value.integer > INT32_MAX)
            return ln_fail(err, LINNET_ERR_FORMAT, "%s: key %s is missing, or no token",
                           ln_checkpoint_path(config->checkpoint), key);
        mask = (size_t)value.integer;
    } else {
        LN_TRY(ln_config_need_size(&outer,
                                   (ln_key){"dflash_config.mask_token_id|mask_token_id", ""}, 0,
                                   INT32_MAX, &mask, err));
    }
    dflash->mask_token = (int32_t)mask;
    double scale = 1;
    static const ln_key key = {"dflash_config.input_embedding_scale|input_embedding_scale",
                               "embedding_scale"};
    dflash->says_scale = ln_config_find(&outer, key, &value, NULL);
    LN_TRY(ln_config_real(&outer, key, -1e9, 1e9, &scale, err));
    spec->embedding_scale = (float)scale;
    return LINNET_OK;
}

/* Folders count what a layer gives, all but speculators', which count what enters it, as GGUF does.
 */
static ln_status read_layers(const ln_config *config, ln_spec *spec, ln_error *err) {
    ln_aux_layers *aux = &spec->eagle.aux_layers;
    LN_TRY(ln_spec_read_aux_layers(config, "dflash.target_layers", 0, aux, err));
    LN_TRY(ln_spec_read_aux_layers(config, "aux_hidden_state_layer_ids", 0, aux, err));
    LN_TRY(ln_spec_read_aux_layers(config, "dflash_config.target_layer_ids", 1, aux, err));
    LN_TRY(ln_spec_read_aux_layers(config, "target_layer_ids", 1, aux, err));
    if (aux->n > 0)
        return LINNET_OK;
    return ln_fail(err, LINNET_ERR_FORMAT,
                   "%s: no key says which layers of the model are read (target_layer_ids)",
                   ln_checkpoint_path(config->checkpoint));
}

/* What a block's tokens see of it: all, or those before them. A folder that does not say it has
 * windows whose layers see no tokens ahead, but for transformers' own. */
typedef struct sight {
    bool is_said, is_causal; /* of all layers */
    bool is_own;             /* transformers' folder, whose windows have a token more */
    bool all_windowed;
    size_t window;
} sight;

static ln_status read_sight(const ln_config *config, sight *sees, ln_error *err) {
    static const ln_key causal = {"is_causal|dflash_config.causal", "attention.causal"};
    static const ln_key both_ways = {"sliding_window_non_causal", ""};
    static const ln_key window = {"sliding_window", "attention.sliding_window"};
    const ln_config outer = around(config);
    ln_meta_value value;
    bool is_both = true;
    *sees = (sight){.is_own = ln_config_is(&outer, type_key, own_type)};
    sees->is_said = sees->is_own || config->is_gguf || *config->nest != '\0' ||
                    ln_config_find(&outer, causal, &value, NULL);
    LN_TRY(ln_config_flag(&outer, both_ways, &is_both, err));
    sees->is_causal = !is_both;
    LN_TRY(ln_config_flag(&outer, causal, &sees->is_causal, err));
    LN_TRY(ln_config_flag(&outer, (ln_key){"dflash_config.use_swa", ""}, &sees->all_windowed, err));
    LN_TRY(ln_config_size(config, window, 0, INT32_MAX, &sees->window, err));
    LN_TRY(ln_config_size(&outer, (ln_key){"dflash_config.swa_window_size", ""}, 1, INT32_MAX,
                          &sees->window, err));
    return LINNET_OK;
}

static ln_status read_windows(const ln_config *config, ln_spec *spec, ln_error *err) {
    sight sees;
    bool any = false;
    bool windowed[LN_MAX_LAYERS];
    LN_TRY(read_sight(config, &sees, err));
    for (size_t i = 0; i < spec->n_layers; i++) {
        LN_TRY(ln_spec_layer_is_windowed(config, spec, i, sees.window, &windowed[i], err));
        any |= windowed[i];
    }
    for (size_t i = 0; i < spec->n_layers; i++) {
        ln_attention_spec *a = &spec->layers[i].attention;
        bool is_windowed = windowed[i] || (sees.all_windowed && !any);
        if (is_windowed && sees.window == 0)
            return ln_fail(err, LINNET_ERR_FORMAT, "%s: layer %zu sees a window of no size",
                           ln_checkpoint_path(config->checkpoint), i);
        a->window = is_windowed ? sees.window + sees.is_own : 0;
        a->sees_all = sees.is_said ? !sees.is_causal : !windowed[i];
    }
    return LINNET_OK;
}

ln_status ln_spec_read_dflash(const ln_config *config, ln_spec *spec, ln_error *err) {
    spec->eagle = (ln_eagle_spec){.is_head = true};
    LN_TRY(check_kind(config, err));
    LN_TRY(read_block(config, spec, err));
    LN_TRY(read_layers(config, spec, err));
    LN_TRY(read_windows(config, spec, err));
    return ln_spec_read_model_dim(config, spec, err);
}

ln_status ln_spec_fit_dflash(ln_spec *spec, const ln_spec *model, const char *path, ln_error *err) {
    const ln_eagle_spec *own = &spec->eagle;
    const ln_dflash_spec *dflash = &spec->dflash;
    bool has_embedding = own->n_embedded > 0;
    size_t n_rows = has_embedding ? own->n_embedded : model->n_vocab;
    if (model->n_encoder_layers > 0 || model->n_streams > 0 || model->hyper.n > 0 ||
        model->bidirectional || ln_embedded_dim(model) != model->dim || model->output_dense)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED, "%s cannot draft for a model of this kind",
                       path);
    bool fits = own->model_dim == model->dim && n_rows >= model->n_vocab;
    if (!has_embedding || !dflash->has_output) /* the model's */
        fits = fits && spec->dim == model->dim;
    if (dflash->has_output)
        fits = fits && spec->n_vocab <= model->n_vocab;
    else
        fits = fits && (spec->n_vocab == 0 || spec->n_vocab == model->n_vocab);
    if (!fits)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                       "%s drafts for a model of %zu dimensions, or for another vocabulary", path,
                       own->model_dim);
    if ((size_t)dflash->mask_token >= n_rows)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                       "%s: its mask is token %d, but the model has %zu", path, dflash->mask_token,
                       n_rows);
    if (!dflash->has_output)
        spec->n_vocab = model->n_vocab;
    if (!dflash->says_scale && !has_embedding)
        spec->embedding_scale = model->embedding_scale;
    return LINNET_OK;
}
