/* Random numbers and matrices for the tests of a backend's kernels. */
#ifndef LN_TESTS_UNIT_BACKEND_MATRIX_H
#define LN_TESTS_UNIT_BACKEND_MATRIX_H

#include "test.h"

#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "base/rng.h"
#include "format/checkpoint.h"
#include "format/quants.h"

/* An emulator is slow, and so is what sanitizers check. */
#if defined(TEST_EMULATED)
enum { IS_EMULATED = 1, IS_SLOW = 1 };
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { IS_EMULATED = 0, IS_SLOW = 1 };
#else
enum { IS_EMULATED = 0, IS_SLOW = 0 };
#endif

static uint64_t draws;

static inline float noise(void) {
    return 2.0f * ln_rng_uniform(43, 0, draws++, 0) - 1.0f;
}

static inline float *noise_rows(size_t n) {
    float *x = malloc((n + 1) * sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < n; i++)
        x[i] = noise();
    return x;
}

/* A random matrix in the file's format, and the same as float32. */
typedef struct matrix {
    ln_tensor tensor;
    float *values; /* [n_rows][n_cols] */
    size_t n_rows, n_cols;
} matrix;

/* Where a block of 256 or 32 has its f16 scale. */
static inline size_t scale_at(ln_dtype dtype) {
    return dtype == LN_DTYPE_Q6_K    ? 208
           : dtype == LN_DTYPE_TQ1_0 ? 52
           : dtype == LN_DTYPE_TQ2_0 ? 64
                                     : 0;
}

/* The random bits of a block become scales that keep the weights near [-1, 1]. */
static inline void tame_scales(ln_dtype dtype, uint8_t *data, size_t n_blocks) {
    size_t bytes = ln_dtype_block_bytes(dtype);
    for (size_t i = 0; i < n_blocks; i++) {
        uint16_t d = ln_f16_from_f32(0.0005f + 0.0005f * noise()), m = ln_f16_from_f32(0.002f);
        uint8_t *block = data + i * bytes;
        if (dtype == LN_DTYPE_I4_G32 || dtype == LN_DTYPE_I8_G32 || dtype == LN_DTYPE_F8_G32) {
            float scale = ln_f32_from_f16(d);
            memcpy(block, &scale, sizeof scale);
            if (dtype == LN_DTYPE_I4_G32)
                block[4] %= 17; /* GPTQ's zeros reach 16 */
            for (size_t at = 4; at < bytes && dtype == LN_DTYPE_F8_G32; at++)
                block[at] &= 0xbf; /* E4M3 without its largest numbers, and NaN */
            continue;
        }
        if (dtype == LN_DTYPE_NVFP4) { /* scales of 2^-5 to 2^-2 */
            for (size_t at = 0; at < 4; at++)
                block[at] = (uint8_t)(16 + block[at] % 24);
            continue;
        }
        if (dtype == LN_DTYPE_IQ1_M) /* a nibble in each of four words */
            for (size_t at = 0; at < 4; at++)
                block[49 + 2 * at] =
                    (uint8_t)((block[49 + 2 * at] & 0xf) | (d >> 4 * at & 0xf) << 4);
        else
            memcpy(block + scale_at(dtype), &d, 2);
        if (dtype == LN_DTYPE_Q4_K)
            memcpy(block + 2, &m, 2);
    }
}

static inline matrix make_matrix(ln_dtype dtype, size_t n_rows, size_t n_cols) {
    matrix m = {.n_rows = n_rows, .n_cols = n_cols};
    size_t row_bytes, n = n_rows * n_cols;
    assert_true(ln_dtype_row_bytes(dtype, n_cols, &row_bytes));
    uint8_t *data = malloc(row_bytes * n_rows);
    m.values = noise_rows(n);
    assert_non_null(data);
    if (dtype == LN_DTYPE_F32)
        memcpy(data, m.values, n * sizeof(float));
    else if (dtype == LN_DTYPE_F16 || dtype == LN_DTYPE_BF16)
        for (size_t i = 0; i < n; i++) { /* exact in both types */
            uint16_t bf16 = ln_bf16_from_f32(m.values[i]), f16;
            f16 = ln_f16_from_f32(ln_f32_from_bf16(bf16));
            memcpy(data + i * 2, dtype == LN_DTYPE_F16 ? &f16 : &bf16, 2);
        }
    else if (ln_can_quantize(dtype))
        for (size_t i = 0; i < n_rows; i++)
            ln_quantize_row(dtype, m.values + i * n_cols, data + i * row_bytes, n_cols);
    else {
        for (size_t i = 0; i < row_bytes * n_rows; i++)
            data[i] = (uint8_t)(ln_rng_uniform(44, 0, draws++, 0) * 255.9f);
        tame_scales(dtype, data, row_bytes * n_rows / ln_dtype_block_bytes(dtype));
    }
    for (size_t i = 0; i < n_rows; i++)
        ln_dequantize_row(dtype, data + i * row_bytes, m.values + i * n_cols, n_cols);
    m.tensor = (ln_tensor){.name = "w",
                           .dtype = dtype,
                           .n_dims = 2,
                           .dims = {n_rows, n_cols},
                           .data = data,
                           .bytes = row_bytes * n_rows};
    return m;
}

static inline void free_matrix(matrix *m) {
    free((void *)(uintptr_t)m->tensor.data);
    free(m->values);
}

#endif
