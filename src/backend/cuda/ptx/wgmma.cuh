/* wgmma.mma_async (sm_90a), the A operand in registers, the B operand in shared memory: matrix
 * descriptors, fences and the shapes M64N32 and M64N64. */
#ifndef LN_BACKEND_CUDA_PTX_WGMMA_CUH
#define LN_BACKEND_CUDA_PTX_WGMMA_CUH

#include <cuda_runtime.h>

#include "backend/cuda/ptx/shared_address.cuh"

/* The matrix descriptor of rows of 128 bytes in SWIZZLE_128B: the 16 bytes at i of row r are at
 * i ^ r % 8. `at` begins eight rows, or is a K step of 32 bytes times i behind such a place. */
static __device__ __forceinline__ uint64_t ln_wgmma_desc_swizzle128(const void *at) {
    return (uint64_t)(ln_shared_address(at) >> 4 & 0x3fff) | (uint64_t)1 << 16 |
           (uint64_t)(1024 >> 4) << 32 | (uint64_t)1 << 62;
}

/* Cores of 16 bytes of eight rows, 16 bytes apart, in any places: `across` bytes from the first 16
 * bytes of a step of 32 to the second, `down` from eight rows to the next. */
static __device__ __forceinline__ uint64_t ln_wgmma_desc_no_swizzle(const void *at, unsigned across,
                                                                    unsigned down) {
    return (uint64_t)(ln_shared_address(at) >> 4 & 0x3fff) | (uint64_t)(across >> 4) << 16 |
           (uint64_t)(down >> 4) << 32;
}

/* A descriptor `bytes` further, a multiple of 16; both places lie in one CTA's shared memory, so
 * the address does not leave its 14 bits. */
static __device__ __forceinline__ uint64_t ln_wgmma_desc_advance(uint64_t desc, unsigned bytes) {
    return (desc & 0xffffffff00000000u) | ((uint32_t)desc + bytes / 16);
}

/* The same descriptor, by a shfl.sync of the whole warp, which has the compiler know that all lanes
 * have one value: WGMMAs take descriptors from uniform registers, and fewer instructions come
 * between them. The upper half is a constant as it is. */
static __device__ __forceinline__ uint64_t ln_wgmma_desc_uniform(uint64_t desc) {
    return (desc & 0xffffffff00000000u) | __shfl_sync(0xffffffffu, (uint32_t)desc, 0);
}

/* wgmma.fence: before the first WGMMA, and after registers of its operands were written. */
static __device__ __forceinline__ void ln_wgmma_fence(void) {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

/* wgmma.commit_group */
static __device__ __forceinline__ void ln_wgmma_commit(void) {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/* Keeps the compiler from moving uses of registers that WGMMAs in flight read or write before the
 * wait. */
static __device__ __forceinline__ void ln_wgmma_keep(uint4 &a) {
    asm volatile("" : "+r"(a.x), "+r"(a.y), "+r"(a.z), "+r"(a.w)::"memory");
}

template <int N> static __device__ __forceinline__ void ln_wgmma_keep(float (&acc)[N]) {
#pragma unroll
    for (int i = 0; i < N; i++)
        asm volatile("" : "+f"(acc[i])::"memory");
}

template <int N> static __device__ __forceinline__ void ln_wgmma_keep(int (&acc)[N]) {
#pragma unroll
    for (int i = 0; i < N; i++)
        asm volatile("" : "+r"(acc[i])::"memory");
}

/* wgmma.wait_group: until at most N groups are in flight. */
template <int N> static __device__ __forceinline__ void ln_wgmma_wait(void) {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}

/* wgmma m64n32k32 of E4M3: c += A B. */
static __device__ __forceinline__ void ln_wgmma_n32_fp8(float (&c)[16], const uint4 &a,
                                                        uint64_t b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n32k32.f32.e4m3.e4m3 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, "
                 "{%16, %17, %18, %19}, %20, 1, 1, 1;"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]),
                   "+f"(c[6]), "+f"(c[7]), "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]),
                   "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15])
                 : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b));
}

/* wgmma m64n64k32 of int8: c = A B. */
static __device__ __forceinline__ void ln_wgmma_int8(int (&c)[32], const uint4 &a, uint64_t b) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n64k32.s32.s8.s8 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15,"
        " %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
        "{%32, %33, %34, %35}, %36, 0;"
        : "=r"(c[0]), "=r"(c[1]), "=r"(c[2]), "=r"(c[3]), "=r"(c[4]), "=r"(c[5]), "=r"(c[6]),
          "=r"(c[7]), "=r"(c[8]), "=r"(c[9]), "=r"(c[10]), "=r"(c[11]), "=r"(c[12]), "=r"(c[13]),
          "=r"(c[14]), "=r"(c[15]), "=r"(c[16]), "=r"(c[17]), "=r"(c[18]), "=r"(c[19]), "=r"(c[20]),
          "=r"(c[21]), "=r"(c[22]), "=r"(c[23]), "=r"(c[24]), "=r"(c[25]), "=r"(c[26]), "=r"(c[27]),
          "=r"(c[28]), "=r"(c[29]), "=r"(c[30]), "=r"(c[31])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b));
}

#endif
