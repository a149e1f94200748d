#include "backend/cuda/weights/plain_rows.h"

#include "backend/cuda/runtime/pdl.cuh"
#include "backend/cuda/weights/pack.h"
#include "backend/cuda/weights/traits.cuh"

enum { THREADS = 256, ALIGN = 256 };

size_t ln_plain_row_cols(size_t n_cols) {
    return ln_weight_tile_padded_cols(LN_LAYOUT_BF16, n_cols);
}

static size_t tile_bytes(size_t n_rows, size_t n_cols) {
    size_t bytes = 0;
    (void)ln_weight_tiles_bytes(LN_LAYOUT_BF16, n_rows, n_cols, &bytes);
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

bool ln_plain_rows_matrix_bytes(size_t n_rows, size_t n_cols, size_t *bytes) {
    size_t row_bytes = ln_plain_row_cols(n_cols) * sizeof(__nv_bfloat16),
           plain; /* less than the tiles' */
    return ln_weight_tiles_bytes(LN_LAYOUT_BF16, n_rows, n_cols, bytes) && *bytes < SIZE_MAX / 4 &&
           !__builtin_mul_overflow(row_bytes, n_rows, &plain) &&
           !__builtin_add_overflow(tile_bytes(n_rows, n_cols), plain, bytes);
}

const void *ln_plain_rows_of(const ln_weight *weight) {
    return (const char *)weight->data + tile_bytes(weight->n_rows, weight->n_cols);
}

typedef struct copy_args {
    bool is_f16;
    const uint8_t *rows;
    size_t pitch, n_cols, cols;
    uint16_t *out;
} copy_args;

/* Grid: (blocks of columns, rows). */
static __global__ void copy_rows(const copy_args p) {
    size_t col = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (col >= p.cols)
        return;
    const uint16_t *from = (const uint16_t *)(p.rows + blockIdx.y * p.pitch);
    uint16_t bits = col < p.n_cols ? from[col] : 0;
    if (p.is_f16)
        bits = __bfloat16_as_ushort(__float2bfloat16_rn(ln_f16(bits)));
    p.out[blockIdx.y * p.cols + col] = bits;
}

int ln_cuda_pack_plain_rows(const ln_weight *weight, const void *rows, size_t row_begin,
                            size_t n_rows, void *matrix, ln_cuda_stream stream) {
    const size_t most = 32768; /* rows of a grid */
    copy_args args = {};
    args.is_f16 = weight->dtype == LN_DTYPE_F16;
    args.pitch = weight->row_bytes;
    args.n_cols = weight->n_cols;
    args.cols = ln_plain_row_cols(weight->n_cols);
    char *plain = (char *)matrix + tile_bytes(weight->n_rows, weight->n_cols);
    for (size_t i = 0; i < n_rows; i += most) {
        size_t n = n_rows - i < most ? n_rows - i : most;
        args.rows = (const uint8_t *)rows + i * args.pitch;
        args.out = (uint16_t *)plain + (row_begin + i) * args.cols;
        dim3 grid(ln_ceil_div(args.cols, THREADS), (unsigned)n);
        copy_rows<<<grid, THREADS, 0, stream>>>(args);
    }
    return cudaGetLastError();
}
