/* The fits of fit.h with a group in each lane, as the table LN_FITS that the including file names.
 * Sums run along a lane, and what the lanes of a super-block have in common is added group by
 * group, so the bits are the same whatever vectors the including file is compiled for. */
#include "format/quantize/fit.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/half.h"

/* Scales that are tried lie this many tenths of a level around the one that spans the values. */
enum { TRIED_TENTHS = 10, REFINE_ROUNDS = 2 };

typedef float lanes __attribute__((vector_size(4 * LN_FIT_GROUPS)));
typedef int32_t masks __attribute__((vector_size(4 * LN_FIT_GROUPS)));

/* Inlined, so that no vector that the processor lacks is passed. */
#define INLINE static inline __attribute__((always_inline))

INLINE lanes splat(float value) {
    return value + (lanes){0};
}

INLINE lanes choose_lanes(masks when, lanes yes, lanes no) {
    return (lanes)((when & (masks)yes) | (~when & (masks)no));
}

INLINE lanes magnitude(lanes x) {
    return (lanes)((masks)x & INT32_MAX);
}

INLINE bool any(masks m) {
    int32_t found = 0;
    for (int lane = 0; lane < LN_FIT_GROUPS; lane++)
        found |= m[lane];
    return found != 0;
}

/* The nearest whole number in [low, high], of small ones; `low` for NaN. */
INLINE lanes nearest(lanes value, float low, float high) {
    const float round = 0x1.8p23f; /* what is added to this loses its fraction */
    value = choose_lanes(value > low, value, splat(low));
    value = choose_lanes(value < high, value, splat(high));
    return (value + round) - round;
}

/* What rounds to codes: of a table, what each value above a middle adds to the lowest one. */
typedef struct rounder {
    float low, high;
    float middles[LN_MAX_TABLE - 1], steps[LN_MAX_TABLE - 1];
    int n_steps; /* 0: all whole numbers from low to high */
} rounder;

static rounder make_rounder(const ln_codes *codes) {
    rounder r = {.low = (float)codes->low, .high = (float)codes->high};
    r.n_steps = codes->table != NULL ? codes->n_table - 1 : 0;
    for (int i = 0; i < r.n_steps; i++) {
        r.middles[i] = 0.5f * (float)(codes->table[i] + codes->table[i + 1]);
        r.steps[i] = (float)(codes->table[i + 1] - codes->table[i]);
    }
    return r;
}

INLINE lanes nearest_code(const rounder *r, lanes value) {
    if (r->n_steps == 0)
        return nearest(value, r->low, r->high);
    lanes code = splat(r->low);
    for (int i = 0; i < r->n_steps; i++)
        code += (lanes)((value > r->middles[i]) & (masks)splat(r->steps[i]));
    return code;
}

/* ---- values in and out ------------------------------------------------------------------ */

/* Groups of n values, one behind the other, become lanes; weights are the values' squares or, as
 * the error of a product grows with large ones, their magnitudes plus the root of their mean
 * square. */
typedef struct groups {
    lanes x[LN_MAX_GROUP], weights[LN_MAX_GROUP];
    int n;
} groups;

static void take_groups(groups *g, const float *x, int n) {
    g->n = n;
    for (int lane = 0; lane < LN_FIT_GROUPS; lane++)
        for (int i = 0; i < n; i++)
            g->x[i][lane] = x[lane * n + i];
}

static void weigh_by_squares(groups *g) {
    for (int i = 0; i < g->n; i++)
        g->weights[i] = g->x[i] * g->x[i];
}

static void weigh_by_magnitudes(groups *g) {
    lanes sum = {0}, rms = {0};
    for (int i = 0; i < g->n; i++)
        sum += g->x[i] * g->x[i];
    for (int lane = 0; lane < LN_FIT_GROUPS; lane++)
        rms[lane] = sqrtf(sum[lane] / (float)g->n);
    for (int i = 0; i < g->n; i++)
        g->weights[i] = rms + magnitude(g->x[i]);
}

/* Codes, or their places in the table, of the lane's group. */
static void put_codes(const ln_codes *codes, const lanes *values, int n, int lane, int8_t *out) {
    for (int i = 0; i < n; i++) {
        int8_t code = (int8_t)values[i][lane], place = 0;
        while (codes->table != NULL && codes->table[place] < code)
            place++;
        out[i] = codes->table != NULL ? place : code;
    }
}

/* Sums over the lanes of each super-block, for all of its lanes. */
static lanes sum_blocks(lanes values, int n_groups) {
    lanes sums = {0};
    for (int begin = 0; begin < LN_FIT_GROUPS; begin += n_groups) {
        float sum = 0;
        for (int lane = begin; lane < begin + n_groups; lane++)
            sum += values[lane];
        for (int lane = begin; lane < begin + n_groups; lane++)
            sums[lane] = sum;
    }
    return sums;
}

/* The first of the greatest magnitude in each super-block. */
static lanes extreme_of_blocks(lanes values, int n_groups) {
    lanes extremes = {0};
    for (int begin = 0; begin < LN_FIT_GROUPS; begin += n_groups) {
        float extreme = 0;
        for (int lane = begin; lane < begin + n_groups; lane++)
            if (fabsf(values[lane]) > fabsf(extreme))
                extreme = values[lane];
        for (int lane = begin; lane < begin + n_groups; lane++)
            extremes[lane] = extreme;
    }
    return extremes;
}

static lanes round_f16(lanes values) {
    for (int lane = 0; lane < LN_FIT_GROUPS; lane++)
        values[lane] = ln_f32_from_f16(ln_f16_from_f32(values[lane]));
    return values;
}

/* ---- one scale -------------------------------------------------------------------------- */

/* Rounds x * inverse to codes; returns by how much the best scale for them, *scale, lowers the
 * weighted error from that of all zeros. */
INLINE lanes round_and_fit(const rounder *codes, const groups *g, lanes inverse, lanes *scale) {
    lanes xc = {0}, cc = {0};
    for (int i = 0; i < g->n; i++) {
        lanes code = nearest_code(codes, g->x[i] * inverse);
        xc += g->weights[i] * g->x[i] * code;
        cc += g->weights[i] * (code * code);
    }
    *scale = choose_lanes(cc > 0, xc / cc, splat(0));
    return *scale * xc;
}

/* The scale for which scale * code comes nearest to each group. */
INLINE lanes fit_scale(const rounder *codes, const groups *g) {
    lanes extreme = {0}, best_gain = {0}, best = {0}, scale;
    for (int i = 0; i < g->n; i++)
        extreme = choose_lanes(magnitude(g->x[i]) > magnitude(extreme), g->x[i], extreme);
    masks is_seen = magnitude(extreme) > 1e-30f;
    /* the lowest code takes the extreme: there is one more code below zero than above */
    float unit = codes->n_steps > 0 ? 0.1f * fabsf(codes->low) / 8 : 0.1f;
    for (int tenth = -TRIED_TENTHS; tenth < TRIED_TENTHS; tenth++) {
        lanes inverse = (codes->low + unit * (float)tenth) / extreme;
        lanes gain = round_and_fit(codes, g, inverse, &scale);
        masks is_better = (gain > best_gain) & is_seen;
        best_gain = choose_lanes(is_better, gain, best_gain);
        best = choose_lanes(is_better, scale, best);
    }
    masks is_open = best != 0;
    for (int round = 0; round < REFINE_ROUNDS && any(is_open); round++) {
        lanes gain = round_and_fit(codes, g, 1 / best, &scale);
        is_open &= gain > best_gain;
        best = choose_lanes(is_open, scale, best);
    }
    return best;
}

static void fit_groups(const ln_codes *codes, const float *x, int n, ln_group_fit *fit) {
    groups g;
    lanes rounded[LN_MAX_GROUP];
    const rounder r = make_rounder(codes);
    take_groups(&g, x, n);
    weigh_by_squares(&g);
    lanes scale = round_f16(fit_scale(&r, &g));
    lanes inverse = choose_lanes(scale != 0, 1 / scale, splat(0));
    for (int i = 0; i < n; i++)
        rounded[i] = nearest_code(&r, g.x[i] * inverse);
    for (int lane = 0; lane < LN_FIT_GROUPS; lane++) {
        fit->scales[lane] = scale[lane];
        put_codes(codes, rounded, n, lane, fit->codes + lane * n);
    }
}

/* ---- super-blocks of scaled codes ------------------------------------------------------- */

typedef struct scaled {
    lanes d, scales, codes[LN_MAX_GROUP];
} scaled;

INLINE lanes scaled_code(const rounder *codes, lanes x, lanes scale) {
    masks is_zero = scale == 0;
    lanes code = nearest_code(codes, x * choose_lanes(is_zero, splat(0), 1 / scale));
    return choose_lanes(is_zero, splat(0), code);
}

/* The weighted error of each group at a scale. */
INLINE lanes scaled_error(const rounder *codes, const groups *g, lanes scale) {
    masks is_zero = scale == 0;
    lanes inverse = choose_lanes(is_zero, splat(0), 1 / scale), error = {0};
    for (int i = 0; i < g->n; i++) {
        lanes code = nearest_code(codes, g->x[i] * inverse);
        lanes distance = g->x[i] - scale * code;
        error += g->weights[i] * distance * distance;
    }
    return error;
}

/* Chooses each group's scale next to the wanted one, and its codes; returns the blocks' errors. */
INLINE lanes choose_scales(const ln_scaled_shape *shape, const rounder *codes, const groups *g,
                           lanes wanted, scaled *fit) {
    const float low = (float)shape->scale_low, high = (float)shape->scale_high;
    lanes inverse = choose_lanes(fit->d != 0, 1 / fit->d, splat(0));
    lanes middle = nearest(wanted * inverse, low, high), best = splat(INFINITY);
    fit->scales = splat(0);
    for (int step = -1; step <= 1; step++) {
        lanes scale = middle + (float)step;
        lanes error = scaled_error(codes, g, fit->d * scale);
        masks is_better = (error < best) & (scale >= low) & (scale <= high);
        best = choose_lanes(is_better, error, best);
        fit->scales = choose_lanes(is_better, scale, fit->scales);
    }
    lanes scale = fit->d * fit->scales;
    for (int i = 0; i < g->n; i++)
        fit->codes[i] = scaled_code(codes, g->x[i], scale);
    return sum_blocks(best, shape->n_groups);
}

/* The best d for scales and codes as they are. */
INLINE lanes refit_scaled(const ln_scaled_shape *shape, const groups *g, const scaled *fit) {
    lanes xa = {0}, aa = {0};
    for (int i = 0; i < g->n; i++) {
        lanes a = fit->scales * fit->codes[i];
        xa += g->weights[i] * g->x[i] * a;
        aa += g->weights[i] * a * a;
    }
    xa = sum_blocks(xa, shape->n_groups);
    aa = sum_blocks(aa, shape->n_groups);
    return choose_lanes(aa > 0, round_f16(xa / aa), fit->d);
}

static void put_scaled(const ln_scaled_shape *shape, const scaled *fit, ln_scaled_block *blocks) {
    int n = LN_SUPER_ELEMS / shape->n_groups;
    for (int lane = 0; lane < LN_FIT_GROUPS; lane++) {
        ln_scaled_block *block = &blocks[lane / shape->n_groups];
        int group = lane % shape->n_groups;
        block->d = fit->d[lane];
        block->scales[group] = (int16_t)fit->scales[lane];
        put_codes(&shape->codes, fit->codes, n, lane, block->codes + group * n);
    }
}

static void fit_scaled(const ln_scaled_shape *shape, const float *x, ln_scaled_block *blocks) {
    groups g;
    scaled fit, next;
    take_groups(&g, x, LN_SUPER_ELEMS / shape->n_groups);
    weigh_by_magnitudes(&g);
    const rounder codes = make_rounder(&shape->codes);
    lanes wanted = fit_scale(&codes, &g);
    fit.d = round_f16(extreme_of_blocks(wanted, shape->n_groups) / (float)shape->scale_low);
    lanes error = choose_scales(shape, &codes, &g, wanted, &fit);
    masks is_open = splat(0) == 0;
    for (int round = 0; round < REFINE_ROUNDS && any(is_open); round++) {
        next.d = refit_scaled(shape, &g, &fit);
        lanes next_error = choose_scales(shape, &codes, &g, wanted, &next);
        is_open &= next_error < error;
        error = choose_lanes(is_open, next_error, error);
        fit.d = choose_lanes(is_open, next.d, fit.d);
        fit.scales = choose_lanes(is_open, next.scales, fit.scales);
        for (int i = 0; i < g.n; i++)
            fit.codes[i] = choose_lanes(is_open, next.codes[i], fit.codes[i]);
    }
    put_scaled(shape, &fit, blocks);
}

/* ---- super-blocks of scale and minimum -------------------------------------------------- */

/* x is about scale * level + offset. */
typedef struct line {
    lanes scale, offset;
} line;

typedef struct affine {
    lanes d, min_d, scales, mins, levels[LN_MAX_GROUP];
} affine;

INLINE void round_levels(const groups *g, int max_level, const line *fit, lanes *levels) {
    lanes inverse = choose_lanes(fit->scale > 0, 1 / fit->scale, splat(0));
    for (int i = 0; i < g->n; i++)
        levels[i] = nearest((g->x[i] - fit->offset) * inverse, 0, (float)max_level);
}

/* The weighted error of rounding to levels. */
INLINE lanes line_error(const groups *g, int max_level, const line *fit) {
    lanes inverse = choose_lanes(fit->scale > 0, 1 / fit->scale, splat(0)), error = {0};
    for (int i = 0; i < g->n; i++) {
        lanes level = nearest((g->x[i] - fit->offset) * inverse, 0, (float)max_level);
        lanes distance = fit->scale * level + fit->offset - g->x[i];
        error += g->weights[i] * distance * distance;
    }
    return error;
}

/* The best scale, and offset of at most 0, for the levels that `fit` rounds to. */
INLINE void solve(const groups *g, int max_level, line *fit) {
    lanes w = {0}, l = {0}, ll = {0}, wx = {0}, lx = {0};
    lanes inverse = choose_lanes(fit->scale > 0, 1 / fit->scale, splat(0));
    for (int i = 0; i < g->n; i++) {
        lanes level = nearest((g->x[i] - fit->offset) * inverse, 0, (float)max_level);
        lanes weighted = g->weights[i] * level;
        w += g->weights[i];
        l += weighted;
        ll += weighted * level;
        wx += g->weights[i] * g->x[i];
        lx += weighted * g->x[i];
    }
    lanes determinant = w * ll - l * l;
    masks is_solved = determinant > 0;
    lanes scale = choose_lanes(is_solved, (w * lx - l * wx) / determinant, splat(0));
    lanes offset = choose_lanes(is_solved, (ll * wx - l * lx) / determinant, splat(0));
    masks is_below = offset < 0;
    fit->offset = choose_lanes(is_below, offset, splat(0));
    fit->scale = choose_lanes(is_below, scale, choose_lanes(ll > 0, lx / ll, splat(0)));
}

INLINE line fit_lines(const groups *g, int max_level) {
    lanes low = {0}, high = g->x[0];
    for (int i = 0; i < g->n; i++) {
        low = choose_lanes(g->x[i] < low, g->x[i], low);
        high = choose_lanes(g->x[i] > high, g->x[i], high);
    }
    line best = {(high - low) / (float)max_level, low};
    lanes best_error = line_error(g, max_level, &best);
    for (int tenth = -TRIED_TENTHS; tenth <= TRIED_TENTHS; tenth++) {
        line tried = {(high - low) / ((float)max_level + 0.1f * (float)tenth), low};
        solve(g, max_level, &tried);
        lanes error = line_error(g, max_level, &tried);
        masks is_better = (tried.scale > 0) & (error < best_error);
        best_error = choose_lanes(is_better, error, best_error);
        best.scale = choose_lanes(is_better, tried.scale, best.scale);
        best.offset = choose_lanes(is_better, tried.offset, best.offset);
    }
    masks is_flat = ~(high - low > 1e-30f);
    best.scale = choose_lanes(is_flat, splat(0), best.scale);
    best.offset = choose_lanes(is_flat, low, best.offset);
    return best;
}

/* Chooses each group's scale and minimum next to the wanted ones, and its levels; returns the
 * blocks' errors. */
INLINE lanes choose_lines(const ln_affine_shape *shape, const groups *g, const line *wanted,
                          affine *fit) {
    const float most = (float)shape->max_scale;
    lanes per_d = choose_lanes(fit->d > 0, 1 / fit->d, splat(0)), best = splat(INFINITY);
    lanes per_min = choose_lanes(fit->min_d > 0, 1 / fit->min_d, splat(0));
    lanes near_scale = nearest(wanted->scale * per_d, 0, most);
    lanes near_min = nearest(-wanted->offset * per_min, 0, most);
    fit->scales = fit->mins = splat(0);
    for (int i = 0; i < 9; i++) {
        lanes scale = near_scale + (float)(i / 3 - 1), min = near_min + (float)(i % 3 - 1);
        line tried = {fit->d * scale, -fit->min_d * min};
        lanes error = line_error(g, shape->max_level, &tried);
        masks is_allowed = (scale >= 0) & (scale <= most) & (min >= 0) & (min <= most);
        masks is_better = (error < best) & is_allowed;
        best = choose_lanes(is_better, error, best);
        fit->scales = choose_lanes(is_better, scale, fit->scales);
        fit->mins = choose_lanes(is_better, min, fit->mins);
    }
    line chosen = {fit->d * fit->scales, -fit->min_d * fit->mins};
    round_levels(g, shape->max_level, &chosen, fit->levels);
    return sum_blocks(best, shape->n_groups);
}

/* The best d and min_d for all else as it is; returns where there are any. */
INLINE masks refit_affine(const ln_affine_shape *shape, const groups *g, const affine *fit,
                          affine *next) {
    lanes w = {0}, wl = {0}, wll = {0}, wx = {0}, wlx = {0};
    for (int i = 0; i < g->n; i++) {
        lanes weighted = g->weights[i] * fit->levels[i];
        w += g->weights[i];
        wl += weighted;
        wll += weighted * fit->levels[i];
        wx += g->weights[i] * g->x[i];
        wlx += weighted * g->x[i];
    }
    next->d = next->min_d = splat(0);
    for (int begin = 0; begin < LN_FIT_GROUPS; begin += shape->n_groups) {
        double aa = 0, ab = 0, bb = 0, xa = 0, xb = 0;
        float d = 0, min_d = fit->min_d[begin];
        for (int lane = begin; lane < begin + shape->n_groups; lane++) {
            double scale = (double)fit->scales[lane], min = -(double)fit->mins[lane];
            aa += scale * scale * (double)wll[lane];
            ab += scale * min * (double)wl[lane];
            bb += min * min * (double)w[lane];
            xa += scale * (double)wlx[lane];
            xb += min * (double)wx[lane];
        }
        double determinant = aa * bb - ab * ab;
        if (bb == 0 && aa > 0) {
            d = (float)(xa / aa);
        } else if (determinant > 0) {
            d = (float)((xa * bb - xb * ab) / determinant);
            min_d = (float)((xb * aa - xa * ab) / determinant);
        }
        for (int lane = begin; lane < begin + shape->n_groups; lane++) {
            next->d[lane] = d;
            next->min_d[lane] = min_d;
        }
    }
    next->d = round_f16(next->d);
    next->min_d = round_f16(next->min_d);
    return (next->d > 0) & (next->min_d >= 0);
}

static void put_affine(const ln_affine_shape *shape, const affine *fit, ln_affine_block *blocks) {
    int n = LN_SUPER_ELEMS / shape->n_groups;
    for (int lane = 0; lane < LN_FIT_GROUPS; lane++) {
        ln_affine_block *block = &blocks[lane / shape->n_groups];
        int group = lane % shape->n_groups;
        block->d = fit->d[lane];
        block->min_d = fit->min_d[lane];
        block->scales[group] = (uint8_t)fit->scales[lane];
        block->mins[group] = (uint8_t)fit->mins[lane];
        for (int i = 0; i < n; i++)
            block->levels[group * n + i] = (uint8_t)fit->levels[i][lane];
    }
}

static void fit_affine(const ln_affine_shape *shape, const float *x, ln_affine_block *blocks) {
    groups g;
    affine fit, next;
    take_groups(&g, x, LN_SUPER_ELEMS / shape->n_groups);
    weigh_by_magnitudes(&g);
    line wanted = fit_lines(&g, shape->max_level);
    lanes most_scale = extreme_of_blocks(wanted.scale, shape->n_groups);
    lanes least_offset = extreme_of_blocks(wanted.offset, shape->n_groups);
    fit.d = round_f16(most_scale / (float)shape->max_scale);
    fit.min_d = round_f16((0 - least_offset) / (float)shape->max_scale);
    lanes error = choose_lines(shape, &g, &wanted, &fit);
    masks is_open = splat(0) == 0;
    for (int round = 0; round < REFINE_ROUNDS && any(is_open); round++) {
        is_open &= refit_affine(shape, &g, &fit, &next);
        lanes next_error = choose_lines(shape, &g, &wanted, &next);
        is_open &= next_error < error;
        error = choose_lanes(is_open, next_error, error);
        fit.d = choose_lanes(is_open, next.d, fit.d);
        fit.min_d = choose_lanes(is_open, next.min_d, fit.min_d);
        fit.scales = choose_lanes(is_open, next.scales, fit.scales);
        fit.mins = choose_lanes(is_open, next.mins, fit.mins);
        for (int i = 0; i < g.n; i++)
            fit.levels[i] = choose_lanes(is_open, next.levels[i], fit.levels[i]);
    }
    put_affine(shape, &fit, blocks);
}

const ln_fits LN_FITS = {fit_groups, fit_scaled, fit_affine};
