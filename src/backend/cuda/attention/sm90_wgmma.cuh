/* WGMMA of attention: a warpgroup multiplies 64 query rows by a KV tile of 64 keys, float32
 * accumulators. */
#ifndef LN_BACKEND_CUDA_ATTENTION_SM90_WGMMA_CUH
#define LN_BACKEND_CUDA_ATTENTION_SM90_WGMMA_CUH

#include "backend/cuda/attention/swizzle.cuh"
#include "backend/cuda/ptx/wgmma.cuh"

#define LN_ACC_4(x, i) "+f"(x[i][0]), "+f"(x[i][1]), "+f"(x[i][2]), "+f"(x[i][3])
#define LN_ACC_32(x, i)                                                                            \
    LN_ACC_4(x, i), LN_ACC_4(x, i + 1), LN_ACC_4(x, i + 2), LN_ACC_4(x, i + 3),                    \
        LN_ACC_4(x, i + 4), LN_ACC_4(x, i + 5), LN_ACC_4(x, i + 6), LN_ACC_4(x, i + 7)
#define LN_A_FRAGMENT(a) "+r"(a[0]), "+r"(a[1]), "+r"(a[2]), "+r"(a[3])

#define LN_ACC_64                                                                                  \
    "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,"   \
    "%25,%26,%27,%28,%29,%30,%31"
#define LN_ACC_128                                                                                 \
    LN_ACC_64 ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,"  \
              "%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"

/* The low word of a WGMMA shared-memory descriptor for rows of 128 bytes in SWIZZLE_128B: address
 * and leading byte offset in 16-byte units. The latter counts where the rows are K steps (V): from
 * one column tile to the next. Offsets within a tile are added to the word. */
static __device__ __forceinline__ unsigned ln_wgmma_desc_low(unsigned address,
                                                             unsigned leading_bytes) {
    return address >> 4 | leading_bytes >> 4 << 16;
}

static __device__ __forceinline__ uint64_t ln_wgmma_desc(unsigned low) {
    enum { SWIZZLE_128_BYTES = 1, EIGHT_ROWS = 8 * 128 };
    return (uint64_t)low | (uint64_t)(EIGHT_ROWS >> 4) << 32 | (uint64_t)SWIZZLE_128_BYTES << 62;
}

/* Keeps the compiler from moving uses of accumulators across a WGMMA that is under way. */
template <int N> static __device__ __forceinline__ void ln_keep_acc(float x[N][4]) {
#pragma unroll
    for (int n = 0; n < N; n++)
        asm volatile("" : LN_ACC_4(x, n)::"memory");
}

#define LN_WGMMA_QK(TYPES)                                                                         \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"                                      \
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32." TYPES " {" LN_ACC_64 "}, "          \
                 "%32, %33, p, 1, 1, 0, 0;\n}"                                                     \
                 : LN_ACC_32(s, 0)                                                                 \
                 : "l"(a), "l"(b), "r"(adds))

/* wgmma m64n64k16: S = a b^T, or S += a b^T; both operands [64][16] of a tile in shared memory. */
template <bool BF16>
static __device__ __forceinline__ void ln_wgmma_qk(float s[LN_KV_TILE_N8][4], uint64_t a,
                                                   uint64_t b, int adds) {
    if constexpr (BF16)
        LN_WGMMA_QK("bf16.bf16");
    else
        LN_WGMMA_QK("f16.f16");
}

#define LN_WGMMA_PV_64(TYPES)                                                                      \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n"                                      \
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32." TYPES " {" LN_ACC_64 "}, "          \
                 "{%32,%33,%34,%35}, %36, p, 1, 1, 1;\n}"                                          \
                 : LN_ACC_32(acc, 0), LN_A_FRAGMENT(a)                                             \
                 : "l"(b), "r"(adds))

#define LN_WGMMA_PV_128(TYPES)                                                                     \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %69, 0;\n"                                      \
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32." TYPES " {" LN_ACC_128 "}, "        \
                 "{%64,%65,%66,%67}, %68, p, 1, 1, 1;\n}"                                          \
                 : LN_ACC_32(acc, 0), LN_ACC_32(acc, 8), LN_A_FRAGMENT(a)                          \
                 : "l"(b), "r"(adds))

/* wgmma m64nDk16: O = P V, or O += P V; P [64][16] in registers, V [16][D] of a tile in shared
 * memory. */
template <int D, bool BF16>
static __device__ __forceinline__ void ln_wgmma_pv(float acc[D / 8][4], uint32_t a[4], uint64_t b,
                                                   int adds) {
    if constexpr (D == 64 && BF16)
        LN_WGMMA_PV_64("bf16.bf16");
    else if constexpr (D == 64)
        LN_WGMMA_PV_64("f16.f16");
    else if constexpr (BF16)
        LN_WGMMA_PV_128("bf16.bf16");
    else
        LN_WGMMA_PV_128("f16.f16");
}

#endif
