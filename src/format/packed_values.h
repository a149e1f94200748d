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

/* The code of a stored column of a row, and the zero of a group of columns, of the kinds that have
 * codes. */
unsigned ln_packed_code(const ln_packed *packed, size_t row, size_t col);
unsigned ln_packed_zero(const ln_packed *packed, size_t row, size_t group);

/* out[n] = columns [col, col + n) of a row of a matrix of a plain type, or of a kind of values;
 * of a turned one, of a stored column. */
void ln_packed_values(const ln_packed *packed, size_t row, size_t col, size_t n, float *out);

/* A scale's value, of F32, F16, BF16 or E8M0. */
float ln_packed_scale(const ln_tensor *scales, size_t at);

#endif
