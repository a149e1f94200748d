/* Tiles: matrices in the order in which tensor cores take them, for `fast`.
 *
 * A tile holds 16 rows by 64 columns (BF16, Q4, Q5, Q6, MXFP4, F8, I8), 128 (INT8_ROW, F8_ROW) or
 * 256 (INT8, INT4); tiles lie one after another along the columns, then row of tiles after row of
 * tiles. Rows and columns that fill up the last tiles are zero. Within a tile lane 4 g + t of a
 * warp owns rows g and g + 8 and, of each block of 32 columns, the columns 8 t .. 8 t + 7:
 *
 *   BF16  [4 steps][32 lanes] 16 bytes: (row g, columns c, c + 1), (g + 8, the same), (g, c + 2,
 *         c + 3), (g + 8, the same), with c = 32 (step / 2) + 8 t + 4 (step % 2)
 *   INT8  [8 blocks][32 lanes] 16 bytes: (g, 8 t .. 8 t + 3), (g + 8, the same), (g, 8 t + 4 ..),
 *         (g + 8, the same); then [16 rows][8 blocks] f16 scales
 *   INT4  as INT8 with rows g and g + 8 in the low and high halves of a byte, two blocks in 16
 *         bytes; signed nibbles, read as 16 times their value, and scales / 16
 *   Q4    [32 lanes] 16 bytes: word s has the numbers of step s of BF16, of its word w bits 4 w ..
 *         4 w + 3 of the lower and of the upper half; then [16 rows][2 blocks] of f16 (a, b). The
 *         value is a (q - 8) + b, which kernels round to f16
 *   Q5    as Q4, with [32 lanes] 8 bytes of two more bits behind the numbers: of steps 2 i and
 *         2 i + 1 in word i, from bit (4 + 8 (s % 2) + 4 (w % 2) + 2 (w / 2)) % 16 of each half on,
 *         from where few shifts bring them above the numbers; the value is a (q - 16) + b
 *   Q6    as Q5; [16 rows][4] f16 scales of 16 columns each; the value is scale (q - 32)
 *   MXFP4 numbers of E2M1 as Q4; [16 rows][2 blocks] of f16 and two bytes of nothing: 2^14 times a
 *         block's scale over the largest of its row; the largest as of F8
 *   F8    [2 blocks][32 lanes] E4M3 as INT8; then [16 rows][2 blocks] of f16 and two bytes of
 *         nothing: a block's scale over the largest of its row. Behind a row of tiles 16 float32,
 *         the largest scale of each row, and 64 bytes of nothing
 *   I8    numbers of int8, else as F8
 *   INT8_ROW  [4 blocks][32 lanes] as INT8; behind a row of tiles 16 float32 scales, one for each
 *         row, and 64 bytes of nothing
 *   F8_ROW  E4M3 as WGMMA takes it from shared memory: [2 halves of the rows][4 blocks][2][8 rows]
 *         16 bytes: of lane t = 0 .. 3 the columns 8 t .. 8 t + 3, then 8 t + 4 .. 8 t + 7; scales
 *         as of INT8_ROW
 *
 * BF16 meets x in bf16, INT8 and INT4 meet int8 with a scale for each block, INT8_ROW int8 with a
 * scale for each row (W8A8), F8_ROW E4M3 with a scale for each row, and Q4, Q5, Q6, MXFP4, F8
 * and I8 f16 with a power of two for each row, which keeps numbers of any size within the range of
 * f16.
 *
 * Sums of INT8_ROW are whole numbers, exact in any order, and become float32 at their end. Of the
 * others the columns of a slice, LN_K_SPLITS of them, are summed one tile after another, and
 * slices are merged in order: the bits of a sum depend on the number of columns alone. */
#ifndef LN_BACKEND_CUDA_WEIGHTS_LAYOUT_H
#define LN_BACKEND_CUDA_WEIGHTS_LAYOUT_H

#include <stdbool.h>

#include "backend/cuda/ops.h"
#include "backend/cuda/runtime/device.h"
#include "backend/cuda/weights/shape.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Rows of x for each group, on average, from which on they lie in panels. */
enum { LN_ACT_TILES_MIN_ROWS = 32 };

/* The kind that weights of a type become; LN_LAYOUT_NONE: there is none. */
ln_weight_layout ln_weight_layout_of(ln_dtype dtype);
/* Whether the device has kernels for F8_ROW. */
bool ln_has_fp8_row_kernels(void);
/* Bytes of a matrix; false when they overflow. */
bool ln_weight_tiles_bytes(ln_weight_layout kind, size_t n_rows, size_t n_cols, size_t *bytes);

/* Packs rows row_begin .. row_begin + n_rows - 1 of a matrix, of which `rows` (device memory,
 * weight->row_bytes apart) holds just these, into `tiles` of the kind weight->layout. row_begin is
 * a multiple of 16, and so is n_rows unless these are the last rows. */
int ln_cuda_pack_weight_tiles(const ln_weight *weight, const void *rows, size_t row_begin,
                              size_t n_rows, void *tiles, ln_cuda_stream stream);

/* Bytes for x in the form that tiles meet: up to n_rows rows of n_cols columns. */
size_t ln_act_bytes(size_t n_rows, size_t n_cols);
/* Bytes more for what fills up the panels of so many groups of rows. */
size_t ln_act_groups_bytes(size_t n_groups, size_t n_cols);

typedef struct ln_cublaslt ln_cublaslt; /* gemm/cublaslt.h */

/* What is kept between operations: x as it was converted last. */
typedef struct ln_converted_act {
    ln_cublaslt *blas; /* what may serve linears of many rows, or NULL */
    void *memory;      /* [bytes] of device memory, at least ln_act_bytes */
    size_t bytes;
    const float *of;
    ln_value value; /* which `of` is; 0: nothing was converted */
    size_t n_rows, n_cols, stride;
    bool is_int8, is_f8, by_row, precise, in_panels; /* is_f8: E4M3 where int8 would be */
    bool by_group;                                   /* a group's rows in panels of their own */
    bool is_behind; /* in the second half of the memory: made while the first is read */
} ln_converted_act;

#ifdef __cplusplus
}
#endif

#endif
