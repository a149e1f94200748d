#include "model/xielu.h"

#include <math.h>
#include <stdio.h>

#include "format/quants.h"
#include "model/family.h"

enum { N_PARAMETERS = 4 };
static const char *const names[N_PARAMETERS] = {"alpha_p", "alpha_n", "beta", "eps"};

/* The tensor of a parameter, or NULL. */
static ln_status find_tensor(const ln_checkpoint *checkpoint, const ln_spec *spec, size_t layer,
                             const char *parameter, const ln_tensor **tensor, ln_error *err) {
    char name[LN_TENSOR_NAME_BYTES], placed[LN_TENSOR_NAME_BYTES];
    *tensor = NULL;
    snprintf(name, sizeof name, "model.layers.%zu.mlp.act_fn.%s", layer, parameter);
    for (size_t i = 0; *tensor == NULL && ln_family_place(spec->family, name, i, placed); i++)
        *tensor = ln_checkpoint_find(checkpoint, placed);
    if (*tensor == NULL ||
        ((*tensor)->n_elems == 1 && ln_dtype_block_elems((*tensor)->dtype) == 1 &&
         ln_can_dequantize((*tensor)->dtype)))
        return LINNET_OK;
    return ln_fail(err, LINNET_ERR_FORMAT, "%s: tensor %s is no single number",
                   ln_checkpoint_path(checkpoint), (*tensor)->name);
}

static ln_status read_meta(const ln_checkpoint *checkpoint, size_t layer, const char *parameter,
                           float *value, ln_error *err) {
    char key[64];
    ln_meta_value found, item;
    snprintf(key, sizeof key, "xielu.%s", parameter);
    if (!ln_checkpoint_meta(checkpoint, key, &found))
        return LINNET_OK;
    bool is_there = true;
    if (found.kind != LN_META_ARRAY)
        item = found;
    else
        is_there = ln_meta_item(&found, layer, &item);
    if (!is_there || item.kind != LN_META_FLOAT)
        return ln_fail(err, LINNET_ERR_FORMAT, "%s: key %s has no number for layer %zu",
                       ln_checkpoint_path(checkpoint), key, layer);
    *value = (float)item.real;
    return LINNET_OK;
}

ln_status ln_xielu_read(const ln_checkpoint *checkpoint, const ln_spec *spec, size_t layer,
                        ln_unused_tensors *unused, bool with_values, ln_xielu *stored,
                        ln_error *err) {
    float values[N_PARAMETERS] = {logf(expm1f(0.8f)), logf(expm1f(0.3f)), 0.5f, -1e-6f};
    for (size_t i = 0; i < N_PARAMETERS; i++) {
        const ln_tensor *tensor;
        if (ln_checkpoint_get_format(checkpoint) == LN_FORMAT_GGUF) {
            LN_TRY(read_meta(checkpoint, layer, names[i], &values[i], err));
            continue;
        }
        LN_TRY(find_tensor(checkpoint, spec, layer, names[i], &tensor, err));
        if (tensor != NULL && unused != NULL)
            ln_unused_tensors_mark(unused, tensor);
        if (tensor != NULL && with_values)
            ln_dequantize_row(tensor->dtype, tensor->data, &values[i], 1);
    }
    *stored = (ln_xielu){values[0], values[1], values[2], values[3]};
    return LINNET_OK;
}

static float softplus(float x) {
    return x > 20.0f ? x : log1pf(expf(x));
}

ln_xielu ln_xielu_of(const ln_xielu *stored) {
    ln_xielu xielu = *stored;
    xielu.alpha_p = softplus(stored->alpha_p);
    xielu.alpha_n = stored->beta + softplus(stored->alpha_n);
    return xielu;
}
