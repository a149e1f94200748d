#include "model/attention/distances.h"

#include <stdlib.h>

#include "model/family.h"

enum { MAX_STATES = 1 << 10, MAX_DISTANCES = 1 << 20 };

ln_status ln_spec_read_distances(const ln_config *config, size_t window,
                                 ln_attention_spec *attention, ln_error *err) {
    LN_TRY(ln_config_need_size(config, (ln_key){"d_rel", ""}, 1, MAX_STATES, &attention->n_states,
                               err));
    attention->n_distances = window;
    if (window > 0)
        return LINNET_OK;
    return ln_config_need_size(config, (ln_key){"rel_extent", ""}, 1, MAX_DISTANCES,
                               &attention->n_distances, err);
}

/* [state][distance] becomes [distance][state]. */
static ln_status load_profiles(ln_loader *l, size_t i, const ln_attention_spec *spec,
                               const float **out) {
    size_t n_states = spec->n_states, n = n_states * spec->n_distances;
    bool is_there;
    float *stored = calloc(2 * n, sizeof *stored);
    if (stored == NULL)
        return ln_fail(l->err, LINNET_ERR_NOMEM, "out of memory for biases by distance");
    float *profiles = stored + n;
    ln_status status = ln_load_values(l, LN_ROLE_DISTANCE_PROFILES, i, false, n, stored, &is_there);
    for (size_t at = 0; at < n && status == LINNET_OK; at++)
        profiles[at] = stored[at % n_states * spec->n_distances + at / n_states];
    if (status == LINNET_OK)
        status = ln_load_table(l, profiles, n, out);
    free(stored);
    return status;
}

ln_status ln_load_distances(ln_loader *l, size_t i, const ln_attention_spec *spec,
                            ln_layer_weights *w) {
    if (spec->n_states == 0)
        return LINNET_OK;
    LN_TRY(ln_load_matrix(l, LN_ROLE_DISTANCE_STATES, i, spec->n_heads * spec->n_states,
                          l->spec->dim, &w->distance_states));
    return load_profiles(l, i, spec, &w->distance_profiles);
}

void ln_record_distances(recorder *r, const ln_attention_spec *spec, const ln_layer_weights *w,
                         const float *x) {
    if (spec->n_states > 0)
        precise_linear(r, &w->distance_states, x, r->a->distance_states);
}

ln_distance_bias ln_distance_bias_of(const recorder *r, const ln_attention_spec *spec,
                                     const ln_layer_weights *w) {
    if (spec->n_states == 0)
        return (ln_distance_bias){0};
    return (ln_distance_bias){.states = r->a->distance_states,
                              .table = w->distance_profiles,
                              .n_states = spec->n_states,
                              .n_distances = spec->n_distances};
}
