#include "model/layers/sinusoids.h"

#include <math.h>
#include <stdlib.h>

#include "model/family.h"

/* Of pair i of a sine and a cosine, of so many, as the reference implementation computes it: in
 * double, or in float32 after each operation. */
static double angle_of(const ln_spec *spec, size_t row, size_t i, size_t half) {
    float exponent = (float)(2 * i) / (float)spec->dim;
    float step = half > 1 ? (float)(log(10000.0) / (double)(half - 1)) : 0.0f;
    if (spec->family->double_sinusoids)
        return (double)row / pow(10000.0, (double)(2 * i) / (double)spec->dim);
    if (spec->family->even_sinusoids)
        return (double)((float)row * (1.0f / (float)pow(10000.0, (double)exponent)));
    return (double)((float)row * (float)exp((double)((float)i * -step)));
}

static void fill(const ln_spec *spec, float *values) {
    size_t half = spec->dim / 2;
    for (size_t i = 0; i < half; i++) {
        for (size_t row = 0; row < spec->n_learned; row++) {
            double angle = angle_of(spec, row, i, half);
            bool is_blank = row == spec->blank_position;
            values[row * spec->dim + i] = is_blank ? 0.0f : (float)sin(angle);
            values[row * spec->dim + half + i] = is_blank ? 0.0f : (float)cos(angle);
        }
    }
}

ln_status ln_load_sinusoids(ln_loader *l, ln_weight *weight) {
    const ln_spec *spec = l->spec;
    size_t n = spec->n_learned * spec->dim;
    const float *table = NULL;
    float *values = NULL;
    if (l->writable != NULL) {
        values = calloc(n, sizeof *values);
        if (values == NULL)
            return ln_fail_memory(l->err, "the table of positions");
        fill(spec, values);
    }
    ln_status status = ln_load_table(l, values, n, &table);
    free(values);
    *weight = (ln_weight){.dtype = LN_DTYPE_F32,
                          .n_rows = spec->n_learned,
                          .n_cols = spec->dim,
                          .row_bytes = spec->dim * sizeof(float),
                          .data = table};
    return status;
}

/* (1 + (position + 1) / 2048)^0.1 */
static float query_scale(size_t position) {
    return expf(0.1f * log1pf((float)(position + 1) / 2048.0f));
}

/* As the first layer that has such a scale says: all have the same. */
static const ln_query_scale *log_scale_of(const ln_spec *spec) {
    const ln_query_scale *scale = &spec->layers[0].attention.log_scale;
    for (size_t i = 1; i < spec->n_layers && scale->beta == 0.0f; i++)
        scale = &spec->layers[i].attention.log_scale;
    return scale;
}

static float table_value(const ln_spec *spec, const ln_query_scale *log_scale, size_t position) {
    if (spec->logs_positions)
        return logf((float)(position + 1));
    if (log_scale->beta == 0.0f)
        return query_scale(position);
    float grown = ((float)position + log_scale->offset) / log_scale->period;
    return 1.0f + log_scale->beta * logf(fmaxf(grown, 1.0f));
}

ln_status ln_load_no_tokens(ln_loader *l, size_t n) {
    const float *table;
    ln_status status = ln_load_constant(l, 0.0f, n, &table);
    l->weights->no_tokens = (ln_weight){.dtype = LN_DTYPE_F32,
                                        .n_rows = 1,
                                        .n_cols = n,
                                        .row_bytes = n * sizeof *table,
                                        .data = table};
    return status;
}

ln_status ln_load_query_scales(ln_loader *l) {
    enum { WIDTH = LN_QUERY_SCALE_WIDTH };
    size_t n = l->options.ctx_tokens;
    const float *table;
    float *values = NULL;
    ln_weight row = {.dtype = LN_DTYPE_F32, .n_cols = WIDTH, .row_bytes = WIDTH * sizeof(float)};
    if (!l->spec->has_query_scales)
        return LINNET_OK;
    if (l->writable != NULL) {
        values = calloc(n * WIDTH + 1, sizeof *values);
        if (values == NULL)
            return ln_fail_memory(l->err, "scales of queries");
        for (size_t i = 0; i < n; i++)
            values[i * WIDTH] = table_value(l->spec, log_scale_of(l->spec), i);
    }
    ln_status status = ln_load_table(l, values, n * WIDTH, &table);
    free(values);
    LN_TRY(status);
    row.n_rows = n;
    row.data = table;
    l->weights->query_scales = row;
    return ln_load_no_tokens(l, WIDTH);
}
