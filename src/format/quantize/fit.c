#include "format/quantize/fit.h"

#include <math.h>
#include <stdbool.h>

#include "format/quantize/block.h"

/* Scales that are tried lie this many tenths of a level around the one that spans the values. */
enum { TRIED_TENTHS = 10, REFINE_ROUNDS = 2 };

/* Large values matter more: the error of a product grows with them. */
static void importance_weights(const float *x, int n, float *weights) {
    float sum = 0;
    for (int i = 0; i < n; i++)
        sum += x[i] * x[i];
    float rms = sqrtf(sum / (float)n);
    for (int i = 0; i < n; i++)
        weights[i] = rms + fabsf(x[i]);
}

static int nearest_code(const ln_codes *codes, float value) {
    if (codes->table == NULL)
        return ln_nearest(value, codes->low, codes->high);
    int i = 0;
    while (i + 1 < codes->n_table && value > 0.5f * (float)(codes->table[i] + codes->table[i + 1]))
        i++;
    return codes->table[i];
}

/* ---- one scale -------------------------------------------------------------------------- */

/* Rounds x * inverse to codes; returns by how much the best scale for them, *scale, lowers the
 * weighted error from that of all zeros. */
static float round_and_fit(const ln_codes *codes, const float *x, const float *weights, int n,
                           float inverse, float *scale, int8_t *out) {
    float xc = 0, cc = 0;
    for (int i = 0; i < n; i++) {
        int code = nearest_code(codes, x[i] * inverse);
        out[i] = (int8_t)code;
        xc += weights[i] * x[i] * (float)code;
        cc += weights[i] * (float)(code * code);
    }
    *scale = cc > 0 ? xc / cc : 0;
    return *scale * xc;
}

float ln_fit_scale(const ln_codes *codes, const float *x, const float *weights, int n,
                   int8_t *out) {
    float extreme = 0, best_gain = 0, best = 0, scale;
    int8_t tried[LN_SUPER_ELEMS];
    for (int i = 0; i < n; i++) {
        out[i] = 0;
        if (fabsf(x[i]) > fabsf(extreme))
            extreme = x[i];
    }
    if (!(fabsf(extreme) > 1e-30f))
        return 0;
    for (int tenth = -TRIED_TENTHS; tenth < TRIED_TENTHS; tenth++) {
        /* the lowest code takes the extreme: there is one more code below zero than above */
        float unit = codes->table != NULL ? 0.1f * fabsf((float)codes->low) / 8 : 0.1f;
        float inverse = ((float)codes->low + unit * (float)tenth) / extreme;
        float gain = round_and_fit(codes, x, weights, n, inverse, &scale, tried);
        if (gain > best_gain) {
            best_gain = gain;
            best = scale;
        }
    }
    for (int round = 0; round < REFINE_ROUNDS && best != 0; round++) {
        if (round_and_fit(codes, x, weights, n, 1 / best, &scale, out) <= best_gain)
            break;
        best = scale;
    }
    return best;
}

/* ---- super-blocks of scaled codes ------------------------------------------------------- */

/* The weighted error of a group at a scale; out[n] receives the codes. */
static float scaled_error(const ln_codes *codes, const float *x, const float *weights, int n,
                          float scale, int8_t *out) {
    float inverse = scale != 0 ? 1 / scale : 0, error = 0;
    for (int i = 0; i < n; i++) {
        out[i] = (int8_t)(scale != 0 ? nearest_code(codes, x[i] * inverse) : 0);
        float distance = x[i] - scale * (float)out[i];
        error += weights[i] * distance * distance;
    }
    return error;
}

/* Chooses each group's scale next to the wanted one, and its codes; returns the error. */
static float choose_scales(const ln_scaled_shape *shape, const float *x, const float *weights,
                           const float *wanted, ln_scaled_block *block) {
    int n = LN_SUPER_ELEMS / shape->n_groups;
    float inverse = block->d != 0 ? 1 / block->d : 0, total = 0;
    int8_t tried[LN_SUPER_ELEMS];
    for (int group = 0; group < shape->n_groups; group++) {
        int8_t *codes = block->codes + group * n;
        int middle = ln_nearest(wanted[group] * inverse, shape->scale_low, shape->scale_high);
        float best = INFINITY;
        for (int scale = middle - 1; scale <= middle + 1; scale++) {
            if (scale < shape->scale_low || scale > shape->scale_high)
                continue;
            float error = scaled_error(&shape->codes, x + group * n, weights + group * n, n,
                                       block->d * (float)scale, tried);
            if (error < best) {
                best = error;
                block->scales[group] = (int16_t)scale;
                memcpy(codes, tried, (size_t)n);
            }
        }
        total += best;
    }
    return total;
}

/* The best d for scales and codes as they are. */
static float refit_scaled(const ln_scaled_shape *shape, const float *x, const float *weights,
                          const ln_scaled_block *block) {
    int n = LN_SUPER_ELEMS / shape->n_groups;
    float xa = 0, aa = 0;
    for (int i = 0; i < LN_SUPER_ELEMS; i++) {
        float a = (float)(block->scales[i / n] * block->codes[i]);
        xa += weights[i] * x[i] * a;
        aa += weights[i] * a * a;
    }
    return aa > 0 ? ln_round_f16(xa / aa) : block->d;
}

void ln_fit_scaled(const ln_scaled_shape *shape, const float *x, ln_scaled_block *block) {
    int n = LN_SUPER_ELEMS / shape->n_groups;
    float weights[LN_SUPER_ELEMS], wanted[LN_MAX_GROUPS], extreme = 0;
    *block = (ln_scaled_block){0};
    for (int group = 0; group < shape->n_groups; group++) {
        importance_weights(x + group * n, n, weights + group * n);
        wanted[group] = ln_fit_scale(&shape->codes, x + group * n, weights + group * n, n,
                                     block->codes + group * n);
        if (fabsf(wanted[group]) > fabsf(extreme))
            extreme = wanted[group];
    }
    block->d = ln_round_f16(extreme / (float)shape->scale_low);
    float error = choose_scales(shape, x, weights, wanted, block);
    for (int round = 0; round < REFINE_ROUNDS; round++) {
        ln_scaled_block next = {.d = refit_scaled(shape, x, weights, block)};
        float next_error = choose_scales(shape, x, weights, wanted, &next);
        if (!(next_error < error))
            break;
        error = next_error;
        *block = next;
    }
}

/* ---- super-blocks of scale and minimum -------------------------------------------------- */

/* x is about scale * level + offset. */
typedef struct affine {
    float scale, offset;
} affine;

/* The best scale, and offset of at most 0, for levels as they are. */
static affine solve(const float *x, const float *weights, int n, const uint8_t *levels) {
    float w = 0, l = 0, ll = 0, wx = 0, lx = 0;
    for (int i = 0; i < n; i++) {
        float level = (float)levels[i], weighted = weights[i] * level;
        w += weights[i];
        l += weighted;
        ll += weighted * level;
        wx += weights[i] * x[i];
        lx += weighted * x[i];
    }
    float determinant = w * ll - l * l;
    affine fit = {0};
    if (determinant > 0) {
        fit.scale = (w * lx - l * wx) / determinant;
        fit.offset = (ll * wx - l * lx) / determinant;
    }
    if (!(fit.offset < 0)) {
        fit.offset = 0;
        fit.scale = ll > 0 ? lx / ll : 0;
    }
    return fit;
}

/* Rounds to levels; returns the weighted error. */
static float affine_error(const float *x, const float *weights, int n, int max_level, affine fit,
                          uint8_t *levels) {
    float inverse = fit.scale > 0 ? 1 / fit.scale : 0, error = 0;
    for (int i = 0; i < n; i++) {
        int level = ln_nearest((x[i] - fit.offset) * inverse, 0, max_level);
        float distance = fit.scale * (float)level + fit.offset - x[i];
        levels[i] = (uint8_t)level;
        error += weights[i] * distance * distance;
    }
    return error;
}

static affine fit_group(const float *x, const float *weights, int n, int max_level) {
    float low = 0, high = x[0];
    uint8_t levels[LN_SUPER_ELEMS];
    for (int i = 0; i < n; i++) {
        low = fminf(low, x[i]);
        high = fmaxf(high, x[i]);
    }
    affine best = {(high - low) / (float)max_level, low};
    if (!(high - low > 1e-30f))
        return (affine){0, low};
    float best_error = affine_error(x, weights, n, max_level, best, levels);
    for (int tenth = -TRIED_TENTHS; tenth <= TRIED_TENTHS; tenth++) {
        affine tried = {(high - low) / ((float)max_level + 0.1f * (float)tenth), low};
        affine_error(x, weights, n, max_level, tried, levels);
        tried = solve(x, weights, n, levels);
        float error = affine_error(x, weights, n, max_level, tried, levels);
        if (tried.scale > 0 && error < best_error) {
            best_error = error;
            best = tried;
        }
    }
    return best;
}

/* Chooses scale and minimum of a group next to the wanted ones; returns the error. */
static float choose_group(const ln_affine_shape *shape, const float *x, const float *weights,
                          affine wanted, int group, ln_affine_block *block) {
    int n = LN_SUPER_ELEMS / shape->n_groups;
    float per_d = block->d > 0 ? 1 / block->d : 0;
    float per_min = block->min_d > 0 ? 1 / block->min_d : 0, best = INFINITY;
    int near_scale = ln_nearest(wanted.scale * per_d, 0, shape->max_scale);
    int near_min = ln_nearest(-wanted.offset * per_min, 0, shape->max_scale);
    uint8_t tried[LN_SUPER_ELEMS];
    for (int scale = near_scale - 1; scale <= near_scale + 1; scale++)
        for (int min = near_min - 1; min <= near_min + 1; min++) {
            if (scale < 0 || scale > shape->max_scale || min < 0 || min > shape->max_scale)
                continue;
            affine fit = {block->d * (float)scale, -block->min_d * (float)min};
            float error =
                affine_error(x + group * n, weights + group * n, n, shape->max_level, fit, tried);
            if (!(error < best))
                continue;
            best = error;
            block->scales[group] = (uint8_t)scale;
            block->mins[group] = (uint8_t)min;
            memcpy(block->levels + group * n, tried, (size_t)n);
        }
    return best;
}

/* The best d and min_d for all else as it is; false when there is none. */
static bool refit_affine(const ln_affine_shape *shape, const float *x, const float *weights,
                         const ln_affine_block *block, ln_affine_block *next) {
    int n = LN_SUPER_ELEMS / shape->n_groups;
    double aa = 0, ab = 0, bb = 0, xa = 0, xb = 0;
    for (int i = 0; i < LN_SUPER_ELEMS; i++) {
        double a = (double)block->scales[i / n] * block->levels[i], b = -(double)block->mins[i / n];
        double w = (double)weights[i];
        aa += w * a * a;
        ab += w * a * b;
        bb += w * b * b;
        xa += w * a * (double)x[i];
        xb += w * b * (double)x[i];
    }
    double determinant = aa * bb - ab * ab;
    *next = (ln_affine_block){.min_d = block->min_d};
    if (bb == 0 && aa > 0) {
        next->d = ln_round_f16((float)(xa / aa));
    } else if (determinant > 0) {
        next->d = ln_round_f16((float)((xa * bb - xb * ab) / determinant));
        next->min_d = ln_round_f16((float)((xb * aa - xa * ab) / determinant));
    }
    return next->d > 0 && next->min_d >= 0;
}

static float choose_groups(const ln_affine_shape *shape, const float *x, const float *weights,
                           const affine *wanted, ln_affine_block *block) {
    float error = 0;
    for (int group = 0; group < shape->n_groups; group++)
        error += choose_group(shape, x, weights, wanted[group], group, block);
    return error;
}

void ln_fit_affine(const ln_affine_shape *shape, const float *x, ln_affine_block *block) {
    int n = LN_SUPER_ELEMS / shape->n_groups;
    float weights[LN_SUPER_ELEMS], max_scale = 0, max_min = 0;
    affine wanted[LN_MAX_GROUPS];
    for (int group = 0; group < shape->n_groups; group++) {
        importance_weights(x + group * n, n, weights + group * n);
        wanted[group] = fit_group(x + group * n, weights + group * n, n, shape->max_level);
        max_scale = fmaxf(max_scale, wanted[group].scale);
        max_min = fmaxf(max_min, -wanted[group].offset);
    }
    *block = (ln_affine_block){.d = ln_round_f16(max_scale / (float)shape->max_scale),
                               .min_d = ln_round_f16(max_min / (float)shape->max_scale)};
    float error = choose_groups(shape, x, weights, wanted, block);
    for (int round = 0; round < REFINE_ROUNDS; round++) {
        ln_affine_block next;
        if (!refit_affine(shape, x, weights, block, &next))
            break;
        float next_error = choose_groups(shape, x, weights, wanted, &next);
        if (!(next_error < error))
            break;
        error = next_error;
        *block = next;
    }
}
