/* What a block for few rows of x has to multiply, and the stages in which it comes (sm90_small_m.cuh).
 */
#ifndef LN_BACKEND_CUDA_GEMM_SM90_SMALL_M_PIPELINE_CUH
#define LN_BACKEND_CUDA_GEMM_SM90_SMALL_M_PIPELINE_CUH

#include "backend/cuda/gemm/args.cuh"
#include "backend/cuda/ptx/wgmma_n8_n64.cuh"

enum { PANEL_ROWS = 64, ALL_SLICES = LN_K_SPLITS, MAX_STAGES = 16 };
enum { WARPS = 8, WORKERS = WARPS * LN_WARP, FEW_THREADS = WORKERS + 2 * LN_WARP };
enum { SWAPPED = 8, SWAP_BYTES = WORKERS * SWAPPED * 4 }; /* floats of a thread at once */

typedef struct few_args {
    ln_gemm_args p;
    unsigned n_items, per_block; /* slices of units */
    unsigned n_stages;
    bool shares; /* several blocks share a unit, all sums are left */
    CUtensorMap gate, weights[LN_GEMM_MAX_PARTS]; /* in boxes of a unit's rows of tiles */
} few_args;

/* Groups of four warps meet GROUP_ROWS of the rows of x each. A stage: weights [UNIT_ROWS][TILES]
 * tiles, x [TILES] tiles of ROWS rows, with PRECISE [TILES] of what rounding left, or, of int8,
 * with [8 blocks][64 rows] of scales. */
template <int KIND, int ROWS, bool PRECISE> struct few_stage {
    static constexpr bool IS_INT = !ln_weight_tile_has_16_bit_act(KIND), IS_WIDE = KIND != LN_LAYOUT_BF16;
    static constexpr unsigned UNIT_ROWS = IS_WIDE ? 8 : 4;
    static constexpr unsigned GROUP_ROWS = ROWS * UNIT_ROWS / WARPS; /* of x, of a group */
    static constexpr unsigned N_SUMS = GROUP_ROWS / 2;               /* of a thread */
    static constexpr unsigned TILES = IS_INT ? 1 : 2, TILE_BYTES = ln_weight_tile_bytes(KIND);
    static constexpr unsigned W_BYTES = UNIT_ROWS * TILES * TILE_BYTES;
    static constexpr unsigned PART_BYTES = ROWS * 128, PARTS = IS_INT ? 2 : 1; /* of a tile of x */
    static constexpr unsigned X_BYTES = TILES * PARTS * PART_BYTES * (PRECISE ? 2 : 1);
    static constexpr unsigned SCALE_BYTES = IS_INT ? 8 * PANEL_ROWS * 4 : 0;
    static constexpr unsigned BYTES = W_BYTES + X_BYTES + SCALE_BYTES;
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

typedef struct few_barriers {
    uint64_t full[MAX_STAGES], empty[MAX_STAGES];
} few_barriers;

/* What a block takes of a part: rows of tiles from `row` on. */
typedef struct few_unit {
    unsigned part, row;
} few_unit;

/* Number `number` of all. */
template <typename SHAPE, bool GATE>
static __device__ __forceinline__ few_unit find_unit(const ln_gemm_args &p, unsigned number) {
    constexpr unsigned ROWS = SHAPE::UNIT_ROWS / (GATE ? 2 : 1), COLUMNS = ROWS * LN_WEIGHT_TILE_ROWS;
    unsigned part = 0;
    for (; part + 1 < p.n_parts; part++) {
        unsigned n = ((unsigned)p.parts[part].epilogue.n_out + COLUMNS - 1) / COLUMNS;
        if (number < n)
            break;
        number -= n;
    }
    few_unit unit = {part, number * ROWS};
    return unit;
}

/* Slices [begin, end) of a unit. */
typedef struct few_piece {
    unsigned unit, begin, end;
} few_piece;

/* Piece `number` of those of this block: of its last unit, whole units, of its first unit. False
 * behind the last. */
static __device__ __forceinline__ bool find_piece(const few_args &a, unsigned number,
                                                  few_piece &piece) {
    unsigned first = blockIdx.x * a.per_block, last = min(first + a.per_block, a.n_items);
    unsigned begin = first / ALL_SLICES, end = last / ALL_SLICES;
    if (begin == end) {
        piece = {begin, first % ALL_SLICES, last % ALL_SLICES};
        return number == 0 && first < last;
    }
    if (last % ALL_SLICES > 0 && number-- == 0) {
        piece = {end, 0, last % ALL_SLICES};
        return true;
    }
    unsigned whole = begin + (first % ALL_SLICES > 0) + number;
    if (whole < end) {
        piece = {whole, 0, ALL_SLICES};
        return true;
    }
    piece = {begin, first % ALL_SLICES, ALL_SLICES};
    return whole == end && first % ALL_SLICES > 0;
}

/* The first tile of a slice; ALL_SLICES: behind the last. */
static __device__ __forceinline__ unsigned tiles_before(const ln_gemm_args &p, unsigned slice) {
    unsigned per_slice = (p.n_tiles + LN_K_SPLITS - 1) / LN_K_SPLITS;
    return min(slice * per_slice, p.n_tiles);
}

/* A place in the ring of stages. */
typedef struct few_place {
    unsigned stage, parity;
} few_place;

static __device__ __forceinline__ void advance(const few_args &a, few_place &at) {
    if (++at.stage == a.n_stages)
        at.stage = 0, at.parity ^= 1;
}

/* Brings the weights of stage after stage, and makes stages expect x; by one thread. */
template <int KIND, int ROWS, bool GATE, bool PRECISE>
static __device__ void bring_weights(const few_args &a, char *stages, few_barriers &bars) {
    typedef few_stage<KIND, ROWS, PRECISE> shape;
    few_place at = {0, 1};
    few_piece piece;
    for (unsigned k = 0; find_piece(a, k, piece); k++) {
        few_unit unit = find_unit<shape, GATE>(a.p, piece.unit);
        const CUtensorMap *map = &a.weights[unit.part];
        for (unsigned slice = piece.begin; slice < piece.end; slice++) {
            int row = (int)unit.row, end = (int)tiles_before(a.p, slice + 1);
#pragma unroll 1
            for (int tile = (int)tiles_before(a.p, slice); tile < end; tile += shape::TILES) {
                uint64_t *full = &bars.full[at.stage];
                char *to = stages + at.stage * shape::BYTES;
                int first = tile * (int)(shape::TILE_BYTES / 128);
                ln_mbarrier_wait(&bars.empty[at.stage], at.parity);
                ln_mbarrier_expect_tx(full, shape::BYTES);
                ln_tma_load(to, map, 0, first, row, full);
                if (GATE)
                    ln_tma_load(to + shape::W_BYTES / 2, &a.gate, 0, first, row, full);
                advance(a, at);
            }
        }
    }
}

/* The rows of x of a tile of columns, the first ROWS of a panel's. */
template <int KIND, int ROWS, bool PRECISE>
static __device__ __forceinline__ void bring_tile(const ln_act_view &x, unsigned tile,
                                                  unsigned i, char *to, uint64_t *full) {
    typedef few_stage<KIND, ROWS, PRECISE> shape;
    constexpr unsigned PART_BYTES = shape::PART_BYTES;
    const char *from = shape::IS_INT ? (const char *)x.int8 : (const char *)x.bf16;
#pragma unroll
    for (unsigned part = 0; part < shape::PARTS; part++) {
        size_t skipped = ((size_t)tile * shape::PARTS + part) * (PANEL_ROWS * 128);
        ln_cp_async_bulk(to + (i * shape::PARTS + part) * PART_BYTES, from + skipped, PART_BYTES, full);
        if (PRECISE)
            ln_cp_async_bulk(to + (shape::TILES + i) * PART_BYTES, (const char *)x.rest + skipped,
                         PART_BYTES, full);
    }
    if (shape::IS_INT)
        ln_cp_async_bulk(to + shape::X_BYTES, (const char *)x.scales + tile * shape::SCALE_BYTES,
                     shape::SCALE_BYTES, full);
}

/* Brings x, once the kernel that makes it has ended; by another thread. Where a slice has no second
 * tile for a stage, any will do. */
template <int KIND, int ROWS, bool PRECISE>
static __device__ void bring_rows(const few_args &a, char *stages, few_barriers &bars) {
    typedef few_stage<KIND, ROWS, PRECISE> shape;
    few_place at = {0, 1};
    few_piece piece;
    ln_pdl_wait();
    for (unsigned k = 0; find_piece(a, k, piece); k++)
        for (unsigned slice = piece.begin; slice < piece.end; slice++) {
            unsigned end = tiles_before(a.p, slice + 1);
#pragma unroll 1
            for (unsigned tile = tiles_before(a.p, slice); tile < end; tile += shape::TILES) {
                char *to = stages + at.stage * shape::BYTES + shape::W_BYTES;
                ln_mbarrier_wait(&bars.empty[at.stage], at.parity);
#pragma unroll
                for (unsigned i = 0; i < shape::TILES; i++)
                    bring_tile<KIND, ROWS, PRECISE>(a.p.x, min(tile + i, a.p.n_tiles - 1), i, to,
                                                    &bars.full[at.stage]);
                advance(a, at);
            }
        }
}

#endif

/* ---- what copies need to know of weights ----------------------------------------------------- */

/* A row of tiles after another, in boxes of a unit's rows and a stage's columns. */
template <int KIND, typename SHAPE>
static int map_units(const ln_gemm_args &args, const uint8_t *matrix, size_t n_out, unsigned rows,
                     CUtensorMap *map) {
    ln_tensor tensor = {};
    tensor.data = (void *)matrix;
    tensor.type = CU_TENSOR_MAP_DATA_TYPE_UINT8;
    tensor.n_dims = 3;
    tensor.dims[0] = tensor.box[0] = tensor.strides[0] = 128;
    tensor.dims[1] = (size_t)args.n_tiles * (SHAPE::TILE_BYTES / 128);
    tensor.dims[2] = ln_ceil_div(n_out, LN_WEIGHT_TILE_ROWS);
    tensor.strides[1] = ln_weight_tile_row_bytes(KIND, args.n_tiles);
    tensor.box[1] = SHAPE::TILES * (SHAPE::TILE_BYTES / 128);
    tensor.box[2] = rows;
    return ln_tensor_map(&tensor, map);
}

template <int KIND, typename SHAPE> static int map_weights(const ln_gemm_args &args, few_args *a) {
    const ln_gemm_part *parts = args.parts;
    unsigned rows = SHAPE::UNIT_ROWS / (parts[0].gate != NULL ? 2 : 1);
    int code = 0;
    for (unsigned i = 0; i < args.n_parts && code == 0; i++)
        code = map_units<KIND, SHAPE>(args, parts[i].weight, parts[i].epilogue.n_out, rows,
                                      &a->weights[i]);
    if (code == 0 && parts[0].gate != NULL)
        code = map_units<KIND, SHAPE>(args, parts[0].gate, parts[0].epilogue.n_out, rows, &a->gate);
    return code;
}

#endif
