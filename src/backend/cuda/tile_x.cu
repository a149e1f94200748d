/* Rows of x to bf16, or to int8 with a scale for each block of 32 columns: the largest magnitude of
 * a block becomes 127; a block with a NaN gets an infinite scale, which spoils its sums as the NaN
 * would. Grid: blocks of 256 columns, row after row; a thread per column. */
#include "backend/cuda/tile_x.cuh"

enum { CONVERT_THREADS = 256 };

size_t ln_tile_x_bytes(size_t n_rows, size_t n_cols) {
    size_t cols = ln_tile_padded_cols(LN_TILE_INT8, n_cols);
    return n_rows * cols * 2 * sizeof(__nv_bfloat16); /* int8 and scales take less */
}

static __global__ void to_bf16(const float *x, size_t stride, size_t n_cols, ln_tile_x_parts parts) {
    size_t per_row = (parts.cols + CONVERT_THREADS - 1) / CONVERT_THREADS;
    size_t col = blockIdx.x % per_row * CONVERT_THREADS + threadIdx.x, row = blockIdx.x / per_row;
    if (col >= parts.cols)
        return;
    float value = col < n_cols ? x[row * stride + col] : 0.0f;
    __nv_bfloat16 rounded = __float2bfloat16_rn(value);
    parts.bf16[row * parts.cols + col] = rounded;
    if (parts.rest != NULL)
        parts.rest[row * parts.cols + col] =
            __float2bfloat16_rn(value - __bfloat162float(rounded));
}

static __global__ void to_int8(const float *x, size_t stride, size_t n_cols, ln_tile_x_parts parts) {
    size_t per_row = (parts.cols + CONVERT_THREADS - 1) / CONVERT_THREADS;
    size_t col = blockIdx.x % per_row * CONVERT_THREADS + threadIdx.x, row = blockIdx.x / per_row;
    float value = col < n_cols ? x[row * stride + col] : 0.0f;
    float largest = ln_warp_max(isnan(value) ? INFINITY : fabsf(value));
    float scale = largest / 127.0f, inverse = largest > 0.0f ? 127.0f / largest : 0.0f;
    size_t place = col / 64 * 64 + col % 32 / 8 * 16 + col % 64 / 32 * 8 + col % 8;
    parts.int8[row * parts.cols + place] = (int8_t)__float2int_rn(value * inverse);
    if (col % LN_TILE_BLOCK == 0)
        parts.scales[(row * parts.cols + col) / LN_TILE_BLOCK] = scale;
}

int ln_tile_x_convert(const float *x, size_t stride, bool is_int8, bool precise, size_t n_rows,
                      size_t n_cols, void *memory, cudaStream_t stream) {
    ln_tile_x_parts parts = ln_tile_x_divide(memory, is_int8, precise, n_rows, n_cols);
    unsigned grid = (unsigned)(ln_ceil_div(parts.cols, CONVERT_THREADS) * n_rows);
    if (is_int8)
        to_int8<<<grid, CONVERT_THREADS, 0, stream>>>(x, stride, n_cols, parts);
    else
        to_bf16<<<grid, CONVERT_THREADS, 0, stream>>>(x, stride, n_cols, parts);
    return cudaGetLastError();
}
