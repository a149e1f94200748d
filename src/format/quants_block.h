/* One block of each quantised type to float32: `block` points to ln_dtype_block_bytes bytes of any
 * alignment, `out` to ln_dtype_block_elems floats. Internal to quants.c and packed_values.c. */
#ifndef LN_FORMAT_QUANTS_BLOCK_H
#define LN_FORMAT_QUANTS_BLOCK_H

#include <stdint.h>
#include <string.h>

#include "base/half.h"

typedef void (*ln_block_fn)(const uint8_t *block, float *out);

/* quants_k.c: super-blocks of 256 with packed scales, and ternary ones */
void ln_block_q2_k(const uint8_t *block, float *out);
void ln_block_q3_k(const uint8_t *block, float *out);
void ln_block_q4_k(const uint8_t *block, float *out);
void ln_block_q5_k(const uint8_t *block, float *out);
void ln_block_q6_k(const uint8_t *block, float *out);
void ln_block_tq1_0(const uint8_t *block, float *out);
void ln_block_tq2_0(const uint8_t *block, float *out);

/* quants_iq.c: values from codebooks */
void ln_block_iq1_s(const uint8_t *block, float *out);
void ln_block_iq1_m(const uint8_t *block, float *out);
void ln_block_iq2_xxs(const uint8_t *block, float *out);
void ln_block_iq2_xs(const uint8_t *block, float *out);
void ln_block_iq2_s(const uint8_t *block, float *out);
void ln_block_iq3_xxs(const uint8_t *block, float *out);
void ln_block_iq3_s(const uint8_t *block, float *out);
void ln_block_iq4_nl(const uint8_t *block, float *out);
void ln_block_iq4_xs(const uint8_t *block, float *out);

/* Twice the values of E2M1. */
static const int8_t ln_e2m1_doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

static inline uint16_t ln_block_u16(const uint8_t *bytes) {
    uint16_t value;
    memcpy(&value, bytes, sizeof value);
    return value;
}

static inline uint32_t ln_block_u32(const uint8_t *bytes) {
    uint32_t value;
    memcpy(&value, bytes, sizeof value);
    return value;
}

static inline float ln_block_f16(const uint8_t *bytes) {
    return ln_f32_from_f16(ln_block_u16(bytes));
}

#endif
