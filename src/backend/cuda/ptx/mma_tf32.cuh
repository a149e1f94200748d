/* mma.sync.m16n8k8 in TF32, and products of float32 by it: each factor is the sum of two TF32
 * numbers, and of their four products all but the smallest are summed. */
#ifndef LN_BACKEND_CUDA_PTX_MMA_TF32_CUH
#define LN_BACKEND_CUDA_PTX_MMA_TF32_CUH

#include <cuda_runtime.h>
#include <stdint.h>

/* N elements of an operand: what TF32 has of them, and the rest. */
template <int N> struct ln_tf32_pair { uint32_t high[N], low[N]; };

/* x is rounded, the rest is as it is: tensor cores leave out what is behind its 11 bits, of which
 * there are 12 at most. cvt.rna.tf32.f32 of both takes more than twice as many instructions. A NaN
 * is in the rest. */
template <int N>
static __device__ __forceinline__ void ln_tf32_put(ln_tf32_pair<N> &pair, int i, float x) {
    pair.high[i] = (__float_as_uint(x) + 0x1000u) & 0xffffe000u;
    pair.low[i] = __float_as_uint(x - __uint_as_float(pair.high[i]));
}

/* d = a b + c. Lane 4 g + t has of a (16 x 8) the elements (g, t), (g + 8, t), (g, t + 4), (g + 8,
 * t + 4); of b (8 x 8) (t, g), (t + 4, g); of c and d (16 x 8) (g, 2 t), (g, 2 t + 1), (g + 8,
 * 2 t), (g + 8, 2 t + 1). */
static __device__ __forceinline__ void ln_mma_tf32(float (&d)[4], const uint32_t (&a)[4],
                                                   const uint32_t (&b)[2], const float (&c)[4]) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%10, %11, %12, %13};"
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]), "f"(c[1]),
          "f"(c[2]), "f"(c[3]));
}

/* sums += a b, of eight products at a time, which are rounded as a sum of float32 is: what tensor
 * cores add to is truncated. */
static __device__ __forceinline__ void ln_mma_f32(float (&sums)[4], const ln_tf32_pair<4> &a,
                                                  const ln_tf32_pair<2> &b) {
    const float zero[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    float part[4];
    ln_mma_tf32(part, a.low, b.high, zero);
    ln_mma_tf32(part, a.high, b.low, part);
    ln_mma_tf32(part, a.high, b.high, part);
#pragma unroll
    for (int i = 0; i < 4; i++)
        sums[i] += part[i];
}

#endif
