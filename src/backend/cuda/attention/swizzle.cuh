/* Tiles of 16-bit elements in shared memory as TMA writes and WGMMA reads them: SWIZZLE_128B. A KV
 * tile is cut into column tiles of 64 columns, whose rows are 128 bytes; 8 of these are an atom. */
#ifndef LN_BACKEND_CUDA_ATTENTION_SWIZZLE_CUH
#define LN_BACKEND_CUDA_ATTENTION_SWIZZLE_CUH

#include "backend/cuda/attention/kv_tile.cuh"

enum {
    LN_SWIZZLE_COLS = 64,                                    /* elements of a row */
    LN_SWIZZLE_ATOM_BYTES = 8 * LN_SWIZZLE_COLS * 2,         /* after which the swizzle repeats */
    LN_SWIZZLE_TILE_BYTES = LN_KV_TILE * LN_SWIZZLE_COLS * 2 /* a column tile of a KV tile */
};

#endif
