/* Rows of x in the form that tiles meet, filled up with zeros to whole tiles of columns.
 *
 * For few rows, one row after another: of bf16, or of f16 with a scale for each row, a power of
 * two, and for precise linears what rounding left, in bf16 too; or of int8 in which two blocks of
 * 32 columns are interleaved by eight, so that what lane t needs of both is 16 bytes, [n_cols /
 * 64][4 t][2 blocks][8], with a float32 scale for each block, or for each row where INT8_ROW wants
 * it. E4M3 for F8_ROW stands as WGMMA takes it, too, without gaps: [16 columns][rows][16 bytes].
 *
 * For many rows, in panels as WGMMA takes its B operand from shared memory: for each 128 bytes of
 * columns [rows][128 bytes], the 16 bytes at i of row r being at i ^ r % 8; scales as
 * [panel][block][rows]. A panel has LN_ACT_TILE_ROWS(kind) rows, 64 where there are no more; of 16-bit
 * numbers and E4M3 all rows are one, of which kernels take as many as they like, unless they are
 * those of groups. Columns stand in the order in which tiles have them: the 32 of a block as [step
 * of 16 bytes or 16 numbers][lane t]. */
#ifndef LN_BACKEND_CUDA_ACTIVATIONS_CONVERT_CUH
#define LN_BACKEND_CUDA_ACTIVATIONS_CONVERT_CUH

#include "backend/cuda/activations/form.h"
#include "backend/cuda/weights/traits.cuh"

#define LN_ACT_TILE_ROWS(KIND) ln_act_tile_rows(KIND)

static_assert(LN_SPLIT_K_FLOATS >= LN_SPLIT_K_BLOCKS * LN_SPLIT_K_SLOT_FLOATS,
              "blocks of few rows leave theirs there, too");

/* The parts of ln_converted_act.memory. */
typedef struct ln_act_view {
    size_t cols;    /* filled up */
    unsigned panel; /* rows in one; 0: row after row */
    bool is_int8, is_f8, by_row;
    unsigned n_few;             /* rows of F8_ROW that are in no panel */
    __nv_bfloat16 *bf16, *rest; /* rest: NULL unless precise */
    int8_t *int8;
    float *scales; /* [n_rows][cols / 32], by_row [n_rows] */
} ln_act_view;

static inline ln_act_view ln_act_view_of(const ln_converted_act *x) {
    ln_act_view parts = {};
    int kind = x->is_f8      ? LN_LAYOUT_F8_ROW
               : !x->is_int8 ? LN_LAYOUT_BF16
               : x->by_row   ? LN_LAYOUT_INT8_ROW
                             : LN_LAYOUT_INT8;
    parts.cols = ln_weight_tile_padded_cols(kind, x->n_cols);
    parts.by_row = x->by_row;
    parts.is_f8 = x->is_f8;
    parts.n_few = (unsigned)x->n_rows;
    size_t n_rows = x->n_rows;
    bool is_one = !x->by_group && (!x->is_int8 || x->is_f8);
    if (x->in_panels && n_rows <= LN_SMALL_M_ROWS && !x->is_f8)
        parts.panel = LN_SMALL_M_ROWS;
    else if (x->in_panels)
        parts.panel = is_one ? (unsigned)n_rows : LN_ACT_TILE_ROWS(kind);
    parts.is_int8 = x->is_int8;
    if (x->in_panels)
        n_rows = (n_rows + parts.panel - 1) / parts.panel * parts.panel;
    char *memory = (char *)x->memory + LN_SPLIT_K_BYTES;
    if (x->is_behind)
        memory += ln_act_half(x);
    parts.bf16 = (__nv_bfloat16 *)memory;
    parts.rest = x->precise ? parts.bf16 + n_rows * parts.cols : NULL;
    parts.int8 = (int8_t *)memory;
    parts.scales = (float *)(memory + n_rows * parts.cols * (x->is_int8 ? 1 : 2));
    return parts;
}

/* Byte of the 16 at `chunk`, `lane` words behind their start, of 128 bytes of columns `part`. */
static __device__ __forceinline__ size_t ln_act_tile_byte(const ln_act_view &x, size_t row,
                                                       size_t parts_across, size_t part,
                                                       unsigned chunk, unsigned lane) {
    if (row >= x.panel) { /* rarely, and divisions take long */
        part += (unsigned)row / x.panel * parts_across;
        row = (unsigned)row % x.panel;
    }
    return (part * x.panel + row) * 128 + (chunk ^ (unsigned)row % 8) * 16 + lane * 4;
}

/* Four columns of one row, from `col` on, a multiple of four. */
static __device__ __forceinline__ void ln_act_store_16(const ln_act_view &x, __nv_bfloat16 *to,
                                                        size_t row, size_t col, uint32_t low,
                                                        uint32_t high) {
    if (x.panel == 0) {
        *(uint2 *)(to + row * x.cols + col) = make_uint2(low, high);
        return;
    }
    unsigned step = (unsigned)col % 64 / 32 * 2 + (unsigned)col % 8 / 4;
    unsigned lane = (unsigned)col % 32 / 8;
    char *bytes = (char *)to;
    *(uint32_t *)(bytes + ln_act_tile_byte(x, row, x.cols / 64, col / 64, 2 * step, lane)) = low;
    *(uint32_t *)(bytes + ln_act_tile_byte(x, row, x.cols / 64, col / 64, 2 * step + 1, lane)) = high;
}

/* Four numbers of int8 from four of x, by 1 / scale; and the largest magnitude among them. */
static __device__ __forceinline__ uint32_t ln_quantize_four(const float v[4], float inverse) {
    uint32_t word = 0;
    for (int i = 0; i < 4; i++)
        word |= (uint32_t)(__float2int_rn(v[i] * inverse) & 255) << 8 * i;
    return word;
}

static __device__ __forceinline__ float ln_largest_of_four(const float v[4]) {
    float largest = 0.0f;
    for (int i = 0; i < 4; i++)
        largest = fmaxf(largest, isnan(v[i]) ? INFINITY : fabsf(v[i]));
    return largest;
}

/* What numbers whose largest magnitude is this are multiplied with. */
static __device__ __forceinline__ float ln_inverse_scale(float largest) {
    return largest > 0.0f ? __fdividef(127.0f, largest) : 0.0f;
}

static __device__ __forceinline__ void ln_act_store_int8(const ln_act_view &x, size_t row,
                                                          size_t col, uint32_t word, float scale) {
    size_t at, scale_at;
    unsigned lane = (unsigned)col % 32 / 8, half = (unsigned)col % 8 / 4;
    if (x.panel == 0 && x.is_f8) {
        at = ((col / 32 * 2 + half) * x.n_few + row) * 16 + lane * 4;
        scale_at = 0;
    } else if (x.panel == 0) {
        at = row * x.cols + col / 64 * 64 + lane * 16 + col % 64 / 32 * 8 + half * 4;
        scale_at = (row * x.cols + col) / LN_SCALE_BLOCK;
    } else {
        unsigned chunk = (unsigned)col % 128 / 32 * 2 + half;
        at = ln_act_tile_byte(x, row, x.cols / 128, col / 128, chunk, lane);
        scale_at = (row / x.panel * (x.cols / LN_SCALE_BLOCK) + col / LN_SCALE_BLOCK) * x.panel +
                   row % x.panel;
    }
    *(uint32_t *)(x.int8 + at) = word;
    if (x.by_row ? col == 0 : col % LN_SCALE_BLOCK == 0)
        x.scales[x.by_row ? row : scale_at] = scale;
}

/* What a row of this largest magnitude is multiplied with, which becomes 448; a row with what is no
 * number gets an infinite scale. */
static __device__ __forceinline__ float ln_f8_factor(float largest) {
    return largest >= 0x1p-110f ? __fdividef(448.0f, largest) : 0.0f;
}

/* Four numbers of E4M3. */
static __device__ __forceinline__ uint32_t ln_f8_four(const float v[4], float inverse) {
    float2 low = make_float2(v[0] * inverse, v[1] * inverse);
    float2 high = make_float2(v[2] * inverse, v[3] * inverse);
    return (uint32_t)__nv_cvt_float2_to_fp8x2(low, __NV_SATFINITE, __NV_E4M3) |
           (uint32_t)__nv_cvt_float2_to_fp8x2(high, __NV_SATFINITE, __NV_E4M3) << 16;
}

/* The exponent of the power of two that brings a row to f16: its largest magnitude becomes 2^14 and
 * more. A row with what is no number gets an infinite scale. */
static __device__ __forceinline__ int ln_f16_exponent(float largest) {
    return max((int)(__float_as_uint(largest) >> 23) - 127, -112) - 14;
}

/* What such a row is multiplied by, and the scale that makes up for it. */
static __device__ __forceinline__ float ln_f16_factor(float largest) {
    return __uint_as_float((uint32_t)(127 - ln_f16_exponent(largest)) << 23);
}

static __device__ __forceinline__ float ln_f16_scale(float largest) {
    return largest < INFINITY ? __uint_as_float((uint32_t)(127 + ln_f16_exponent(largest)) << 23)
                              : INFINITY;
}

/* Converts four columns of a row whose largest magnitude is known, by_row. */
static __device__ __forceinline__ void ln_act_store_row_scaled(const ln_act_view &x, size_t row,
                                                            size_t col, const float v[4],
                                                            float largest) {
    if (x.is_f8) {
        ln_act_store_int8(x, row, col, ln_f8_four(v, ln_f8_factor(largest)),
                           largest * (1.0f / 448.0f));
        return;
    }
    if (x.is_int8) {
        ln_act_store_int8(x, row, col, ln_quantize_four(v, ln_inverse_scale(largest)),
                           largest * (1.0f / 127.0f));
        return;
    }
    float factor = ln_f16_factor(largest);
    ln_act_store_16(x, x.bf16, row, col, ln_pack_f16(v[0] * factor, v[1] * factor),
                     ln_pack_f16(v[2] * factor, v[3] * factor));
    if (col == 0)
        x.scales[row] = ln_f16_scale(largest);
}

/* Converts a row of which v[h] are the columns from 4 * (h * THREADS + threadIdx.x) on, by_row; by
 * a block of THREADS. */
template <int THREADS, int HELD>
static __device__ __forceinline__ void ln_act_store_registers(const ln_act_view &x, size_t row,
                                                          const float (&v)[HELD][4],
                                                          float largest) {
    static_assert(THREADS % 32 == 0, "the columns of h have the places of those of 0 in 128 bytes");
    unsigned first = 4 * threadIdx.x, cols = (unsigned)x.cols;
    if (!x.is_int8 || x.panel == 0) {
#pragma unroll
        for (int h = 0; h < HELD; h++)
            if (h * 4 * THREADS + first < cols)
                ln_act_store_row_scaled(x, row, h * 4 * THREADS + first, v[h], largest);
        return;
    }
    unsigned chunk = first % 128 / 32 * 2 + first % 8 / 4, lane = first % 32 / 8;
    char *at = (char *)x.int8 + ln_act_tile_byte(x, row, cols / 128, first / 128, chunk, lane);
    size_t step = (size_t)(4 * THREADS / 128) * x.panel * 128;
    float f8 = ln_f8_factor(largest), i8 = ln_inverse_scale(largest);
#pragma unroll
    for (int h = 0; h < HELD; h++)
        if (h * 4 * THREADS + first < cols)
            *(uint32_t *)(at + h * step) =
                x.is_f8 ? ln_f8_four(v[h], f8) : ln_quantize_four(v[h], i8);
    if (threadIdx.x == 0)
        x.scales[row] = largest * (x.is_f8 ? 1.0f / 448.0f : 1.0f / 127.0f);
}

/* Converts four columns of a row, not by_row. The eight lanes that hold a block of 32 columns call
 * together. The largest magnitude of a block becomes 127; a block with a NaN gets an infinite
 * scale, which spoils its sums as the NaN would. */
static __device__ __forceinline__ void ln_act_store(const ln_act_view &x, size_t row,
                                                     size_t col, const float v[4]) {
    if (!x.is_int8) {
        ln_act_store_16(x, x.bf16, row, col, ln_pack_bf16(v[0], v[1]), ln_pack_bf16(v[2], v[3]));
        if (x.rest == NULL)
            return;
        float rest[4];
        for (int i = 0; i < 4; i++)
            rest[i] = v[i] - __bfloat162float(__float2bfloat16_rn(v[i]));
        ln_act_store_16(x, x.rest, row, col, ln_pack_bf16(rest[0], rest[1]),
                         ln_pack_bf16(rest[2], rest[3]));
        return;
    }
    float largest = ln_largest_of_four(v);
    unsigned block_lanes = 0xffu << (threadIdx.x % LN_WARP / 8 * 8);
    for (int step = 4; step > 0; step /= 2)
        largest = fmaxf(largest, __shfl_xor_sync(block_lanes, largest, step));
    ln_act_store_int8(x, row, col, ln_quantize_four(v, ln_inverse_scale(largest)),
                       largest * (1.0f / 127.0f));
}

int ln_act_convert(const ln_converted_act *x, ln_cuda_stream stream);
/* The same from rows of bf16, [n_rows][n_cols] in device memory, with ln_act_takes_bf16. */
int ln_act_convert_f16(const ln_converted_act *x, const void *rows, ln_cuda_stream stream);

#endif
