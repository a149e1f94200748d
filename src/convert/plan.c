#include "convert/plan.h"

#include <math.h>

#include "model/rope.h"

ln_convert_mixtures ln_convert_mixtures_of(const ln_spec *spec) {
    ln_convert_mixtures m = {.step = 1, .is_regular = true};
    size_t last = 0;
    for (size_t i = 0; i < spec->n_layers; i++) {
        if (spec->layers[i].ffn.moe.n_experts == 0)
            continue;
        if (m.n_mixtures == 1)
            m.step = i - last;
        m.n_dense_first = m.n_mixtures == 0 ? i : m.n_dense_first;
        m.n_mixtures++;
        last = i;
    }
    if (m.n_mixtures == 1) /* it alone is all that follows, or at the end of a step */
        m.step = m.n_dense_first + 1 == spec->n_layers ? 1 : spec->n_layers;
    if (m.step > 1 && m.n_dense_first < m.step)
        m.n_dense_first = 0; /* those that the first step skips */
    for (size_t i = 0; i < spec->n_layers; i++) {
        bool dense = i < m.n_dense_first || (i + 1) % m.step != 0;
        m.is_regular = m.is_regular && dense == (spec->layers[i].ffn.moe.n_experts == 0);
    }
    return m;
}

const ln_attention_spec *ln_convert_attention(const ln_spec *spec) {
    for (size_t i = 0; i < spec->n_layers; i++)
        if (spec->layers[i].attention.n_heads > 0)
            return &spec->layers[i].attention;
    return &spec->layers[0].attention;
}

const ln_ffn_spec *ln_convert_ffn(const ln_spec *spec) {
    for (size_t i = 0; i < spec->n_layers; i++)
        if (spec->layers[i].ffn.n_hidden > 0)
            return &spec->layers[i].ffn;
    return &spec->layers[0].ffn;
}

double ln_convert_default_scale(const ln_convert_plan *plan) {
    const ln_spec *spec = plan->spec;
    const ln_attention_spec *a = ln_convert_attention(spec);
    bool by_dim = spec->n_layers == plan->target->gguf_scale_layers;
    double under_root = by_dim                   ? (double)spec->dim / (double)a->n_heads
                        : a->latent.n_latent > 0 ? (double)(a->latent.n_plain + a->latent.n_rope)
                                                 : (double)a->k_dim;
    double scale = plan->target->unit_scale       ? 1
                   : plan->target->divides_by_dim ? 1 / under_root
                                                  : 1 / sqrt(under_root);
    const ln_rope_spec *rope = &spec->ropes[0];
    if (a->latent.n_latent > 0 && rope->scaling == LN_ROPE_YARN && rope->mscale_all_dim > 0 &&
        rope->factor > 1) {
        double magnitude = 0.1 * rope->mscale_all_dim * log(rope->factor) + 1;
        scale *= magnitude * magnitude;
    }
    return scale;
}

bool ln_convert_weighs_qk(const ln_convert_plan *plan) {
    ln_tensor_id id = {.role = LN_ROLE_Q_NORM};
    return plan->target->bare_qk_norm &&
           ln_family_binding(plan->target, LN_FORMAT_GGUF, id, 0) != NULL;
}

double ln_convert_yarn_extra(const ln_rope_spec *rope) {
    float ignored[4096];
    if (rope->scaling != LN_ROPE_YARN || rope->n_dims / 2 > sizeof ignored / sizeof *ignored)
        return 1;
    double magnitude = (double)ln_rope_fill(rope, 1, NULL, ignored);
    return magnitude / (rope->factor <= 1 ? 1 : 0.1 * log(rope->factor) + 1);
}

bool ln_convert_joins_kv_b(const ln_convert_plan *plan) {
    ln_tensor_id id = {.role = LN_ROLE_K_B};
    const ln_binding *binding = ln_family_binding(plan->target, LN_FORMAT_GGUF, id, 0);
    return binding != NULL && binding->gguf_part == LN_PART_KV_BY_HEAD;
}

bool ln_convert_has_head(const ln_convert_plan *plan) {
    ln_tensor_id id = {.role = LN_ROLE_HEAD_INPUT};
    return plan->spec->mtp != NULL &&
           ln_family_binding(plan->target, LN_FORMAT_GGUF, id, 0) != NULL;
}
