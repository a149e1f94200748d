#include "model/layers/cycles.h"

#include <stdio.h>

#include "model/family.h"
#include "model/layers/blend.h"

enum { MAX_CYCLES = 64 };

/* How many layers a key counts, each of which is one block of two that belong together. */
static ln_status read_blocks(const ln_config *config, const char *key, size_t *n, ln_error *err) {
    LN_TRY(ln_config_size(config, (ln_key){key, ""}, 0, LN_MAX_LAYERS, n, err));
    if (*n % 2 == 0)
        return LINNET_OK;
    return ln_fail(err, LINNET_ERR_UNSUPPORTED, "%s: key %s: %zu blocks are no pairs",
                   ln_checkpoint_path(config->checkpoint), key, *n);
}

static ln_status read_loops(const ln_config *config, ln_spec *spec, ln_error *err) {
    const char *path = ln_checkpoint_path(config->checkpoint);
    size_t n_before = 8, n_behind = 8, n_layers = spec->n_layers;
    static const ln_key mode_key = {"recurrent_kv_cache_mode", ""};
    ln_meta_value mode;
    spec->n_loops = 2;
    LN_TRY(read_blocks(config, "n_input_layers", &n_before, err));
    LN_TRY(read_blocks(config, "n_output_layers", &n_behind, err));
    LN_TRY(ln_config_size(config, (ln_key){"n_recurrent_loops", ""}, 1, MAX_CYCLES, &spec->n_loops,
                          err));
    if (ln_config_find(config, mode_key, &mode, NULL) &&
        !ln_config_is(config, mode_key, "per_loop"))
        return ln_fail(
            err, LINNET_ERR_UNSUPPORTED,
            "%s: key recurrent_kv_cache_mode: loops that share a cache are not supported", path);
    spec->loop_begin = n_before;
    spec->loop_layers = n_before + n_behind < n_layers ? n_layers - n_before - n_behind : 0;
    size_t claimed = spec->loop_layers;
    LN_TRY(read_blocks(config, "n_recurrent_layers", &claimed, err));
    if (spec->loop_layers == 0 || claimed != spec->loop_layers)
        return ln_fail(
            err, LINNET_ERR_UNSUPPORTED,
            "%s: of %zu layers, %zu before and %zu behind those that run %zu times do not "
            "leave %zu",
            path, n_layers, n_before, n_behind, spec->n_loops, claimed);
    spec->n_layers += (spec->n_loops - 1) * spec->loop_layers;
    if (spec->n_layers <= LN_MAX_LAYERS)
        return LINNET_OK;
    return ln_fail(err, LINNET_ERR_UNSUPPORTED, "%s: loops of %zu layers are too many", path,
                   spec->n_layers);
}

/* Whether a list of config.json names layers. */
static bool names_layers(const ln_config *config, const char *key) {
    ln_meta_value list, item;
    return ln_config_find(config, (ln_key){key, ""}, &list, NULL) && ln_meta_item(&list, 0, &item);
}

/* The same of all layers. */
static ln_status read_repeats(const ln_config *config, ln_spec *spec, ln_error *err) {
    const char *path = ln_checkpoint_path(config->checkpoint);
    size_t n_layers = spec->n_layers;
    double threshold = 1;
    bool skips_norm = false;
    spec->n_loops = 1;
    LN_TRY(ln_config_size(config, (ln_key){"num_loops|total_ut_steps", "num_loops"}, 1, MAX_CYCLES,
                          &spec->n_loops, err));
    LN_TRY(ln_config_flag(config, (ln_key){"skip_loop_final_norm", "skip_loop_final_norm"},
                          &skips_norm, err));
    LN_TRY(ln_config_real(config, (ln_key){"early_exit_threshold", ""}, 0, 1, &threshold, err));
    if (threshold < 1)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                       "%s: key early_exit_threshold: tokens that run less often than others are "
                       "not supported",
                       path);
    if (names_layers(config, "loop_middle_layers") ||
        names_layers(config, "insert_ngram_layer_idx"))
        return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                       "%s: loop_middle_layers and insert_ngram_layer_idx are not supported", path);
    if (spec->n_loops == 1)
        return LINNET_OK;
    spec->repeats = true;
    spec->norms_repeats = !skips_norm;
    spec->loop_layers = n_layers;
    spec->n_layers *= spec->n_loops;
    if (spec->n_layers <= LN_MAX_LAYERS)
        return LINNET_OK;
    return ln_fail(err, LINNET_ERR_UNSUPPORTED, "%s: %zu layers cannot run %zu times", path,
                   n_layers, spec->n_loops);
}

/* The same where layers get messages of the run before. */
static ln_status read_passes(const ln_config *config, ln_spec *spec, ln_error *err) {
    size_t end = 0, rank = 0, n_runs = 0, n_layers = spec->n_layers;
    LN_TRY(ln_config_need_size(config,
                               (ln_key){"loop_config.core_start|loop_layer_index_start", ""}, 1,
                               n_layers, &spec->loop_begin, err));
    LN_TRY(ln_config_need_size(config, (ln_key){"loop_config.core_end|loop_layer_index_end", ""}, 1,
                               n_layers, &end, err));
    LN_TRY(ln_config_need_size(config, (ln_key){"loop_config.num_passes|loop_num_passes", ""}, 1,
                               MAX_CYCLES, &n_runs, err));
    LN_TRY(ln_config_need_size(config, (ln_key){"loop_config.gate_rank|loop_gate_rank", ""}, 1,
                               LN_MAX_DIM, &rank, err));
    spec->loop_layers = end > spec->loop_begin ? end - spec->loop_begin : 0;
    spec->n_loops = n_runs;
    spec->message_rank = rank;
    spec->n_layers += (n_runs - 1) * spec->loop_layers;
    if (spec->loop_layers > 0 && spec->n_layers <= LN_MAX_LAYERS)
        return LINNET_OK;
    return ln_fail(err, LINNET_ERR_UNSUPPORTED, "%s: layers %zu to %zu of %zu cannot run %zu times",
                   ln_checkpoint_path(config->checkpoint), spec->loop_begin, end, n_layers, n_runs);
}

ln_status ln_spec_read_cycles(const ln_config *config, ln_spec *spec, ln_error *err) {
    size_t n_high = 2, n_low = 3, n_layers = spec->n_layers;
    ln_meta_value value;
    if (spec->family->loops)
        return read_loops(config, spec, err);
    if (spec->family->repeats)
        return read_repeats(config, spec, err);
    ln_key begin_key = {"loop_config.core_start|loop_layer_index_start", ""};
    if (spec->family->passes && ln_config_find(config, begin_key, &value, NULL))
        return read_passes(config, spec, err);
    if (!spec->family->cycles)
        return LINNET_OK;
    LN_TRY(
        ln_config_size(config, (ln_key){"H_cycles", "hrm.h_cycles"}, 1, MAX_CYCLES, &n_high, err));
    LN_TRY(
        ln_config_size(config, (ln_key){"L_cycles", "hrm.l_cycles"}, 1, MAX_CYCLES, &n_low, err));
    LN_TRY(ln_config_size(config, (ln_key){"num_layers_per_stack", "hrm.layers_per_stack"}, 1,
                          LN_MAX_LAYERS, &n_layers, err));
    spec->cycle_layers = n_layers;
    spec->cycle_stacks = n_low + 1;
    spec->n_layers = n_layers * n_high * spec->cycle_stacks;
    if (spec->n_layers <= LN_MAX_LAYERS)
        return LINNET_OK;
    return ln_fail(err, LINNET_ERR_UNSUPPORTED, "%s: cycles of %zu layers are too many",
                   ln_checkpoint_path(config->checkpoint), spec->n_layers);
}

/* Whether a layer is of a run of the high stack. */
static bool is_high(const ln_spec *spec, size_t layer) {
    return (layer / spec->cycle_layers + 1) % spec->cycle_stacks == 0;
}

ln_status ln_load_cycles(ln_loader *l) {
    ln_weights *w = l->weights;
    if (l->spec->family->loops)
        return ln_load_unit_norm(l, l->spec->dim, &w->cycle_norm);
    if (l->spec->norms_repeats)
        return ln_load_norm(l, LN_ROLE_OUTPUT_NORM, 0, l->spec->dim, &w->cycle_norm);
    if (l->spec->cycle_layers == 0 && l->spec->message_rank == 0)
        return LINNET_OK;
    w->cycle_norm = (ln_norm){.kind = LN_NORM_RMS, .eps = l->spec->norm_eps, .dim = l->spec->dim};
    if (l->spec->message_rank > 0)
        return LINNET_OK;
    return ln_load_vector(l, (ln_tensor_id){.role = LN_ROLE_CYCLE_BEGIN}, l->spec->dim,
                          &w->cycle_begin);
}

size_t ln_cycle_stored(const ln_spec *spec, size_t layer) {
    size_t n = spec->loop_layers, begin = spec->loop_begin;
    if (spec->cycle_layers > 0)
        return layer % spec->cycle_layers + (is_high(spec, layer) ? spec->cycle_layers : 0);
    if (n == 0 || layer < begin)
        return layer;
    size_t run = (layer - begin) / n, last = spec->n_loops - 1;
    return layer - (run < last ? run : last) * n;
}

size_t ln_cycle_layer(const ln_spec *spec, size_t first, size_t layer) {
    size_t n = spec->cycle_layers;
    for (size_t i = first; spec->loop_layers > 0 && i < layer; i++)
        if (ln_cycle_stored(spec, i) == ln_cycle_stored(spec, layer))
            return i;
    for (size_t i = first; n > 0 && i < layer; i++)
        if (i % n == layer % n && is_high(spec, i) == is_high(spec, layer))
            return i;
    return layer;
}

void ln_cycle_stem(const ln_spec *spec, size_t layer, char stem[64]) {
    snprintf(stem, 64, "model.%s_module.layers.%zu", is_high(spec, layer) ? "H" : "L",
             layer % spec->cycle_layers);
}

/* x = a + b, of which b is a row for all tokens, or one each */
static void add(recorder *r, const float *a, const float *b, bool is_row) {
    push(r, LN_OP_POINTWISE)->pointwise = (ln_op_pointwise){
        .function = LN_POINTWISE_ADD,
        .n_rows = r->batch->n_tokens,
        .dim = r->spec->dim,
        .n_gates = r->spec->dim,
        .x = a,
        .gate = b,
        .one_gate = is_row,
        .scale = 1.0f,
        .out = r->a->x,
    };
}

/* Where a run of a loop begins, x becomes its norm plus that of what the first run began with. */
static void record_loop(recorder *r, size_t layer) {
    const ln_spec *spec = r->spec;
    float *x = r->a->x, *begin = r->a->cycle_high;
    const ln_norm *unit = &r->weights->cycle_norm;
    size_t n = spec->loop_layers, end = spec->loop_begin + spec->n_loops * n;
    if (layer < spec->loop_begin || layer >= end || (layer - spec->loop_begin) % n != 0)
        return;
    if (layer == spec->loop_begin)
        norm(r, unit, x, NULL, begin);
    norm(r, unit, x, NULL, x);
    add(r, x, begin, false);
}

void ln_record_cycle(recorder *r, size_t layer) {
    const ln_activations *a = r->a;
    size_t n = r->spec->cycle_layers;
    if (r->spec->norms_repeats && layer > 0 && layer % r->spec->loop_layers == 0)
        norm(r, &r->weights->cycle_norm, a->x, NULL, a->x);
    else if (r->spec->loop_layers > 0 && r->spec->message_rank == 0 && !r->spec->repeats)
        record_loop(r, layer);
    if (n == 0 || layer % n != 0)
        return;
    if (layer == 0) {
        norm(r, &r->weights->copy, a->x, NULL, a->cycle_high);
        add(r, a->cycle_high, r->weights->cycle_begin, true);
        return;
    }
    norm(r, &r->weights->cycle_norm, a->x, NULL,
         is_high(r->spec, layer - 1) ? a->cycle_high : a->cycle_low);
    add(r, a->cycle_low, a->cycle_high, false);
}
