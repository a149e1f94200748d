#include "model/layers/altup.h"

static ln_status between_streams(ln_loader *l, ln_role role, ln_weight **out) {
    size_t dim = l->spec->dim;
    ln_source_shape shape = {l->spec->n_streams, dim, dim};
    return l->spec->n_streams > 0 ? ln_load_matrices(l, role, 0, &shape, out) : LINNET_OK;
}

ln_status ln_load_altup_begin(ln_loader *l) {
    return between_streams(l, LN_ROLE_ALTUP_BEGIN, &l->weights->altup_begin);
}

ln_status ln_load_altup_end(ln_loader *l) {
    return between_streams(l, LN_ROLE_ALTUP_END, &l->weights->altup_end);
}

ln_status ln_load_layer_altup(ln_loader *l, size_t i, ln_layer_weights *w) {
    const ln_spec *spec = l->spec;
    size_t dim = spec->dim, n = spec->n_streams + 1, rank = spec->laurel_rank;
    ln_tensor_id scale = {.role = LN_ROLE_ALTUP_SCALE, .layer = i};
    if (spec->n_streams == 0)
        return LINNET_OK;
    LN_TRY(ln_load_scaled_norm(l, LN_ROLE_ALTUP_NORM, i, dim, 1.0f / (float)dim, &w->altup_norm));
    LN_TRY(ln_load_matrix(l, LN_ROLE_ALTUP_ROUTER, i, n, dim, &w->altup_router));
    LN_TRY(ln_load_matrix(l, LN_ROLE_ALTUP_PREDICT, i, n * n, n, &w->altup_predict));
    LN_TRY(ln_load_matrix(l, LN_ROLE_ALTUP_CORRECT, i, n, n, &w->altup_correct));
    LN_TRY(ln_load_vector(l, scale, dim, &w->altup_scale));
    LN_TRY(ln_load_matrix(l, LN_ROLE_LAUREL_LEFT, i, rank, dim, &w->laurel_left));
    LN_TRY(ln_load_matrix(l, LN_ROLE_LAUREL_RIGHT, i, dim, rank, &w->laurel_right));
    return ln_load_norm(l, LN_ROLE_LAUREL_NORM, i, dim, &w->laurel_norm);
}
