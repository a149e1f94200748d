#include "backend/cuda/ptx/tma.cuh"

typedef CUresult (*encode_tiled)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *,
                                 const cuuint64_t *, const cuuint64_t *, const cuuint32_t *,
                                 const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle,
                                 CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

int ln_tensor_map(const ln_tensor *tensor, CUtensorMap *map) {
    static const cuuint32_t steps[] = {1, 1, 1, 1};
    cudaDriverEntryPointQueryResult found;
    void *encode = NULL;
    cudaError_t code = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &encode, 12000,
                                                        cudaEnableDefault, &found);
    if (code != cudaSuccess)
        return code;
    if (found != cudaDriverEntryPointSuccess || encode == NULL)
        return cudaErrorNotSupported;
    CUresult result = ((encode_tiled)encode)(
        map, tensor->type, tensor->n_dims, tensor->data, tensor->dims, tensor->strides, tensor->box,
        steps, CU_TENSOR_MAP_INTERLEAVE_NONE, tensor->swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
        CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return result == CUDA_SUCCESS ? 0 : cudaErrorInvalidValue;
}
