#include "model/unused_tensors.h"

#include <stdlib.h>
#include <string.h>

#include "model/config.h"
#include "model/skipped.h"

ln_status ln_unused_tensors_init(ln_unused_tensors *unused, const ln_checkpoint *checkpoint,
                                 ln_error *err) {
    *unused = (ln_unused_tensors){.checkpoint = checkpoint};
    unused->read = calloc(ln_checkpoint_tensor_count(checkpoint) + 1, sizeof *unused->read);
    return unused->read != NULL ? LINNET_OK
                                : ln_fail(err, LINNET_ERR_NOMEM, "out of memory reading %s",
                                          ln_checkpoint_path(checkpoint));
}

void ln_unused_tensors_free(ln_unused_tensors *unused) {
    free(unused->read);
    *unused = (ln_unused_tensors){0};
}

void ln_unused_tensors_mark(ln_unused_tensors *unused, const ln_tensor *tensor) {
    if (tensor != NULL)
        unused->read[tensor - ln_checkpoint_tensor(unused->checkpoint, 0)] = true;
}

void ln_unused_tensors_mark_request(ln_unused_tensors *unused, const ln_weight_request *request) {
    for (size_t i = 0; i < request->n_sources; i++) {
        const ln_weight_source *source = &request->sources[i];
        ln_unused_tensors_mark(unused, source->tensor);
        ln_unused_tensors_mark(unused, source->packed.values);
        ln_unused_tensors_mark(unused, source->packed.scales);
        ln_unused_tensors_mark(unused, source->packed.zeros);
        ln_unused_tensors_mark(unused, source->packed.order);
        ln_unused_tensors_mark(unused, source->packed.global_scale);
        ln_unused_tensors_mark(unused, source->packed.global_divisor);
        ln_unused_tensors_mark(unused, source->packed.column_scales);
    }
}

static bool ends_in(const char *name, const char *ending) {
    size_t n = strlen(name), n_ending = strlen(ending);
    return n >= n_ending && memcmp(name + n - n_ending, ending, n_ending) == 0;
}

static bool ends_in_any(const char *name, const char *const *endings, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (ends_in(name, endings[i]))
            return true;
    return false;
}

/* Tables that modelling code once saved although it can make them, and what is known about a
 * quantised tensor beside its values: shapes, the order of columns (read with the values), and
 * scales of activations and of the cache, which stay unquantised here; and adapters that count for
 * pictures and sounds alone. */
static bool is_by_product(const ln_tensor *tensor) {
    static const char *const endings[] = {
        ".inv_freq",
        ".masked_bias",
        ".position_ids",
        ".weight_shape",
        ".g_idx",
        ".input_scale",
        ".input_global_scale",
        ".weight.absmax",
        ".weight.quant_map",
        ".weight.nested_absmax",
        ".weight.nested_quant_map",
        ".weight.quant_state.bitsandbytes__nf4",
        ".weight.quant_state.bitsandbytes__fp4",
        ".weight_format",
        ".activation_scale",
        ".output_scale",
        ".k_scale",
        ".v_scale",
        ".kv_scale",
        ".input_zero_point",
        ".cos_cached",
        ".sin_cached",
        ".attn_rot_embd.weight",
        ".slope_rate",
        ".relative_pe.slopes",
        ".query_decay",
        ".key_decay",
        ".diagonal_decay",
        ".lora_A.vision.weight",
        ".lora_B.vision.weight",
        ".lora_A.speech.weight",
        ".lora_B.speech.weight",
    };
    static const char *const masks[] = {".attn.bias", ".attention.bias", ".attn.causal_mask"};
    bool is_mask = tensor->n_dims == 4 && ends_in_any(tensor->name, masks, 3);
    return is_mask || ends_in_any(tensor->name, endings, sizeof endings / sizeof *endings);
}

/* The output of a model that uses its embedding instead, or none. */
static bool is_tied_output(const ln_checkpoint *checkpoint, const ln_spec *spec,
                           const ln_tensor *tensor) {
    const ln_binding *binding;
    ln_tensor_id id = {.role = LN_ROLE_OUTPUT};
    return (spec->tied || spec->bidirectional) &&
           ln_family_find(spec->family, checkpoint, id, &binding) == tensor;
}

/* What a head reads that classifies (model/embedding). */
static bool is_of_classes(const ln_checkpoint *checkpoint, const ln_spec *spec,
                          const ln_tensor *tensor) {
    const ln_binding *binding;
    for (int role = LN_ROLE_CLASS_DENSE; role <= LN_ROLE_CLASS_OUT; role++)
        for (int is_bias = 0; is_bias < 2; is_bias++) {
            ln_tensor_id id = {.role = (ln_role)role, .is_bias = is_bias == 1};
            if (ln_family_find(spec->family, checkpoint, id, &binding) == tensor)
                return true;
        }
    return false;
}

static bool is_ignored(const ln_family *family, const char *name) {
    return family->ignored != NULL && ln_list_has(family->ignored, name, strlen(name));
}

ln_status ln_unused_tensors_check(const ln_unused_tensors *unused, const ln_spec *spec,
                                  ln_error *err) {
    const ln_checkpoint *checkpoint = unused->checkpoint;
    for (size_t i = 0; i < ln_checkpoint_tensor_count(checkpoint); i++) {
        const ln_tensor *tensor = ln_checkpoint_tensor(checkpoint, i);
        if (!unused->read[i] && !is_by_product(tensor) &&
            !is_tied_output(checkpoint, spec, tensor) && !is_of_classes(checkpoint, spec, tensor) &&
            ln_skipped_part(checkpoint, spec, tensor) == NULL &&
            !is_ignored(spec->family, tensor->name))
            return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                           "%s: tensor %s: nothing in the family %s reads it",
                           ln_checkpoint_path(checkpoint), tensor->name, spec->family->name);
    }
    return LINNET_OK;
}
