/* What kernels for 9 to 64 rows of x on Hopper share, whose tiles are WGMMA's A operand, from
 * registers, and x, in a panel of 64 rows, its B operand. The order of every sum is that of
 * tile_linear.
 *
 * A unit is 64 columns of the results, or 128 of int8, half as many with their gate. The slices of
 * its sums, and those of the unit behind it and so on, are divided evenly among blocks, so that all
 * of them read weights to the end. A block begins with the slices of its last unit, of which
 * another block has the rest, and leaves the sum of these in device memory early; it ends with
 * those of its first unit, and adds them to what the block in front of it has left.
 *
 * Of int8, where a block gets few slices, several share a unit: each leaves the sums of all its
 * slices, and merges those of some rows once they are there. Blocks that wait for others have only
 * a few behind them to wait for, which begin as soon as any other block ends.
 *
 * Grid: a block on every multiprocessor. Block: two groups of four warps that multiply 64 columns,
 * by half of the rows each, or other columns by all of them, and two warps that bring weights and
 * x.
 *
 * Shared memory: what warps exchange about gates [256 threads][8] floats; stages of two tiles of
 * columns, or of one of int8. Weights are read once, x as often as there are units, from the L2
 * cache. */
#ifndef LN_BACKEND_CUDA_TILE_FEW_CUH
#define LN_BACKEND_CUDA_TILE_FEW_CUH

#include "backend/cuda/tile_args.cuh"
#include "backend/cuda/wgmma_few.cuh"

enum { WARPS = 8, WORKERS = WARPS * LN_WARP, FEW_THREADS = WORKERS + 2 * LN_WARP };
enum { SWAPPED = 8, SWAP_BYTES = WORKERS * SWAPPED * 4 }; /* floats of a thread at once */
enum { PANEL_ROWS = 64, ALL_SLICES = LN_TILE_SLICES, HELD = 4 };
enum { MAX_SHARED = 226 * 1024, MAX_STAGES = 16, MOST_SHARED = 4 };

typedef struct few_args {
    ln_tile_args p;
    unsigned n_items, per_block; /* slices of units */
    unsigned n_stages;
    bool shares; /* of int8: several blocks share a unit, all sums are left */
    CUtensorMap gate, weights[LN_TILE_MAX_PARTS]; /* in boxes of a unit's rows of tiles */
} few_args;

/* A stage: weights [UNIT_ROWS][TILES] tiles, x [TILES] tiles of ROWS rows, with PRECISE [TILES] of
 * what rounding left, or, of int8, with [8 blocks][64 rows] of scales. */
template <int KIND, int ROWS, bool PRECISE> struct few_stage {
    static constexpr bool IS_INT = !ln_tile_meets_16(KIND);
    static constexpr unsigned UNIT_ROWS = IS_INT ? WARPS : WARPS / 2;
    static constexpr unsigned GROUP_ROWS = ROWS * UNIT_ROWS / WARPS; /* of x, of a group */
    static constexpr unsigned N_SUMS = GROUP_ROWS / 2;               /* of a thread */
    static constexpr unsigned TILES = IS_INT ? 1 : 2, TILE_BYTES = ln_tile_bytes(KIND);
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
static __device__ __forceinline__ few_unit find_unit(const ln_tile_args &p, unsigned number) {
    constexpr unsigned ROWS = SHAPE::UNIT_ROWS / (GATE ? 2 : 1), COLUMNS = ROWS * LN_TILE_ROWS;
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
static __device__ __forceinline__ unsigned tiles_before(const ln_tile_args &p, unsigned slice) {
    unsigned per_slice = (p.n_tiles + LN_TILE_SLICES - 1) / LN_TILE_SLICES;
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
                ln_barrier_wait(&bars.empty[at.stage], at.parity);
                ln_barrier_expect(full, shape::BYTES);
                ln_copy_box(to, map, 0, first, row, full);
                if (GATE)
                    ln_copy_box(to + shape::W_BYTES / 2, &a.gate, 0, first, row, full);
                advance(a, at);
            }
        }
    }
}

/* The rows of x of a tile of columns, the first ROWS of a panel's. */
template <int KIND, int ROWS, bool PRECISE>
static __device__ __forceinline__ void bring_tile(const ln_tile_x_parts &x, unsigned tile,
                                                  unsigned i, char *to, uint64_t *full) {
    typedef few_stage<KIND, ROWS, PRECISE> shape;
    constexpr unsigned PART_BYTES = shape::PART_BYTES;
    const char *from = shape::IS_INT ? (const char *)x.int8 : (const char *)x.bf16;
#pragma unroll
    for (unsigned part = 0; part < shape::PARTS; part++) {
        size_t skipped = ((size_t)tile * shape::PARTS + part) * (PANEL_ROWS * 128);
        ln_bulk_copy(to + (i * shape::PARTS + part) * PART_BYTES, from + skipped, PART_BYTES, full);
        if (PRECISE)
            ln_bulk_copy(to + (shape::TILES + i) * PART_BYTES, (const char *)x.rest + skipped,
                         PART_BYTES, full);
    }
    if (shape::IS_INT)
        ln_bulk_copy(to + shape::X_BYTES, (const char *)x.scales + tile * shape::SCALE_BYTES,
                     shape::SCALE_BYTES, full);
}

/* Brings x, once the kernel that makes it has ended; by another thread. Where a slice has no second
 * tile for a stage, any will do. */
template <int KIND, int ROWS, bool PRECISE>
static __device__ void bring_rows(const few_args &a, char *stages, few_barriers &bars) {
    typedef few_stage<KIND, ROWS, PRECISE> shape;
    few_place at = {0, 1};
    few_piece piece;
    ln_wait_for_last();
    for (unsigned k = 0; find_piece(a, k, piece); k++)
        for (unsigned slice = piece.begin; slice < piece.end; slice++) {
            unsigned end = tiles_before(a.p, slice + 1);
#pragma unroll 1
            for (unsigned tile = tiles_before(a.p, slice); tile < end; tile += shape::TILES) {
                char *to = stages + at.stage * shape::BYTES + shape::W_BYTES;
                ln_barrier_wait(&bars.empty[at.stage], at.parity);
#pragma unroll
                for (unsigned i = 0; i < shape::TILES; i++)
                    bring_tile<KIND, ROWS, PRECISE>(a.p.x, min(tile + i, a.p.n_tiles - 1), i, to,
                                                    &bars.full[at.stage]);
                advance(a, at);
            }
        }
}

/* ---- products -------------------------------------------------------------------------------- */

/* Sums of n_tiles tiles: warp `warp` has columns 16 * (warp % UNIT_ROWS) + lane / 4 (+ 8), and of
 * x, from the first row of its group on, rows 8 j + 2 (lane % 4) (+ 1), as [j][columns][rows].
 * Defined for each kind. */
template <int KIND, int ROWS, bool PRECISE, bool IS_PRECISE>
static __device__ __forceinline__ void multiply(const few_args &a, unsigned n_tiles,
                                                const char *stages, few_barriers &bars,
                                                few_place &at, float *sum);

/* ---- sums of a unit that several blocks have ------------------------------------------------- */

/* Where place number `place` has room for sums: [4 sums][256 threads]. */
static __device__ __forceinline__ float4 *find_place(const few_args &a, unsigned place) {
    return (float4 *)a.p.split.sums + (size_t)place * (LN_TILE_SPLIT_SUMS / 4) + threadIdx.x;
}

template <int N>
static __device__ __forceinline__ void put_sums(const few_args &a, unsigned place,
                                                const float (&sum)[N]) {
    float4 *to = find_place(a, place);
#pragma unroll
    for (int i = 0; i < N / 4; i++)
        __stcg(to + i * WORKERS,
               make_float4(sum[4 * i], sum[4 * i + 1], sum[4 * i + 2], sum[4 * i + 3]));
    __syncwarp();
}

static __device__ __forceinline__ unsigned look_at(const unsigned *word) {
    unsigned now;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(word) : "memory");
    return now;
}

/* Where a block's warps say that they have left their sums of its last unit. */
static __device__ __forceinline__ unsigned *word_of(const few_args &a, unsigned block) {
    return a.p.split.left + block * WARPS + threadIdx.x / LN_WARP;
}

template <int N>
static __device__ __forceinline__ void leave_sums(const few_args &a, const float (&sum)[N]) {
    put_sums(a, blockIdx.x, sum);
    if (threadIdx.x % LN_WARP == 0) {
        __threadfence();
        asm volatile("st.release.gpu.global.u32 [%0], 1;" ::"l"(word_of(a, blockIdx.x)) : "memory");
    }
}

/* Takes what the block in front has left. */
template <int N>
static __device__ __forceinline__ void take_sums(const few_args &a, float (&sum)[N]) {
    const float4 *from = find_place(a, blockIdx.x - 1);
    unsigned *word = word_of(a, blockIdx.x - 1);
    while (look_at(word) == 0)
        continue;
    __syncwarp();
#pragma unroll
    for (int i = 0; i < N / 4; i++) {
        float4 four = __ldcg(from + i * WORKERS);
        sum[4 * i] = four.x, sum[4 * i + 1] = four.y;
        sum[4 * i + 2] = four.z, sum[4 * i + 3] = four.w;
    }
    if (threadIdx.x % LN_WARP == 0)
        *word = 0;
}

/* Sums of slices that follow those of another block, which may not be there yet. */
template <int N> struct few_held {
    float sums[HELD][N];
    unsigned n;
};

template <int N>
static __device__ __forceinline__ void hold(const float (&sum)[N], few_held<N> &held) {
#pragma unroll
    for (unsigned k = 0; k < HELD; k++)
#pragma unroll
        for (int i = 0; i < N; i++)
            held.sums[k][i] = k == held.n ? sum[i] : held.sums[k][i];
    held.n++;
}

/* What the block in front has left, and what is held. */
template <int N>
static __device__ __forceinline__ void add_held(const few_args &a, few_held<N> &held,
                                                float (&total)[N]) {
    take_sums(a, total);
#pragma unroll
    for (unsigned k = 0; k < HELD; k++)
        if (k < held.n)
#pragma unroll
            for (int i = 0; i < N; i++)
                total[i] += held.sums[k][i];
}

/* ---- results --------------------------------------------------------------------------------- */

/* Whether a gate's results are silu(g) * u, and others plain sums with bias and residual. */
static __device__ __forceinline__ bool is_plain(const ln_epilogue &e) {
    bool is_bare = e.bias == NULL && e.gate_bias == NULL && e.residual == NULL;
    return e.softcap <= 0.0f &&
           (e.has_gate ? e.activation == LN_ACT_SILU && is_bare : e.activation == LN_ACT_NONE);
}

/* What ln_epilogue_value is where is_plain. */
template <bool GATE>
static __device__ __forceinline__ float plain_value(const ln_epilogue &e, float u, float g,
                                                    float bias, float residual) {
    if (GATE)
        return e.scale * ln_gated(LN_ACT_SILU, true, g, u);
    float y = e.scale * (e.bias != NULL ? u + bias : u);
    return e.residual != NULL ? residual + y : y;
}

/* N results of a lane from number `first` on: rows `row` + 8 j (+ 1), columns `column` (+ 8). */
template <int N> struct few_results {
    size_t row, column;
    unsigned first;
    float u[N], g[N];
};

template <int N> static __device__ __forceinline__ size_t row_of(const few_results<N> &r, int i) {
    return r.row + (r.first + (unsigned)i) / 4 * 8 + i % 2;
}

template <int N>
static __device__ __forceinline__ size_t column_of(const few_results<N> &r, int i) {
    return r.column + (r.first + (unsigned)i) % 4 / 2 * 8;
}

template <bool GATE, int N>
static __device__ __forceinline__ void write(const ln_tile_args &p, unsigned part,
                                             const few_results<N> &r) {
    const ln_epilogue &e = p.parts[part].epilogue;
    size_t n_rows = p.n_rows;
    if (!is_plain(e)) { /* long, and seldom run */
#pragma unroll
        for (int i = 0; i < N; i++)
            if (row_of(r, i) < n_rows && column_of(r, i) < e.n_out)
                ln_finish(e, row_of(r, i), column_of(r, i), r.u[i], r.g[i]);
        return;
    }
    float residual[N];
#pragma unroll
    for (int i = 0; i < N; i++) {
        bool loads = row_of(r, i) < n_rows && column_of(r, i) < e.n_out && e.residual != NULL;
        residual[i] = loads ? __ldcg(e.residual + row_of(r, i) * e.n_out + column_of(r, i)) : 0.0f;
    }
#pragma unroll
    for (int i = 0; i < N; i++) {
        size_t row = row_of(r, i), column = column_of(r, i);
        if (row < n_rows && column < e.n_out)
            e.out[row * e.out_stride + column] = plain_value<GATE>(
                e, r.u[i], r.g[i], e.bias != NULL ? e.bias[column] : 0.0f, residual[i]);
    }
}

/* The lane's first row of x and its first column of a unit. */
template <typename SHAPE, bool GATE, int N>
static __device__ __forceinline__ void begin_results(const few_unit &unit, few_results<N> &r) {
    unsigned warp = threadIdx.x / LN_WARP, lane = threadIdx.x % LN_WARP;
    unsigned tile_row = warp % (SHAPE::UNIT_ROWS / (GATE ? 2 : 1));
    r.row = warp / SHAPE::UNIT_ROWS * SHAPE::GROUP_ROWS + lane % 4 * 2;
    r.column = (size_t)(unit.row + tile_row) * LN_TILE_ROWS + lane / 4;
}

/* The warps of a pair, one of which has the gate's sums. */
static __device__ __forceinline__ void meet_pair(unsigned pair) {
    asm volatile("bar.sync %0, 64;" ::"r"(pair + 1) : "memory");
}

/* Writes a unit's results. Where there is a gate, half of the warps have its sums: they exchange
 * halves of the rows with the others. */
template <typename SHAPE, bool GATE>
static __device__ __forceinline__ void finish(const few_args &a, const few_unit &unit,
                                              const float (&total)[SHAPE::N_SUMS], float *swap) {
    constexpr unsigned ALL = SHAPE::N_SUMS, HALF = ALL / 2;
    constexpr unsigned AT_ONCE = HALF < SWAPPED ? HALF : (unsigned)SWAPPED;
    if constexpr (!GATE) {
        few_results<ALL> r = {};
        begin_results<SHAPE, GATE>(unit, r);
#pragma unroll
        for (unsigned i = 0; i < ALL; i++)
            r.u[i] = total[i];
        write<false>(a.p, unit.part, r);
    } else {
        constexpr unsigned PAIRS = SHAPE::UNIT_ROWS / 2; /* of a group */
        unsigned warp = threadIdx.x / LN_WARP;
        unsigned pair = warp / SHAPE::UNIT_ROWS * PAIRS + warp % PAIRS;
        bool is_gate = warp % SHAPE::UNIT_ROWS >= PAIRS;
        float *own = swap + threadIdx.x;
        const float *others = swap + (threadIdx.x ^ (PAIRS * LN_WARP));
#pragma unroll
        for (unsigned begin = 0; begin < HALF; begin += AT_ONCE) {
            few_results<AT_ONCE> r = {};
            begin_results<SHAPE, GATE>(unit, r);
            r.first = begin + (is_gate ? HALF : 0);
#pragma unroll
            for (unsigned i = 0; i < AT_ONCE; i++)
                own[i * WORKERS] = is_gate ? total[begin + i] : total[HALF + begin + i];
            meet_pair(pair);
#pragma unroll
            for (unsigned i = 0; i < AT_ONCE; i++) {
                float other = others[i * WORKERS];
                r.u[i] = is_gate ? other : total[begin + i];
                r.g[i] = is_gate ? total[HALF + begin + i] : other;
            }
            meet_pair(pair);
            write<true>(a.p, unit.part, r);
        }
    }
}

/* ---- units that blocks share ----------------------------------------------------------------- */

/* Leaves the sums of slice number `item` of all, and counts them. */
template <int N>
static __device__ __forceinline__ void leave_slice(const few_args &a, unsigned item,
                                                   const float (&sum)[N]) {
    put_sums(a, item, sum);
    if (threadIdx.x % LN_WARP == 0) {
        __threadfence();
        asm volatile(
            "red.release.gpu.global.add.u32 [%0], 1;" ::"l"(a.p.split.left + item / ALL_SLICES)
            : "memory");
    }
}

/* Adds what a warp's thread number `thread` has left of eight rows, slice after slice. */
static __device__ __forceinline__ void add_slices(const few_args &a, unsigned unit, unsigned rows,
                                                  unsigned skipped, float *total) {
    float4 sums[ALL_SLICES];
#pragma unroll
    for (unsigned s = 0; s < ALL_SLICES; s++)
        sums[s] = __ldcg(find_place(a, unit * ALL_SLICES + s) + rows * WORKERS + skipped);
#pragma unroll
    for (unsigned s = 0; s < ALL_SLICES; s++) {
        total[0] = s == 0 ? sums[s].x : total[0] + sums[s].x;
        total[1] = s == 0 ? sums[s].y : total[1] + sums[s].y;
        total[2] = s == 0 ? sums[s].z : total[2] + sums[s].z;
        total[3] = s == 0 ? sums[s].w : total[3] + sums[s].w;
    }
}

/* Merges eight rows of the unit of each of the block's slices. Where there are fewer than 64, not
 * all slices stand for some. */
template <int KIND, int ROWS, bool GATE>
static __device__ __forceinline__ void merge(const few_args &a) {
    typedef few_stage<KIND, ROWS, false> shape;
    enum { STEP = 64 / ROWS, MERGING = (GATE ? WARPS / 2 : WARPS) * (ALL_SLICES / STEP) };
    enum { LEFT = WARPS * ALL_SLICES };
    unsigned end = min((blockIdx.x + 1) * a.per_block, a.n_items);
    if (GATE && threadIdx.x >= WORKERS / 2)
        return;
    for (unsigned item = blockIdx.x * a.per_block; item < end; item++) {
        unsigned number = item / ALL_SLICES, rows = item % ALL_SLICES / STEP;
        unsigned *word = a.p.split.left + number;
        if (item % STEP > 0)
            continue;
        while (look_at(word) < LEFT)
            continue;
        __syncwarp();
        few_unit unit = find_unit<shape, GATE>(a.p, number);
        few_results<4> r = {};
        begin_results<shape, GATE>(unit, r);
        r.first = 4 * rows;
        add_slices(a, number, rows, 0, r.u);
        if (GATE)
            add_slices(a, number, rows, WORKERS / 2, r.g);
        __syncwarp();
        if (threadIdx.x % LN_WARP == 0 && atomicAdd(word, 1) == LEFT + MERGING - 1)
            *word = 0;
        write<GATE>(a.p, unit.part, r);
    }
}

/* What the warps do that multiply. */
template <int KIND, int ROWS, bool GATE, bool PRECISE>
static __device__ __forceinline__ void work(const few_args &a, const char *stages, float *swap,
                                            few_barriers &bars) {
    typedef few_stage<KIND, ROWS, PRECISE> shape;
    constexpr unsigned N = shape::N_SUMS;
    float sum[N], total[N];
    few_held<N> held = {};
    few_place at = {};
    few_piece piece;
    for (unsigned k = 0; find_piece(a, k, piece); k++) {
        few_unit unit = find_unit<shape, GATE>(a.p, piece.unit);
        bool precise = PRECISE && a.p.parts[unit.part].precise, is_whole = piece.begin == 0;
#pragma unroll
        for (unsigned i = 0; i < N; i++)
            total[i] = -0.0f; /* -0 + x is x */
#pragma unroll 1
        for (unsigned slice = piece.begin; slice < piece.end; slice++) {
            unsigned n = tiles_before(a.p, slice + 1) - tiles_before(a.p, slice);
            if (PRECISE && precise)
                multiply<KIND, ROWS, PRECISE, PRECISE>(a, n, stages, bars, at, sum);
            else
                multiply<KIND, ROWS, PRECISE, false>(a, n, stages, bars, at, sum);
            if (shape::IS_INT && a.shares) {
                leave_slice(a, piece.unit * ALL_SLICES + slice, sum);
                continue;
            }
            if (!shape::IS_INT && !is_whole) {
                hold(sum, held);
                is_whole = held.n == HELD || slice + 1 == piece.end;
                if (is_whole)
                    add_held(a, held, total);
                continue;
            }
            if (shape::IS_INT && slice == piece.begin && slice > 0)
                take_sums(a, total);
#pragma unroll
            for (unsigned i = 0; i < N; i++)
                total[i] += sum[i];
        }
        if (shape::IS_INT && a.shares)
            continue;
        if (piece.end < ALL_SLICES)
            leave_sums(a, total);
        else
            finish<shape, GATE>(a, unit, total, swap);
    }
    if constexpr (shape::IS_INT)
        if (a.shares)
            merge<KIND, ROWS, GATE>(a);
}

#endif

template <int KIND, int ROWS, bool GATE, bool PRECISE>
static __global__ void __launch_bounds__(FEW_THREADS, 1)
    multiply_few(const __grid_constant__ few_args a) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ __align__(1024) char memory[];
    __shared__ few_barriers bars;
    char *stages = memory + SWAP_BYTES;
    ln_let_next_start();
    if (threadIdx.x == 0) {
        for (unsigned i = 0; i < a.n_stages; i++) {
            ln_barrier_init(&bars.full[i], 1);
            ln_barrier_init(&bars.empty[i], WARPS);
        }
        ln_barriers_ready();
    }
    __syncthreads();
    if (threadIdx.x == WORKERS) {
        bring_weights<KIND, ROWS, GATE, PRECISE>(a, stages, bars);
    } else if (threadIdx.x == WORKERS + LN_WARP) {
        bring_rows<KIND, ROWS, PRECISE>(a, stages, bars);
    } else if (threadIdx.x < WORKERS) {
        ln_wait_for_last();
        work<KIND, ROWS, GATE, PRECISE>(a, stages, (float *)memory, bars);
    }
#endif
}

/* ---- launching ------------------------------------------------------------------------------- */

/* A row of tiles after another, in boxes of a unit's rows and a stage's columns. */
template <int KIND>
static int map_units(const ln_tile_args &args, const uint8_t *matrix, size_t n_out, unsigned rows,
                     CUtensorMap *map) {
    typedef few_stage<KIND, PANEL_ROWS, false> shape;
    ln_tensor tensor = {};
    tensor.data = (void *)matrix;
    tensor.type = CU_TENSOR_MAP_DATA_TYPE_UINT8;
    tensor.n_dims = 3;
    tensor.dims[0] = tensor.box[0] = tensor.strides[0] = 128;
    tensor.dims[1] = (size_t)args.n_tiles * (shape::TILE_BYTES / 128);
    tensor.dims[2] = ln_ceil_div(n_out, LN_TILE_ROWS);
    tensor.strides[1] = ln_tile_row_bytes(KIND, args.n_tiles);
    tensor.box[1] = shape::TILES * (shape::TILE_BYTES / 128);
    tensor.box[2] = rows;
    return ln_tensor_map(&tensor, map);
}

template <int KIND> static int map_weights(const ln_tile_args &args, few_args *a) {
    const ln_tile_part *parts = args.parts;
    unsigned rows = few_stage<KIND, PANEL_ROWS, false>::UNIT_ROWS / (parts[0].gate != NULL ? 2 : 1);
    int code = 0;
    for (unsigned i = 0; i < args.n_parts && code == 0; i++)
        code =
            map_units<KIND>(args, parts[i].weight, parts[i].epilogue.n_out, rows, &a->weights[i]);
    if (code == 0 && parts[0].gate != NULL)
        code = map_units<KIND>(args, parts[0].gate, parts[0].epilogue.n_out, rows, &a->gate);
    return code;
}

template <int KIND, int ROWS, bool GATE, bool PRECISE>
static int launch(const ln_tile_args &args, cudaStream_t stream) {
    typedef few_stage<KIND, ROWS, PRECISE> shape;
    constexpr unsigned BYTES = shape::BYTES, ROOM = MAX_SHARED - SWAP_BYTES;
    constexpr unsigned COLUMNS = shape::UNIT_ROWS / (GATE ? 2 : 1) * LN_TILE_ROWS;
    void (*kernel)(few_args) = multiply_few<KIND, ROWS, GATE, PRECISE>;
    int device, n_cores = 0;
    cudaError_t code = cudaGetDevice(&device);
    if (code == cudaSuccess)
        code = cudaDeviceGetAttribute(&n_cores, cudaDevAttrMultiProcessorCount, device);
    if (code == cudaSuccess)
        code = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    (int)MAX_SHARED);
    few_args a = {};
    a.p = args;
    if (code == cudaSuccess)
        code = (cudaError_t)map_weights<KIND>(args, &a);
    if (code != cudaSuccess)
        return code;
    a.n_items = ln_tile_blocks(args, COLUMNS) * LN_TILE_SLICES;
    a.n_stages = ROOM / BYTES < MAX_STAGES ? ROOM / BYTES : (unsigned)MAX_STAGES;
    a.per_block = ln_ceil_div(a.n_items, min((unsigned)n_cores, (unsigned)LN_TILE_SPLIT_BLOCKS));
    a.shares = shape::IS_INT && a.per_block <= MOST_SHARED && a.n_items <= LN_TILE_SPLIT_PLACES;
    return ln_launch(kernel, dim3(ln_ceil_div(a.n_items, a.per_block)), FEW_THREADS,
                     SWAP_BYTES + a.n_stages * BYTES, stream, a);
}

template <int KIND, int ROWS>
static int launch_rows(const ln_tile_args &args, cudaStream_t stream) {
    bool has_gate = args.parts[0].gate != NULL;
    if constexpr (KIND == LN_TILE_BF16)
        if (ln_tile_is_precise(args))
            return has_gate ? launch<KIND, ROWS, true, true>(args, stream)
                            : launch<KIND, ROWS, false, true>(args, stream);
    return has_gate ? launch<KIND, ROWS, true, false>(args, stream)
                    : launch<KIND, ROWS, false, false>(args, stream);
}

#endif
