/* ldmatrix: four matrices of eight rows of 16 bytes from shared memory. */
#ifndef LN_BACKEND_CUDA_PTX_LDMATRIX_CUH
#define LN_BACKEND_CUDA_PTX_LDMATRIX_CUH

#include "backend/cuda/ptx/shared_address.cuh"

static __device__ __forceinline__ void ln_ldmatrix(uint32_t r[4], const void *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(ln_shared_address(row)));
}

static __device__ __forceinline__ void ln_ldmatrix_trans(uint32_t r[4], const void *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(ln_shared_address(row)));
}

#endif
