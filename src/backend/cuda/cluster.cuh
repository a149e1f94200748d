/* WGMMA of 64 rows of weights with few rows of x, and what blocks of a cluster tell each other. For
 * Hopper alone. */
#ifndef LN_BACKEND_CUDA_CLUSTER_CUH
#define LN_BACKEND_CUDA_CLUSTER_CUH

#include "backend/cuda/wgmma.cuh"

/* c [64 rows][8, 16, 32 or 64] += A B of 16 columns. */
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

static __device__ __forceinline__ void ln_wgmma_few(float (&c)[32], const uint4 &a, uint64_t b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, "
                 "%17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
                 "{%32, %33, %34, %35}, %36, 1, 1, 1, 0;"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]),
                   "+f"(c[6]), "+f"(c[7]), "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]),
                   "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]), "+f"(c[16]), "+f"(c[17]),
                   "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]), "+f"(c[22]), "+f"(c[23]),
                   "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]), "+f"(c[29]),
                   "+f"(c[30]), "+f"(c[31])
                 : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b));
}

/* A block's number in its cluster. */
static __device__ __forceinline__ unsigned ln_cluster_rank(void) {
    unsigned rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

/* What is at `p` here, of another block's shared memory. */
static __device__ __forceinline__ uint32_t ln_cluster_address(const void *p, unsigned rank) {
    uint32_t address;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
                 : "=r"(address)
                 : "r"(ln_shared_address(p)), "r"(rank));
    return address;
}

/* All threads of the cluster arrive, and wait for each other later. */
static __device__ __forceinline__ void ln_cluster_arrive(void) {
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}

static __device__ __forceinline__ void ln_cluster_wait(void) {
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/* Four floats to a block of the cluster, whose barrier counts their bytes. */
static __device__ __forceinline__ void ln_cluster_send(uint32_t to, const float *four,
                                                       uint32_t barrier) {
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 "
                 "[%0], {%1, %2, %3, %4}, [%5];" ::"r"(to),
                 "r"(__float_as_uint(four[0])), "r"(__float_as_uint(four[1])),
                 "r"(__float_as_uint(four[2])), "r"(__float_as_uint(four[3])), "r"(barrier)
                 : "memory");
}

static __device__ __forceinline__ void ln_cluster_barrier_arrive(uint32_t barrier) {
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(barrier)
                 : "memory");
}

/* As ln_barrier_wait, for what other blocks of the cluster did. */
static __device__ __forceinline__ void ln_cluster_barrier_wait(uint64_t *barrier, unsigned parity) {
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n"
                 "}" ::"r"(ln_shared_address(barrier)),
                 "r"(parity)
                 : "memory");
}

#endif
