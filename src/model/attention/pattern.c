#include "model/attention/pattern.h"

#include <stdio.h>

#include "model/attention/spec.h"
#include "model/family.h"
#include "model/layers/cycles.h"

/* By the layer's base, of which 0 is none and all others are the same; GGUF lists which rotate. */
static ln_status rotates_by_base(const ln_config *config, const ln_spec *spec, size_t layer,
                                 bool *rotates, ln_error *err) {
    ln_meta_value list, item;
    char name[128];
    if (!ln_config_find(config, (ln_key){"layer_rope_theta", "attention.rope_pattern"}, &list,
                        name))
        return LINNET_OK;
    if (!ln_meta_item(&list, layer, &item))
        return ln_fail(err, LINNET_ERR_FORMAT, "%s: key %s has nothing for layer %zu",
                       ln_checkpoint_path(config->checkpoint), name, layer);
    if (item.kind == LN_META_BOOL) {
        *rotates = item.boolean;
        return LINNET_OK;
    }
    double base = item.kind == LN_META_INT ? (double)item.integer : item.real;
    *rotates = base != 0;
    if (base == 0 || base == spec->ropes[0].theta)
        return LINNET_OK;
    return ln_fail(err, LINNET_ERR_UNSUPPORTED, "%s: key %s: layers rotate by different bases",
                   ln_checkpoint_path(config->checkpoint), name);
}

/* By the layer's entry, which is 0 where it does not rotate; all others rotate by the model's base.
 */
static ln_status rotates_by_list(const ln_config *config, const ln_spec *spec, size_t layer,
                                 bool *rotates, ln_error *err) {
    ln_meta_value list, item;
    char name[128];
    *rotates = (spec->n_layers - 1 - layer) % 4 != 0;
    if (!ln_config_find(config, (ln_key){"layer_rope_theta", ""}, &list, name))
        return LINNET_OK;
    if (!ln_meta_item(&list, layer, &item) ||
        (item.kind != LN_META_INT && item.kind != LN_META_FLOAT))
        return ln_fail(err, LINNET_ERR_FORMAT, "%s: key %s has no number for layer %zu",
                       ln_checkpoint_path(config->checkpoint), name, layer);
    *rotates = item.kind == LN_META_INT ? item.integer != 0 : item.real != 0;
    return LINNET_OK;
}

/* Layers of a kind whose parameters are null do not rotate. */
static bool kind_rotates(const ln_config *config, bool windowed) {
    char key[128];
    snprintf(key, sizeof key, "%srope_parameters.%s", config->nest,
             windowed ? "sliding_attention" : "full_attention");
    return !ln_checkpoint_meta_is_null(config->checkpoint, key);
}

/* SmallThinker's lists of 0 and 1, an item for each layer; *is_there false: there is none. */
static ln_status read_layout(const ln_config *config, const char *key, size_t layer, bool *is_there,
                             bool *value, ln_error *err) {
    ln_meta_value list, item;
    char name[128];
    *is_there = ln_config_find(config, (ln_key){key, ""}, &list, name);
    if (!*is_there)
        return LINNET_OK;
    if (!ln_meta_item(&list, layer, &item) || item.kind != LN_META_INT)
        return ln_fail(err, LINNET_ERR_FORMAT, "%s: key %s has no number for layer %zu",
                       ln_checkpoint_path(config->checkpoint), name, layer);
    *value = item.integer != 0;
    return LINNET_OK;
}

ln_status ln_spec_layer_rope(const ln_config *config, const ln_spec *spec, size_t layer,
                             size_t window, bool windowed, int *rope, ln_error *err) {
    bool rotates = spec->positions == LN_POSITIONS_ROPE;
    ln_meta_value list;
    char name[128];
    if (spec->family->rope_rule == LN_ROPE_WINDOWED_LAYERS ||
        spec->family->rope_rule == LN_ROPE_WINDOWED_OR_DENSE ||
        (spec->family->rope_rule == LN_ROPE_WINDOWED_OR_ALL && window > 0))
        rotates = rotates && windowed;
    bool is_laid_out;
    LN_TRY(read_layout(config, "rope_layout", layer, &is_laid_out, &rotates, err));
    if (spec->family->rope_rule == LN_ROPE_LISTED_LAYERS) {
        size_t interval = 4;
        LN_TRY(ln_config_size(config, (ln_key){"no_rope_layer_interval", ""}, 1, LN_MAX_LAYERS,
                              &interval, err));
        rotates = (layer + 1) % interval != 0;
        LN_TRY(ln_config_list(config, (ln_key){"no_rope_layers", ""}, &list, &is_laid_out, err));
        if (is_laid_out && list.array.count > 0) /* an empty list says nothing */
            LN_TRY(read_layout(config, "no_rope_layers", layer, &is_laid_out, &rotates, err));
    }
    if (spec->family->rope_rule == LN_ROPE_LISTED && config->is_gguf)
        rotates = rotates && windowed;
    else if (spec->family->rope_rule == LN_ROPE_LISTED)
        LN_TRY(rotates_by_list(config, spec, layer, &rotates, err));
    bool by_kind = spec->family->rope_rule == LN_ROPE_LISTED_KINDS;
    if (spec->family->rope_rule == LN_ROPE_KINDS_OR_WINDOWED) {
        by_kind = ln_config_find(config, (ln_key){"rope_parameters", ""}, &list, name);
        rotates = by_kind ? rotates : rotates && windowed;
    }
    if (by_kind)
        rotates = rotates && kind_rotates(config, windowed);
    if (spec->family->rope_rule == LN_ROPE_LISTED_BASES)
        LN_TRY(rotates_by_base(config, spec, layer, &rotates, err));
    if (spec->family->shared_blocks) {
        bool is_set = false;
        LN_TRY(ln_config_flag(config, (ln_key){"use_mem_rope", ""}, &is_set, err));
        rotates = rotates && is_set;
    }
    *rope = !rotates ? -1 : spec->family->local_rope && windowed ? 1 : 0;
    return LINNET_OK;
}

/* Whether a layer is windowed by the family's rule. */
static ln_status is_windowed_by_rule(const ln_config *config, const ln_spec *spec, size_t layer,
                                     size_t window, bool *windowed, ln_error *err) {
    ln_window_rule rule = spec->family->window;
    if (config->is_gguf && spec->family->gguf_window != LN_WINDOW_NEVER)
        rule = spec->family->gguf_window;
    if (rule == LN_WINDOW_ALL)
        *windowed = true;
    if (rule == LN_WINDOW_PERIOD || rule == LN_WINDOW_BETWEEN || rule == LN_WINDOW_BEHIND) {
        size_t period = spec->family->window_period;
        LN_TRY(ln_config_size(config,
                              (ln_key){"sliding_window_pattern|_sliding_window_pattern|"
                                       "global_attn_every_n_layers",
                                       ""},
                              1, LN_MAX_LAYERS, &period, err));
        *windowed = rule == LN_WINDOW_BEHIND
                        ? layer % period != 0
                        : (layer + 1) % period != 0 && (layer > 0 || rule == LN_WINDOW_PERIOD);
    }
    if (rule == LN_WINDOW_ABOVE || rule == LN_WINDOW_USED || rule == LN_WINDOW_UNROTATED) {
        bool use = false;
        int rope = -1;
        size_t from = rule == LN_WINDOW_ABOVE ? spec->n_layers : 0;
        LN_TRY(ln_config_flag(config, (ln_key){"use_sliding_window", ""}, &use, err));
        if (rule == LN_WINDOW_ABOVE)
            LN_TRY(
                ln_config_size(config, (ln_key){"max_window_layers", ""}, 0, SIZE_MAX, &from, err));
        if (rule == LN_WINDOW_UNROTATED)
            LN_TRY(ln_spec_layer_rope(config, spec, layer, window, false, &rope, err));
        *windowed = use && layer >= from && rope < 0;
    }
    if (rule == LN_WINDOW_FROM) {
        size_t from = spec->n_layers;
        LN_TRY(ln_config_size(config, (ln_key){"max_window_layers", ""}, 0, SIZE_MAX, &from, err));
        *windowed = layer >= from;
    }
    size_t from_last = spec->n_layers - 1 - layer;
    if (rule == LN_WINDOW_INSIDE)
        *windowed = layer >= 2 && layer % spec->family->window_period != 1 && from_last > 0;
    if (rule == LN_WINDOW_AFTER_TWO) {
        bool use = true;
        LN_TRY(ln_config_flag(config, (ln_key){"use_sliding_window", ""}, &use, err));
        *windowed = use && layer >= 2 && layer % spec->family->window_period != 1;
    }
    if (rule == LN_WINDOW_BUT_LAST)
        *windowed = (layer + 1) % spec->family->window_period != 0 && from_last > 0;
    if (rule == LN_WINDOW_FROM_LAST)
        *windowed = from_last % spec->family->window_period != 0;
    if (rule == LN_WINDOW_ROTATED) {
        int rope = -1;
        LN_TRY(ln_spec_layer_rope(config, spec, layer, window, false, &rope, err));
        *windowed = rope >= 0;
    }
    return LINNET_OK;
}

ln_status ln_spec_layer_is_windowed(const ln_config *config, const ln_spec *spec, size_t layer,
                                    size_t window, bool *windowed, ln_error *err) {
    ln_meta_value types, item;
    char name[128];
    *windowed = spec->family->window_unlisted && window > 0;
    if (spec->family->window_unlisted)
        return LINNET_OK;
    if (spec->family->ends_in_full && !config->is_gguf && layer + 1 == spec->n_layers)
        return LINNET_OK;
    if (ln_config_find(config, (ln_key){"", "attention.sliding_window_pattern"}, &types, name) &&
        types.kind == LN_META_ARRAY && ln_meta_item(&types, layer, &item) &&
        item.kind == LN_META_BOOL) {
        *windowed = item.boolean;
        return LINNET_OK;
    }
    bool is_named;
    if (ln_spec_layer_word(config, ln_cycle_stored(spec, layer), name, &item, &is_named)) {
        if (!is_named)
            return ln_fail(err, LINNET_ERR_FORMAT, "%s: key %s has no name for layer %zu",
                           ln_checkpoint_path(config->checkpoint), name, layer);
        const char *kind =
            spec->family->chunked ? "chunked_attention" : "sliding_attention|local|hybrid_sliding";
        *windowed = ln_list_has(kind, item.string.data, item.string.bytes);
        if (!*windowed && !ln_list_has("full_attention|indexed_attention|attention|global|"
                                       "minimax_m3_sparse|hybrid",
                                       item.string.data, item.string.bytes))
            return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                           "%s: key %s: the kind \"%.*s\" of layer %zu is not supported",
                           ln_checkpoint_path(config->checkpoint), name,
                           (int)(item.string.bytes < 64 ? item.string.bytes : 64), item.string.data,
                           layer);
        return LINNET_OK;
    }
    if (window == 0)
        return LINNET_OK;
    size_t stored = ln_cycle_stored(spec, layer);
    bool is_laid_out;
    LN_TRY(read_layout(config, "sliding_window_layout", stored, &is_laid_out, windowed, err));
    if (is_laid_out)
        return LINNET_OK;
    LN_TRY(ln_config_lists(config, (ln_key){"local_layer_ids", ""}, stored, &is_laid_out, windowed,
                           err));
    if (is_laid_out)
        return LINNET_OK;
    return is_windowed_by_rule(config, spec, stored, window, windowed, err);
}
