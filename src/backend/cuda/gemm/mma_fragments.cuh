/* A lane's share of tiles and of x, and their products by mma.sync: what kernels for few rows are
 * made of. They take a tile in units of UNIT columns, so that few registers hold what is under way.
 *
 * A product of int8 numbers is a sum of at most 2^22 in magnitude. It is added to the bits of
 * START as a float, so that (bits - START) * weight scale is one operation: weight scales are f16,
 * and START times one is exact. */
#ifndef LN_BACKEND_CUDA_GEMM_MMA_FRAGMENTS_CUH
#define LN_BACKEND_CUDA_GEMM_MMA_FRAGMENTS_CUH

#include "backend/cuda/activations/convert.cuh"

enum { LN_INT_START_BITS = 0x4b400000 };
#define LN_INT_START 12582912.0f

template <int KIND> struct ln_lane_tile;
template <> struct ln_lane_tile<LN_LAYOUT_BF16> {
    enum { UNIT = 64 };
    uint4 steps[4];
};
struct ln_lane_narrow {
    enum { UNIT = 64 };
    uint4 numbers;
    uint2 above, scales[2]; /* of rows g and g + 8 */
};
template <> struct ln_lane_tile<LN_LAYOUT_Q4> : ln_lane_narrow {};
template <> struct ln_lane_tile<LN_LAYOUT_Q5> : ln_lane_narrow {};
template <> struct ln_lane_tile<LN_LAYOUT_Q6> : ln_lane_narrow {};
template <> struct ln_lane_tile<LN_LAYOUT_MXFP4> : ln_lane_narrow {};
struct ln_lane_bytes {
    enum { UNIT = 64 };
    uint4 blocks[2];
    uint2 scales[2];
};
template <> struct ln_lane_tile<LN_LAYOUT_F8> : ln_lane_bytes {};
template <> struct ln_lane_tile<LN_LAYOUT_I8> : ln_lane_bytes {};
template <> struct ln_lane_tile<LN_LAYOUT_INT8> {
    enum { UNIT = 128 };
    uint4 blocks[4];
    uint32_t scales[2][2]; /* of rows g and g + 8 */
};
template <> struct ln_lane_tile<LN_LAYOUT_INT8_ROW> {
    enum { UNIT = 128 };
    uint4 blocks[4];
};
template <> struct ln_lane_tile<LN_LAYOUT_INT4> {
    enum { UNIT = 256 };
    uint4 blocks[4];
    uint32_t scales[2][4];
};

/* A lane's share of eight rows of x in the columns of a unit. */
template <int KIND, bool PRECISE> struct ln_lane_x {
    enum { BLOCKS = ln_lane_tile<KIND>::UNIT / LN_SCALE_BLOCK };
    uint4 values[BLOCKS / 2];
    float scales[2][BLOCKS]; /* of rows 2 t and 2 t + 1 */
};
template <bool PRECISE> struct ln_lane_x<LN_LAYOUT_BF16, PRECISE> {
    uint4 values[2], rest[PRECISE ? 2 : 1];
};
template <bool PRECISE> struct ln_lane_x<LN_LAYOUT_Q4, PRECISE> : ln_lane_x<LN_LAYOUT_BF16, PRECISE> {};
template <bool PRECISE> struct ln_lane_x<LN_LAYOUT_Q5, PRECISE> : ln_lane_x<LN_LAYOUT_BF16, PRECISE> {};
template <bool PRECISE> struct ln_lane_x<LN_LAYOUT_Q6, PRECISE> : ln_lane_x<LN_LAYOUT_BF16, PRECISE> {};
template <bool PRECISE>
struct ln_lane_x<LN_LAYOUT_MXFP4, PRECISE> : ln_lane_x<LN_LAYOUT_BF16, PRECISE> {};
template <bool PRECISE> struct ln_lane_x<LN_LAYOUT_F8, PRECISE> : ln_lane_x<LN_LAYOUT_BF16, PRECISE> {};
template <bool PRECISE> struct ln_lane_x<LN_LAYOUT_I8, PRECISE> : ln_lane_x<LN_LAYOUT_BF16, PRECISE> {};
template <bool PRECISE> struct ln_lane_x<LN_LAYOUT_INT8_ROW, PRECISE> { uint4 values[2]; };

static __device__ __forceinline__ uint4 ln_load_streamed(const uint8_t *at) {
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate.L2::256B.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(at));
    return v;
}

/* Unit `unit` of a row of tiles. */
template <int KIND>
static __device__ __forceinline__ void ln_load_unit(const uint8_t *tiles, unsigned unit,
                                                    unsigned lane, ln_lane_tile<KIND> &out) {
    constexpr unsigned PER_TILE = ln_weight_tile_cols(KIND) / ln_lane_tile<KIND>::UNIT;
    const uint8_t *tile = tiles + (size_t)(unit / PER_TILE) * ln_weight_tile_bytes(KIND);
    const uint8_t *values = tile + unit % PER_TILE * 2048 + lane * 16;
    if constexpr (ln_weight_tile_dequantizes_to_f16(KIND)) {
        if constexpr (ln_weight_tile_bytes_to_f16(KIND)) {
            out.blocks[0] = ln_load_streamed(values);
            out.blocks[1] = ln_load_streamed(values + 512);
        } else {
            out.numbers = ln_load_streamed(values);
        }
        if constexpr (ln_weight_tile_has_bits_above(KIND))
            out.above = __ldg((const uint2 *)(tile + 512) + lane);
        out.scales[0] = __ldg((const uint2 *)(tile + ln_weight_tile_scale_at(KIND, lane / 4, 0)));
        out.scales[1] = __ldg((const uint2 *)(tile + ln_weight_tile_scale_at(KIND, lane / 4 + 8, 0)));
    } else if constexpr (KIND == LN_LAYOUT_BF16) {
#pragma unroll
        for (int i = 0; i < 4; i++)
            out.steps[i] = ln_load_streamed(values + i * 512);
    } else {
#pragma unroll
        for (int i = 0; i < 4; i++)
            out.blocks[i] = ln_load_streamed(values + i * 512);
    }
    if constexpr (KIND == LN_LAYOUT_INT8 || KIND == LN_LAYOUT_INT4) {
        const uint8_t *scales = tile + ln_weight_tile_scale_at(KIND, lane / 4, 0);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            if constexpr (KIND == LN_LAYOUT_INT8) {
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
template <int KIND>
static __device__ __forceinline__ void ln_take_unit(const uint8_t *tile, unsigned unit,
                                                    unsigned lane, ln_lane_tile<KIND> &out) {
    const uint8_t *values = tile + unit * 2048 + lane * 16;
    if constexpr (ln_weight_tile_dequantizes_to_f16(KIND)) {
        if constexpr (ln_weight_tile_bytes_to_f16(KIND)) {
            out.blocks[0] = *(const uint4 *)values;
            out.blocks[1] = *(const uint4 *)(values + 512);
        } else {
            out.numbers = *(const uint4 *)values;
        }
        if constexpr (ln_weight_tile_has_bits_above(KIND))
            out.above = ((const uint2 *)(tile + 512))[lane];
        out.scales[0] = *(const uint2 *)(tile + ln_weight_tile_scale_at(KIND, lane / 4, 0));
        out.scales[1] = *(const uint2 *)(tile + ln_weight_tile_scale_at(KIND, lane / 4 + 8, 0));
    } else {
#pragma unroll
        for (int i = 0; i < 4; i++)
            if constexpr (KIND == LN_LAYOUT_BF16)
                out.steps[i] = *(const uint4 *)(values + i * 512);
            else
                out.blocks[i] = *(const uint4 *)(values + i * 512);
    }
    if constexpr (KIND == LN_LAYOUT_INT8 || KIND == LN_LAYOUT_INT4) {
        const uint8_t *scales = tile + ln_weight_tile_scale_at(KIND, lane / 4, 0);
#pragma unroll
        for (int i = 0; i < 2; i++)
            if constexpr (KIND == LN_LAYOUT_INT8)
                *(uint2 *)out.scales[i] = *((const uint2 *)(scales + i * 128) + unit);
            else
                *(uint4 *)out.scales[i] = *(const uint4 *)(scales + i * 128);
    }
}

/* a & b | c, as one operation. */
static __device__ __forceinline__ uint32_t ln_and_or(uint32_t a, uint32_t b, uint32_t c) {
    uint32_t d;
    asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}

/* The numbers of E2M1 at bits 4 i of either half, as two of f16, 2^-14 times as large. */
static __device__ __forceinline__ uint32_t ln_two_f4(uint32_t numbers, int i) {
    uint32_t magnitudes = i < 3 ? numbers << (9 - 4 * i) : numbers >> 3;
    return (numbers << (12 - 4 * i) & 0x80008000u) | (magnitudes & 0x0e000e00u);
}

/* Steps 2 * half and 2 * half + 1, as of BF16 but in f16, from a lane's share of a tile of Q4, Q5,
 * Q6 or MXFP4: two words of numbers, the word of the bits above (of Q5 and Q6), the pairs of rows g
 * and g + 8. 1024 + q as f16 is 0x6400 | q, and 1024 + 16 q is 0x6400 | q << 4: the numbers of rows
 * g + 8 stay where they are. */
template <int KIND>
static __device__ __forceinline__ void ln_widen(uint2 numbers, uint32_t above, uint32_t pair0,
                                                uint32_t pair1, unsigned lane, uint4 steps[2]) {
    constexpr int MIDDLE = ln_weight_tile_middle(KIND);
    const __half2 pairs[2] = {*(const __half2 *)&pair0, *(const __half2 *)&pair1};
    const uint32_t swapped = __byte_perm(above, 0, 0x2301);
    const uint32_t above_at[4] = {above, above >> 2, swapped, swapped >> 2};
    uint32_t words[8];
    __half2 scales[2] = {__low2half2(pairs[0]), __low2half2(pairs[1])};
    if constexpr (KIND == LN_LAYOUT_Q6) {
        unsigned which = lane % 4 >= 2 ? 0x3232 : 0x1010;
        *(uint32_t *)&scales[0] = __byte_perm(pair0, 0, which);
        *(uint32_t *)&scales[1] = __byte_perm(pair1, 0, which);
    }
#pragma unroll
    for (int i = 0; i < 8; i++) {
        if constexpr (KIND == LN_LAYOUT_MXFP4) {
            uint32_t two = ln_two_f4(i < 4 ? numbers.x : numbers.y, i % 4);
            __half2 scaled = __hmul2(*(__half2 *)&two, scales[i % 2]);
            words[i] = *(uint32_t *)&scaled;
            continue;
        }
        const bool is_odd = i % 2;
        uint32_t q = (i < 4 ? numbers.x : numbers.y) >> i % 4 / 2 * 8;
        q = ln_and_or(q, is_odd ? 0x00f000f0u : 0x000f000fu, 0x64006400u);
        if constexpr (ln_weight_tile_has_bits_above(KIND))
            q = ln_and_or(above_at[i / 2], is_odd ? 0x03000300u : 0x00300030u, q);
        __half2 x = *(__half2 *)&q;
        x = is_odd ? __hfma2(x, __float2half2_rn(1.0f / 16.0f), __float2half2_rn(-64.0f - MIDDLE))
                   : __hsub2(x, __float2half2_rn(1024.0f + MIDDLE));
        x = KIND == LN_LAYOUT_Q6 ? __hmul2(x, scales[i % 2])
                               : __hfma2(x, scales[i % 2], __high2half2(pairs[i % 2]));
        words[i] = *(uint32_t *)&x;
    }
    steps[0] = make_uint4(words[0], words[1], words[2], words[3]);
    steps[1] = make_uint4(words[4], words[5], words[6], words[7]);
}

/* The same from a block of F8 or I8. */
template <int KIND>
static __device__ __forceinline__ void ln_widen_bytes(const uint4 &block, uint32_t pair0,
                                                      uint32_t pair1, uint4 steps[2]) {
    const uint32_t from[4] = {block.x, block.y, block.z, block.w};
    uint32_t words[8];
#pragma unroll
    for (int i = 0; i < 8; i++) {
        uint32_t scale = __byte_perm(i % 2 ? pair1 : pair0, 0, 0x1010);
        uint32_t two = from[i / 4 * 2 + i % 2] >> i % 4 / 2 * 16 & 0xffff;
        __half2 x = KIND == LN_LAYOUT_F8 ? ln_two_f8(two) : ln_two_i8(two);
        x = __hmul2(x, *(__half2 *)&scale);
        words[i] = *(uint32_t *)&x;
    }
    steps[0] = make_uint4(words[0], words[1], words[2], words[3]);
    steps[1] = make_uint4(words[4], words[5], words[6], words[7]);
}

/* The four steps of a unit. */
template <int KIND>
static __device__ __forceinline__ void ln_widen_unit(const ln_lane_tile<KIND> &tile,
                                                     uint4 steps[4]) {
    unsigned lane = threadIdx.x % LN_WARP;
    if constexpr (ln_weight_tile_bytes_to_f16(KIND)) {
        ln_widen_bytes<KIND>(tile.blocks[0], tile.scales[0].x, tile.scales[1].x, steps);
        ln_widen_bytes<KIND>(tile.blocks[1], tile.scales[0].y, tile.scales[1].y, steps + 2);
    } else {
        ln_widen<KIND>(make_uint2(tile.numbers.x, tile.numbers.y), tile.above.x, tile.scales[0].x,
                       tile.scales[1].x, lane, steps);
        ln_widen<KIND>(make_uint2(tile.numbers.z, tile.numbers.w), tile.above.y, tile.scales[0].y,
                       tile.scales[1].y, lane, steps + 2);
    }
}

static __device__ __forceinline__ void ln_mma_bf16(float c[4], const uint4 &a, uint32_t b0,
                                                   uint32_t b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
}

static __device__ __forceinline__ void ln_mma_f16(float c[4], const uint4 &a, uint32_t b0,
                                                  uint32_t b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
}

/* START + the sums. */
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

/* c += the sums, of whole numbers whose bits stand in floats. */
static __device__ __forceinline__ void ln_mma_whole(float c[4], const uint4 &a, uint32_t b0,
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

/* The sum of two slices: of whole numbers that of INT8_ROW. */
template <int KIND> static __device__ __forceinline__ float ln_add_slices(float a, float b) {
    if constexpr (KIND == LN_LAYOUT_INT8_ROW)
        return __int_as_float(__float_as_int(a) + __float_as_int(b));
    else
        return a + b;
}

/* sum + c * w * x, c being START + a sum, w a weight scale and w_start -START * w. */
static __device__ __forceinline__ float ln_add_scaled(float c, float w, float w_start, float x,
                                                      float sum) {
    return fmaf(fmaf(c, w, w_start), x, sum);
}

static __device__ __forceinline__ float ln_weight_tile_scale(const uint32_t *scales, int block) {
    return ln_f16((uint16_t)(scales[block / 2] >> block % 2 * 16));
}

/* Two blocks of INT4 from 16 bytes: the A operand of one of them. */
static __device__ __forceinline__ uint4 ln_unpack_int4(const uint4 &two, int block) {
    uint32_t first = block % 2 ? two.z : two.x, second = block % 2 ? two.w : two.y;
    return make_uint4(first << 4 & 0xf0f0f0f0u, first & 0xf0f0f0f0u, second << 4 & 0xf0f0f0f0u,
                      second & 0xf0f0f0f0u);
}

/* The share of eight rows of x: values and rest of row `g`, scales of rows 2 t and 2 t + 1; all
 * are offsets in elements. By plain loads: those of constant data may come before a wait. */
template <int KIND, bool PRECISE>
static __device__ __forceinline__ void ln_load_x(const ln_act_view &x, size_t row, size_t row0,
                                                 size_t row1, unsigned unit, unsigned lane,
                                                 ln_lane_x<KIND, PRECISE> &out) {
    constexpr int UNIT = ln_lane_tile<KIND>::UNIT;
    size_t col = (size_t)unit * UNIT;
    if constexpr (ln_weight_tile_has_16_bit_act(KIND)) {
        const uint4 *values = (const uint4 *)(x.bf16 + row + col + lane % 4 * 8);
        out.values[0] = values[0], out.values[1] = values[4];
        if constexpr (PRECISE) {
            const uint4 *rest = (const uint4 *)(x.rest + row + col + lane % 4 * 8);
            out.rest[0] = rest[0], out.rest[1] = rest[4];
        }
    } else {
        const uint4 *values = (const uint4 *)(x.int8 + row + col + lane % 4 * 16);
#pragma unroll
        for (int i = 0; i < UNIT / 64; i++)
            out.values[i] = values[i * 4];
    }
    if constexpr (KIND == LN_LAYOUT_INT8 || KIND == LN_LAYOUT_INT4) {
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
template <int KIND, bool PRECISE>
static __device__ __forceinline__ void ln_add_unit(const ln_lane_tile<KIND> &tile,
                                                   const ln_lane_x<KIND, PRECISE> &x, bool precise,
                                                   float sum[4]) {
    if constexpr (ln_weight_tile_dequantizes_to_f16(KIND)) {
        uint4 steps[4];
        ln_widen_unit<KIND>(tile, steps);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            ln_mma_f16(sum, steps[2 * i], x.values[i].x, x.values[i].y);
            ln_mma_f16(sum, steps[2 * i + 1], x.values[i].z, x.values[i].w);
        }
    } else if constexpr (KIND == LN_LAYOUT_BF16) {
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
                ln_mma_bf16(sum, tile.steps[2 * i], x.rest[i].x, x.rest[i].y);
                ln_mma_bf16(sum, tile.steps[2 * i + 1], x.rest[i].z, x.rest[i].w);
            }
        }
    } else if constexpr (KIND == LN_LAYOUT_INT8_ROW) {
#pragma unroll
        for (int block = 0; block < 4; block++) {
            uint4 two = x.values[block / 2];
            ln_mma_whole(sum, tile.blocks[block], block % 2 ? two.z : two.x,
                         block % 2 ? two.w : two.y);
        }
    } else {
#pragma unroll
        for (int block = 0; block < ln_lane_x<KIND, PRECISE>::BLOCKS; block++) {
            uint4 a, two = x.values[block / 2];
            if constexpr (KIND == LN_LAYOUT_INT8)
                a = tile.blocks[block];
            else
                a = ln_unpack_int4(tile.blocks[block / 2], block);
            float c[4], w0 = ln_weight_tile_scale(tile.scales[0], block);
            float w1 = ln_weight_tile_scale(tile.scales[1], block);
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
