/* WGMMA with the A operand mostly in registers and the B operand in shared memory, and the barriers
 * and bulk copies that feed it. For Hopper alone. */
#ifndef LN_BACKEND_CUDA_PTX_WGMMA_CUH
#define LN_BACKEND_CUDA_PTX_WGMMA_CUH

#include "backend/cuda/ptx/common.cuh"
#include "backend/cuda/ptx/tma.cuh"

static __device__ __forceinline__ void ln_mbarrier_init(uint64_t *barrier, unsigned arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(ln_shared_address(barrier)),
                 "r"(arrivals)
                 : "memory");
}

/* Makes barriers that were initialised known to the copy engine. */
static __device__ __forceinline__ void ln_fence_mbarrier_init(void) {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

static __device__ __forceinline__ void ln_mbarrier_arrive(uint64_t *barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(ln_shared_address(barrier))
                 : "memory");
}

/* Arrives, and makes the barrier wait for so many bytes. */
static __device__ __forceinline__ void ln_mbarrier_expect_tx(uint64_t *barrier, unsigned bytes) {
    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(ln_shared_address(barrier)),
        "r"(bytes)
        : "memory");
}

static __device__ __forceinline__ void ln_mbarrier_wait(uint64_t *barrier, unsigned parity) {
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n"
                 "}" ::"r"(ln_shared_address(barrier)),
                 "r"(parity)
                 : "memory");
}

/* Copies bytes, a multiple of 16, to shared memory; the barrier learns of their arrival. */
static __device__ __forceinline__ void ln_cp_async_bulk(void *to, const void *from, unsigned bytes,
                                                    uint64_t *barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1], %2, [%3];" ::"r"(ln_shared_address(to)),
                 "l"(from), "r"(bytes), "r"(ln_shared_address(barrier))
                 : "memory");
}

/* A box of a tensor, from these indices on, to shared memory. */
static __device__ __forceinline__ void ln_tma_load(void *to, const CUtensorMap *map, int column,
                                                   int row, uint64_t *barrier) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3}], [%4];" ::"r"(ln_shared_address(to)),
                 "l"(map), "r"(column), "r"(row), "r"(ln_shared_address(barrier))
                 : "memory");
}

static __device__ __forceinline__ void ln_tma_load(void *to, const CUtensorMap *map, int column,
                                                   int row, int layer, uint64_t *barrier) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3, %4}], [%5];" ::"r"(ln_shared_address(to)),
                 "l"(map), "r"(column), "r"(row), "r"(layer), "r"(ln_shared_address(barrier))
                 : "memory");
}

static __device__ __forceinline__ void ln_tma_load(void *to, const CUtensorMap *map, int column,
                                                   int row, int layer, int group,
                                                   uint64_t *barrier) {
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3, %4, %5}], [%6];" ::"r"(ln_shared_address(to)),
                 "l"(map), "r"(column), "r"(row), "r"(layer), "r"(group),
                 "r"(ln_shared_address(barrier))
                 : "memory");
}

/* A block's registers, given from warps that need few to those that need many. */
template <int N> static __device__ __forceinline__ void ln_setmaxnreg_inc(void) {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}

template <int N> static __device__ __forceinline__ void ln_setmaxnreg_dec(void) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}

/* Rows of 128 bytes, the 16 bytes at i of row r being at i ^ r % 8; `at` begins eight rows, or is
 * 32 bytes times a step behind such a place. */
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

static __device__ __forceinline__ void ln_wgmma_fence(void) {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

static __device__ __forceinline__ void ln_wgmma_commit(void) {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/* After these, what the compiler does with registers that products under way read or write comes
 * after the wait. */
static __device__ __forceinline__ void ln_wgmma_keep(uint4 &a) {
    asm volatile("" : "+r"(a.x), "+r"(a.y), "+r"(a.z), "+r"(a.w)::"memory");
}

template <int N> static __device__ __forceinline__ void ln_wgmma_keep(float (&sums)[N]) {
#pragma unroll
    for (int i = 0; i < N; i++)
        asm volatile("" : "+f"(sums[i])::"memory");
}

template <int N> static __device__ __forceinline__ void ln_wgmma_keep(int (&sums)[N]) {
#pragma unroll
    for (int i = 0; i < N; i++)
        asm volatile("" : "+r"(sums[i])::"memory");
}

/* Waits until at most N groups of products are under way. */
template <int N> static __device__ __forceinline__ void ln_wgmma_wait(void) {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}

/* c [64 rows][32] += A B of 32 columns of E4M3. */
static __device__ __forceinline__ void ln_wgmma_n32_fp8(float (&c)[16], const uint4 &a, uint64_t b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n32k32.f32.e4m3.e4m3 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, "
                 "{%16, %17, %18, %19}, %20, 1, 1, 1;"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]),
                   "+f"(c[6]), "+f"(c[7]), "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]),
                   "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15])
                 : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b));
}

/* c [64 rows][64] = A B of 32 columns. */
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
