/* Addresses of the .shared state space, as PTX operands. */
#ifndef LN_BACKEND_CUDA_PTX_SHARED_ADDRESS_CUH
#define LN_BACKEND_CUDA_PTX_SHARED_ADDRESS_CUH

#include <cuda_runtime.h>
#include <stdint.h>

static __device__ __forceinline__ uint32_t ln_shared_address(const void *p) {
    return (uint32_t)__cvta_generic_to_shared(p);
}

#endif
