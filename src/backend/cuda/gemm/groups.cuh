/* Grouped GEMM: the groups of rows, and the matrices of each. */
#ifndef LN_BACKEND_CUDA_GEMM_GROUPS_CUH
#define LN_BACKEND_CUDA_GEMM_GROUPS_CUH

#include "backend/cuda/activations/row_groups.cuh"
#include "backend/op.h"

/* One matrix per group, at equal distances. */
typedef struct ln_matrices {
    const uint8_t *data; /* NULL: none */
    const float *bias;   /* or NULL */
    size_t data_stride;  /* bytes to the next group's */
    size_t bias_stride;  /* floats */
    size_t row_bytes;
    int tiles; /* ln_weight_layout */
} ln_matrices;

/* Whether weights[n] (NULL: there are none) are of one type and lie at equal distances, and how
 * they lie. */
static inline bool ln_describe_matrices(const ln_weight *weights, size_t n, ln_matrices *out) {
    *out = {};
    if (weights == NULL)
        return true;
    out->data = (const uint8_t *)weights[0].data;
    out->bias = weights[0].bias;
    out->row_bytes = weights[0].row_bytes;
    out->tiles = (int)weights[0].layout;
    if (n < 2)
        return true;
    out->data_stride = (size_t)((const uint8_t *)weights[1].data - out->data);
    if (out->bias != NULL && weights[1].bias != NULL)
        out->bias_stride = (size_t)(weights[1].bias - out->bias);
    for (size_t i = 1; i < n; i++)
        if (weights[i].dtype != weights[0].dtype || weights[i].layout != weights[0].layout ||
            weights[i].data != out->data + i * out->data_stride ||
            weights[i].bias != (out->bias != NULL ? out->bias + i * out->bias_stride : NULL))
            return false;
    return true;
}

static __host__ __device__ __forceinline__ const uint8_t *ln_matrix_of_group(const ln_matrices &m,
                                                                             size_t group) {
    return m.data + group * m.data_stride;
}

static __host__ __device__ __forceinline__ const float *ln_bias_of_group(const ln_matrices &m,
                                                                         size_t group) {
    return m.bias != NULL ? m.bias + group * m.bias_stride : NULL;
}

typedef struct ln_gemm_groups {
    ln_group_order rows;
    ln_matrices weight, gate;
} ln_gemm_groups;

#endif
