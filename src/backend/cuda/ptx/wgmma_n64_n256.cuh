/* wgmma.mma_async of m64n64 to m64n256 (sm_90a): bf16 and f16 with the A operand in registers, E4M3
 * with both in shared memory. */
#ifndef LN_BACKEND_CUDA_PTX_WGMMA_N64_N256_CUH
#define LN_BACKEND_CUDA_PTX_WGMMA_N64_N256_CUH

#include "backend/cuda/ptx/wgmma.cuh"

#define LN_ACC_4(c, i)  "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3])
#define LN_ACC_8(c, i)  LN_ACC_4(c, i), LN_ACC_4(c, i + 4)
#define LN_ACC_32(c, i) LN_ACC_8(c, i), LN_ACC_8(c, i + 8), LN_ACC_8(c, i + 16), LN_ACC_8(c, i + 24)

#define LN_OPERANDS_64                                                                             \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, "             \
    "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define LN_OPERANDS_128                                                                            \
    LN_OPERANDS_64                                                                                 \
    ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "           \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define LN_OPERANDS_176                                                                            \
    LN_OPERANDS_128                                                                                \
    ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "           \
    "%80, %81, %82, %83, %84, %85, %86, %87"
#define LN_OPERANDS_192                                                                            \
    LN_OPERANDS_176                                                                                \
    ", %88, %89, %90, %91, %92, %93, %94, %95"
#define LN_OPERANDS_208                                                                            \
    LN_OPERANDS_192                                                                                \
    ", %96, %97, %98, %99, %100, %101, %102, %103"
#define LN_OPERANDS_256                                                                            \
    LN_OPERANDS_208                                                                                \
    ", %104, %105, %106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, " \
    "%119, %120, %121, "                                                                           \
    "%122, %123, %124, %125, %126, %127"

/* c [64][N] = A B of 32 bytes of K, with `adds` c + A B. */
#define LN_WGMMA_TYPES(ROWS, NAMES, FROM, ADDS, FROM_SHARED, ADDS_SHARED, ...)                     \
    LN_WGMMA_OF(ln_wgmma_bf16, uint4 &, ROWS, "k16.f32.bf16.bf16", NAMES, FROM, ", 1, 1, 0", ADDS, \
                LN_FROM_REGISTERS, __VA_ARGS__)                                                    \
    LN_WGMMA_OF(ln_wgmma_f16, uint4 &, ROWS, "k16.f32.f16.f16", NAMES, FROM, ", 1, 1, 0", ADDS,    \
                LN_FROM_REGISTERS, __VA_ARGS__)                                                    \
    LN_WGMMA_OF(ln_wgmma_fp8, uint64_t, ROWS, "k32.f32.e4m3.e4m3", NAMES, FROM_SHARED, ", 1, 1",   \
                ADDS_SHARED, LN_FROM_SHARED, __VA_ARGS__)
#define LN_FROM_REGISTERS(a) "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w)
#define LN_FROM_SHARED(a)    "l"(a)
#define LN_WGMMA_OF(NAME, A, ROWS, TYPES, NAMES, FROM, REST, ADDS, INPUT, ...)                     \
    static __device__ __forceinline__ void NAME(float(&c)[ROWS / 2], const A a, uint64_t b,        \
                                                bool adds) {                                       \
        asm volatile("{\n.reg .pred adds;\nsetp.ne.b32 adds, " ADDS ", 0;\n"                       \
                     "wgmma.mma_async.sync.aligned.m64n" #ROWS TYPES " {" NAMES "}, " FROM         \
                     ", adds" REST ";\n}"                                                          \
                     : __VA_ARGS__                                                                 \
                     : INPUT(a), "l"(b), "r"((int)adds));                                          \
    }

LN_WGMMA_TYPES(64, LN_OPERANDS_64, "{%32, %33, %34, %35}, %36", "%37", "%32, %33", "%34",
               LN_ACC_32(c, 0))
LN_WGMMA_TYPES(128, LN_OPERANDS_128, "{%64, %65, %66, %67}, %68", "%69", "%64, %65", "%66",
               LN_ACC_32(c, 0), LN_ACC_32(c, 32))
LN_WGMMA_TYPES(176, LN_OPERANDS_176, "{%88, %89, %90, %91}, %92", "%93", "%88, %89", "%90",
               LN_ACC_32(c, 0), LN_ACC_32(c, 32), LN_ACC_8(c, 64), LN_ACC_8(c, 72), LN_ACC_8(c, 80))
LN_WGMMA_TYPES(192, LN_OPERANDS_192, "{%96, %97, %98, %99}, %100", "%101", "%96, %97", "%98",
               LN_ACC_32(c, 0), LN_ACC_32(c, 32), LN_ACC_32(c, 64))
LN_WGMMA_TYPES(208, LN_OPERANDS_208, "{%104, %105, %106, %107}, %108", "%109", "%104, %105", "%106",
               LN_ACC_32(c, 0), LN_ACC_32(c, 32), LN_ACC_32(c, 64), LN_ACC_8(c, 96))

LN_WGMMA_TYPES(256, LN_OPERANDS_256, "{%128, %129, %130, %131}, %132", "%133", "%128, %129", "%130",
               LN_ACC_32(c, 0), LN_ACC_32(c, 32), LN_ACC_32(c, 64), LN_ACC_32(c, 96))

#undef LN_WGMMA_OF
#undef LN_FROM_SHARED
#undef LN_FROM_REGISTERS
#undef LN_WGMMA_TYPES
#undef LN_OPERANDS_64
#undef LN_OPERANDS_128
#undef LN_OPERANDS_176
#undef LN_OPERANDS_192
#undef LN_OPERANDS_208
#undef LN_OPERANDS_256
#undef LN_ACC_32
#undef LN_ACC_8
#undef LN_ACC_4

#endif
