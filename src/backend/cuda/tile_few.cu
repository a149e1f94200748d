/* y = x W^T with its epilogue, W in tiles of BF16, for up to 64 rows of x on Hopper: the tiles are
 * WGMMA's A operand, from registers, and x, in a panel of 64 rows, its B operand. The order of
 * every sum is that of tile_linear.
 *
 * A unit is 64 columns of the results, or 32 with their gate. The slices of its sums, and those of
 * the unit behind it and so on, are divided evenly among blocks, so that all of them read weights
 * to the end. A block begins with the slices of its last unit, of which another block has the rest,
 * and leaves the sum of these in device memory early; it ends with those of its first unit, and
 * adds them to what the block in front of it has left.
 *
 * Grid: a block on every multiprocessor. Block: two groups of four warps that multiply 64 columns
 * by half of the rows, and two warps that bring weights and x.
 *
 * Shared memory: what warps exchange about gates [256 threads][8] floats; stages of two tiles of
 * columns each. Weights are read once, x as often as there are units, from the L2 cache. */
#include "backend/cuda/ring.cuh"
#include "backend/cuda/tile_args.cuh"
#include "backend/cuda/wgmma_few.cuh"

enum { WARPS = 8, WORKERS = WARPS * LN_WARP, FEW_THREADS = WORKERS + 2 * LN_WARP };
enum { UNIT_ROWS = 4, STAGE_TILES = 2, TILE_BYTES = 2048 };
enum { W_BYTES = UNIT_ROWS * STAGE_TILES * TILE_BYTES };
enum { PANEL_TILE_BYTES = 64 * 128, SWAP_BYTES = WORKERS * 32, ALL_SLICES = LN_TILE_SLICES };
enum { MAX_SHARED = 226 * 1024, MAX_STAGES = 16, HELD = 4 };

typedef struct few_args {
    ln_tile_args p;
    unsigned n_items, per_block; /* slices of units */
    unsigned n_stages;
    CUtensorMap gate, weights[LN_TILE_MAX_PARTS]; /* in boxes of a unit's rows of tiles */
} few_args;

/* A stage: weights [4 warps][2] tiles, x [2] tiles of ROWS rows, with PRECISE [2] of what rounding
 * left. */
template <int ROWS, bool PRECISE> static __host__ __device__ constexpr unsigned stage_bytes(void) {
    return W_BYTES + ROWS * 128 * STAGE_TILES * (PRECISE ? 2 : 1);
}

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

typedef struct few_barriers {
    uint64_t full[MAX_STAGES], empty[MAX_STAGES];
} few_barriers;

/* What a block takes of a part: rows of tiles from `row` on. */
typedef struct few_unit {
    unsigned part, row;
} few_unit;

/* Number `number` of all. */
template <bool GATE>
static __device__ __forceinline__ few_unit find_unit(const ln_tile_args &p, unsigned number) {
    constexpr unsigned ROWS = UNIT_ROWS / (GATE ? 2 : 1), COLUMNS = ROWS * LN_TILE_ROWS;
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
template <int ROWS, bool GATE, bool PRECISE>
static __device__ void bring_weights(const few_args &a, char *stages, few_barriers &bars) {
    constexpr unsigned BYTES = stage_bytes<ROWS, PRECISE>();
    few_place at = {0, 1};
    few_piece piece;
    for (unsigned k = 0; find_piece(a, k, piece); k++) {
        few_unit unit = find_unit<GATE>(a.p, piece.unit);
        const CUtensorMap *map = &a.weights[unit.part];
        for (unsigned slice = piece.begin; slice < piece.end; slice++) {
            int row = (int)unit.row, end = (int)tiles_before(a.p, slice + 1);
#pragma unroll 1
            for (int tile = (int)tiles_before(a.p, slice); tile < end; tile += STAGE_TILES) {
                uint64_t *full = &bars.full[at.stage];
                char *to = stages + at.stage * BYTES;
                ln_barrier_wait(&bars.empty[at.stage], at.parity);
                ln_barrier_expect(full, BYTES);
                ln_copy_box(to, map, 0, tile * (TILE_BYTES / 128), row, full);
                if (GATE)
                    ln_copy_box(to + W_BYTES / 2, &a.gate, 0, tile * (TILE_BYTES / 128), row, full);
                advance(a, at);
            }
        }
    }
}

/* The same of x, once the kernel that makes it has ended; by another thread. Where a slice has no
 * second tile for a stage, any will do. */
template <int ROWS, bool PRECISE>
static __device__ void bring_rows(const few_args &a, char *stages, few_barriers &bars) {
    enum { BYTES = ROWS * 128 };
    few_place at = {0, 1};
    few_piece piece;
    ln_wait_for_last();
    for (unsigned k = 0; find_piece(a, k, piece); k++)
        for (unsigned slice = piece.begin; slice < piece.end; slice++) {
            unsigned end = tiles_before(a.p, slice + 1);
#pragma unroll 1
            for (unsigned tile = tiles_before(a.p, slice); tile < end; tile += STAGE_TILES) {
                uint64_t *full = &bars.full[at.stage];
                char *to = stages + at.stage * stage_bytes<ROWS, PRECISE>() + W_BYTES;
                ln_barrier_wait(&bars.empty[at.stage], at.parity);
#pragma unroll
                for (unsigned i = 0; i < STAGE_TILES; i++) {
                    size_t from = (size_t)min(tile + i, a.p.n_tiles - 1) * PANEL_TILE_BYTES;
                    ln_bulk_copy(to + i * BYTES, (const char *)a.p.x.bf16 + from, BYTES, full);
                    if (PRECISE)
                        ln_bulk_copy(to + (STAGE_TILES + i) * BYTES,
                                     (const char *)a.p.x.rest + from, BYTES, full);
                }
                advance(a, at);
            }
        }
}

/* ---- products -------------------------------------------------------------------------------- */

/* Adds the first TILES tiles of the next stage. */
template <int ROWS, bool PRECISE, int TILES, bool IS_PRECISE>
static __device__ __forceinline__ void add_stage(const few_args &a, const char *stages,
                                                 few_barriers &bars, few_place &at,
                                                 float (&sum)[ROWS / 4]) {
    enum { BYTES = ROWS * 128 };
    unsigned warp = threadIdx.x / LN_WARP, lane = threadIdx.x % LN_WARP;
    const char *w = stages + at.stage * stage_bytes<ROWS, PRECISE>();
    const char *x = w + W_BYTES + warp / UNIT_ROWS * (BYTES / 2);
    uint4 steps[4 * TILES];
    w += warp % UNIT_ROWS * (STAGE_TILES * TILE_BYTES) + lane * 16;
    ln_barrier_wait(&bars.full[at.stage], at.parity);
#pragma unroll
    for (int k = 0; k < 4 * TILES; k++)
        steps[k] = *(const uint4 *)(w + k * 512);
    ln_wgmma_fence();
#pragma unroll
    for (int i = 0; i < TILES; i++) {
#pragma unroll
        for (int k = 0; k < 4; k++)
            ln_wgmma_few(sum, steps[4 * i + k], ln_wgmma_rows(x + i * BYTES + k * 32));
        if constexpr (IS_PRECISE)
#pragma unroll
            for (int k = 0; k < 4; k++)
                ln_wgmma_few(sum, steps[4 * i + k],
                             ln_wgmma_rows(x + (STAGE_TILES + i) * BYTES + k * 32));
    }
    ln_wgmma_commit();
    ln_wgmma_wait<0>();
#pragma unroll
    for (int k = 0; k < 4 * TILES; k++)
        ln_wgmma_keep(steps[k]);
    ln_wgmma_keep(sum);
    if (lane == 0)
        ln_barrier_arrive(&bars.empty[at.stage]);
    advance(a, at);
}

/* Sums of n_tiles tiles: warp `warp` has columns 16 * (warp % 4) + lane / 4 (+ 8), and of x rows
 * ROWS / 2 * (warp / 4) + 8 j + 2 (lane % 4) (+ 1). */
template <int ROWS, bool PRECISE, bool IS_PRECISE>
static __device__ __forceinline__ void multiply(const few_args &a, unsigned n_tiles,
                                                const char *stages, few_barriers &bars,
                                                few_place &at, float (&sum)[ROWS / 4]) {
#pragma unroll
    for (int k = 0; k < ROWS / 4; k++)
        sum[k] = 0.0f;
#pragma unroll 1
    for (unsigned i = 0; i < n_tiles / STAGE_TILES; i++)
        add_stage<ROWS, PRECISE, STAGE_TILES, IS_PRECISE>(a, stages, bars, at, sum);
    if (n_tiles % STAGE_TILES > 0)
        add_stage<ROWS, PRECISE, 1, IS_PRECISE>(a, stages, bars, at, sum);
}

/* ---- sums of a unit that several blocks have ------------------------------------------------- */

/* Where a block leaves what it has of its last unit. */
static __device__ __forceinline__ float4 *place_of(const few_args &a, unsigned block) {
    return (float4 *)a.p.split.sums + (size_t)block * (LN_TILE_SPLIT_SUMS / 4) + threadIdx.x;
}

/* Where its warps say so. */
static __device__ __forceinline__ unsigned *word_of(const few_args &a, unsigned block) {
    return a.p.split.left + block * WARPS + threadIdx.x / LN_WARP;
}

template <int N>
static __device__ __forceinline__ void leave_sums(const few_args &a, const float (&sum)[N]) {
    float4 *to = place_of(a, blockIdx.x);
#pragma unroll
    for (int i = 0; i < N / 4; i++)
        __stcg(to + i * WORKERS,
               make_float4(sum[4 * i], sum[4 * i + 1], sum[4 * i + 2], sum[4 * i + 3]));
    __syncwarp();
    if (threadIdx.x % LN_WARP == 0) {
        __threadfence();
        asm volatile("st.release.gpu.global.u32 [%0], 1;" ::"l"(word_of(a, blockIdx.x)) : "memory");
    }
}

/* Takes what the block in front has left. */
template <int N>
static __device__ __forceinline__ void take_sums(const few_args &a, float (&sum)[N]) {
    const float4 *from = place_of(a, blockIdx.x - 1);
    unsigned *word = word_of(a, blockIdx.x - 1), now;
    do
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(word) : "memory");
    while (now == 0);
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
    int first;
    float u[N], g[N];
};

template <int N> static __device__ __forceinline__ size_t row_of(const few_results<N> &r, int i) {
    return r.row + (r.first + i) / 4 * 8 + i % 2;
}

template <int N>
static __device__ __forceinline__ size_t column_of(const few_results<N> &r, int i) {
    return r.column + (r.first + i) % 4 / 2 * 8;
}

template <bool GATE, int N>
static __device__ __forceinline__ void write(const ln_epilogue &e, size_t n_rows,
                                             const few_results<N> &r) {
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

/* The warps of a pair, one of which has the gate's sums. */
static __device__ __forceinline__ void meet_pair(unsigned pair) {
    asm volatile("bar.sync %0, 64;" ::"r"(pair + 1) : "memory");
}

/* Writes a unit's results. Where there is a gate, half of the warps have its sums: they exchange
 * halves of the rows with the others. */
template <int ROWS, bool GATE>
static __device__ __forceinline__ void finish(const few_args &a, const few_unit &unit,
                                              const float (&total)[ROWS / 4], float *swap) {
    enum { ALL = ROWS / 4, HALF = ALL / 2 };
    unsigned warp = threadIdx.x / LN_WARP, lane = threadIdx.x % LN_WARP;
    const ln_epilogue &e = a.p.parts[unit.part].epilogue;
    size_t row = warp / UNIT_ROWS * (ROWS / 2) + lane % 4 * 2;
    if constexpr (!GATE) {
        few_results<ALL> r = {};
        r.row = row;
        r.column = (size_t)(unit.row + warp % UNIT_ROWS) * LN_TILE_ROWS + lane / 4;
#pragma unroll
        for (int i = 0; i < ALL; i++)
            r.u[i] = total[i];
        write<false>(e, a.p.n_rows, r);
    } else {
        bool is_gate = warp & 2;
        unsigned pair = warp / UNIT_ROWS * 2 + warp % 2;
        float *own = swap + threadIdx.x;
        const float *others = swap + (threadIdx.x ^ (2 * LN_WARP));
        few_results<HALF> r = {};
        r.row = row;
        r.column = (size_t)(unit.row + warp % 2) * LN_TILE_ROWS + lane / 4;
        r.first = is_gate ? HALF : 0;
#pragma unroll
        for (int i = 0; i < HALF; i++)
            own[i * WORKERS] = is_gate ? total[i] : total[HALF + i];
        meet_pair(pair);
#pragma unroll
        for (int i = 0; i < HALF; i++) {
            float other = others[i * WORKERS];
            r.u[i] = is_gate ? other : total[i];
            r.g[i] = is_gate ? total[HALF + i] : other;
        }
        meet_pair(pair);
        write<true>(e, a.p.n_rows, r);
    }
}

/* What the warps do that multiply. */
template <int ROWS, bool GATE, bool PRECISE>
static __device__ __forceinline__ void work(const few_args &a, const char *stages, float *swap,
                                            few_barriers &bars) {
    float sum[ROWS / 4], total[ROWS / 4];
    few_held<ROWS / 4> held = {};
    few_place at = {};
    few_piece piece;
    for (unsigned k = 0; find_piece(a, k, piece); k++) {
        few_unit unit = find_unit<GATE>(a.p, piece.unit);
        bool precise = PRECISE && a.p.parts[unit.part].precise, is_whole = piece.begin == 0;
#pragma unroll
        for (int i = 0; i < ROWS / 4; i++)
            total[i] = -0.0f; /* -0 + x is x */
#pragma unroll 1
        for (unsigned slice = piece.begin; slice < piece.end; slice++) {
            unsigned n = tiles_before(a.p, slice + 1) - tiles_before(a.p, slice);
            if (PRECISE && precise)
                multiply<ROWS, PRECISE, PRECISE>(a, n, stages, bars, at, sum);
            else
                multiply<ROWS, PRECISE, false>(a, n, stages, bars, at, sum);
            if (is_whole) {
#pragma unroll
                for (int i = 0; i < ROWS / 4; i++)
                    total[i] += sum[i];
                continue;
            }
            hold(sum, held);
            is_whole = held.n == HELD || slice + 1 == piece.end;
            if (is_whole)
                add_held(a, held, total);
        }
        if (piece.end < ALL_SLICES)
            leave_sums(a, total);
        else
            finish<ROWS, GATE>(a, unit, total, swap);
    }
}

#endif

template <int ROWS, bool GATE, bool PRECISE>
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
        bring_weights<ROWS, GATE, PRECISE>(a, stages, bars);
    } else if (threadIdx.x == WORKERS + LN_WARP) {
        bring_rows<ROWS, PRECISE>(a, stages, bars);
    } else if (threadIdx.x < WORKERS) {
        ln_wait_for_last();
        work<ROWS, GATE, PRECISE>(a, stages, (float *)memory, bars);
    }
#endif
}

/* ---- launching ------------------------------------------------------------------------------- */

/* A row of tiles after another, in boxes of a unit's rows and a stage's columns. */
static int map_units(const ln_tile_args &args, const uint8_t *matrix, size_t n_out, unsigned rows,
                     CUtensorMap *map) {
    ln_tensor tensor = {};
    tensor.data = (void *)matrix;
    tensor.type = CU_TENSOR_MAP_DATA_TYPE_UINT8;
    tensor.n_dims = 3;
    tensor.dims[0] = tensor.box[0] = tensor.strides[0] = 128;
    tensor.dims[1] = (size_t)args.n_tiles * (TILE_BYTES / 128);
    tensor.dims[2] = ln_ceil_div(n_out, LN_TILE_ROWS);
    tensor.strides[1] = (size_t)args.n_tiles * TILE_BYTES;
    tensor.box[1] = STAGE_TILES * (TILE_BYTES / 128);
    tensor.box[2] = rows;
    return ln_tensor_map(&tensor, map);
}

static int map_weights(const ln_tile_args &args, few_args *a) {
    const ln_tile_part *parts = args.parts;
    unsigned rows = UNIT_ROWS / (parts[0].gate != NULL ? 2 : 1);
    int code = 0;
    for (unsigned i = 0; i < args.n_parts && code == 0; i++)
        code = map_units(args, parts[i].weight, parts[i].epilogue.n_out, rows, &a->weights[i]);
    if (code == 0 && parts[0].gate != NULL)
        code = map_units(args, parts[0].gate, parts[0].epilogue.n_out, rows, &a->gate);
    return code;
}

template <int ROWS, bool GATE, bool PRECISE>
static int launch(const ln_tile_args &args, cudaStream_t stream) {
    constexpr unsigned BYTES = stage_bytes<ROWS, PRECISE>(), ROOM = MAX_SHARED - SWAP_BYTES;
    constexpr unsigned COLUMNS = UNIT_ROWS / (GATE ? 2 : 1) * LN_TILE_ROWS;
    void (*kernel)(few_args) = multiply_few<ROWS, GATE, PRECISE>;
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
        code = (cudaError_t)map_weights(args, &a);
    if (code != cudaSuccess)
        return code;
    a.n_items = ln_tile_blocks(args, COLUMNS) * LN_TILE_SLICES;
    a.n_stages = ROOM / BYTES < MAX_STAGES ? ROOM / BYTES : (unsigned)MAX_STAGES;
    a.per_block = ln_ceil_div(a.n_items, min((unsigned)n_cores, (unsigned)LN_TILE_SPLIT_BLOCKS));
    return ln_launch(kernel, dim3(ln_ceil_div(a.n_items, a.per_block)), FEW_THREADS,
                     SWAP_BYTES + a.n_stages * BYTES, stream, a);
}

template <int ROWS> static int launch_rows(const ln_tile_args &args, cudaStream_t stream) {
    bool has_gate = args.parts[0].gate != NULL;
    if (ln_tile_is_precise(args))
        return has_gate ? launch<ROWS, true, true>(args, stream)
                        : launch<ROWS, false, true>(args, stream);
    return has_gate ? launch<ROWS, true, false>(args, stream)
                    : launch<ROWS, false, false>(args, stream);
}

int ln_tile_few(const ln_tile_args &args, cudaStream_t stream) {
    if (args.n_rows <= 16)
        return launch_rows<16>(args, stream);
    return args.n_rows <= 32 ? launch_rows<32>(args, stream) : launch_rows<64>(args, stream);
}
