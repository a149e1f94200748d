/* How a small function of a header is declared that the host's C and kernels share. */
#ifndef LN_BACKEND_HOST_DEVICE_H
#define LN_BACKEND_HOST_DEVICE_H

#ifdef __CUDACC__
#define LN_HOST_DEVICE static __host__ __device__ constexpr
#else
#define LN_HOST_DEVICE static inline
#endif

#endif
