/* WGMMA of 64 rows of weights with few rows of x. For Hopper alone. */
#ifndef LN_BACKEND_CUDA_PTX_WGMMA_N8_N64_CUH
#define LN_BACKEND_CUDA_PTX_WGMMA_N8_N64_CUH

#include "backend/cuda/ptx/wgmma.cuh"

/* c [64 rows][8, 16, 32 or 64] += A B of 16 columns, of bf16 and of f16. */
#define LN_WGMMA_FEW(NAME, N_SUMS, SHAPE, TYPES, SUMS, FROM, ...)                                  \
    static __device__ __forceinline__ void NAME(float(&c)[N_SUMS], const uint4 &a, uint64_t b) {   \
        asm volatile("wgmma.mma_async.sync.aligned." SHAPE "k16.f32." TYPES " {" SUMS "}, {" FROM  \
                     ", 1, 1, 1, 0;"                                                               \
                     : __VA_ARGS__                                                                 \
                     : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b));                            \
    }
#define LN_WGMMA_FEW_TYPES(...)                                                                    \
    LN_WGMMA_FEW_OF(ln_wgmma_small_n, "bf16.bf16", __VA_ARGS__)                                        \
    LN_WGMMA_FEW_OF(ln_wgmma_small_n_f16, "f16.f16", __VA_ARGS__)
#define LN_WGMMA_FEW_OF(NAME, TYPES, N_SUMS, SHAPE, ...)                                           \
    LN_WGMMA_FEW(NAME, N_SUMS, SHAPE, TYPES, __VA_ARGS__)
/* Sums from number i on, as operands of HOW; those of a product, and the operands behind them. */
#define LN_SUMS_4(HOW, c, i)  HOW(c[i]), HOW(c[i + 1]), HOW(c[i + 2]), HOW(c[i + 3])
#define LN_SUMS_8(HOW, c, i)  LN_SUMS_4(HOW, c, i), LN_SUMS_4(HOW, c, i + 4)
#define LN_SUMS_16(HOW, c, i) LN_SUMS_8(HOW, c, i), LN_SUMS_8(HOW, c, i + 8)
#define LN_4_OF                "%0, %1, %2, %3", "%4, %5, %6, %7}, %8"
#define LN_8_OF                "%0, %1, %2, %3, %4, %5, %6, %7", "%8, %9, %10, %11}, %12"
#define LN_16_OF                                                                                   \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15",                        \
        "%16, %17, %18, %19}, %20"
#define LN_32_OF                                                                                   \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                       \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31",              \
        "%32, %33, %34, %35}, %36"

LN_WGMMA_FEW_TYPES(4, "m64n8", LN_4_OF, LN_SUMS_4("+f", c, 0))
LN_WGMMA_FEW_TYPES(8, "m64n16", LN_8_OF, LN_SUMS_8("+f", c, 0))
LN_WGMMA_FEW_TYPES(16, "m64n32", LN_16_OF, LN_SUMS_16("+f", c, 0))
LN_WGMMA_FEW_TYPES(32, "m64n64", LN_32_OF, LN_SUMS_16("+f", c, 0), LN_SUMS_16("+f", c, 16))

#undef LN_WGMMA_FEW_OF
#undef LN_WGMMA_FEW_TYPES
#undef LN_WGMMA_FEW

/* c [64 rows][16, 32 or 64] = A B of 32 columns of int8. */
#define LN_WGMMA_FEW_INT8(...) LN_WGMMA_FEW_INT8_OF(__VA_ARGS__)
#define LN_WGMMA_FEW_INT8_OF(N_SUMS, SHAPE, SUMS, FROM, ...)                                       \
    static __device__ __forceinline__ void ln_wgmma_small_n_int8(int(&c)[N_SUMS], const uint4 &a,      \
                                                             uint64_t b) {                         \
        asm volatile("wgmma.mma_async.sync.aligned." SHAPE "k32.s32.s8.s8 {" SUMS "}, {" FROM      \
                     ", 0;"                                                                        \
                     : __VA_ARGS__                                                                 \
                     : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b));                            \
    }

LN_WGMMA_FEW_INT8(8, "m64n16", LN_8_OF, LN_SUMS_8("=r", c, 0))
LN_WGMMA_FEW_INT8(16, "m64n32", LN_16_OF, LN_SUMS_16("=r", c, 0))
LN_WGMMA_FEW_INT8(32, "m64n64", LN_32_OF, LN_SUMS_16("=r", c, 0), LN_SUMS_16("=r", c, 16))

#undef LN_WGMMA_FEW_INT8_OF
#undef LN_WGMMA_FEW_INT8
#undef LN_32_OF
#undef LN_16_OF
#undef LN_8_OF
#undef LN_4_OF
#undef LN_SUMS_16
#undef LN_SUMS_8
#undef LN_SUMS_4

#endif
