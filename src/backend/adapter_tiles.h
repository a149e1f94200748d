/* Where elements of an adapter's matrices lie in the form that tensor cores read: bf16, in
 * fragments of 16 x 16 as lanes of mma.sync m16n8k16 and WGMMA hold their A operand, [32 lanes][8].
 * Ranks are filled up to whole 16 with zeros, columns of x to whole 32, rows of B to whole 64. */
#ifndef LN_BACKEND_ADAPTER_TILES_H
#define LN_BACKEND_ADAPTER_TILES_H

#include <stddef.h>
#include <stdint.h>

enum {
    LN_ADAPTER_TILE = 16,
    LN_ADAPTER_TILE_ELEMS = LN_ADAPTER_TILE * LN_ADAPTER_TILE,
    LN_ADAPTER_B_ROWS = 64 /* rows of B whose fragments of a rank tile lie together */
};

static inline size_t ln_adapter_tiles_of(size_t n) {
    return (n + LN_ADAPTER_TILE - 1) / LN_ADAPTER_TILE;
}

/* K steps of A, two to 32 columns. */
static inline size_t ln_adapter_steps_of(size_t n_in) {
    return (n_in + 2 * LN_ADAPTER_TILE - 1) / (2 * LN_ADAPTER_TILE) * 2;
}

/* Of A [rank][n_in]; of B [n_out][rank]. */
static inline size_t ln_adapter_a_elems(size_t rank, size_t n_in) {
    return ln_adapter_tiles_of(rank) * ln_adapter_steps_of(n_in) * LN_ADAPTER_TILE_ELEMS;
}

static inline size_t ln_adapter_b_elems(size_t rank, size_t n_out) {
    size_t blocks = (n_out + LN_ADAPTER_B_ROWS - 1) / LN_ADAPTER_B_ROWS;
    return blocks * ln_adapter_tiles_of(rank) * LN_ADAPTER_B_ROWS * LN_ADAPTER_TILE;
}

/* Element (row, k) of a fragment. */
static inline size_t ln_adapter_in_tile(size_t row, size_t k) {
    size_t lane = row % 8 * 4 + k % 8 / 2, word = row / 8 + k / 8 * 2;
    return lane * 8 + word * 2 + k % 2;
}

/* [rank tile][K step][fragment]. The two K steps of 32 columns have them as activation tiles of
 * bf16 do (activations/store.cuh): the first those of each eight that are below four. So four
 * columns that lie together meet a lane's four k, and it loads them of x at once. */
static inline size_t ln_adapter_a_at(size_t n_in, size_t k, size_t column) {
    size_t in_pair = column % (2 * LN_ADAPTER_TILE), in_four = column % 4;
    size_t step = column / (2 * LN_ADAPTER_TILE) * 2 + in_pair % 8 / 4;
    size_t logical = in_pair / 8 * 2 + in_four / 2 * 8 + in_four % 2;
    size_t tile = k / LN_ADAPTER_TILE * ln_adapter_steps_of(n_in) + step;
    return tile * LN_ADAPTER_TILE_ELEMS + ln_adapter_in_tile(k % LN_ADAPTER_TILE, logical);
}

/* [64 rows][rank tile][16 rows][fragment] */
static inline size_t ln_adapter_b_at(size_t rank, size_t row, size_t k) {
    size_t block = row / LN_ADAPTER_B_ROWS * ln_adapter_tiles_of(rank) + k / LN_ADAPTER_TILE;
    size_t tile =
        block * (LN_ADAPTER_B_ROWS / LN_ADAPTER_TILE) + row % LN_ADAPTER_B_ROWS / LN_ADAPTER_TILE;
    return tile * LN_ADAPTER_TILE_ELEMS +
           ln_adapter_in_tile(row % LN_ADAPTER_TILE, k % LN_ADAPTER_TILE);
}

#endif
