/* Weighted least squares for quantised blocks: which scale (and minimum) lets small whole numbers
 * come nearest to given values. Every fit tries a range of scales around the one that just spans
 * the values, rounds, solves for the best scale given the rounded numbers, and keeps the best.
 *
 * Sixteen groups are fitted at once, each in a lane of the processor's vectors: x[16 * n] has one
 * group of n values behind the other. The bits do not depend on how wide the vectors are. */
#ifndef LN_FORMAT_QUANTIZE_FIT_H
#define LN_FORMAT_QUANTIZE_FIT_H

#include <stdint.h>

enum { LN_FIT_GROUPS = 16, LN_MAX_GROUP = 32, LN_SUPER_ELEMS = 256, LN_MAX_TABLE = 16 };

/* The numbers that a quantised value may be: all from low to high, or those of an ascending
 * table, where a code is a place in it. */
typedef struct ln_codes {
    int low, high;
    const int8_t *table; /* [n_table], or NULL */
    int n_table;
} ln_codes;

/* Groups with a scale each, x = scales[group] * code, weighted by the values' squares. */
typedef struct ln_group_fit {
    float scales[LN_FIT_GROUPS]; /* values of f16 */
    int8_t codes[LN_FIT_GROUPS * LN_MAX_GROUP];
} ln_group_fit;

/* Super-blocks of 256 in n_groups of 8 or 16, x = d * scale[group] * code. */
typedef struct ln_scaled_shape {
    int n_groups;
    ln_codes codes;
    int scale_low, scale_high;
} ln_scaled_shape;

typedef struct ln_scaled_block {
    float d; /* a value of f16 */
    int16_t scales[LN_FIT_GROUPS];
    int8_t codes[LN_SUPER_ELEMS];
} ln_scaled_block;

/* Super-blocks of 256 in n_groups of 8 or 16, x = d * scale[group] * level - min_d * min[group],
 * levels from 0 to max_level, scales and minimums from 0 to max_scale. */
typedef struct ln_affine_shape {
    int n_groups, max_level, max_scale;
} ln_affine_shape;

typedef struct ln_affine_block {
    float d, min_d; /* values of f16 */
    uint8_t scales[LN_FIT_GROUPS], mins[LN_FIT_GROUPS];
    uint8_t levels[LN_SUPER_ELEMS];
} ln_affine_block;

/* n: 16 or 32. */
void ln_fit_groups(const ln_codes *codes, const float *x, int n, ln_group_fit *fit);
/* blocks[16 / n_groups] */
void ln_fit_scaled(const ln_scaled_shape *shape, const float *x, ln_scaled_block *blocks);
void ln_fit_affine(const ln_affine_shape *shape, const float *x, ln_affine_block *blocks);

/* The same for one instruction set: fit_lanes.h, compiled for it. */
typedef struct ln_fits {
    void (*groups)(const ln_codes *codes, const float *x, int n, ln_group_fit *fit);
    void (*scaled)(const ln_scaled_shape *shape, const float *x, ln_scaled_block *blocks);
    void (*affine)(const ln_affine_shape *shape, const float *x, ln_affine_block *blocks);
} ln_fits;

extern const ln_fits ln_fits_baseline;
#if defined(__x86_64__)
extern const ln_fits ln_fits_avx2, ln_fits_avx512;
#endif

#endif
