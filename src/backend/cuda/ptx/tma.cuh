/* Tensors that the copy engine takes boxes of. */
#ifndef LN_BACKEND_CUDA_PTX_TMA_CUH
#define LN_BACKEND_CUDA_PTX_TMA_CUH

#include <cuda.h>
#include <cuda_runtime.h>

typedef struct ln_tensor {
    void *data;
    CUtensorMapDataType type;
    CUtensorMapSwizzle swizzle; /* of what a box becomes in shared memory */
    unsigned n_dims;            /* 2 to 4 */
    cuuint64_t dims[4];         /* elements, the innermost first */
    cuuint64_t strides[3];      /* bytes from one index of dimension 1, 2, 3 to the next */
    cuuint32_t box[4];          /* elements */
} ln_tensor;

/* Encodes a tensor; 0, or an error code. */
int ln_tensor_map(const ln_tensor *tensor, CUtensorMap *map);

#endif
