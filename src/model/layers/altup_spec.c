#include <math.h>

#include "model/family.h"
#include "model/layers/altup.h"

/* The number that a normal variable stays below with this probability, by Newton's method on erfc;
 * the reference does the first step in single precision. */
static double find_quantile(double probability) {
    double doubled = (double)(2.0f * (float)probability - 1.0f), x = 0;
    for (int i = 0; i < 100; i++) {
        double error = erf(x) - doubled;
        double step = error * exp(x * x) * 0.88622692545275801365; /* sqrt(pi) / 2 */
        x -= fmax(fmin(step, 0.5), -0.5);
    }
    return x * sqrt(2.0);
}

static ln_status bad_entry(const ln_config *config, const char *name, size_t layer, ln_error *err) {
    return ln_fail(err, LINNET_ERR_FORMAT, "%s: key %s has no possible number for layer %zu",
                   ln_checkpoint_path(config->checkpoint), name, layer);
}

/* Which part of a gate is set to zero, or in GGUF by how many standard deviations; without a list
 * the first ten layers' by 0.95 where there are more. */
static ln_status read_sparsity(const ln_config *config, const ln_spec *spec, size_t i,
                               ln_ffn_spec *ffn, ln_error *err) {
    static const ln_key key = {"activation_sparsity_pattern", "activation_sparsity_scale"};
    ln_meta_value list, item;
    char name[128];
    double sparsity = i < 10 && spec->n_layers > 10 ? 0.95 : 0;
    bool is_listed = ln_config_find(config, key, &list, name);
    if (is_listed) {
        if (!ln_meta_item(&list, i, &item) ||
            (item.kind != LN_META_FLOAT && item.kind != LN_META_INT))
            return bad_entry(config, name, i, err);
        sparsity = item.kind == LN_META_INT ? (double)item.integer : item.real;
    }
    if (config->is_gguf && is_listed) { /* minus infinity: nothing is set to zero */
        ffn->is_sparse = isfinite(sparsity);
        ffn->deviations = ffn->is_sparse ? (float)sparsity : 0;
        return LINNET_OK;
    }
    if (!(sparsity >= 0 && sparsity < 1))
        return bad_entry(config, is_listed ? name : key.hf, i, err);
    ffn->is_sparse = sparsity > 0;
    ffn->deviations = ffn->is_sparse ? (float)find_quantile(sparsity) : 0;
    return LINNET_OK;
}

ln_status ln_spec_read_altup(const ln_config *config, ln_spec *spec, ln_error *err) {
    size_t n_inputs = 4, active = 0;
    ln_tensor_id laurel = {.role = LN_ROLE_LAUREL_LEFT};
    const ln_binding *binding;
    if (!spec->family->altup)
        return LINNET_OK;
    LN_TRY(ln_config_size(config, (ln_key){"altup_num_inputs", "altup.num_inputs"}, 2,
                          LN_MAX_STREAMS + 1, &n_inputs, err));
    LN_TRY(ln_config_size(config, (ln_key){"altup_active_idx", "altup.active_idx"}, 0, n_inputs - 1,
                          &active, err));
    if (active != 0)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                       "%s: AltUp whose layers run on stream %zu, not 0, is not supported",
                       ln_checkpoint_path(config->checkpoint), active);
    const ln_tensor *tensor = ln_family_find(spec->family, config->checkpoint, laurel, &binding);
    if (tensor == NULL || tensor->n_dims != 2 || tensor->dims[0] == 0 ||
        tensor->dims[0] > LN_MAX_DIM || spec->lookup_dim == 0)
        return ln_fail(err, LINNET_ERR_FORMAT,
                       "%s: the low-rank path or the embeddings of layers are missing",
                       ln_checkpoint_path(config->checkpoint));
    spec->n_streams = n_inputs - 1;
    spec->laurel_rank = (size_t)tensor->dims[0];
    spec->scales_stream = true;
    LN_TRY(ln_config_flag(config, (ln_key){"altup_correct_scale", ""}, &spec->scales_stream, err));
    for (size_t i = 0; i < spec->n_layers; i++)
        LN_TRY(read_sparsity(config, spec, i, &spec->layers[i].ffn, err));
    return LINNET_OK;
}
