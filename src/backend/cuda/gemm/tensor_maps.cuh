/* Host side: operands of the sm_90 GEMMs as TMA tensors of rows of 128 bytes. */
#ifndef LN_BACKEND_CUDA_GEMM_TENSOR_MAPS_CUH
#define LN_BACKEND_CUDA_GEMM_TENSOR_MAPS_CUH

#include "backend/cuda/gemm/args.cuh"
#include "backend/cuda/ptx/tma.cuh"

/* Rows that follow one another, in boxes of `box`. */
static inline int map_rows(const void *data, size_t n_rows, unsigned box, CUtensorMap *map) {
    ln_tensor tensor = {};
    tensor.data = (void *)data;
    tensor.type = CU_TENSOR_MAP_DATA_TYPE_UINT8;
    tensor.n_dims = 2;
    tensor.dims[0] = tensor.box[0] = tensor.strides[0] = 128;
    tensor.dims[1] = n_rows;
    tensor.box[1] = box;
    return ln_tensor_map(&tensor, map);
}

/* Packed weights: [groups][rows of tiles][tiles][128 bytes], in boxes of `rows` rows of tiles by
 * `tiles` tiles. n_groups 0: one matrix. */
static inline int map_matrix(int layout, const uint8_t *data, unsigned n_tiles, size_t n_out,
                             unsigned rows, unsigned tiles, unsigned n_groups, size_t group_stride,
                             CUtensorMap *map) {
    unsigned tile_bytes = (unsigned)ln_weight_tile_bytes(layout);
    ln_tensor tensor = {};
    tensor.data = (void *)data;
    tensor.type = CU_TENSOR_MAP_DATA_TYPE_UINT8;
    tensor.n_dims = n_groups > 0 ? 4 : 3;
    tensor.dims[0] = tensor.box[0] = tensor.strides[0] = 128;
    tensor.dims[1] = (size_t)n_tiles * (tile_bytes / 128);
    tensor.dims[2] = ln_ceil_div(n_out, LN_WEIGHT_TILE_ROWS);
    tensor.dims[3] = n_groups;
    tensor.strides[1] = ln_weight_tile_row_bytes(layout, n_tiles);
    tensor.strides[2] = group_stride > 0 ? group_stride : 128;
    tensor.box[1] = tiles * (tile_bytes / 128);
    tensor.box[2] = rows;
    tensor.box[3] = 1;
    return ln_tensor_map(&tensor, map);
}

/* Results in boxes of `box` rows and 64 bytes of float32, or 128 of bf16: LN_WEIGHT_TILE_ROWS or 64
 * columns. */
static inline int map_out(void *out, bool is_bf16, size_t n_cols, size_t stride, size_t n_rows,
                          unsigned box, CUtensorMap *map) {
    ln_tensor tensor = {};
    tensor.data = out;
    tensor.type = is_bf16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    tensor.swizzle = is_bf16 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B;
    tensor.n_dims = 2;
    tensor.dims[0] = n_cols;
    tensor.dims[1] = n_rows;
    tensor.strides[0] = stride * (is_bf16 ? sizeof(__nv_bfloat16) : sizeof(float));
    tensor.box[0] = is_bf16 ? 64 : LN_WEIGHT_TILE_ROWS;
    tensor.box[1] = box;
    return ln_tensor_map(&tensor, map);
}

/* The matrices of all parts, and their gate. */
static inline int map_parts(int layout, const ln_gemm_args &args, unsigned rows, unsigned tiles,
                            CUtensorMap *weights, CUtensorMap *gate) {
    const ln_gemm_part *parts = args.parts;
    int code = 0;
    for (unsigned i = 0; i < args.n_parts && code == 0; i++)
        code = map_matrix(layout, parts[i].weight, args.n_tiles, parts[i].epilogue.n_out, rows,
                          tiles, 0, 0, &weights[i]);
    if (code == 0 && parts[0].gate != NULL)
        code = map_matrix(layout, parts[0].gate, args.n_tiles, parts[0].epilogue.n_out, rows, tiles,
                          0, 0, gate);
    return code;
}

static inline int map_group(int layout, const ln_grouped_args &a, const ln_matrices &m,
                            unsigned rows, CUtensorMap *map) {
    return map_matrix(layout, m.data, a.p.n_tiles, a.p.parts[0].epilogue.n_out, rows, 1,
                      a.groups.rows.n_groups, m.data_stride, map);
}

#endif
