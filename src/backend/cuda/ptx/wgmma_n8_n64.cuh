/* wgmma.mma_async of m64n8 to m64n64 (sm_90a), the A operand in registers: bf16, f16, E4M3
 * and int8. */
#ifndef LN_BACKEND_CUDA_PTX_WGMMA_N8_N64_CUH
#define LN_BACKEND_CUDA_PTX_WGMMA_N8_N64_CUH

#include "backend/cuda/ptx/wgmma.cuh"

/* c [64][8, 16, 32 or 64] += A B, k16. */
#define LN_WGMMA_SMALL_N(NAME, N_ACC, SHAPE, TYPES, SUMS, FROM, ...)                               \
    static __device__ __forceinline__ void NAME(float(&c)[N_ACC], const uint4 &a, uint64_t b) {    \
        asm volatile("wgmma.mma_async.sync.aligned." SHAPE "k16.f32." TYPES " {" SUMS "}, {" FROM  \
                     ", 1, 1, 1, 0;"                                                               \
                     : __VA_ARGS__                                                                 \
                     : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b));                            \
    }
#define LN_WGMMA_SMALL_N_TYPES(...)                                                                \
    LN_WGMMA_SMALL_N_OF(ln_wgmma_small_n, "bf16.bf16", __VA_ARGS__)                                \
    LN_WGMMA_SMALL_N_OF(ln_wgmma_small_n_f16, "f16.f16", __VA_ARGS__)
#define LN_WGMMA_SMALL_N_OF(NAME, TYPES, N_ACC, SHAPE, ...)                                        \
    LN_WGMMA_SMALL_N(NAME, N_ACC, SHAPE, TYPES, __VA_ARGS__)
/* Accumulators from i on, as operands of HOW; their names, and those of the operands behind them.
 */
#define LN_ACC_4(HOW, c, i)  HOW(c[i]), HOW(c[i + 1]), HOW(c[i + 2]), HOW(c[i + 3])
#define LN_ACC_8(HOW, c, i)  LN_ACC_4(HOW, c, i), LN_ACC_4(HOW, c, i + 4)
#define LN_ACC_16(HOW, c, i) LN_ACC_8(HOW, c, i), LN_ACC_8(HOW, c, i + 8)
#define LN_4_OF              "%0, %1, %2, %3", "%4, %5, %6, %7}, %8"
#define LN_8_OF              "%0, %1, %2, %3, %4, %5, %6, %7", "%8, %9, %10, %11}, %12"
#define LN_16_OF                                                                                   \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15",                        \
        "%16, %17, %18, %19}, %20"
#define LN_32_OF                                                                                   \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                       \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31",              \
        "%32, %33, %34, %35}, %36"

LN_WGMMA_SMALL_N_TYPES(4, "m64n8", LN_4_OF, LN_ACC_4("+f", c, 0))
LN_WGMMA_SMALL_N_TYPES(8, "m64n16", LN_8_OF, LN_ACC_8("+f", c, 0))
LN_WGMMA_SMALL_N_TYPES(16, "m64n32", LN_16_OF, LN_ACC_16("+f", c, 0))
LN_WGMMA_SMALL_N_TYPES(32, "m64n64", LN_32_OF, LN_ACC_16("+f", c, 0), LN_ACC_16("+f", c, 16))

#undef LN_WGMMA_SMALL_N_OF
#undef LN_WGMMA_SMALL_N_TYPES
#undef LN_WGMMA_SMALL_N

/* The same of E4M3, k32. */
#define LN_WGMMA_SMALL_N_FP8(...) LN_WGMMA_SMALL_N_FP8_OF(__VA_ARGS__)
#define LN_WGMMA_SMALL_N_FP8_OF(N_ACC, SHAPE, SUMS, FROM, ...)                                     \
    static __device__ __forceinline__ void ln_wgmma_small_n_fp8(float(&c)[N_ACC], const uint4 &a,  \
                                                                uint64_t b) {                      \
        asm volatile("wgmma.mma_async.sync.aligned." SHAPE "k32.f32.e4m3.e4m3 {" SUMS "}, {" FROM  \
                     ", 1, 1, 1;"                                                                  \
                     : __VA_ARGS__                                                                 \
                     : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b));                            \
    }

LN_WGMMA_SMALL_N_FP8(4, "m64n8", LN_4_OF, LN_ACC_4("+f", c, 0))
LN_WGMMA_SMALL_N_FP8(8, "m64n16", LN_8_OF, LN_ACC_8("+f", c, 0))
LN_WGMMA_SMALL_N_FP8(16, "m64n32", LN_16_OF, LN_ACC_16("+f", c, 0))

#undef LN_WGMMA_SMALL_N_FP8_OF
#undef LN_WGMMA_SMALL_N_FP8

/* c [64][16, 32 or 64] = A B, k32; of ln_wgmma_small_n_int8_add c += A B. */
#define LN_WGMMA_SMALL_N_INT8(...) LN_WGMMA_SMALL_N_INT8_OF(ln_wgmma_small_n_int8, "0", __VA_ARGS__)
#define LN_WGMMA_SMALL_N_INT8_ADD(...)                                                             \
    LN_WGMMA_SMALL_N_INT8_OF(ln_wgmma_small_n_int8_add, "1", __VA_ARGS__)
#define LN_WGMMA_SMALL_N_INT8_OF(NAME, ADDS, N_ACC, SHAPE, SUMS, FROM, ...)                        \
    static __device__ __forceinline__ void NAME(int(&c)[N_ACC], const uint4 &a, uint64_t b) {      \
        asm volatile("wgmma.mma_async.sync.aligned." SHAPE "k32.s32.s8.s8 {" SUMS "}, {" FROM      \
                     ", " ADDS ";"                                                                 \
                     : __VA_ARGS__                                                                 \
                     : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b));                            \
    }

LN_WGMMA_SMALL_N_INT8(8, "m64n16", LN_8_OF, LN_ACC_8("=r", c, 0))
LN_WGMMA_SMALL_N_INT8(16, "m64n32", LN_16_OF, LN_ACC_16("=r", c, 0))
LN_WGMMA_SMALL_N_INT8(32, "m64n64", LN_32_OF, LN_ACC_16("=r", c, 0), LN_ACC_16("=r", c, 16))
LN_WGMMA_SMALL_N_INT8_ADD(8, "m64n16", LN_8_OF, LN_ACC_8("+r", c, 0))
LN_WGMMA_SMALL_N_INT8_ADD(16, "m64n32", LN_16_OF, LN_ACC_16("+r", c, 0))
LN_WGMMA_SMALL_N_INT8_ADD(32, "m64n64", LN_32_OF, LN_ACC_16("+r", c, 0), LN_ACC_16("+r", c, 16))

#undef LN_WGMMA_SMALL_N_INT8_OF
#undef LN_WGMMA_SMALL_N_INT8_ADD
#undef LN_WGMMA_SMALL_N_INT8
#undef LN_32_OF
#undef LN_16_OF
#undef LN_8_OF
#undef LN_4_OF
#undef LN_ACC_16
#undef LN_ACC_8
#undef LN_ACC_4

#endif
