/* Float32 to blocks of each quantised type: `src` holds ln_dtype_block_elems floats for each block,
 * `block` receives ln_dtype_block_bytes bytes, of any alignment, for each. Internal to this folder.
 */
#ifndef LN_FORMAT_QUANTIZE_BLOCK_H
#define LN_FORMAT_QUANTIZE_BLOCK_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/half.h"

typedef void (*ln_quantize_fn)(const float *src, uint8_t *block);

/* The most values that a function takes at once: 32 in each lane of a fit. */
enum { LN_MOST_ELEMS = 512 };

/* k.c: super-blocks of 256 with packed scales; two of Q4_K and Q5_K at once */
void ln_quantize_q2_k(const float *src, uint8_t *block);
void ln_quantize_q3_k(const float *src, uint8_t *block);
void ln_quantize_q4_k(const float *src, uint8_t *block);
void ln_quantize_q5_k(const float *src, uint8_t *block);
void ln_quantize_q6_k(const float *src, uint8_t *block);

/* code.c: values that are not evenly spaced; 16 blocks of IQ4_NL and two of IQ4_XS at once */
void ln_quantize_iq4_nl(const float *src, uint8_t *block);
void ln_quantize_iq4_xs(const float *src, uint8_t *block);
void ln_quantize_mxfp4(const float *src, uint8_t *block);

static inline void ln_store_f16(uint8_t *bytes, float value) {
    uint16_t half = ln_f16_from_f32(value);
    memcpy(bytes, &half, sizeof half);
}

#endif
