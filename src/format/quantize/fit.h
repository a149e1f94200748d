/* Weighted least squares for quantised blocks: which scale (and minimum) lets small whole numbers
 * come nearest to given values. Every fit tries a range of scales around the one that just spans
 * the values, rounds, solves for the best scale given the rounded numbers, and keeps the best. */
#ifndef LN_FORMAT_QUANTIZE_FIT_H
#define LN_FORMAT_QUANTIZE_FIT_H

#include <stdint.h>

enum { LN_SUPER_ELEMS = 256, LN_MAX_GROUPS = 16 };

/* The numbers that a quantised value may be: all from low to high, or those of an ascending
 * table. */
typedef struct ln_codes {
    int low, high;
    const int8_t *table; /* [n_table], or NULL */
    int n_table;
} ln_codes;

/* The scale s for which s * code comes nearest to x[n]; codes[n] receives the codes. */
float ln_fit_scale(const ln_codes *codes, const float *x, const float *weights, int n, int8_t *out);

/* Super-blocks of 256 in equal groups, x = d * scale[group] * code. */
typedef struct ln_scaled_shape {
    int n_groups;
    ln_codes codes;
    int scale_low, scale_high;
} ln_scaled_shape;

typedef struct ln_scaled_block {
    float d; /* a value of f16 */
    int16_t scales[LN_MAX_GROUPS];
    int8_t codes[LN_SUPER_ELEMS];
} ln_scaled_block;

void ln_fit_scaled(const ln_scaled_shape *shape, const float *x, ln_scaled_block *block);

/* Super-blocks of 256 in equal groups, x = d * scale[group] * level - min_d * min[group], levels
 * from 0 to max_level, scales and minimums from 0 to max_scale. */
typedef struct ln_affine_shape {
    int n_groups, max_level, max_scale;
} ln_affine_shape;

typedef struct ln_affine_block {
    float d, min_d; /* values of f16 */
    uint8_t scales[LN_MAX_GROUPS], mins[LN_MAX_GROUPS];
    uint8_t levels[LN_SUPER_ELEMS];
} ln_affine_block;

void ln_fit_affine(const ln_affine_shape *shape, const float *x, ln_affine_block *block);

#endif
