#include "backend/cuda/attention/kv_tensor_map.cuh"

int ln_kv_tensor_map(const ln_kv_array *array, unsigned box_rows, CUtensorMap *map) {
    ln_tensor tensor = {};
    tensor.data = array->data;
    tensor.type = CU_TENSOR_MAP_DATA_TYPE_UINT16;
    tensor.swizzle = CU_TENSOR_MAP_SWIZZLE_128B;
    tensor.n_dims = 2;
    tensor.dims[0] = array->dim;
    tensor.dims[1] = INT32_MAX;
    tensor.strides[0] = array->dim * 2;
    tensor.box[0] = LN_SWIZZLE_COLS;
    tensor.box[1] = box_rows;
    return ln_tensor_map(&tensor, map);
}
