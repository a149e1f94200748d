/* WGMMA of 64 rows of weights with few rows of x. For Hopper alone. */
#ifndef LN_BACKEND_CUDA_WGMMA_FEW_CUH
#define LN_BACKEND_CUDA_WGMMA_FEW_CUH

#include "backend/cuda/wgmma.cuh"

/* c [64 rows][8, 16 or 32] += A B of 16 columns. */
static __device__ __forceinline__ void ln_wgmma_few(float (&c)[4], const uint4 &a, uint64_t b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, %8, 1, 1, 1, 0;"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b));
}

static __device__ __forceinline__ void ln_wgmma_few(float (&c)[8], const uint4 &a, uint64_t b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7}, "
                 "{%8, %9, %10, %11}, %12, 1, 1, 1, 0;"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]),
                   "+f"(c[6]), "+f"(c[7])
                 : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b));
}

static __device__ __forceinline__ void ln_wgmma_few(float (&c)[16], const uint4 &a, uint64_t b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, "
                 "{%16, %17, %18, %19}, %20, 1, 1, 1, 0;"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]),
                   "+f"(c[6]), "+f"(c[7]), "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]),
                   "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15])
                 : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b));
}

/* c [64 rows][32 or 64] = A B of 32 columns of int8. */
static __device__ __forceinline__ void ln_wgmma_few_int8(int (&c)[16], const uint4 &a, uint64_t b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n32k32.s32.s8.s8 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, {%16, "
                 "%17, %18, %19}, %20, 0;"
                 : "=r"(c[0]), "=r"(c[1]), "=r"(c[2]), "=r"(c[3]), "=r"(c[4]), "=r"(c[5]),
                   "=r"(c[6]), "=r"(c[7]), "=r"(c[8]), "=r"(c[9]), "=r"(c[10]), "=r"(c[11]),
                   "=r"(c[12]), "=r"(c[13]), "=r"(c[14]), "=r"(c[15])
                 : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b));
}

static __device__ __forceinline__ void ln_wgmma_few_int8(int (&c)[32], const uint4 &a, uint64_t b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k32.s32.s8.s8 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, "
                 "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, {%32, "
                 "%33, %34, %35}, %36, 0;"
                 : "=r"(c[0]), "=r"(c[1]), "=r"(c[2]), "=r"(c[3]), "=r"(c[4]), "=r"(c[5]),
                   "=r"(c[6]), "=r"(c[7]), "=r"(c[8]), "=r"(c[9]), "=r"(c[10]), "=r"(c[11]),
                   "=r"(c[12]), "=r"(c[13]), "=r"(c[14]), "=r"(c[15]), "=r"(c[16]), "=r"(c[17]),
                   "=r"(c[18]), "=r"(c[19]), "=r"(c[20]), "=r"(c[21]), "=r"(c[22]), "=r"(c[23]),
                   "=r"(c[24]), "=r"(c[25]), "=r"(c[26]), "=r"(c[27]), "=r"(c[28]), "=r"(c[29]),
                   "=r"(c[30]), "=r"(c[31])
                 : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b));
}

#endif
