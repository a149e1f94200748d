/* Rows of tensor data to float32 and back, plain and readable: the reference for every kernel. */
#ifndef LN_FORMAT_QUANTS_H
#define LN_FORMAT_QUANTS_H

#include <stdbool.h>
#include <stddef.h>

#include "format/dtype.h"

bool ln_can_dequantize(ln_dtype dtype);

/* out[n] from n elements at src; n is a multiple of the block. The values equal those of the
 * public `gguf` Python package bit for bit. ln_can_dequantize(dtype) must hold. */
void ln_dequantize_row(ln_dtype dtype, const void *src, float *out, size_t n);

bool ln_can_quantize(ln_dtype dtype);

/* dst receives n elements of src[n] as blocks; n is a multiple of the block. Blocks of Q4_0, Q4_1,
 * Q5_0, Q5_1 and Q8_0 equal those of the `gguf` package bit for bit; the others are fitted by
 * weighted least squares (docs/quantisation.md). Values should be finite. */
void ln_quantize_row(ln_dtype dtype, const float *src, void *dst, size_t n);

#endif
