/* Which output tile a persistent CTA computes next: of dense linears, of one matrix for each group
 * of rows, and of K ranges with split-K. Tiles that follow one another have the same columns and
 * different rows, so that weights are read once from global memory. Of many rows that holds within
 * a band of them, so that what the CTAs read at a time stays in L2, however much they write. A
 * cluster's CTAs have tiles beside each other along N, which count as one. */
#ifndef LN_BACKEND_CUDA_GEMM_SM90_SCHEDULER_CUH
#define LN_BACKEND_CUDA_GEMM_SM90_SCHEDULER_CUH

#include "backend/cuda/gemm/args.cuh"
#include "backend/cuda/gemm/sm90_config.cuh"
#include "backend/cuda/gemm/sm90_split_k.cuh"
#include "backend/cuda/ptx/tma.cuh"

/* Operands as tensors of rows of 128 bytes; aux: the bf16 residual of the activations, or their
 * block scales. */
typedef struct dense_args {
    ln_gemm_args p;
    unsigned n_ctas;                /* that share an output tile */
    unsigned band_rows, band_tiles; /* output tiles of a band: along M, and in all */
    CUtensorMap act, aux, gate, weights[LN_GEMM_MAX_PARTS];
    CUtensorMap outs[LN_GEMM_MAX_PARTS]; /* CONFIG::TMA_STORE; of a gate's image: to.bf16 */
} dense_args;

typedef struct grouped_args {
    ln_grouped_args a;
    CUtensorMap act, aux, gate, weight; /* the matrices of all groups are one tensor */
} grouped_args;

static __host__ __device__ __forceinline__ const ln_gemm_args &args_of(const ln_gemm_args &p) {
    return p;
}

static __host__ __device__ __forceinline__ const ln_gemm_args &args_of(const dense_args &g) {
    return g.p;
}

static __host__ __device__ __forceinline__ const ln_gemm_args &args_of(const grouped_args &g) {
    return g.a.p;
}

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/* The part of output tiles `n` of a row of them. */
template <typename CONFIG>
static __device__ __forceinline__ bool find_columns(const ln_gemm_args &p, unsigned n,
                                                    output_tile &out) {
    constexpr unsigned OWN = CONFIG::N_COLUMNS;
    out.n = n;
    for (out.part = 0; out.part < p.n_parts; out.part++) {
        unsigned n_own = ((unsigned)p.parts[out.part].epilogue.n_out + OWN - 1) / OWN;
        if (out.n < n_own)
            return true;
        out.n -= n_own;
    }
    return false;
}

/* One band. */
template <typename CONFIG>
static __device__ __forceinline__ bool find_tile(const ln_gemm_args &p, unsigned number,
                                                 output_tile &out) {
    unsigned n_row_tiles = ((unsigned)p.n_rows + CONFIG::ROWS - 1) / CONFIG::ROWS;
    out.m = number % n_row_tiles;
    return find_columns<CONFIG>(p, number / n_row_tiles, out);
}

/* Band after band, the last of which may have fewer rows. */
template <typename CONFIG>
static __device__ __forceinline__ bool find_tile(const dense_args &g, unsigned number,
                                                 output_tile &out) {
    unsigned n_row_tiles = ((unsigned)g.p.n_rows + CONFIG::ROWS - 1) / CONFIG::ROWS;
    unsigned first = 0;
    for (; number >= g.band_tiles; number -= g.band_tiles)
        first += g.band_rows;
    if (first >= n_row_tiles)
        return false;
    unsigned n_own = min(g.band_rows, n_row_tiles - first);
    out.m = first + number % n_own;
    return find_columns<CONFIG>(g.p, number / n_own * CONFIG::CTAS + cluster_rank<CONFIG>(), out);
}

/* Group after group, of each the tiles of its slots, then the next columns. */
template <typename CONFIG>
static __device__ __forceinline__ bool find_tile(const grouped_args &g, unsigned number,
                                                 output_tile &out) {
    constexpr unsigned OWN = CONFIG::N_COLUMNS;
    unsigned n_columns = ((unsigned)g.a.p.parts[0].epilogue.n_out + OWN - 1) / OWN;
    unsigned any = number / n_columns; /* a slot of the group */
    if (any >= g.a.n_slots || g.a.slots[any].slot.n == 0)
        return false;
    unsigned first = g.a.slots[any].first, count = g.a.slots[any].count,
             own = number - first * n_columns;
    out.n = own / count;
    out.m = first + own % count;
    out.part = 0;
    out.slot = g.a.slots[out.m].slot;
    return true;
}

/* The number of a CTA's first output tile. */
template <typename CONFIG>
static __device__ __forceinline__ unsigned first_tile(const dense_args &g) {
    return blockIdx.x / (CONFIG::SPLIT ? g.n_ctas : CONFIG::CTAS);
}

template <typename CONFIG>
static __device__ __forceinline__ unsigned first_tile(const grouped_args &) {
    return blockIdx.x;
}

template <typename CONFIG>
static __device__ __forceinline__ k_range find_k(const dense_args &g, const output_tile &tile) {
    return CONFIG::SPLIT ? split_k_range<CONFIG>(g.p, tile, blockIdx.x % g.n_ctas, g.n_ctas)
                         : whole_k(g.p);
}

template <typename CONFIG>
static __device__ __forceinline__ k_range find_k(const grouped_args &g, const output_tile &) {
    return whole_k(g.a.p);
}

/* The scales of the weight rows that a warp has the tiles of. */
template <typename CONFIG>
static __device__ __forceinline__ const float *find_row_scales(const uint8_t *weight,
                                                               const uint8_t *gate, size_t n_out,
                                                               unsigned n_tiles, unsigned n) {
    constexpr unsigned TILES = CONFIG::TILES;
    constexpr int LAYOUT = CONFIG::LAYOUT;
    unsigned warp = threadIdx.x / LN_WARP, tile_row = n * TILES + warp % TILES;
    unsigned last = ((unsigned)n_out - 1) / LN_WEIGHT_TILE_ROWS;
    const uint8_t *tiles = CONFIG::GATE && warp < TILES ? gate : weight;
    tiles += min(tile_row, last) * ln_weight_tile_row_bytes(LAYOUT, n_tiles);
    return ln_weight_tile_row_scales(LAYOUT, tiles, n_tiles);
}

template <typename CONFIG>
static __device__ __forceinline__ const float *find_row_scales(const ln_gemm_args &p,
                                                               const output_tile &tile) {
    const ln_gemm_part &part = p.parts[tile.part];
    return find_row_scales<CONFIG>(part.weight, part.gate, part.epilogue.n_out, p.n_tiles, tile.n);
}

template <typename CONFIG>
static __device__ __forceinline__ const float *find_row_scales(const dense_args &g,
                                                               const output_tile &tile) {
    return find_row_scales<CONFIG>(g.p, tile);
}

template <typename CONFIG>
static __device__ __forceinline__ const float *find_row_scales(const grouped_args &g,
                                                               const output_tile &tile) {
    const ln_gemm_groups &groups = g.a.groups;
    const uint8_t *weight = ln_matrix_of_group(groups.weight, tile.slot.group);
    const uint8_t *gate = CONFIG::GATE ? ln_matrix_of_group(groups.gate, tile.slot.group) : NULL;
    return find_row_scales<CONFIG>(weight, gate, g.a.p.parts[0].epilogue.n_out, g.a.p.n_tiles,
                                   tile.n);
}

#endif

#endif
