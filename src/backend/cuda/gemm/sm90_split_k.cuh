/* Split-K of the prefill GEMM (sm90.cuh), and its reduction: where output tiles are fewer than SMs,
 * two or four CTAs share a tile. Each CTA accumulates some K splits of the tile and writes the
 * partial sums of each split to global memory. Then each CTA reduces some rows of the tile over the
 * K splits of all CTAs (reduce_rows), in the order in which one CTA would add them.
 *
 * A thread adds what the same threads of all CTAs have written, so a warp waits for flags of the
 * same warps alone. CTAs wait for each other, so there are no more of them than SMs, each of which
 * has room for one; and a CTA has one tile, so a flag is set once in a kernel. */
#ifndef LN_BACKEND_CUDA_GEMM_SM90_SPLIT_K_CUH
#define LN_BACKEND_CUDA_GEMM_SM90_SPLIT_K_CUH

#include "backend/cuda/gemm/args.cuh"
#include "backend/cuda/gemm/sm90_config.cuh"
#include "backend/cuda/ptx/flag.cuh"

/* Rows that a CTA reduces at once. */
enum { REDUCED_ROWS = 32, REDUCED_N8_TILES = REDUCED_ROWS / 8, REDUCED_ACC = REDUCED_ROWS / 2 };

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/* Weight tiles along K that a CTA accumulates, whole K splits of them; and where their sums go. */
typedef struct k_range {
    unsigned begin, end;
    float4 *sums;        /* of this thread: [K splits][n8 tiles][threads]; NULL: not split */
    unsigned n_n8_tiles; /* of rows of activations that are there */
} k_range;

static __device__ __forceinline__ k_range whole_k(const ln_gemm_args &p) {
    k_range own = {0, p.n_tiles, NULL, 0};
    return own;
}

/* What CTA `rank` of the n_ctas of an output tile accumulates. */
template <typename CONFIG>
static __device__ __forceinline__ k_range split_k_range(const ln_gemm_args &p,
                                                        const output_tile &tile, unsigned rank,
                                                        unsigned n_ctas) {
    constexpr unsigned ROWS = CONFIG::ROWS;
    unsigned n_splits = LN_K_SPLITS / n_ctas; /* of a CTA */
    unsigned n_tiles = (p.n_tiles + LN_K_SPLITS - 1) / LN_K_SPLITS * n_splits;
    unsigned split = blockIdx.x / n_ctas * LN_K_SPLITS + rank * n_splits;
    k_range own = {};
    own.begin = rank * n_tiles;
    own.end = min(own.begin + n_tiles, p.n_tiles);
    own.sums =
        (float4 *)p.split.partial + (size_t)split * (ROWS / 8 * CONFIG::CONSUMERS) + threadIdx.x;
    own.n_n8_tiles = min(((unsigned)p.n_rows - tile.m * ROWS + 7) / 8, ROWS / 8);
    return own;
}

/* Adds the accumulators of a K split to those before, or writes them, and leaves total alone. */
template <typename CONFIG, int N>
static __device__ __forceinline__ void add_split(k_range &own, const float (&acc)[N],
                                                 float (&total)[N]) {
    if (CONFIG::SPLIT) {
#pragma unroll
        for (unsigned i = 0; i < N / 4; i++)
            if (i < own.n_n8_tiles)
                __stcg(own.sums + i * CONFIG::CONSUMERS,
                       make_float4(acc[4 * i], acc[4 * i + 1], acc[4 * i + 2], acc[4 * i + 3]));
        own.sums += N / 4 * CONFIG::CONSUMERS;
    } else {
#pragma unroll
        for (int i = 0; i < N; i++)
            total[i] += acc[i];
    }
}

/* K splits without columns add a zero, which turns -0 into 0. */
template <int N>
static __device__ __forceinline__ void add_empty_splits(unsigned n_tiles, float (&total)[N]) {
    unsigned per_split = (n_tiles + LN_K_SPLITS - 1) / LN_K_SPLITS;
    if ((n_tiles + per_split - 1) / per_split < LN_K_SPLITS)
#pragma unroll
        for (int i = 0; i < N; i++)
            total[i] += 0.0f;
}

/* The flag by which CTA `from` of a tile tells CTA `to` that a warp has written all its sums. */
template <typename CONFIG>
static __device__ __forceinline__ unsigned *flag_of(const ln_gemm_args &p, unsigned from,
                                                    unsigned to, unsigned n_ctas) {
    unsigned first = blockIdx.x / n_ctas * n_ctas;
    return p.split.flags + ((first + from) * n_ctas + to) * CONFIG::WARPS + threadIdx.x / LN_WARP;
}

/* Behind its last K split: a warp tells those of all CTAs of the tile, and waits for them. */
template <typename CONFIG>
static __device__ __forceinline__ void exchange_flags(const ln_gemm_args &p, unsigned n_ctas) {
    unsigned rank = blockIdx.x % n_ctas, lane = threadIdx.x % LN_WARP;
    __syncwarp();
    if (lane < n_ctas)
        ln_flag_set(flag_of<CONFIG>(p, rank, lane, n_ctas));
    for (unsigned from = 0; from < n_ctas; from++)
        while (ln_flag_load(flag_of<CONFIG>(p, from, rank, n_ctas)) == 0)
            continue;
    __syncwarp();
    if (lane < n_ctas)
        *flag_of<CONFIG>(p, lane, rank, n_ctas) = 0;
}

/* Reduces the partial sums of all K splits, of rows REDUCED_ROWS * part .. of a tile. */
template <typename CONFIG>
static __device__ __forceinline__ void reduce_rows(const k_range &tile, unsigned part,
                                                   float (&total)[REDUCED_ACC]) {
#pragma unroll
    for (unsigned i = 0; i < REDUCED_N8_TILES; i++) {
        unsigned n8 = part * REDUCED_N8_TILES + i;
        bool is_there = n8 < tile.n_n8_tiles;
        float *to = total + 4 * i;
#pragma unroll
        for (unsigned s = 0; s < LN_K_SPLITS; s++) {
            const float4 *from = tile.sums + (s * (CONFIG::ROWS / 8) + n8) * CONFIG::CONSUMERS;
            float4 four = is_there ? __ldcg(from) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            to[0] = s == 0 ? four.x : to[0] + four.x;
            to[1] = s == 0 ? four.y : to[1] + four.y;
            to[2] = s == 0 ? four.z : to[2] + four.z;
            to[3] = s == 0 ? four.w : to[3] + four.w;
        }
    }
}

/* The number that a tile of REDUCED_ROWS rows would have, of rows REDUCED_ROWS * part .. of tile
 * `number`. */
template <typename CONFIG>
static __device__ __forceinline__ unsigned
reduced_number(const ln_gemm_args &p, const output_tile &tile, unsigned number, unsigned part) {
    unsigned n_rows = (unsigned)p.n_rows, n_row_tiles = (n_rows + CONFIG::ROWS - 1) / CONFIG::ROWS;
    return number / n_row_tiles * ((n_rows + REDUCED_ROWS - 1) / REDUCED_ROWS) +
           tile.m * (CONFIG::ROWS / REDUCED_ROWS) + part;
}

#endif

#endif
