/* KV tiles in shared memory: 64 keys of K or of V, [LN_KV_TILE][D + LN_KV_PAD] 16-bit elements. The
 * padding of 16 bytes spreads rows over the banks. 16-bit caches are copied by cp.async; the bytes
 * of int8 and E4M3 caches (QUANT) are dequantised to f16 on the way, and their scales stand in the
 * padding. */
#ifndef LN_BACKEND_CUDA_ATTENTION_KV_TILE_CUH
#define LN_BACKEND_CUDA_ATTENTION_KV_TILE_CUH

#include "backend/cuda/ops/kv_cache.cuh"
#include "backend/cuda/ptx/cp_async.cuh"
#include "backend/cuda/ptx/float16.cuh"
#include "backend/cuda/ptx/reduce.cuh"

/* LN_KV_TILE_N8: n8 fragments of S = Q K^T. */
enum { LN_KV_TILE = 64, LN_KV_TILE_N8 = LN_KV_TILE / 8, LN_KV_PAD = 8 };

#define LN_KV_TILE_ELEMENTS(D) (LN_KV_TILE * ((D) + LN_KV_PAD))

/* Of a cache's type: whether MMA operands are bf16, else f16; and the type if it has 8-bit elements
 * with scales, LN_KV_Q8_0 or LN_KV_FP8, else 0: QUANT below. */
#define LN_KV_IS_BF16(DTYPE)  ((DTYPE) == LN_KV_BF16)
#define LN_KV_QUANT_OF(DTYPE) ((DTYPE) == LN_KV_Q8_0 || (DTYPE) == LN_KV_FP8 ? (DTYPE) : 0)

/* Dequantised elements are smaller by this; it is multiplied into the scales. */
#define LN_KV_DEQUANT_SCALE(QUANT) ((QUANT) == LN_KV_FP8 ? 256.0f : 128.0f)

/* The scale of row 0 of a tile, and floats from row to row. */
#define LN_KV_TILE_SCALES(D, TILE) ((float *)((TILE) + (D)))
#define LN_KV_SCALE_STRIDE(D)      (((D) + LN_KV_PAD) / 2)

/* The cache rows of one KV head of a sequence, and the threads that load tiles of them. */
typedef struct ln_kv_tile_source {
    const int32_t *table;                   /* block table of the sequence */
    unsigned kv_head, n_heads, block_shift; /* a block has 1 << block_shift tokens */
    unsigned low, high;                     /* keys that are there */
    unsigned thread, n_threads;
} ln_kv_tile_source;

/* Reads the block table (paged KV): the cache row of a key; of the nearest one that is there if it
 * is not. */
static __device__ __forceinline__ size_t ln_kv_tile_row(const ln_kv_tile_source &from,
                                                        unsigned key) {
    key = min(max(key, from.low), from.high - 1);
    size_t block = (size_t)from.table[key >> from.block_shift];
    return ((block * from.n_heads + from.kv_head) << from.block_shift) +
           (key & ((1u << from.block_shift) - 1));
}

/* Four 8-bit elements in the form that ln_dequantize_x2 takes. */
template <int QUANT> static __device__ __forceinline__ uint32_t ln_dequantize_bias(uint32_t word) {
    return QUANT == LN_KV_FP8 ? word : word ^ 0x80808080u; /* 128 more, without a sign */
}

/* Bytes i and i + 1 as f16x2. int8: bytes become the low mantissa bits of 1024 + byte, then 2^-7 of
 * their value. E4M3: the bits of 2^-8 of the value, which Hopper converts by an instruction. */
template <int QUANT>
static __device__ __forceinline__ uint32_t ln_dequantize_x2(uint32_t word, int i) {
    uint32_t pair;
    if (QUANT == LN_KV_FP8) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
        asm("cvt.rn.f16x2.e4m3x2 %0, %1;"
            : "=r"(pair)
            : "h"((uint16_t)(i == 0 ? word : word >> 16)));
        asm("mul.rn.f16x2 %0, %0, %1;" : "+r"(pair) : "r"(0x1c001c00u)); /* 2^-8 */
        return pair;
#endif
        pair = __byte_perm(word, 0, i == 0 ? 0x1404u : 0x3424u);
        return (pair & 0x80008000u) | (pair >> 1 & 0x3f803f80u);
    }
    asm("fma.rn.f16x2 %0, %1, %2, %3;" /* 2^-7, and -9 = -(1024 + 128) 2^-7 */
        : "=r"(pair)
        : "r"(__byte_perm(word, 0x64646464u, i == 0 ? 0x4140u : 0x4342u)), "r"(0x20002000u),
          "r"(0xc880c880u));
    return pair;
}

/* 16 elements as f16; those of K in the order of columns that ln_load_query has for QUANT. */
template <int QUANT, bool IS_K>
static __device__ __forceinline__ void ln_dequantize_kv(uint4 bytes, uint4 to[2]) {
    const uint32_t words[4] = {bytes.x, bytes.y, bytes.z, bytes.w};
    uint32_t out[8];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        uint32_t word = ln_dequantize_bias<QUANT>(words[i]);
        out[IS_K ? i : 2 * i] = ln_dequantize_x2<QUANT>(word, 0);
        out[IS_K ? i + 4 : 2 * i + 1] = ln_dequantize_x2<QUANT>(word, 2);
    }
    to[0] = make_uint4(out[0], out[1], out[2], out[3]);
    to[1] = make_uint4(out[4], out[5], out[6], out[7]);
}

/* 16 bytes of a cache row: 8 elements, or 16 of QUANT as 32 bytes of f16. */
template <int D, int QUANT, bool IS_K = false>
static __device__ __forceinline__ void ln_load_kv_chunk(const ln_kv_array &array, size_t row,
                                                        unsigned column, uint16_t *to) {
    if (!QUANT) {
        ln_cp_async_16(to, (const uint16_t *)array.data + row * D + column);
        return;
    }
    uint4 out[2];
    ln_dequantize_kv<QUANT, IS_K>(*(const uint4 *)(ln_kv_bytes(array, row) + column), out);
    ((uint4 *)to)[0] = out[0];
    ((uint4 *)to)[1] = out[1];
}

/* Loads a thread's share of the tile of keys first .. first + 63 from array a (IS_K: from K), or
 * from K and V (BOTH; else b and tile_b are not used). 16-bit elements are queued as cp.async,
 * which the caller commits. */
template <int D, int QUANT, bool BOTH, bool IS_K = BOTH>
static __device__ __forceinline__ void
ln_load_kv_tile(const ln_kv_tile_source &from, unsigned first, const ln_kv_array &a,
                uint16_t *tile_a, const ln_kv_array &b, uint16_t *tile_b) {
    enum { PER_COPY = QUANT ? 16 : 8, COPIES = D / PER_COPY };
#pragma unroll 4
    for (unsigned at = from.thread; at < LN_KV_TILE * COPIES; at += from.n_threads) {
        unsigned row = at / COPIES, column = at % COPIES * PER_COPY;
        size_t cached = ln_kv_tile_row(from, first + row);
        uint16_t *row_a = tile_a + row * (D + LN_KV_PAD), *row_b = tile_b + row * (D + LN_KV_PAD);
        ln_load_kv_chunk<D, QUANT, IS_K>(a, cached, column, row_a + column);
        if (BOTH)
            ln_load_kv_chunk<D, QUANT>(b, cached, column, row_b + column);
        if (QUANT && column == 0)
            *LN_KV_TILE_SCALES(D, row_a) = *ln_kv_scale(a, cached);
        if (QUANT && BOTH && column == 0)
            *LN_KV_TILE_SCALES(D, row_b) = *ln_kv_scale(b, cached);
    }
}

#endif
