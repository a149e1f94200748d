/* Operands of mma.sync in registers, and their products: what kernels for small M are made of. A
 * weight tile is taken in units of UNIT columns, so that few registers hold what is in flight.
 *
 * A product of int8 values is a sum of at most 2^22 in magnitude. It is added to the bits of START
 * as a float, so that (bits - START) * weight scale is one operation: weight scales are f16, and
 * START times one is exact. */
#ifndef LN_BACKEND_CUDA_GEMM_MMA_FRAGMENTS_CUH
#define LN_BACKEND_CUDA_GEMM_MMA_FRAGMENTS_CUH

#include "backend/cuda/activations/view.cuh"
#include "backend/cuda/ptx/mma_16.cuh"
#include "backend/cuda/ptx/reduce.cuh"
#include "backend/cuda/weights/unpack.cuh"

enum { LN_INT_START_BITS = 0x4b400000 };
#define LN_INT_START 12582912.0f

struct ln_fragment_bf16 {
    enum { UNIT = 64 };
    uint4 steps[4];
};
struct ln_fragment_bits { /* Q4, Q5, Q6, MXFP4 */
    enum { UNIT = 64 };
    uint4 packed;
    uint2 high, scales[2]; /* high: the high bits; scales of rows g and g + 8 */
};
struct ln_fragment_bytes { /* F8, I8 */
    enum { UNIT = 64 };
    uint4 blocks[2];
    uint2 scales[2];
};
struct ln_fragment_int8 {
    enum { UNIT = 128 };
    uint4 blocks[4];
    uint32_t scales[2][2]; /* of rows g and g + 8 */
};
struct ln_fragment_int8_row {
    enum { UNIT = 128 };
    uint4 blocks[4];
};
struct ln_fragment_int4 {
    enum { UNIT = 256 };
    uint4 blocks[4];
    uint32_t scales[2][4];
};

template <int LAYOUT> static constexpr auto ln_fragment_of(void) {
    if constexpr (ln_weight_tile_bytes_to_f16(LAYOUT))
        return ln_fragment_bytes();
    else if constexpr (ln_weight_tile_dequantizes_to_f16(LAYOUT))
        return ln_fragment_bits();
    else if constexpr (LAYOUT == LN_LAYOUT_BF16)
        return ln_fragment_bf16();
    else if constexpr (LAYOUT == LN_LAYOUT_INT8_ROW)
        return ln_fragment_int8_row();
    else if constexpr (LAYOUT == LN_LAYOUT_INT8)
        return ln_fragment_int8();
    else
        return ln_fragment_int4();
}

/* A lane's A operand of a unit of a weight tile. */
template <int LAYOUT> struct ln_lane_tile : decltype(ln_fragment_of<LAYOUT>()) {};

template <bool PRECISE> struct ln_act_fragment_16 { uint4 values[2], lo[PRECISE ? 2 : 1]; };
template <int BLOCKS> struct ln_act_fragment_int8 {
    uint4 values[BLOCKS / 2];
    float scales[2][BLOCKS]; /* of rows 2 t and 2 t + 1 */
};
struct ln_act_fragment_int8_row {
    uint4 values[2];
};

template <int LAYOUT, bool PRECISE> static constexpr auto ln_act_fragment_of(void) {
    if constexpr (ln_weight_tile_has_16_bit_act(LAYOUT))
        return ln_act_fragment_16<PRECISE>();
    else if constexpr (LAYOUT == LN_LAYOUT_INT8_ROW)
        return ln_act_fragment_int8_row();
    else
        return ln_act_fragment_int8<ln_lane_tile<LAYOUT>::UNIT / LN_SCALE_BLOCK>();
}

/* A lane's B operand: eight rows of activations in the columns of a unit. */
template <int LAYOUT, bool PRECISE>
struct ln_lane_x : decltype(ln_act_fragment_of<LAYOUT, PRECISE>()) {
    enum { BLOCKS = ln_lane_tile<LAYOUT>::UNIT / LN_SCALE_BLOCK };
};

static __device__ __forceinline__ uint4 ln_load_streamed(const uint8_t *at) {
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate.L2::256B.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(at));
    return v;
}

/* Unit `unit` of a row of tiles. */
template <int LAYOUT>
static __device__ __forceinline__ void ln_load_unit(const uint8_t *tiles, unsigned unit,
                                                    unsigned lane, ln_lane_tile<LAYOUT> &out) {
    constexpr unsigned PER_TILE = ln_weight_tile_cols(LAYOUT) / ln_lane_tile<LAYOUT>::UNIT;
    const uint8_t *tile = tiles + (size_t)(unit / PER_TILE) * ln_weight_tile_bytes(LAYOUT);
    const uint8_t *values = tile + unit % PER_TILE * 2048 + lane * 16;
    if constexpr (ln_weight_tile_dequantizes_to_f16(LAYOUT)) {
        if constexpr (ln_weight_tile_bytes_to_f16(LAYOUT)) {
            out.blocks[0] = ln_load_streamed(values);
            out.blocks[1] = ln_load_streamed(values + 512);
        } else {
            out.packed = ln_load_streamed(values);
        }
        if constexpr (ln_weight_tile_has_high_bits(LAYOUT))
            out.high = __ldg((const uint2 *)(tile + 512) + lane);
        out.scales[0] = __ldg((const uint2 *)(tile + ln_weight_tile_scale_at(LAYOUT, lane / 4, 0)));
        out.scales[1] =
            __ldg((const uint2 *)(tile + ln_weight_tile_scale_at(LAYOUT, lane / 4 + 8, 0)));
    } else if constexpr (LAYOUT == LN_LAYOUT_BF16) {
#pragma unroll
        for (int i = 0; i < 4; i++)
            out.steps[i] = ln_load_streamed(values + i * 512);
    } else {
#pragma unroll
        for (int i = 0; i < 4; i++)
            out.blocks[i] = ln_load_streamed(values + i * 512);
    }
    if constexpr (LAYOUT == LN_LAYOUT_INT8 || LAYOUT == LN_LAYOUT_INT4) {
        const uint8_t *scales = tile + ln_weight_tile_scale_at(LAYOUT, lane / 4, 0);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            if constexpr (LAYOUT == LN_LAYOUT_INT8) {
                uint2 two = __ldg((const uint2 *)(scales + i * 128) + unit % PER_TILE);
                out.scales[i][0] = two.x, out.scales[i][1] = two.y;
            } else {
                uint4 four = ln_load_streamed(scales + i * 128);
                out.scales[i][0] = four.x, out.scales[i][1] = four.y;
                out.scales[i][2] = four.z, out.scales[i][3] = four.w;
            }
        }
    }
}

/* A unit of a tile in shared memory. */
template <int LAYOUT>
static __device__ __forceinline__ void ln_take_unit(const uint8_t *tile, unsigned unit,
                                                    unsigned lane, ln_lane_tile<LAYOUT> &out) {
    const uint8_t *values = tile + unit * 2048 + lane * 16;
    if constexpr (ln_weight_tile_dequantizes_to_f16(LAYOUT)) {
        if constexpr (ln_weight_tile_bytes_to_f16(LAYOUT)) {
            out.blocks[0] = *(const uint4 *)values;
            out.blocks[1] = *(const uint4 *)(values + 512);
        } else {
            out.packed = *(const uint4 *)values;
        }
        if constexpr (ln_weight_tile_has_high_bits(LAYOUT))
            out.high = ((const uint2 *)(tile + 512))[lane];
        out.scales[0] = *(const uint2 *)(tile + ln_weight_tile_scale_at(LAYOUT, lane / 4, 0));
        out.scales[1] = *(const uint2 *)(tile + ln_weight_tile_scale_at(LAYOUT, lane / 4 + 8, 0));
    } else {
#pragma unroll
        for (int i = 0; i < 4; i++)
            if constexpr (LAYOUT == LN_LAYOUT_BF16)
                out.steps[i] = *(const uint4 *)(values + i * 512);
            else
                out.blocks[i] = *(const uint4 *)(values + i * 512);
    }
    if constexpr (LAYOUT == LN_LAYOUT_INT8 || LAYOUT == LN_LAYOUT_INT4) {
        const uint8_t *scales = tile + ln_weight_tile_scale_at(LAYOUT, lane / 4, 0);
#pragma unroll
        for (int i = 0; i < 2; i++)
            if constexpr (LAYOUT == LN_LAYOUT_INT8)
                *(uint2 *)out.scales[i] = *((const uint2 *)(scales + i * 128) + unit);
            else
                *(uint4 *)out.scales[i] = *(const uint4 *)(scales + i * 128);
    }
}

/* The four steps of a unit. */
template <int LAYOUT>
static __device__ __forceinline__ void ln_dequantize_unit(const ln_lane_tile<LAYOUT> &tile,
                                                          uint4 steps[4]) {
    unsigned lane = threadIdx.x % LN_WARP;
    if constexpr (ln_weight_tile_bytes_to_f16(LAYOUT)) {
        ln_dequantize_bytes<LAYOUT>(tile.blocks[0], tile.scales[0].x, tile.scales[1].x, steps);
        ln_dequantize_bytes<LAYOUT>(tile.blocks[1], tile.scales[0].y, tile.scales[1].y, steps + 2);
    } else {
        ln_dequantize_bits<LAYOUT>(make_uint2(tile.packed.x, tile.packed.y), tile.high.x,
                                   tile.scales[0].x, tile.scales[1].x, lane, steps);
        ln_dequantize_bits<LAYOUT>(make_uint2(tile.packed.z, tile.packed.w), tile.high.y,
                                   tile.scales[0].y, tile.scales[1].y, lane, steps + 2);
    }
}

/* mma.sync m16n8k32 of int8: START + the products. */
static __device__ __forceinline__ void ln_mma_m16n8k32_int8(float c[4], const uint4 &a, uint32_t b0,
                                                            uint32_t b1) {
    int bits[4];
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7}, {%8, %9}, {%10, %10, %10, %10};"
        : "=r"(bits[0]), "=r"(bits[1]), "=r"(bits[2]), "=r"(bits[3])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1), "r"(LN_INT_START_BITS));
#pragma unroll
    for (int i = 0; i < 4; i++)
        c[i] = __int_as_float(bits[i]);
}

/* mma.sync m16n8k32 of int8: c += the products, int32 whose bits stand in floats. */
static __device__ __forceinline__ void ln_mma_int8_acc(float c[4], const uint4 &a, uint32_t b0,
                                                       uint32_t b1) {
    int s[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
        s[i] = __float_as_int(c[i]);
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+r"(s[0]), "+r"(s[1]), "+r"(s[2]), "+r"(s[3])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
#pragma unroll
    for (int i = 0; i < 4; i++)
        c[i] = __int_as_float(s[i]);
}

/* The sum of two K splits, int32 of INT8_ROW. */
template <int LAYOUT> static __device__ __forceinline__ float ln_add_k_splits(float a, float b) {
    if constexpr (LAYOUT == LN_LAYOUT_INT8_ROW)
        return __int_as_float(__float_as_int(a) + __float_as_int(b));
    else
        return a + b;
}

/* What a sum stands for: INT8_ROW has int32 where others have float32. */
template <int LAYOUT> static __device__ __forceinline__ float ln_sum_value(float sum) {
    return LAYOUT == LN_LAYOUT_INT8_ROW ? (float)__float_as_int(sum) : sum;
}

/* sum + c * w * x, c being START + a sum, w a weight scale and w_start -START * w. */
static __device__ __forceinline__ float ln_add_scaled(float c, float w, float w_start, float x,
                                                      float sum) {
    return fmaf(fmaf(c, w, w_start), x, sum);
}

/* The B operand: values of row `g` and what bf16 rounded off (lo), scales of rows 2 t and 2 t + 1;
 * all are offsets in elements. By plain loads: those of constant data may be moved before a wait.
 */
template <int LAYOUT, bool PRECISE>
static __device__ __forceinline__ void ln_load_x(const ln_act_view &x, size_t row, size_t row0,
                                                 size_t row1, unsigned unit, unsigned lane,
                                                 ln_lane_x<LAYOUT, PRECISE> &out) {
    constexpr int UNIT = ln_lane_tile<LAYOUT>::UNIT;
    size_t col = (size_t)unit * UNIT;
    if constexpr (ln_weight_tile_has_16_bit_act(LAYOUT)) {
        const uint4 *values = (const uint4 *)(x.bf16 + row + col + lane % 4 * 8);
        out.values[0] = values[0], out.values[1] = values[4];
        if constexpr (PRECISE) {
            const uint4 *lo = (const uint4 *)(x.lo + row + col + lane % 4 * 8);
            out.lo[0] = lo[0], out.lo[1] = lo[4];
        }
    } else {
        const uint4 *values = (const uint4 *)(x.int8 + row + col + lane % 4 * 16);
#pragma unroll
        for (int i = 0; i < UNIT / 64; i++)
            out.values[i] = values[i * 4];
    }
    if constexpr (LAYOUT == LN_LAYOUT_INT8 || LAYOUT == LN_LAYOUT_INT4) {
        const float4 *s0 = (const float4 *)(x.scales + (row0 + col) / LN_SCALE_BLOCK);
        const float4 *s1 = (const float4 *)(x.scales + (row1 + col) / LN_SCALE_BLOCK);
#pragma unroll
        for (int i = 0; i < UNIT / 128; i++) {
            *(float4 *)&out.scales[0][4 * i] = s0[i];
            *(float4 *)&out.scales[1][4 * i] = s1[i];
        }
    }
}

/* Adds the products of a unit. */
template <int LAYOUT, bool PRECISE>
static __device__ __forceinline__ void ln_add_unit(const ln_lane_tile<LAYOUT> &tile,
                                                   const ln_lane_x<LAYOUT, PRECISE> &x,
                                                   bool precise, float sum[4]) {
    if constexpr (ln_weight_tile_dequantizes_to_f16(LAYOUT)) {
        uint4 steps[4];
        ln_dequantize_unit<LAYOUT>(tile, steps);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            ln_mma_f16(sum, steps[2 * i], x.values[i].x, x.values[i].y);
            ln_mma_f16(sum, steps[2 * i + 1], x.values[i].z, x.values[i].w);
        }
    } else if constexpr (LAYOUT == LN_LAYOUT_BF16) {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            ln_mma_bf16(sum, tile.steps[2 * i], x.values[i].x, x.values[i].y);
            ln_mma_bf16(sum, tile.steps[2 * i + 1], x.values[i].z, x.values[i].w);
        }
        if constexpr (PRECISE) {
            if (!precise)
                return;
#pragma unroll
            for (int i = 0; i < 2; i++) {
                ln_mma_bf16(sum, tile.steps[2 * i], x.lo[i].x, x.lo[i].y);
                ln_mma_bf16(sum, tile.steps[2 * i + 1], x.lo[i].z, x.lo[i].w);
            }
        }
    } else if constexpr (LAYOUT == LN_LAYOUT_INT8_ROW) {
#pragma unroll
        for (int block = 0; block < 4; block++) {
            uint4 two = x.values[block / 2];
            ln_mma_int8_acc(sum, tile.blocks[block], block % 2 ? two.z : two.x,
                            block % 2 ? two.w : two.y);
        }
    } else {
#pragma unroll
        for (int block = 0; block < ln_lane_x<LAYOUT, PRECISE>::BLOCKS; block++) {
            uint4 a, two = x.values[block / 2];
            if constexpr (LAYOUT == LN_LAYOUT_INT8)
                a = tile.blocks[block];
            else
                a = ln_unpack_int4(tile.blocks[block / 2], block);
            float c[4], w0 = ln_block_scale(tile.scales[0], block);
            float w1 = ln_block_scale(tile.scales[1], block);
            float start0 = -LN_INT_START * w0, start1 = -LN_INT_START * w1;
            ln_mma_m16n8k32_int8(c, a, block % 2 ? two.z : two.x, block % 2 ? two.w : two.y);
            sum[0] = ln_add_scaled(c[0], w0, start0, x.scales[0][block], sum[0]);
            sum[1] = ln_add_scaled(c[1], w0, start0, x.scales[1][block], sum[1]);
            sum[2] = ln_add_scaled(c[2], w1, start1, x.scales[0][block], sum[2]);
            sum[3] = ln_add_scaled(c[3], w1, start1, x.scales[1][block], sum[3]);
        }
    }
}

#endif
