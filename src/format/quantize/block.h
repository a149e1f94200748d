/* One block of float32 to each quantised type: `src` holds ln_dtype_block_elems floats, `block`
 * receives ln_dtype_block_bytes bytes of any alignment. Internal to quantize*.c. */
#ifndef LN_FORMAT_QUANTIZE_BLOCK_H
#define LN_FORMAT_QUANTIZE_BLOCK_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/half.h"

typedef void (*ln_quantize_fn)(const float *src, uint8_t *block);

/* k.c: super-blocks of 256 with packed scales */
void ln_quantize_q2_k(const float *src, uint8_t *block);
void ln_quantize_q3_k(const float *src, uint8_t *block);
void ln_quantize_q4_k(const float *src, uint8_t *block);
void ln_quantize_q5_k(const float *src, uint8_t *block);
void ln_quantize_q6_k(const float *src, uint8_t *block);

/* code.c: values that are not evenly spaced */
void ln_quantize_iq4_nl(const float *src, uint8_t *block);
void ln_quantize_iq4_xs(const float *src, uint8_t *block);
void ln_quantize_mxfp4(const float *src, uint8_t *block);

static inline void ln_store_f16(uint8_t *bytes, float value) {
    uint16_t half = ln_f16_from_f32(value);
    memcpy(bytes, &half, sizeof half);
}

/* The value as it reads back from f16. */
static inline float ln_round_f16(float value) {
    return ln_f32_from_f16(ln_f16_from_f32(value));
}

/* The nearest whole number in [low, high]; `low` for NaN. */
static inline int ln_nearest(float value, int low, int high) {
    if (!(value > (float)low))
        return low;
    return value >= (float)high ? high : (int)lrintf(value);
}

#endif
