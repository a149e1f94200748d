/* Tiles of results that two or four blocks share, where there are few: each block multiplies some
 * slices of the columns of a tile and leaves the sums of each in device memory. Then it merges
 * those of some rows, from all blocks, in the order in which one block would add them.
 *
 * A thread merges what the same threads of all blocks have left, so a warp waits for words of the
 * same warps alone. Blocks wait for each other, so there are no more of them than multiprocessors,
 * each of which has room for one; and a block has one tile, so a word is set once in a kernel. */
#ifndef LN_BACKEND_CUDA_GEMM_SPLIT_K_CUH
#define LN_BACKEND_CUDA_GEMM_SPLIT_K_CUH

#include "backend/cuda/gemm/scheduler.cuh"
#include "backend/cuda/ptx/flag.cuh"

/* Rows that a block merges at once. */
enum { MERGED_ROWS = 32, MERGED_EIGHTS = MERGED_ROWS / 8, MERGED_SUMS = MERGED_ROWS / 2 };

/* The clocks that the busiest block takes for tiles of `rows` rows that so many blocks share, where
 * there is no gate, if a tile of columns takes it per_tile; UINT32_MAX where they cannot. */
static inline unsigned count_clocks(const ln_gemm_args &p, unsigned rows, unsigned n_shares,
                                    unsigned n_cores, unsigned per_tile) {
    enum { MERGE_CLOCKS = 3000, MERGED_PER_CLOCK = 200 /* sums that are written and read */ };
    unsigned n_jobs = count_jobs(p, rows), per_slice = ln_ceil_div(p.n_tiles, LN_K_SPLITS);
    if (n_shares == 1)
        return ln_ceil_div(n_jobs, n_cores) * p.n_tiles * per_tile;
    unsigned n_tiles = per_slice * (LN_K_SPLITS / n_shares);   /* of a block */
    bool is_whole = (LN_K_SPLITS - 1) * per_slice < p.n_tiles; /* no slice is empty */
    bool has_room = n_jobs * LN_K_SPLITS * rows * COLUMNS <= LN_SPLIT_K_FLOATS;
    if (n_jobs * n_shares > n_cores || n_jobs * n_shares > LN_SPLIT_K_BLOCKS || !is_whole ||
        !has_room)
        return UINT32_MAX;
    unsigned n_rows = ln_ceil_div(p.n_rows, 8) * 8, n_merged = LN_K_SPLITS * n_rows;
    return n_tiles * per_tile + MERGE_CLOCKS +
           ln_gemm_output_tiles(p, COLUMNS) * COLUMNS * n_merged / MERGED_PER_CLOCK;
}

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/* Tiles of columns that a block multiplies, whole slices of them; and where their sums go. */
typedef struct stretch {
    unsigned begin, end;
    float4 *sums;      /* of this thread: [slices][eights of rows][threads] */
    unsigned n_eights; /* of rows of x that are there */
} stretch;

/* The first job of a block. */
template <bool SHARED> static __device__ __forceinline__ unsigned first_job(unsigned n_shares) {
    return SHARED ? blockIdx.x / n_shares : blockIdx.x;
}

static __device__ __forceinline__ stretch all_columns(const ln_gemm_args &p) {
    stretch own = {0, p.n_tiles, NULL, 0};
    return own;
}

/* What block number `share` of a tile of ROWS rows multiplies. */
template <int ROWS>
static __device__ __forceinline__ stretch find_stretch(const ln_gemm_args &p, const job &job,
                                                       unsigned share, unsigned n_shares) {
    unsigned n_slices = LN_K_SPLITS / n_shares; /* of a block */
    unsigned n_tiles = (p.n_tiles + LN_K_SPLITS - 1) / LN_K_SPLITS * n_slices;
    unsigned slice = blockIdx.x / n_shares * LN_K_SPLITS + share * n_slices;
    stretch own = {};
    own.begin = share * n_tiles;
    own.end = min(own.begin + n_tiles, p.n_tiles);
    own.sums = (float4 *)p.split.sums + (size_t)slice * (ROWS / 8 * WORKERS) + threadIdx.x;
    own.n_eights = min(((unsigned)p.n_rows - job.panel * ROWS + 7) / 8, (unsigned)ROWS / 8);
    return own;
}

template <int ROWS, bool SHARED>
static __device__ __forceinline__ stretch find_columns(const ln_gemm_args &p, const job &job,
                                                       unsigned n_shares) {
    return SHARED ? find_stretch<ROWS>(p, job, blockIdx.x % n_shares, n_shares) : all_columns(p);
}

/* Adds the sums of a slice to those before, or leaves them, and total alone. */
template <bool SHARED, int N>
static __device__ __forceinline__ void add_slice(stretch &own, const float (&sum)[N],
                                                 float (&total)[N]) {
    if (SHARED) {
#pragma unroll
        for (unsigned i = 0; i < N / 4; i++)
            if (i < own.n_eights)
                __stcg(own.sums + i * WORKERS, make_float4(sum[4 * i], sum[4 * i + 1],
                                                           sum[4 * i + 2], sum[4 * i + 3]));
        own.sums += N / 4 * WORKERS;
    } else {
#pragma unroll
        for (int i = 0; i < N; i++)
            total[i] += sum[i];
    }
}

/* By which block `from` of a tile tells block `to` that a warp has left all its sums. */
static __device__ __forceinline__ unsigned *word_of(const ln_gemm_args &p, unsigned from,
                                                    unsigned to, unsigned n_shares) {
    unsigned first = blockIdx.x / n_shares * n_shares;
    return p.split.left + ((first + from) * n_shares + to) * WARPS + threadIdx.x / LN_WARP;
}

/* Behind its last slice: a warp tells those of all blocks of the tile, and waits for them. */
static __device__ __forceinline__ void meet_shares(const ln_gemm_args &p, unsigned n_shares) {
    unsigned share = blockIdx.x % n_shares, lane = threadIdx.x % LN_WARP;
    __syncwarp();
    if (lane < n_shares)
        set_word(word_of(p, share, lane, n_shares));
    for (unsigned from = 0; from < n_shares; from++)
        while (look_at(word_of(p, from, share, n_shares)) == 0)
            continue;
    __syncwarp();
    if (lane < n_shares)
        *word_of(p, lane, share, n_shares) = 0;
}

/* Merges what was left of rows MERGED_ROWS * part .. of a tile of ROWS. */
template <int ROWS>
static __device__ __forceinline__ void merge_rows(const stretch &tile, unsigned part,
                                                  float (&total)[MERGED_SUMS]) {
#pragma unroll
    for (unsigned i = 0; i < MERGED_EIGHTS; i++) {
        unsigned eight = part * MERGED_EIGHTS + i;
        bool is_there = eight < tile.n_eights;
        float *to = total + 4 * i;
#pragma unroll
        for (unsigned s = 0; s < LN_K_SPLITS; s++) {
            const float4 *from = tile.sums + (s * (ROWS / 8) + eight) * WORKERS;
            float4 four = is_there ? __ldcg(from) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            to[0] = s == 0 ? four.x : to[0] + four.x;
            to[1] = s == 0 ? four.y : to[1] + four.y;
            to[2] = s == 0 ? four.z : to[2] + four.z;
            to[3] = s == 0 ? four.w : to[3] + four.w;
        }
    }
}

/* The number that a tile of MERGED_ROWS rows would have as a job, of rows MERGED_ROWS * part .. of
 * job `number`. */
template <int ROWS>
static __device__ __forceinline__ unsigned find_merged(const ln_gemm_args &p, const job &job,
                                                       unsigned number, unsigned part) {
    unsigned n_rows = (unsigned)p.n_rows, n_panels = (n_rows + ROWS - 1) / ROWS;
    return number / n_panels * ((n_rows + MERGED_ROWS - 1) / MERGED_ROWS) +
           job.panel * (ROWS / MERGED_ROWS) + part;
}

/* Makes results of the sums of job `number`, a tile of ROWS rows. Defined for each kernel whose
 * tiles are shared. */
template <int KIND, int ROWS, bool GATE>
static __device__ __forceinline__ void end_job(const ln_gemm_args &p, unsigned &number,
                                               float (&total)[ROWS / 2], float *outs);

/* Merges the block's rows of a tile that it shares, and ends them like tiles of so many rows.
 * n_shares: where the kernel's parameters lie. */
template <int KIND, int ROWS>
static __device__ __forceinline__ void end_share(const ln_gemm_args &p, const job &job,
                                                 unsigned number, const unsigned &n_shares,
                                                 float *outs) {
    stretch tile = find_stretch<ROWS>(p, job, 0, n_shares);
    meet_shares(p, n_shares);
#pragma unroll 1
    for (unsigned part = blockIdx.x % n_shares; part * MERGED_EIGHTS < tile.n_eights;
         part += n_shares) {
        unsigned merged = find_merged<ROWS>(p, job, number, part);
        float total[MERGED_SUMS];
        merge_rows<ROWS>(tile, part, total);
        end_job<KIND, MERGED_ROWS, false>(p, merged, total, outs);
    }
}

#endif

#endif
