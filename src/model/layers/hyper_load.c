#include <stdlib.h>

#include "model/family.h"
#include "model/layers/hyper.h"
#include "model/layers/hyper_gated.h"

/* Streams that are gated. */
static ln_status read_gated(const ln_config *config, ln_spec *spec, ln_error *err) {
    static const ln_key n_key = {"hc_count", "hyper_connection.count"},
                        rank_key = {"hc_lowrank", "hyper_connection.low_rank"};
    spec->hyper.magnitude = 2;
    LN_TRY(ln_config_need_size(config, n_key, 2, LN_MAX_HYPER, &spec->hyper.n, err));
    return ln_config_need_size(config, rank_key, 1, LN_MAX_DIM, &spec->hyper.low_rank, err);
}

ln_status ln_spec_read_hyper(const ln_config *config, ln_spec *spec, ln_error *err) {
    double magnitude = 2, eps = 1e-6;
    if (spec->family->gated_streams)
        return read_gated(config, spec, err);
    if (!spec->family->hyper)
        return LINNET_OK;
    LN_TRY(ln_config_need_size(config, (ln_key){"hc_mult", "hyper_connection.count"}, 1,
                               LN_MAX_HYPER, &spec->hyper.n, err));
    LN_TRY(ln_config_real(config, (ln_key){"hc_magnitude", "hyper_connection.magnitude"}, -1e9, 1e9,
                          &magnitude, err));
    LN_TRY(ln_config_real(config, (ln_key){"hc_eps", "hyper_connection.epsilon"}, 0, 1, &eps, err));
    if (spec->family->mixes_streams) {
        spec->hyper.n_rounds = 20;
        LN_TRY(ln_config_size(config,
                              (ln_key){"hc_sinkhorn_iters", "hyper_connection.sinkhorn_iterations"},
                              1, 1000, &spec->hyper.n_rounds, err));
    }
    spec->hyper.averages = spec->family->averages_streams;
    spec->hyper.magnitude = (float)magnitude;
    spec->hyper.eps = (float)eps;
    return LINNET_OK;
}

/* n_parts * n values, part i of which is values[i] throughout. */
static ln_status parts_table(ln_loader *l, const float *values, size_t n_parts, const float **out) {
    float table[2 * LN_MAX_HYPER];
    size_t n = l->spec->hyper.n;
    for (size_t i = 0; i < n_parts * n; i++)
        table[i] = values[i / n];
    return ln_load_table(l, table, n_parts * n, out);
}

ln_status ln_load_hyper(ln_loader *l) {
    const ln_spec *spec = l->spec;
    ln_weights *w = l->weights;
    float most[2] = {1.0f, spec->hyper.magnitude};
    if (spec->hyper.n == 0)
        return LINNET_OK;
    if (spec->hyper.low_rank > 0)
        return ln_load_gated_streams(l);
    w->hyper_norm =
        (ln_norm){.kind = LN_NORM_RMS, .eps = spec->norm_eps, .dim = spec->hyper.n * spec->dim};
    LN_TRY(parts_table(l, most, 2, &w->hyper_most));
    return parts_table(l, &spec->hyper.eps, 1, &w->hyper_eps);
}

static ln_status read_hyper(ln_loader *l, size_t i, ln_role mix, size_t n_parts,
                            ln_hyper_weights *out) {
    size_t n = l->spec->hyper.n;
    ln_tensor_id base = {.role = (ln_role)(mix + 1), .layer = i};
    float scales[3] = {1.0f, 1.0f, 1.0f};
    bool is_there, mixes = n_parts > 1 && l->spec->hyper.n_rounds > 0;
    size_t n_rows = (n_parts + (mixes ? n : 0)) * n;
    LN_TRY(ln_load_matrix(l, mix, i, n_rows, n * l->spec->dim, &out->mix));
    LN_TRY(ln_load_vector(l, base, n_rows, &out->base));
    LN_TRY(ln_load_values(l, (ln_role)(mix + 2), i, false, n_parts + mixes, scales, &is_there));
    float *table = calloc(n_rows, sizeof *table);
    if (table == NULL)
        return ln_fail_memory(l->err, "scales of residual streams");
    for (size_t j = 0; j < n_rows; j++)
        table[j] = scales[j / n < n_parts ? j / n : n_parts];
    ln_status status = ln_load_table(l, table, n_rows, &out->scale);
    free(table);
    return status;
}

ln_status ln_load_layer_hyper(ln_loader *l, size_t i, ln_layer_weights *w) {
    if (l->spec->hyper.n == 0)
        return LINNET_OK;
    if (l->spec->hyper.low_rank > 0) {
        LN_TRY(ln_load_gated_hyper(l, i, LN_ROLE_ATTENTION_HYPER, LN_ROLE_ATTENTION_HYPER_NORM,
                                   &w->attention_hyper));
        return ln_load_gated_hyper(l, i, LN_ROLE_FFN_HYPER, LN_ROLE_FFN_HYPER_NORM, &w->ffn_hyper);
    }
    LN_TRY(read_hyper(l, i, LN_ROLE_ATTENTION_HYPER, 2, &w->attention_hyper));
    return read_hyper(l, i, LN_ROLE_FFN_HYPER, 2, &w->ffn_hyper);
}

ln_status ln_load_hyper_end(ln_loader *l) {
    if (l->spec->hyper.n == 0 || l->spec->hyper.averages)
        return LINNET_OK;
    if (l->spec->hyper.low_rank > 0)
        return ln_load_gated_hyper(l, 0, LN_ROLE_COUNT, LN_ROLE_OUTPUT_HYPER_NORM,
                                   &l->weights->output_hyper);
    return read_hyper(l, 0, LN_ROLE_OUTPUT_HYPER, 1, &l->weights->output_hyper);
}
