/* Values of packed matrices. Internal to packed_rows.c and packed_find.c. */
#ifndef LN_FORMAT_PACKED_VALUES_H
#define LN_FORMAT_PACKED_VALUES_H

#include <string.h>

#include "format/packed.h"

static inline uint32_t ln_packed_word(const ln_tensor *tensor, size_t at) {
    uint32_t word;
    memcpy(&word, tensor->data + at * sizeof word, sizeof word);
    return word;
}

/* out[n] = columns [col, col + n) of a row of a matrix of a plain type, NVFP4 or CODEBOOK; of a
 * turned one, of a stored column. */
void ln_packed_values(const ln_packed *packed, size_t row, size_t col, size_t n, float *out);

/* A scale's value, of F32, F16, BF16 or E8M0. */
float ln_packed_scale(const ln_tensor *scales, size_t at);

#endif
