/* Programmatic dependent launch (PDL). A kernel queued by ln_pdl_launch may start while the one
 * before it still runs, as soon as all blocks of that have called ln_pdl_launch_dependents. Before
 * ln_pdl_wait it writes nothing, and reads nothing but weights, the batch, and cache rows of
 * earlier steps. So what writes to those within a step must be a copy, which does not overlap, and
 * no kernel. Some files include this for ln_ceil_div or ln_has_sm90a_code alone. */
#ifndef LN_BACKEND_CUDA_RUNTIME_PDL_CUH
#define LN_BACKEND_CUDA_RUNTIME_PDL_CUH

#include <cuda_runtime.h>

static inline unsigned ln_ceil_div(size_t a, size_t b) {
    return (unsigned)((a + b - 1) / b);
}

static __device__ __forceinline__ void ln_pdl_launch_dependents(void) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}

static __device__ __forceinline__ void ln_pdl_wait(void) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* For kernels that have nothing to prefetch. */
static __device__ __forceinline__ void ln_pdl_launch_and_wait(void) {
    ln_pdl_launch_dependents();
    ln_pdl_wait();
}

/* Whether the current device runs this library's sm_90a code, in which kernels call
 * griddepcontrol.wait: it is Hopper, and this was built with such code. */
bool ln_has_sm90a_code(void);

/* Queues kernel(args), which calls ln_pdl_wait, in clusters of so many blocks; more than one on
 * Hopper alone. */
template <typename T>
static int ln_pdl_launch_clusters(void (*kernel)(T), dim3 grid, unsigned threads,
                                  size_t shared_bytes, unsigned cluster, cudaStream_t stream,
                                  const T &args) {
    cudaLaunchAttribute attributes[2] = {};
    attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[0].val.programmaticStreamSerializationAllowed = 1;
    attributes[1].id = cudaLaunchAttributeClusterDimension;
    attributes[1].val.clusterDim.x = cluster;
    attributes[1].val.clusterDim.y = attributes[1].val.clusterDim.z = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = dim3(threads);
    config.dynamicSmemBytes = shared_bytes;
    config.stream = stream;
    config.attrs = attributes;
    config.numAttrs = !ln_has_sm90a_code() ? 0 : cluster > 1 ? 2 : 1;
    void *values[] = {(void *)&args};
    return cudaLaunchKernelExC(&config, (const void *)kernel, values);
}

/* The same by single blocks. */
template <typename T>
static int ln_pdl_launch(void (*kernel)(T), dim3 grid, unsigned threads, size_t shared_bytes,
                         cudaStream_t stream, const T &args) {
    return ln_pdl_launch_clusters(kernel, grid, threads, shared_bytes, 1, stream, args);
}

#endif
